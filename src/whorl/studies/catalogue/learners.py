"""Several learners at a fixed number of processes: what they save, and what they cost in convergence.

*real*: as many learners and actors as this machine may bear, two on-policy agents and an off-policy one; at paper
scale the published sizes on the Booster. Runs are long enough for a rate; they are compared by the mean of their
curves, as in the end all have learnt.
*queue*: the queue against blocking async on one learner, as in the study ``workflows``.
*emulated*: the published sizes (up to 20 learners with 120 actors) on few cores, with steps and updates that sleep.
What those sleeps imply is no finding: it is said beside what was measured, and how near runs come to it is judged.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.catalogue import workflows
from whorl.studies.contract import Cell, Machine, Scale, Study, Training
from whorl.studies.emulation import SLOW_LEARNER, says, slow_steps
from whorl.studies.learners_report import report
from whorl.studies.learners_sizes import AGENTS, EMULATED, QUEUE_STEPS, REAL, ROWS, SEEDS, STEP_S, actors_of
from whorl.studies.published import EXARL


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Real ones, then emulated ones."""
    found = []
    env = "whorl/Booster-v0" if scale == "paper" else "CartPole-v1"
    for seed in range(1, SEEDS[scale][0] + 1):
        for processes, numbers, steps in REAL[scale]:
            for agent, own in AGENTS.items():
                for learners in numbers:
                    sizes = _sizes(processes, learners, engine)
                    training = Training(agent, env, steps[agent], sizes, _taken(learners) | own)
                    labels = {"part": "real", "agent": agent, "processes": processes, "learners": learners}
                    found.append(training.cell(labels, seed))
    for seed in range(1, SEEDS[scale][1] + 1):
        found += _queue(scale, engine, seed)
        for processes, numbers, length in EMULATED[scale]:
            for learners in numbers:
                settings = {**slow_steps(STEP_S[processes]), "agent.rows": ROWS, **_taken(learners)}
                sizes = {**_sizes(processes, learners, engine), "envs-per-actor": 1}
                training = Training(SLOW_LEARNER, "whorl/Slow-v0", length, sizes, settings)
                labels = {"part": "emulated", "agent": "impala", "processes": processes, "learners": learners}
                found.append(training.cell(labels, seed, says(STEP_S[processes], updates=True)))
    return found


def _queue(scale: Scale, engine: str, seed: int) -> list[Cell]:
    """Blocking async and the queue, on one learner."""
    actors = workflows.PAPER_ACTORS if scale == "paper" else workflows.ACTORS
    return [
        workflows.on_one_learner(name, actors, QUEUE_STEPS[scale], engine, scale).cell(
            {"part": "queue", "workflow": name, "actors": actors}, seed, workflows.emulated(scale)
        )
        for name in ("blocking", "queue")
    ]


def _sizes(processes: int, learners: int, engine: str) -> dict[str, Any]:
    actors = actors_of(processes, learners)
    return {"workflow": "async", "engine": engine, "actors": actors, "learners": learners, "envs-per-actor": 4}


def _taken(learners: int) -> dict[str, Any]:
    return {"workflow.trajectories_per_update": learners}


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
