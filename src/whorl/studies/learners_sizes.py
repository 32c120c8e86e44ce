"""The sizes of the study ``learners``, and what those that sleep imply before anything runs."""

from __future__ import annotations

from typing import Any

from whorl.bench.learners import UPDATE_S
from whorl.studies.contract import Scale
from whorl.studies.frictionless import trajectories_per_s
from whorl.studies.published import (
    BOOSTER_EPISODE_STEPS,
    BOOSTER_EPISODES,
    LEARNERS_THROUGHPUT_PERCENT,
    LEARNERS_TIME_PERCENT,
    MANY_LEARNERS_SAVED_PERCENT,
)

ROWS = 10
STEP_S = {18: 0.02, 16: 0.005, 24: 0.005, 140: 0.05}
"""By processes: so quick that one learner is the bottleneck, and so slow that the cores here bear them all."""
NEAR = 0.9
"""Of the rate that the sleeps allow: what passes for it."""
AGENTS: dict[str, dict[str, Any]] = {
    "impala": {"agent.rows": 20, "agent.learning_rate": 0.001},
    "a2c": {"agent.rows": 20, "agent.learning_rate": 0.001, "agent.vtrace": True},
    "dqn": {"agent.rows": 16, "agent.learning_starts": 500, "agent.gradient_steps": 4},
}
ON_POLICY, OFF_POLICY = "a2c", "dqn"
Layouts = tuple[tuple[int, tuple[int, ...], dict[str, int]], ...]
"""Processes in all, numbers of learners among them, and environment steps by agent."""
PAPER_STEPS = dict.fromkeys(AGENTS, BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS)
REAL: dict[Scale, Layouts] = {
    "smoke": ((4, (1, 2), dict.fromkeys(AGENTS, 4_000)),),
    "small": ((8, (1, 2, 4), {"impala": 240_000, "a2c": 240_000, "dqn": 120_000}),),
    "paper": ((16, (1, 8), PAPER_STEPS), (24, (1, 8), PAPER_STEPS), (140, (1, 20), PAPER_STEPS)),
}
EMULATED: dict[Scale, tuple[tuple[int, tuple[int, ...], int], ...]] = {
    "smoke": ((18, (1, 2), 2_000),),
    "small": ((16, (1, 8), 8_000), (24, (1, 8), 8_000), (140, (1, 4, 20), 12_000)),
    "paper": (),
}
QUEUE_STEPS: dict[Scale, int] = {"smoke": 1_200, "small": 3_000, "paper": PAPER_STEPS["impala"]}
SEEDS: dict[Scale, tuple[int, int]] = {"smoke": (1, 1), "small": (5, 3), "paper": (5, 5)}
"""Of real runs, and of emulated ones and those with a queue."""


def actors_of(processes: int, learners: int) -> int:
    """Of so many processes: every learner has equally many; what cannot be shared out is left out."""
    return (processes - learners) // learners * learners


def allowed_per_s(processes: int, learners: int) -> float:
    """Environment steps per second of an emulated run, if nothing but sleeping took time."""
    return ROWS * trajectories_per_s(actors_of(processes, learners), learners, ROWS * STEP_S[processes], UPDATE_S)


def implied_share(processes: int, learners: int) -> float:
    """Of one learner's time: what so many take by their sleeps alone."""
    return allowed_per_s(processes, 1) / allowed_per_s(processes, learners)


def implied_rates(scale: Scale) -> str:
    """In a sentence."""
    parts = (f"{allowed_per_s(size, n):,.0f} ({size}: {n})" for size, numbers, _ in EMULATED[scale] for n in numbers)
    return f"The sleeps alone allow {', '.join(parts)}."


def why_ours(scale: Scale) -> list[str]:
    """Where our figures come from, and why they cannot be the published ones."""
    if not EMULATED[scale]:
        return []
    examples = []
    for size, numbers, _ in EMULATED[scale]:
        learners, trajectory_s = max(numbers), ROWS * STEP_S[size]
        many, one = allowed_per_s(size, learners) / ROWS, allowed_per_s(size, 1) / ROWS
        examples.append(
            f"{size} processes: a trajectory takes {1000 * trajectory_s:.0f} ms and an update {1000 * UPDATE_S:.0f} ms,"
            f" so that {learners} learners and {actors_of(size, learners)} actors learn from at most {many:.0f} "
            f"trajectories per second, and one learner from {one:.0f}: {many / one:.2f} times as many, "
            f"{100 * (1 - one / many):.1f} % less time"
        )
    ratios = ", ".join(
        f"{ROWS * STEP_S[size] / UPDATE_S:.3g} times at {size} processes" for size, _, _ in EMULATED[scale]
    )
    gain, saved, most = (
        1 + LEARNERS_THROUGHPUT_PERCENT / 100,
        1 / (1 - LEARNERS_TIME_PERCENT / 100),
        1 / (1 - MANY_LEARNERS_SAVED_PERCENT / 100),
    )
    return [
        "What emulated learners gain follows from the sleeps that were chosen, before anything runs. "
        + "; ".join(examples)
        + ". What is measured is how near runs come to it.",
        "So +43.4 %, 31 % and 77 % are not confirmed or refuted here. Where one learner is the limit and then actors "
        "are, A actors gain A updates' time over a trajectory's: the published gains "
        f"({gain:.2f}, {saved:.2f} and {most:.2f} times with 8, 16 and 120 actors) ask for a trajectory that takes "
        f"{8 / gain:.1f}, {16 / saved:.1f} and {120 / most:.1f} times as long as an update. No single ratio gives all "
        f"three, and the document does not give theirs. Ours: {ratios}.",
    ]


def says_asleep(scale: Scale) -> str:
    """What is asleep, on the plot."""
    sizes = [processes for processes, _, _ in EMULATED[scale]]
    steps = ", ".join(f"{1000 * STEP_S[size]:g} ms ({size} processes)" for size in sizes)
    return f"whorl/Slow-v0, steps take {steps}, and updates {1000 * UPDATE_S:g} ms, asleep" if sizes else ""
