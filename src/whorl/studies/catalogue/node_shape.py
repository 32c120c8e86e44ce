"""Workers x CPUs of each on one node: the same environments over few or many actors."""

from __future__ import annotations

from typing import Any

from whorl.runs.status import counted
from whorl.studies.atari_rows import training_of
from whorl.studies.contract import Cell, Report, Scale, Study, Training
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import RAY, TABLE_III
from whorl.studies.results import Results
from whorl.studies.stats import Estimate, estimate, ratio

GAME, LANES = "SpaceInvaders", 8
PAPER_ROWS = 100
CAPTION = "The table's caption says IMPALA and Ape-X where its figure shows PPO; this is PPO."
SIZES: dict[Scale, tuple[tuple[int, ...], int, int]] = {
    "smoke": ((1, 2, 4), 1, 768),
    "small": ((1, 2, 4, 8), 3, 6_144),
    "paper": (tuple(row.workers for row in TABLE_III), 3, 0),
}
"""Workers, seeds, environment steps."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every shape."""
    workers, seeds, steps = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        if scale == "paper":
            for row in TABLE_III:
                shape = f"{row.workers}x{row.cpus_per_worker}"
                training = training_of(row, GAME, engine, rows=PAPER_ROWS)
                found.append(training.cell({"shape": shape, "workers": row.workers}, seed))
            continue
        for count in workers:
            options = {"engine": engine, "actors": count, "envs-per-actor": LANES // count}
            training = Training("ppo", f"atari/{GAME}-v0", steps, options, {"agent.rows": 32})
            found.append(training.cell({"shape": f"{count}x{LANES // count}", "workers": count}, seed))
    return found


def report(results: Results) -> Report:
    """Rates by shape."""
    by_workers = results.by("workers")
    rates = {int(count): group.numbers("result.env_steps_per_s") for count, group in by_workers.items()}
    numbers = sorted(rates)
    many = numbers[-1]
    before = numbers[-2] if len(numbers) > 1 else many
    shown = f"Steps per second: {side_by_side({counted(count, 'worker'): rates[count] for count in numbers})}."
    slowest = judge(
        "one_worker_is_slowest",
        "One worker is slower than any other number",
        _nearest_to_one_worker(rates, SIZES[results.scale][0]),
        above=1.0,
        since="the document; 1 would be no difference",
        unit="times the rate of one worker, by the number that is nearest to it",
        published="1 worker slowest",
        seen=f"{shown} {_turns(by_workers, 1, before)}".strip(),
        because="One worker steps its games one after the other, while other cores idle.",
        otherwise=f"Likely: what one learner takes, more workers do not shorten on {results.cores_shown}.",
    )
    alike = judge(
        "many_workers_are_alike",
        f"{many} and {before} workers are alike",
        ratio(rates[many], rates[before]) if rates[many] and rates[before] and many != before else None,
        between=(0.9, 1.1),
        since="a tenth is a tie",
        unit="times the rate",
        published="16 and 8 workers alike",
        seen=_turns(by_workers, before, many),
        because="Likely all cores have work already.",
        otherwise=f"Likely: {many} processes on {results.cores_shown}, each with "
        "fewer games to a batch, so that the network is asked more often for the same rows.",
    )
    shapes = {str(shape): group for shape, group in results.by("shape").items()}
    same, seeds = results.seeds_with_same_weights(of=max(2, len(shapes)))
    return Report(
        [slowest, alike],
        [
            Bars(
                name="rates",
                title=f"PPO on {GAME}, workers x environments of each",
                caption=f"{slowest.claim}: {slowest.shown}, {slowest.state}. "
                f"{alike.claim}: {alike.shown}, {alike.state}.",
                x="workers x environments of each",
                y="environment steps per second",
                groups={shape: group.numbers("result.env_steps_per_s") for shape, group in shapes.items()},
            ),
            Curves(
                name="returns",
                title="Returns over time",
                caption=f"All shapes came to the same weights on {same} of {seeds} seeds; they differ in time.",
                x="seconds",
                y="mean return of 100 episodes",
                groups={shape: group.curves("wall_s") for shape, group in shapes.items()},
            ),
        ],
        remarks=[
            CAPTION
            if results.scale == "paper"
            else f"{CAPTION} {LANES} games here, one for each CPU there; {results.cores_shown} here, 32 there."
        ],
    )


def _nearest_to_one_worker(rates: dict[int, list[float]], workers: tuple[int, ...]) -> Estimate | None:
    """Of the rates over that of one worker the one that is least sure to be higher; None before all are there."""
    if not all(rates.get(count) for count in workers):
        return None
    return min((ratio(rates[count], rates[1]) for count in workers if count > 1), key=lambda found: found.low)


def _turns(by_workers: dict[Any, Results], *counts: int) -> str:
    """How much of its time the learner learns, and the actors step and infer, with so many workers."""
    said = []
    for count in sorted(by_workers.keys() & counts):
        shares = {
            name: by_workers[count].numbers(f"result.time_share.{name}")
            for name in ("learner.learning", "actor.environment", "actor.inference")
        }
        if all(shares.values()):
            learns, steps, infers = (100 * estimate(values).value for values in shares.values())
            said.append(
                f"with {counted(count, 'worker')} the learner learns {learns:.0f} % of the time, and an actor "
                f"steps {steps:.0f} % and infers {infers:.0f} % of it"
            )
    text = "; ".join(said)
    return f"{text[0].upper()}{text[1:]}." if text else ""


STUDY = Study(
    name="node-shape",
    title="Workers x CPUs per worker on one node",
    source=f"{RAY}: Table III, Fig. 8",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    needs=("atari",),
    paper_engine="ray",  # local sets no CPUs aside for a worker
    paper_notes=(
        CAPTION,
        f"The document gives no fragment and no batch; trajectories of {PAPER_ROWS} rows here, as in its Table II.",
    ),
)
