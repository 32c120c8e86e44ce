"""Blocking and other workflows on one learner: how fast, and how well; and whether more actors help.

EXARL's async blocks: an actor hands its data over and waits for new weights. That is ``queue`` with a single slot, here
called ``blocking``. Steps and updates take their time asleep, so that a few cores bear it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whorl.bench.learners import UPDATE_S
from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Training
from whorl.studies.emulation import SLOW_LEARNER, says, slow_steps
from whorl.studies.figures import Bars, Curves, Lines
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import BOOSTER_EPISODE_STEPS, BOOSTER_EPISODES, EXARL, QUEUE_FASTER_PERCENT
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import ratio

STEP_S, ROWS, ACTORS = 0.005, 10, 3
WORKFLOWS: Mapping[str, Mapping[str, Any]] = {
    "blocking": {"workflow": "queue", "workflow.slots": 1},
    "async": {"workflow": "async"},
    "window": {"workflow": "window"},
    "queue": {"workflow": "queue"},
    "seed": {"workflow": "seed"},
}
SIZES: dict[Scale, tuple[int, int, tuple[int, ...]]] = {
    "smoke": (1, 1_200, (1, 4)),
    "small": (4, 4_000, (1, 2, 4, 8)),
    "paper": (5, BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS, (35, 71, 143)),
}
"""Seeds, environment steps, numbers of actors."""
PAPER_ACTORS = 143
"""With their learner, a process for each core of 4 nodes."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every workflow, then numbers of actors on one learner."""
    seeds, steps, numbers = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for name in WORKFLOWS:
            crowd = PAPER_ACTORS if scale == "paper" else ACTORS
            labels = {"part": "workflow", "workflow": name, "actors": crowd}
            found.append(_training(name, crowd, steps, engine, scale).cell(labels, seed, _emulated(scale)))
        for actors in numbers:
            labels = {"part": "actors", "workflow": "queue", "actors": actors}
            found.append(_training("queue", actors, steps, engine, scale).cell(labels, seed, _emulated(scale)))
    return found


def _emulated(scale: Scale) -> str:
    return "" if scale == "paper" else says(STEP_S, updates=True)


def _training(name: str, actors: int, steps: int, engine: str, scale: Scale) -> Training:
    own = dict(WORKFLOWS[name])
    options = {"workflow": own.pop("workflow"), "engine": engine, "actors": actors, "envs-per-actor": 1}
    settings = {"agent.rows": ROWS, "agent.learning_rate": 0.002, "workflow.trajectories_per_update": 1, **own}
    if scale == "paper":
        return Training("impala", "whorl/Booster-v0", steps, options, settings)
    settings = {**slow_steps(STEP_S), **settings}
    return Training(SLOW_LEARNER, "whorl/Slow-v0", steps, options, settings)


def learnt_per_s(one: CellResult) -> float:
    """Environment steps learnt from, per second: what was collected in vain does not count."""
    used, steps = one.number("result.transitions.used"), one.number("result.transitions.collected")
    return (one.number("result.env_steps_per_s") or 0.0) * (used or 0.0) / max(1.0, steps or 1.0)


def report(results: Results) -> Report:
    """Rates and returns."""
    by_workflow = results.where(part="workflow").by("workflow")
    rates = {name: [learnt_per_s(one) for one in group] for name, group in by_workflow.items()}
    by_actors = results.where(part="actors").by("actors")
    crowd = {float(actors): [learnt_per_s(one) for one in group] for actors, group in by_actors.items()}
    queue, blocking = rates.get("queue", []), rates.get("blocking", [])
    most = max(crowd, default=0.0)
    enough = max((actors for actors in crowd if actors < most), default=0.0)
    faster = judge(
        "queue_beats_blocking_async",
        "A queue beats blocking async on one learner",
        ratio(queue, blocking) if queue and blocking else None,
        above=1.0,
        unit="times the environment steps learnt from per second",
        published=f"{QUEUE_FASTER_PERCENT:.0f} % faster on 4 nodes",
        because="Actors go on while the learner learns; the learner never waits for who waits for it.",
        otherwise="Where learning takes no time to speak of, nobody waits for it.",
    )
    saturated = judge(
        "more_actors_do_not_help_one_learner",
        f"{most:.0f} actors on one learner are no faster than {enough:.0f}",
        ratio(crowd[most], crowd[enough]) if enough in crowd and most in crowd else None,
        below=1.1,
        unit="times the rate",
        published="more actors on one learner did not shorten the run",
        because="The learner is the bottleneck.",
        otherwise="The learner is not the bottleneck with so few actors.",
    )
    finals = {name: group.numbers("result.return_mean") for name, group in by_workflow.items()}
    emulated = _emulated(results.scale)
    return Report(
        [faster, saturated],
        [
            Bars(
                name="rates",
                title="One learner: what is learnt from",
                caption=f"Queue against blocking: {faster.shown}; {faster.state}.",
                x="workflow",
                y="environment steps learnt from per second",
                groups=rates,
                emulated=emulated,
            ),
            Lines(
                name="actors",
                title="More actors on one learner",
                caption=f"{saturated.claim}: {saturated.state} ({saturated.shown}).",
                x="actors",
                y="environment steps learnt from per second",
                groups={"queue": crowd},
                log_x=True,
                emulated=emulated,
            ),
            Curves(
                name="returns",
                title="Returns over time",
                caption=f"Return at the end: {side_by_side(finals)}.",
                x="seconds",
                y="mean return of 100 episodes",
                groups={name: group.curves("wall_s") for name, group in by_workflow.items()},
                emulated=emulated,
            ),
        ],
        remarks=[
            "Blocking async is what EXARL calls async: an actor hands over and waits until its data was learnt from. "
            "Whorl's own async does not wait.",
            *_why(results.scale),
        ],
    )


def _why(scale: Scale) -> list[str]:
    """Why the gain is not the published one, to the digit."""
    if scale == "paper":
        return []
    trajectory_s, update_s = ROWS * STEP_S, UPDATE_S
    queue, blocking = 1 / max(update_s, trajectory_s / ACTORS), ACTORS / max(trajectory_s + update_s, ACTORS * update_s)
    return [
        "What a queue gains depends on how long learning takes beside acting, which the document does not give. Here "
        f"an update takes {1000 * update_s:.0f} ms and a trajectory {1000 * trajectory_s:.0f} ms with {ACTORS} actors: "
        f"if all went without friction, a queue would be {queue / blocking:.2f} times as fast."
    ]


STUDY = Study(
    name="workflows",
    title="Blocking async, async, window, queue and seed on one learner",
    source=f"{EXARL}: workflows with one learner",
    engines=("local", "inline", "mpi", "ray"),
    cells=cells,
    report=report,
    machine=Machine(nodes=4),
    paper_engine="mpi",
)
