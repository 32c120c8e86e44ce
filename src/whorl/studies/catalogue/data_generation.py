"""Bellman targets for DQN: one experience at a time, spread over 4 processes, or as one batch."""

from __future__ import annotations

from whorl.studies.contract import Cell, Report, Scale, Study, Table, probe
from whorl.studies.figures import Bars
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import DATA_GENERATION_PROCESSES, DATA_GENERATION_SPEED_UP, EXARL
from whorl.studies.results import Results
from whorl.studies.stats import estimate

SIZES: dict[Scale, tuple[int, int]] = {"smoke": (3, 10), "small": (10, 50), "paper": (10, 200)}
"""How often it is measured, and rounds of each."""
WAYS = {
    "one_by_one": "one by one, 1 process",
    "spread_one_by_one": f"one by one, over {DATA_GENERATION_PROCESSES} processes",
    "spread": f"one batch each, over {DATA_GENERATION_PROCESSES} processes",
    "batched": "one batch, 1 process",
}


def cells(scale: Scale, engine: str) -> list[Cell]:
    """The same again and again."""
    times, rounds = SIZES[scale]
    return [
        probe("whorl.bench.targets:probe", {"what": "targets"}, number, engine=engine, repeats=rounds)
        for number in range(1, times + 1)
    ]


def report(results: Results) -> Report:
    """How many times faster than one by one."""
    speed_ups = {
        text: [(one.number("found.one_by_one") or 0.0) / (one.number(f"found.{way}") or 1.0) for one in results]
        for way, text in WAYS.items()
    }
    spread, batched = (speed_ups[WAYS[way]] for way in ("spread_one_by_one", "batched"))
    took = {text: [value for one in results if (value := one.number(f"found.{way}"))] for way, text in WAYS.items()}
    shown = side_by_side({f"{text}:": values for text, values in took.items()})
    beaten = judge(
        "batching_beats_spreading",
        f"One batch on one process beats spreading single experiences over {DATA_GENERATION_PROCESSES}",
        estimate(batched),
        above=DATA_GENERATION_SPEED_UP,
        since="the published figure",
        unit="times faster than one by one",
        published=f"{DATA_GENERATION_SPEED_UP:.2f} times, spread over {DATA_GENERATION_PROCESSES} processes",
        seen=f"Microseconds: {shown}.",
        because="Likely because a call of the network costs far more than a row in it.",
        otherwise="Likely rows weigh more here beside what a call costs.",
    )
    repeated = judge(
        "spreading_helps_single_experiences",
        "Spreading single experiences over processes is faster than one process",
        estimate(spread),
        above=1.0,
        since="as fast as one process",
        unit="times faster than one by one",
        published=f"{DATA_GENERATION_SPEED_UP:.2f} times",
        seen=f"Microseconds: {shown}.",
        because=_less(spread, results),
        otherwise=f"Likely {results.cores_shown} are too few, and handing over takes longer than what is handed over.",
    )
    rows = [(text, f"{estimate(values).value:,.0f}") for text, values in took.items() if values]
    return Report(
        [beaten, repeated],
        [
            Bars(
                name="speed-up",
                title="Bellman targets of 2,048 experiences",
                caption=f"One batch on one process: {beaten.shown}. Spread one by one: "
                f"{repeated.shown}. The line is what was published for 4 processes.",
                x="way",
                y="times faster than one by one",
                groups=speed_ups,
                published={WAYS["spread_one_by_one"]: DATA_GENERATION_SPEED_UP},
            )
        ],
        [Table("Time for 2,048 experiences", ("way", "microseconds"), rows)],
        [
            f"The same is measured {len(results.cells)} times; these repetitions stand where other studies have seeds, "
            "and nothing in them is random but the machine.",
            "The document's 90 % (of an actor's time that targets take) is that of its actors, which make them; "
            "Whorl's learner makes them in batches, so that there is no such share here.",
            f"A network of 64 and 128 units in numpy. Processes share {results.cores_shown}; "
            "the published ones had one each.",
        ],
    )


def _less(spread: list[float], results: Results) -> str:
    """Faster than one process, and how it stands beside the published figure."""
    value = estimate(spread).value
    if value >= DATA_GENERATION_SPEED_UP:
        return f"{value:.2f} times, with {DATA_GENERATION_PROCESSES} processes on {results.cores_shown}."
    return (
        f"It helps, with {value:.2f} times, and stays below the published {DATA_GENERATION_SPEED_UP:.2f}: likely "
        f"because {DATA_GENERATION_PROCESSES} processes share {results.cores_shown} here."
        if results.cores is not None and results.cores < DATA_GENERATION_PROCESSES
        else f"It helps, with {value:.2f} times, and stays below the published {DATA_GENERATION_SPEED_UP:.2f}."
    )


STUDY = Study(
    name="data-generation",
    title="Bellman targets one by one, batched, and spread over 4 processes",
    source=f"{EXARL}: data generation of DQN",
    engines=("local", "mpi"),
    cells=cells,
    report=report,
    paper_engine="mpi",
)
