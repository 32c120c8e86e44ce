"""The plan that the Tetris study never linked: PPO whose batch is partitioned over ranks, and gradients all-reduced."""

from __future__ import annotations

from whorl.runs.status import counted
from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Bars, Lines
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import TETRIS
from whorl.studies.results import Results
from whorl.studies.stats import estimate, ratio

LANES, ROWS, SHARDS = 8, 16, 4
NETWORK = {
    "agent.network.image_channels": (32, 64, 32),
    "agent.network.image_bias": False,
    "agent.network.image_features": 64,
}
"""The study's CNN."""
SIZES: dict[Scale, tuple[tuple[int, ...], tuple[int, ...], int, int]] = {
    "smoke": ((1, 2, 4), (1,), 1, 4),
    "small": ((1, 2, 4), (1, 2), 3, 20),
    "paper": ((1, 2, 4, 8), (1, 2, 4), 5, 2000),
}
"""Ranks, threads of each, seeds, updates."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Ranks x threads, on the same environments and shards."""
    ranks_list, threads_list, seeds, updates = SIZES[scale]
    shards, lanes = max(SHARDS, *ranks_list), max(LANES, *ranks_list)
    found = []
    for seed in range(1, seeds + 1):
        for threads in threads_list:
            for ranks in ranks_list:
                options = {"engine": engine, "learners": ranks, "actors": ranks, "envs-per-actor": lanes // ranks}
                options |= {"learner-threads": threads}
                settings = {
                    "agent.rows": ROWS,
                    "agent.epochs": 2,
                    "agent.minibatches": 2,
                    "resources.shards": shards,
                    "run.precision": "float32",
                    **NETWORK,
                }
                training = Training("ddppo", "whorl/Image-v0", updates * lanes * ROWS, options, settings)
                found.append(training.cell({"ranks": ranks, "threads": threads}, seed))
    return found


def report(results: Results) -> Report:
    """Rates, and whether the result depends on the ranks."""
    rates = {
        (threads, float(ranks)): group.numbers("result.env_steps_per_s")
        for (threads, ranks), group in results.by("threads", "ranks").items()
    }
    one, two = rates.get((1, 1.0), []), rates.get((1, 2.0), [])
    faster = judge(
        "two_ranks_are_faster",
        "Two ranks are faster than one, with one thread each",
        ratio(two, one) if one and two else None,
        above=1.2,
        since="a fifth is worth the second rank: a convention",
        unit="times the rate",
        published="planned, and never linked",
        seen=f"Steps per second, on {results.cores_shown}: {side_by_side({'1 rank': one, '2 ranks': two})}.",
        because="Only gradients travel.",
        otherwise="Likely the sums, and waiting for each other, take what the second rank saves.",
    )
    same = results.share_with_same_weights("threads")
    equal = judge(
        "ranks_do_not_change_the_result",
        "The number of ranks does not change the result: the same weights, bit for bit",
        estimate(same) if same else None,
        above=0.99,
        since="all of them, by the order of the sums",
        unit="of the groups of runs that differ in ranks alone",
        because="A batch is cut into the same shards, which are summed in the same order.",
        otherwise="Likely a sum was taken in another order: a fault of this implementation.",
    )
    waiting = {
        counted(int(ranks), "rank"): [100 * value for value in group.numbers("result.time_share.learner.waiting")]
        for ranks, group in results.where(threads=1).by("ranks").items()
    }
    rows = [
        (f"{ranks:.0f}", str(threads), f"{estimate(values).value:,.0f}")
        for (threads, ranks), values in rates.items()
        if values
    ]
    return Report(
        [faster, equal],
        [
            Lines(
                name="rates",
                title="All-reduce PPO on images, with the Tetris study's CNN",
                caption=f"Two ranks against one: {faster.shown}, {faster.state}.{_more(rates, results.cores_shown)}",
                x="ranks",
                y="environment steps per second",
                from_zero=True,
                groups={
                    f"{threads} thread{'s' * (threads != 1)} each": {
                        ranks: values for (of, ranks), values in rates.items() if of == threads
                    }
                    for threads in dict.fromkeys(threads for threads, _ in rates)
                },
                log_x=True,
            ),
            Bars(
                name="waiting",
                title="Share of the learners' time in waiting for each other",
                caption=f"% of the time: {side_by_side(waiting)}. What summing gradients and uneven ranks cost.",
                x="ranks",
                y="% of the time",
                groups=waiting,
            ),
        ],
        [
            Table("Environment steps per second", ("ranks", "threads", "rate"), rows),
        ],
    )


def _more(rates: dict[tuple[int, float], list[float]], cores: str) -> str:
    """What more ranks than two, and more threads than one, came to."""
    said = []
    known = {key: estimate(values).value for key, values in rates.items() if values}
    base = known.get((1, 2.0))
    for threads, ranks in known:
        if base is not None and threads == 1 and ranks > 2:
            said.append(f"{ranks:.0f} ranks run at {known[threads, ranks] / base:.2f} times the rate of 2")
    for threads, ranks in known:
        if threads > 1 and (1, ranks) in known:
            times = known[threads, ranks] / known[1, ranks]
            said.append(f"{threads} threads on {counted(int(ranks), 'rank')} at {times:.2f} times that of one thread")
    return f" On {cores}, {'; '.join(said)}." if said else ""


STUDY = Study(
    name="data-parallel",
    title="All-reduce PPO on 1, 2 and 4 ranks, threads x ranks",
    source=f"{TETRIS}: the MPI plan that was never linked",
    engines=("mpi", "local"),
    cells=cells,
    report=report,
)
