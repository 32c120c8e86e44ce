"""Fewer workers while a run goes on: by a schedule without a restart, by checkpoint and restart, and fixed numbers."""

from __future__ import annotations

from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from whorl.studies.contract import RUN, Cell, Machine, Report, Scale, Study, Table, Training
from whorl.studies.emulation import says, slow_steps
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import ELASTIC_MINUTES, ELASTIC_PHASES, ELASTIC_WORKERS, RAY, STEPS
from whorl.studies.results import Results
from whorl.studies.stats import difference, estimate, ratio

STEP_S, ROWS = 0.002, 32
SIZES: dict[Scale, tuple[tuple[int, int, int], int, int, int]] = {
    "smoke": ((4, 2, 1), 8, 1, 12),
    "small": ((4, 2, 1), 8, 5, 36),
    "paper": (ELASTIC_WORKERS, 128, 3, 0),
}
"""Actors of each phase, environments, seeds, updates (paper: until 10 M steps)."""
WAYS = ("schedule", "restart", "fixed-most", "fixed-half", "fixed-fewest")
NEAR = (0.9, 1.1)
"""Times that pass for close to each other."""
PHASES = "The published phases of 2, 5 and 5 M steps are more than the 10 M in all it names; the last has 3 M here."
GAME = "The document's text says Pong where its figure says Qbert; this is Qbert."


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Each way of running the same training."""
    workers, lanes, seeds, _ = SIZES[scale]
    *borders, steps = phase_ends(scale)
    schedule = ",".join(f"{start}:{count}" for start, count in zip((0, *borders), workers, strict=True))
    numbers: dict[str, dict[str, Any]] = {
        "schedule": {"actors-schedule": schedule},
        "restart": {},
        "fixed-most": {},
        "fixed-half": {"actors": workers[1], "envs-per-actor": lanes // workers[1]},
        "fixed-fewest": {"actors": workers[-1], "envs-per-actor": lanes // workers[-1]},
    }
    found = []
    for seed in range(1, seeds + 1):
        for way in WAYS:
            sizes = {"actors": workers[0], "envs-per-actor": lanes // workers[0], **numbers[way]}
            training = _training(scale, steps, {"engine": engine, "workflow": "sync", **sizes})
            commands = [training.command(seed, steps=borders[0] if way == "restart" else steps)]
            if way == "restart":
                commands += [
                    ("whorl", "resume", RUN, "--quiet", "--actors", str(count), "--steps", str(end))
                    for count, end in zip(workers[1:], (borders[1], steps), strict=True)
                ]
            emulated = "" if scale == "paper" else says(STEP_S)
            found.append(Cell({"way": way}, seed, tuple(commands), emulated))
    return found


def phase_ends(scale: Scale) -> list[int]:
    """Environment steps at which the number of actors changes, and those of the whole training."""
    _, lanes, _, updates = SIZES[scale]
    steps = updates * lanes * ROWS or STEPS
    ends = accumulate(ELASTIC_PHASES[:2]) if scale == "paper" else (steps // 3, 2 * steps // 3)
    return [*(end // (lanes * ROWS) * lanes * ROWS for end in ends), steps]


def _training(scale: Scale, steps: int, options: dict[str, Any]) -> Training:
    if scale == "paper":
        # Annealing goes by --steps, which the run by restart is given anew for each of its parts.
        constant = {"agent.anneal": "none", "agent.anneal_clip": "none"}
        return Training("ppo", "atari/Qbert-v0", steps, options, {"agent.rows": ROWS, **constant})
    settings = {
        **slow_steps(STEP_S, "constant"),
        "agent.rows": ROWS,
        "agent.epochs": 4,
        "run.checkpoint_every_s": 3600.0,
    }
    return Training("ppo", "whorl/Slow-v0", steps, options, settings)


def report(results: Results) -> Report:
    """Time of each way, and whether they come to the same weights."""
    emulated = "" if results.scale == "paper" else says(STEP_S)
    ways = results.by("way")
    seconds = {way: group.numbers("seconds") for way, group in ways.items()}
    restart, schedule = seconds.get("restart", []), seconds.get("schedule", [])
    cheaper = judge(
        "resizing_costs_less_than_a_restart",
        "Resizing while a run goes on costs less than checkpoint and restart",
        difference(restart, schedule) if restart and schedule else None,
        above=0.0,
        since="0 would be no gain",
        unit="s saved over two changes",
        published="by checkpoint and restart only: "
        + " + ".join(f"{minutes:.0f}" for minutes in ELASTIC_MINUTES)
        + " min for "
        + ", ".join(map(str, ELASTIC_WORKERS))
        + " workers, close to fixed numbers",
        seen=f"Seconds: {side_by_side({'by restart': restart, 'without': schedule})}.",
        because="Only the roles are started anew, by a launcher that stays, with all it has imported.",
        otherwise="Likely: sharing out anew costs more here than starting again.",
        emulated=emulated,
    )
    implied = _implied_s(results)
    close = judge(
        "resized_run_takes_what_fixed_numbers_imply",
        "A run resized on its way takes as long as runs with fixed numbers imply",
        ratio(schedule, implied) if schedule and implied else None,
        between=NEAR,
        since="a tenth is a tie: a convention",
        unit="times what each phase takes of a run with its number throughout",
        published=f"{sum(ELASTIC_MINUTES):.0f} min (given as 1 h 24 min), close to the runs with a fixed number",
        seen=f"Seconds: {side_by_side({'resized': schedule, 'implied': implied})}.",
        because="A change of the number costs little beside the steps between two changes.",
        otherwise="Likely: phases of seconds are short. At each change an exact workflow saves, ends its roles and "
        "starts others from there, which takes as long as starting processes does, however long the phases are.",
        emulated=emulated,
    )
    same, seeds = results.seeds_with_same_weights(of=len(WAYS))
    workers = SIZES[results.scale][0]
    names = {
        "schedule": f"{workers[0]}, {workers[1]}, {workers[2]} without restart",
        "restart": f"{workers[0]}, {workers[1]}, {workers[2]} by restart",
        "fixed-most": f"{workers[0]} throughout",
        "fixed-half": f"{workers[1]} throughout",
        "fixed-fewest": f"{workers[-1]} throughout",
    }
    return Report(
        [cheaper, close],
        [
            Bars(
                name="time",
                title="Time of the same training",
                caption=f"From the first process's start to the last one's end. {cheaper.shown}: {cheaper.state}. "
                f"{close.claim}: {close.shown}, {close.state}.",
                x="actors",
                y="seconds",
                groups={names[way]: values for way, values in seconds.items()},
                emulated=emulated,
            ),
            Curves(
                name="returns",
                title="Returns over time",
                caption=f"All ways came to the same weights on {same} of {seeds} seeds; they differ in time.",
                x="seconds since the first process's start",
                y="mean return of 100 episodes",
                groups={names[way]: group.curves("wall_s") for way, group in ways.items()},
                emulated=emulated,
            ),
        ],
        [
            Table(
                "The same weights in the end, bit for bit",
                ("seeds", "of which all five ways agree"),
                [(str(seeds), str(same))],
                "In exact workflows a run's result does not depend on the number of its actors.",
            ),
            _phases(results),
        ],
        [PHASES, GAME] if results.scale == "paper" else [],
    )


def _implied_s(results: Results) -> list[float]:
    """Seconds of each seed that has them: each phase's share of the run with its number of actors throughout."""
    ends = phase_ends(results.scale)
    shares = [(end - start) / ends[-1] for start, end in zip((0, *ends), ends, strict=False)]
    found = []
    for seed in results.by("seed").values():
        fixed = [seed.where(way=way).numbers("seconds") for way in WAYS[2:]]
        if all(fixed):
            found.append(sum(share * seconds for share, (seconds,) in zip(shares, fixed, strict=True)))
    return found


def _phases(results: Results) -> Table:
    """How long each took, beside what was published."""
    ends = phase_ends(results.scale)
    restarted = [one.seconds for one in results.where(way="restart") if len(one.seconds) == len(ends)]
    stayed = []
    for one in results.where(way="schedule"):
        if one.curve.get("wall_s"):
            at = [float(np.interp(end, one.curve["env_steps"], one.curve["wall_s"])) for end in ends[:-1]]
            stayed.append([end - start for start, end in pairwise((0.0, *at, sum(one.seconds)))])
    rows = []
    for place, (start, end) in enumerate(zip((0, *ends), ends, strict=False)):
        times = ([seconds[place] for seconds in side] for side in (stayed, restarted))
        shown = (f"{estimate(values).value:.1f}" if values else "-" for values in times)
        steps, count = ELASTIC_PHASES[place] / 1e6, ELASTIC_WORKERS[place]
        published = f"{ELASTIC_MINUTES[place]:.0f} min: {steps:g} M steps, {count} workers"
        rows.append((f"{end - start:,}", str(SIZES[results.scale][0][place]), *shown, published))
    header = ("environment steps", "actors", "without restart, s", "by restart, s", "published, by restart")
    note = "With the start of the first process and the end of the last; by restart, of every process."
    return Table("Time of each phase", header, rows, note)


STUDY = Study(
    name="elastic",
    title="Workers reduced while training: without a restart, by restart, and fixed numbers",
    source=f"{RAY}: Fig. 3",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    machine=Machine(nodes=4),
    paper_engine="ray",
    paper_needs=("atari",),
    paper_notes=(PHASES, GAME),
)
