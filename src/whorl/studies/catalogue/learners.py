"""Several learners at a fixed number of processes: what they save, and what they cost in convergence.

*real*: as many learners and actors as this machine may bear, an on-policy agent and an off-policy one; at paper scale
the published sizes on the Booster.
*emulated*: those sizes (up to 20 learners with 120 actors) on few cores, with steps and updates that sleep.
"""

from __future__ import annotations

from typing import Any

from whorl.bench.learners import UPDATE_S
from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, Training
from whorl.studies.emulation import SLOW_LEARNER, says, slow_steps
from whorl.studies.figures import Bars, Curves, Lines
from whorl.studies.findings import judge, plain_number
from whorl.studies.published import (
    BOOSTER_EPISODE_STEPS,
    BOOSTER_EPISODES,
    EXARL,
    LEARNERS_THROUGHPUT_PERCENT,
    LEARNERS_TIME_PERCENT,
    MANY_LEARNERS_SAVED_PERCENT,
    QUEUE_FASTER_PERCENT,
)
from whorl.studies.results import Results
from whorl.studies.stats import Estimate, difference, estimate, ratio

ROWS = 10
STEP_S = {18: 0.02, 16: 0.005, 24: 0.005, 140: 0.05}
"""By processes: so quick that one learner is the bottleneck, and so slow that the cores here bear them all."""
AGENTS: dict[str, dict[str, Any]] = {
    "impala": {"agent.rows": 20, "agent.learning_rate": 0.001},
    "dqn": {"agent.rows": 16, "agent.learning_starts": 500, "agent.gradient_steps": 4},
}
Layouts = tuple[tuple[int, tuple[int, ...], int], ...]
"""Processes in all, numbers of learners among them, and environment steps."""
PAPER_STEPS = BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS
REAL: dict[Scale, Layouts] = {
    "smoke": ((4, (1, 2), 4_000),),
    "small": ((8, (1, 2, 4), 40_000),),
    "paper": ((16, (1, 8), PAPER_STEPS), (24, (1, 8), PAPER_STEPS), (140, (1, 20), PAPER_STEPS)),
}
EMULATED: dict[Scale, Layouts] = {
    "smoke": ((18, (1, 2), 2_000),),
    "small": ((16, (1, 8), 8_000), (24, (1, 8), 8_000), (140, (1, 4, 20), 15_000)),
    "paper": (),
}
SEEDS: dict[Scale, tuple[int, int]] = {"smoke": (1, 1), "small": (5, 3), "paper": (5, 0)}
"""Of real runs, and of emulated ones."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Real ones, then emulated ones."""
    found = []
    env = "whorl/Booster-v0" if scale == "paper" else "CartPole-v1"
    for seed in range(1, SEEDS[scale][0] + 1):
        for processes, numbers, steps in REAL[scale]:
            for agent, own in AGENTS.items():
                for learners in numbers:
                    sizes = _sizes(processes, learners, engine)
                    training = Training(agent, env, steps, sizes, _taken(learners) | own)
                    labels = {"part": "real", "agent": agent, "processes": processes, "learners": learners}
                    found.append(training.cell(labels, seed))
    for seed in range(1, SEEDS[scale][1] + 1):
        for processes, numbers, steps in EMULATED[scale]:
            for learners in numbers:
                settings = {**slow_steps(STEP_S[processes]), "agent.rows": ROWS, **_taken(learners)}
                sizes = {**_sizes(processes, learners, engine), "envs-per-actor": 1}
                training = Training(SLOW_LEARNER, "whorl/Slow-v0", steps, sizes, settings)
                labels = {"part": "emulated", "agent": "impala", "processes": processes, "learners": learners}
                found.append(training.cell(labels, seed, says(STEP_S[processes], updates=True)))
    return found


def _sizes(processes: int, learners: int, engine: str) -> dict[str, Any]:
    """Every learner has equally many actors; what cannot be shared out is left out."""
    actors = (processes - learners) // learners * learners
    return {"workflow": "async", "engine": engine, "actors": actors, "learners": learners, "envs-per-actor": 4}


def _taken(learners: int) -> dict[str, Any]:
    return {"workflow.trajectories_per_update": learners}


def report(results: Results) -> Report:
    """Time saved, returns, staleness."""
    most_processes = max(processes for processes, _, _ in REAL[results.scale])
    real = results.where(part="real", processes=most_processes)
    bound = results.where(part="emulated") or results.where(part="real", agent="impala")
    processes = max((int(one.cell.labels["processes"]) for one in bound), default=0)
    took = _rates(bound, processes)
    most = max(took, default=0.0)
    real_most = max((one.cell.labels["learners"] for one in real), default=1)
    saved = ratio(took[1.0], took[most]) if took.get(1.0) and took.get(most) and most > 1 else None
    time_saved = judge(
        "more_learners_save_time",
        f"{most:.0f} learners save time at the same {processes} processes while learning is the bottleneck",
        None if saved is None else saved.percent_saved(),
        above=0.0,
        unit="% less time for the same environment steps",
        published=f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % (20 learners and 120 actors), "
        f"{LEARNERS_TIME_PERCENT:.0f} % (8 and 16)",
        because="Each learner takes a share of the updates' work.",
        otherwise="Learning is not the bottleneck here.",
    )
    staleness = {
        agent: {float(n): few.numbers("result.staleness.mean") for n, few in group.by("learners").items()}
        for agent, group in real.by("agent").items()
    }
    findings = [time_saved]
    for agent, group in real.by("agent").items():
        one, many = (group.where(learners=n).numbers("result.return_mean") for n in (1, real_most))
        findings.append(
            judge(
                f"more_learners_cost_convergence_{agent}",
                f"{real_most} learners cost {agent} convergence, at the same environment steps",
                difference(one, many) if one and many and real_most > 1 else None,
                above=0.0,
                unit="of return lost",
                published="poorer convergence, because the policy is refreshed less often",
                because="Batches are larger and updates fewer.",
                otherwise="Where updates are fewer, data are fewer updates old when they are learnt from: "
                f"{_changes({str(agent): staleness[agent]})}.",
            )
        )
    speed = {
        agent: {float(n): few.numbers("result.env_steps_per_s") for n, few in group.by("learners").items()}
        for agent, group in real.by("agent").items()
    }
    groups = {
        f"{agent}, {n} learner{'s' * (n != 1)}": few.curves()
        for (agent, n), few in real.by("agent", "learners").items()
    }
    return Report(
        findings,
        [
            Bars(
                name="rates",
                title="Environment steps per second at a fixed number of processes",
                caption=f"Time saved by {most:.0f} learners at {processes} processes: {time_saved.shown}; "
                f"{time_saved.state}.",
                x="processes: learners among them",
                y="environment steps per second",
                groups={
                    f"{size}: {learners}": group.numbers("result.env_steps_per_s")
                    for (size, learners), group in bound.by("processes", "learners").items()
                },
                emulated=_says(results.scale),
            ),
            Lines(
                name="real-rates",
                title="Real: environment steps per second on the cores of this machine",
                caption=f"{_changes(speed)}. Learners and actors share the cores: where there are few, more learners "
                "add waiting and no cores.",
                x="learners",
                y="environment steps per second",
                groups=speed,
            ),
            Curves(
                name="returns",
                title="Real: returns at the same number of processes",
                caption="; ".join(f"{one.claim}: {one.state}" for one in findings[1:]) + ".",
                x="environment steps",
                y="mean return of 100 episodes",
                groups=groups,
            ),
            Lines(
                name="staleness",
                title="Real: staleness",
                caption=f"Updates between acting and learning, on average: {_changes(staleness)}.",
                x="learners",
                y="updates",
                groups=staleness,
            ),
        ],
        [
            Table(
                "Beside what was published, for other machines",
                ("what", "published", "here"),
                [
                    (
                        "queue against blocking async, one learner",
                        f"{QUEUE_FASTER_PERCENT:.0f} % faster",
                        "see the study workflows",
                    ),
                    ("8 learners and 8 actors", f"+{LEARNERS_THROUGHPUT_PERCENT} % throughput", _gain(bound, 16)),
                    ("8 learners and 16 actors", f"{LEARNERS_TIME_PERCENT:.0f} % less time", _saved(bound, 24)),
                    (
                        "20 learners and 120 actors",
                        f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % less time",
                        _saved(bound, 140),
                    ),
                ],
                "Each against one learner with the same number of processes. What learners save depends on how much "
                "longer learning takes than acting, which the document does not give"
                + ("; the first figure says it for these." if EMULATED[results.scale] else "."),
            )
        ],
    )


def _says(scale: Scale) -> str:
    """What is asleep, on the plot."""
    sizes = [processes for processes, _, _ in EMULATED[scale]]
    steps = ", ".join(f"{1000 * STEP_S[size]:g} ms ({size} processes)" for size in sizes)
    return f"whorl/Slow-v0, steps take {steps}, and updates {1000 * UPDATE_S:g} ms, asleep" if sizes else ""


def _rates(results: Results, processes: int) -> dict[float, list[float]]:
    """Environment steps per second by learners."""
    by_learners = results.where(processes=processes).by("learners")
    return {float(n): group.numbers("result.env_steps_per_s") for n, group in by_learners.items()}


def _compared(results: Results, processes: int) -> Estimate | None:
    """Time of most learners as a share of one learner's."""
    rates = {n: values for n, values in _rates(results, processes).items() if values}
    return ratio(rates[1.0], rates[max(rates)]) if 1.0 in rates and len(rates) > 1 else None


def _saved(results: Results, processes: int) -> str:
    share = _compared(results, processes)
    if share is None:
        return "not at this scale"
    saved = share.percent_saved()
    return f"{saved.value:.0f} % [{saved.low:.0f}, {saved.high:.0f}] less time"


def _gain(results: Results, processes: int) -> str:
    share = _compared(results, processes)
    if share is None:
        return "not at this scale"
    value, low, high = (100 * (1 / one - 1) for one in (share.value, share.high, share.low))
    return f"{value:+.0f} % [{low:+.0f}, {high:+.0f}] throughput"


def _changes(groups: dict[str, dict[float, list[float]]]) -> str:
    """From the fewest learners to the most, for each agent."""
    parts = []
    for agent, by_learners in groups.items():
        known = {n: estimate(values).value for n, values in by_learners.items() if values}
        if known:
            few, many = min(known), max(known)
            least, most = plain_number(known[few]), plain_number(known[many])
            parts.append(f"{agent} {least} with {few:.0f} learner, {most} with {many:.0f}")
    return "; ".join(parts) or "nothing was measured"


STUDY = Study(
    name="learners",
    title="1 to 20 learners at a fixed number of processes: time saved, convergence, staleness",
    source=f"{EXARL}: multi-learner workflows",
    engines=("local", "mpi"),
    cells=cells,
    report=report,
    machine=Machine(nodes=4),
    paper_engine="mpi",
)
