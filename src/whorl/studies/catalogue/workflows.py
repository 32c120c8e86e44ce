"""Blocking and other workflows on one learner: how fast, and how well; and whether more actors help.

EXARL's async blocks: an actor hands its data over and waits for new weights. That is ``queue`` with a single slot, here
called ``blocking``. Steps and updates take their time asleep, so that a few cores bear it; what such sleeps imply is
said beside what was measured. Beside them, the same workflows train on CartPole with nothing asleep.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from whorl.bench.learners import UPDATE_S
from whorl.runs.status import counted
from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Training
from whorl.studies.emulation import SLOW_LEARNER, says, slow_steps
from whorl.studies.figures import Bars, Curves, Lines
from whorl.studies.findings import Finding, judge, plain_number, side_by_side
from whorl.studies.frictionless import blocking_trajectories_per_s, trajectories_per_s
from whorl.studies.published import BOOSTER_EPISODE_STEPS, BOOSTER_EPISODES, EXARL, QUEUE_FASTER_PERCENT
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import estimate, ratio

STEP_S, ROWS, ACTORS = 0.005, 10, 3
TRAJECTORY_S = ROWS * STEP_S
QUEUE_RATE = ROWS * trajectories_per_s(ACTORS, 1, TRAJECTORY_S, UPDATE_S)
BLOCKING_RATE = ROWS * blocking_trajectories_per_s(ACTORS, TRAJECTORY_S, UPDATE_S)
"""Environment steps per second, if nothing but sleeping took time."""
NEAR = 0.9
"""Of such a rate: what passes for it."""
WORKFLOWS: Mapping[str, Mapping[str, Any]] = {
    "blocking": {"workflow": "queue", "workflow.slots": 1},
    "async": {"workflow": "async"},
    "window": {"workflow": "window"},
    "queue": {"workflow": "queue"},
    "seed": {"workflow": "seed"},
}
SIZES: dict[Scale, tuple[int, int, tuple[int, ...]]] = {
    "smoke": (1, 1_200, (1, 4)),
    "small": (5, 3_000, (1, 2, 4, 8)),
    "paper": (5, BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS, (35, 71, 142)),
}
"""Seeds, environment steps, numbers of actors."""
REAL_ENV = "CartPole-v1"
REAL_STEPS: dict[Scale, int] = {"smoke": 3_000, "small": 40_000, "paper": 0}
"""With nothing asleep, until CartPole is learnt. At paper scale nothing sleeps anyway."""
PAPER_ACTORS = 142
"""With their learner and an inference server, a process for each core of 4 nodes."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every workflow, then numbers of actors on one learner."""
    seeds, steps, numbers = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for name in WORKFLOWS:
            crowd = PAPER_ACTORS if scale == "paper" else ACTORS
            labels = {"part": "workflow", "workflow": name, "actors": crowd}
            found.append(on_one_learner(name, crowd, steps, engine, scale).cell(labels, seed, emulated(scale)))
        for actors in numbers:
            labels = {"part": "actors", "workflow": "queue", "actors": actors}
            found.append(on_one_learner("queue", actors, steps, engine, scale).cell(labels, seed, emulated(scale)))
        for name in WORKFLOWS if REAL_STEPS[scale] else ():
            training = on_one_learner(name, ACTORS, REAL_STEPS[scale], engine, scale, REAL_ENV)
            found.append(training.cell({"part": "real", "workflow": name, "actors": ACTORS}, seed))
    return found


def emulated(scale: Scale) -> str:
    """What is asleep at a scale."""
    return "" if scale == "paper" else says(STEP_S, updates=True)


def on_one_learner(name: str, actors: int, steps: int, engine: str, scale: Scale, real_env: str = "") -> Training:
    """One of ``WORKFLOWS`` with so many actors, with nothing asleep where a real environment is given."""
    own = dict(WORKFLOWS[name])
    options = {"workflow": own.pop("workflow"), "engine": engine, "actors": actors, "envs-per-actor": 1}
    settings = {"agent.rows": ROWS, "agent.learning_rate": 0.002, "workflow.trajectories_per_update": 1, **own}
    if scale == "paper":
        real_env = "whorl/Booster-v0"
    if real_env:
        return Training("impala", real_env, steps, options, settings)
    settings = {**slow_steps(STEP_S), **settings}
    return Training(SLOW_LEARNER, "whorl/Slow-v0", steps, options, settings)


def learnt_per_s(one: CellResult) -> float:
    """Environment steps learnt from, per second: what was collected in vain does not count."""
    used, steps = one.number("result.transitions.used"), one.number("result.transitions.collected")
    return (one.number("result.env_steps_per_s") or 0.0) * (used or 0.0) / max(1.0, steps or 1.0)


def queue_beats_blocking(
    queue: Sequence[float], blocking: Sequence[float], scale: Scale, real_env: str = ""
) -> Finding:
    """From the rates of both, where nothing is asleep in ``real_env``."""
    asleep = "" if real_env else emulated(scale)
    implied = (
        f" The sleeps alone imply {QUEUE_RATE / BLOCKING_RATE:.2f} times "
        f"({QUEUE_RATE:.0f} against {BLOCKING_RATE:.0f} steps per second)."
        if asleep
        else ""
    )
    return judge(
        "queue_beats_blocking_async" + ("_with_nothing_asleep" if real_env else ""),
        "A queue beats blocking async on one learner" + (f", {real_env} with nothing asleep" if real_env else ""),
        ratio(queue, blocking) if queue and blocking else None,
        above=1.0,
        since="as fast as blocking",
        unit="times the environment steps learnt from per second",
        published=f"{QUEUE_FASTER_PERCENT:.0f} % faster on 4 nodes",
        seen=f"Steps per second: {side_by_side({'blocking': blocking, 'queue': queue})}.{implied}",
        because="Actors go on while the learner learns.",
        otherwise="Likely: handing over through a longer queue takes more time here than waiting for the learner.",
        emulated=asleep,
    )


def _as_fast_as_sleeps_allow(queue: Sequence[float], scale: Scale) -> list[Finding]:
    """What the sleeps do not decide."""
    if scale == "paper":
        return []
    return [
        judge(
            "queue_comes_to_what_the_sleeps_allow",
            f"A queue comes to the {QUEUE_RATE:.0f} environment steps per second that the sleeps allow",
            estimate([rate / QUEUE_RATE for rate in queue]) if queue else None,
            above=NEAR,
            since="a tenth less passes for it: a convention",
            unit="of that rate",
            because=f"Whorl's own part in an update is small beside the {1000 * UPDATE_S:.0f} ms that it sleeps.",
            otherwise="What takes the rest of the time is none of the sleeps: likely handing over, on few cores.",
            emulated=emulated(scale),
        )
    ]


def report(results: Results) -> Report:
    """Rates and returns."""
    by_workflow = results.where(part="workflow").by("workflow")
    rates = {name: [learnt_per_s(one) for one in group] for name, group in by_workflow.items()}
    by_actors = results.where(part="actors").by("actors")
    crowd = {float(actors): [learnt_per_s(one) for one in group] for actors, group in by_actors.items()}
    queue, blocking = rates.get("queue", []), rates.get("blocking", [])
    most = max(crowd, default=0.0)
    enough = max((actors for actors in crowd if actors < most), default=0.0)
    asleep = emulated(results.scale)
    faster = queue_beats_blocking(queue, blocking, results.scale)
    shown = side_by_side({counted(int(actors), "actor"): values for actors, values in sorted(crowd.items())})
    saturated = judge(
        "more_actors_do_not_help_one_learner",
        f"{most:.0f} actors on one learner are no faster than {enough:.0f}",
        ratio(crowd[most], crowd[enough]) if enough in crowd and most in crowd else None,
        below=1.1,
        since="a tenth more would pass for none: a convention",
        unit="times the rate",
        published="more actors on one learner did not shorten the run",
        seen=f"Steps per second: {shown}.",
        because="Likely the learner is the bottleneck.",
        otherwise=f"Likely: with {enough:.0f} actors the learner still waits for data.",
        emulated=asleep,
    )
    real = results.where(part="real").by("workflow")
    real_rates = {name: [learnt_per_s(one) for one in group] for name, group in real.items()}
    really = [
        queue_beats_blocking(real_rates.get("queue", []), real_rates.get("blocking", []), results.scale, REAL_ENV)
        for _ in range(bool(REAL_STEPS[results.scale]))
    ]
    learning = real if really else by_workflow
    finals = {name: group.numbers("result.return_mean") for name, group in learning.items()}
    return Report(
        [faster, *really, *_as_fast_as_sleeps_allow(queue, results.scale), saturated],
        [
            Bars(
                name="rates",
                title="One learner: what is learnt from",
                caption=f"Queue against blocking: {faster.shown}; {faster.state}.",
                x="workflow",
                y="environment steps learnt from per second",
                groups=rates,
                emulated=asleep,
            ),
            *(
                Bars(
                    name="rates-real",
                    title=f"One learner, {REAL_ENV}: what is learnt from, nothing asleep",
                    caption=f"Queue against blocking: {one.shown}; {one.state}.",
                    x="workflow",
                    y="environment steps learnt from per second",
                    groups=real_rates,
                )
                for one in really
            ),
            Lines(
                name="actors",
                title="More actors on one learner",
                caption=f"{saturated.claim}: {saturated.state} ({saturated.shown}).",
                x="actors",
                y="environment steps learnt from per second",
                from_zero=True,
                groups={"queue": crowd},
                log_x=True,
                emulated=asleep,
            ),
            Curves(
                name="returns",
                title=f"{REAL_ENV if really else 'The Booster'}: returns over time",
                caption=f"Return at the end: {side_by_side(finals)}.",
                x="seconds since the first process's start",
                y="mean return of 100 episodes",
                groups={name: group.curves("wall_s") for name, group in learning.items()},
            ),
        ],
        remarks=[
            "Blocking async is what EXARL calls async: an actor hands over and waits until its data was learnt from. "
            "Whorl's own async does not wait.",
            *_why(results, queue, blocking),
        ],
    )


def _why(results: Results, queue: Sequence[float], blocking: Sequence[float]) -> list[str]:
    """Why the gain is not the published one, to the digit."""
    if results.scale == "paper":
        return []
    parts = (
        f"{name} comes to {plain_number(100 * estimate(rates).value / implied)} % of what the sleeps allow"
        for name, rates, implied in (("the queue", queue, QUEUE_RATE), ("blocking", blocking, BLOCKING_RATE))
        if rates
    )
    return [
        "What a queue gains depends on how long learning takes beside acting, which the document does not give. Here "
        f"an update takes {1000 * UPDATE_S:.0f} ms and a trajectory {1000 * TRAJECTORY_S:.0f} ms with {ACTORS} actors: "
        f"if all went without friction, a queue would be {QUEUE_RATE / BLOCKING_RATE:.2f} times as fast. Measured: "
        f"{', '.join(parts) or 'nothing'}. Steps take unlike times, and who blocks waits for the rest.",
        f"With nothing asleep, {ACTORS} actors and a learner share {results.cores_shown}: who waits leaves its core to "
        "another, and less is lost by waiting than where each has a core of its own, as on the published nodes. "
        "How fast steps and updates are is this machine's, and is not set.",
    ]


STUDY = Study(
    name="workflows",
    title="Blocking async, async, window, queue and seed on one learner",
    source=f"{EXARL}: workflows with one learner",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    machine=Machine(nodes=4),
    paper_engine="mpi",
)
