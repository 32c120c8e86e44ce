"""Several learners at a fixed number of processes: what they save, and what they cost in convergence.

*real*: as many learners and actors as this machine may bear, an on-policy agent and an off-policy one; at paper scale
the published sizes on the Booster.
*emulated*: those sizes (up to 20 learners with 120 actors) on few cores, with steps and updates that sleep.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.emulation import SLOW_LEARNER, says, slow_steps
from whorl.studies.figures import Bars, Curves, Lines
from whorl.studies.findings import judge
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
from whorl.studies.stats import difference, ratio

ROWS = 10
STEP_S: dict[Scale, float] = {"smoke": 0.02, "small": 0.05, "paper": 0.05}
"""So that actors are quicker than one learner."""
AGENTS: dict[str, dict[str, Any]] = {
    "impala": {"agent.rows": 20, "agent.learning_rate": 0.001},
    "dqn": {"agent.rows": 16, "agent.learning_starts": 500, "agent.gradient_steps": 4},
}
Layouts = tuple[tuple[int, tuple[int, ...]], ...]
"""Processes in all, and numbers of learners among them."""
REAL: dict[Scale, Layouts] = {
    "smoke": ((4, (1, 2)),),
    "small": ((8, (1, 2, 4)),),
    "paper": ((16, (1, 8)), (24, (1, 8)), (140, (1, 20))),
}
EMULATED: dict[Scale, Layouts] = {"smoke": ((18, (1, 2)),), "small": ((140, (1, 4, 10, 20)),), "paper": ()}
SEEDS: dict[Scale, tuple[int, int]] = {"smoke": (1, 1), "small": (5, 3), "paper": (5, 0)}
"""Of real runs, and of emulated ones."""
STEPS: dict[Scale, tuple[int, int]] = {
    "smoke": (4_000, 3_000),
    "small": (60_000, 60_000),
    "paper": (BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS, 0),
}
"""Environment steps of both."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Real ones, then emulated ones."""
    found = []
    env = "whorl/Booster-v0" if scale == "paper" else "CartPole-v1"
    for seed in range(1, SEEDS[scale][0] + 1):
        for processes, numbers in REAL[scale]:
            for agent, own in AGENTS.items():
                for learners in numbers:
                    sizes = _sizes(processes, learners, engine)
                    training = Training(agent, env, STEPS[scale][0], sizes, _taken(learners) | own)
                    labels = {"part": "real", "agent": agent, "processes": processes, "learners": learners}
                    found.append(training.cell(labels, seed))
    for seed in range(1, SEEDS[scale][1] + 1):
        for processes, numbers in EMULATED[scale]:
            for learners in numbers:
                settings = {**slow_steps(STEP_S[scale]), "agent.rows": ROWS, **_taken(learners)}
                sizes = {**_sizes(processes, learners, engine), "envs-per-actor": 1}
                training = Training(SLOW_LEARNER, "whorl/Slow-v0", STEPS[scale][1], sizes, settings)
                labels = {"part": "emulated", "agent": "impala", "processes": processes, "learners": learners}
                found.append(training.cell(labels, seed, says(STEP_S[scale], updates=True)))
    return found


def _sizes(processes: int, learners: int, engine: str) -> dict[str, Any]:
    """Every learner has equally many actors; what cannot be shared out is left out."""
    actors = (processes - learners) // learners * learners
    return {"workflow": "async", "engine": engine, "actors": actors, "learners": learners, "envs-per-actor": 4}


def _taken(learners: int) -> dict[str, Any]:
    return {"workflow.trajectories_per_update": learners}


def report(results: Results) -> Report:
    """Time saved, returns, staleness."""
    most_processes = max(processes for processes, _ in REAL[results.scale])
    real = results.where(part="real", processes=most_processes)
    emulated = results.where(part="emulated") or real.where(agent="impala")
    took = {float(n): group.numbers("result.env_steps_per_s") for n, group in emulated.by("learners").items()}
    most = max(took, default=0.0)
    real_most = max((one.cell.labels["learners"] for one in real), default=1)
    saved = ratio(took[1.0], took[most]) if took.get(1.0) and took.get(most) and most > 1 else None
    time_saved = judge(
        "more_learners_save_time",
        f"{most:.0f} learners save time at the same number of processes while learning is the bottleneck",
        None if saved is None else saved.percent_saved(),
        above=0.0,
        unit="% less time for the same environment steps",
        published=f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % (20 learners and 120 actors), "
        f"{LEARNERS_TIME_PERCENT:.0f} % (8 and 16)",
        because="Each learner takes a share of the updates' work.",
        otherwise="Learning is not the bottleneck here.",
    )
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
                otherwise="Fewer updates of larger batches cost nothing that can be told at this length.",
            )
        )
    staleness = {
        agent: {float(n): few.numbers("result.staleness.mean") for n, few in group.by("learners").items()}
        for agent, group in real.by("agent").items()
    }
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
                caption=f"Time saved by {most:.0f} learners: {time_saved.shown}; {time_saved.state}.",
                x="learners",
                y="environment steps per second",
                groups={f"{n:.0f}": values for n, values in took.items()},
                emulated=says(STEP_S[results.scale], updates=True) if EMULATED[results.scale] else "",
            ),
            Lines(
                name="real-rates",
                title="Real: environment steps per second on the cores of this machine",
                caption="With few cores, learners and actors share them: more learners add waiting and no cores.",
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
                caption="Updates between acting and learning, on average.",
                x="learners",
                y="updates",
                groups=staleness,
            ),
        ],
        [
            Table(
                "What was published, for other machines and sizes",
                ("what", "figure"),
                [
                    ("queue against blocking async, one learner, 4 nodes", f"{QUEUE_FASTER_PERCENT:.0f} % faster"),
                    ("8 learners and 8 actors, throughput", f"+{LEARNERS_THROUGHPUT_PERCENT} %"),
                    ("8 learners and 16 actors, time", f"-{LEARNERS_TIME_PERCENT:.0f} %"),
                    ("20 learners and 120 actors, time", f"-{MANY_LEARNERS_SAVED_PERCENT:.0f} %"),
                ],
            )
        ],
    )


STUDY = Study(
    name="learners",
    title="1 to 20 learners at a fixed number of processes: time saved, convergence, staleness",
    source=f"{EXARL}: multi-learner workflows",
    engines=("local", "mpi"),
    cells=cells,
    report=report,
    machine="4 nodes of 36 cores (--engine mpi)",
    paper_engine="mpi",
)
