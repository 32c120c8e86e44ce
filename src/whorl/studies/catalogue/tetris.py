"""PPO on full frames of Tetris with the study's CNN: cores x environments, and weak scaling."""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import TETRIS, TETRIS_WEIGHTS
from whorl.studies.results import Results
from whorl.studies.stats import estimate, ratio

SIZES: dict[Scale, tuple[tuple[tuple[int, int], ...], int, int, int]] = {
    "smoke": (((1, 2), (2, 2), (2, 4)), 8, 4, 1),
    "small": (((1, 2), (1, 4), (1, 8), (2, 2), (2, 4), (2, 8)), 32, 8, 3),
    "paper": (((1, 1), (1, 8), (8, 8), (8, 64), (32, 32), (32, 64)), 64, 5000, 3),
}
"""(Cores, environments), rows, updates, seeds. The form of the pairs is that of the document's labels."""
HOURS = "The document ran each of its pairs for an hour; here each has the same number of updates."


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every pair: an actor and a learner's thread for each core."""
    pairs, rows, updates, seeds = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for cores, envs in pairs:
            options = {"engine": engine, "actors": cores, "envs-per-actor": envs // cores, "learner-threads": cores}
            settings: dict[str, Any] = {"agent.rows": rows}
            settings |= {"agent.minibatches": 2, "agent.epochs": 1} if scale == "smoke" else {}
            training = Training("ppo", "whorl/Tetris-v0", updates * rows * envs, options, settings)
            found.append(training.cell({"cores": cores, "envs": envs}, seed))
    return found


def report(results: Results) -> Report:
    """Rates by cores and environments."""
    rates = {
        (int(cores), int(envs)): group.numbers("result.env_steps_per_s")
        for (cores, envs), group in results.by("cores", "envs").items()
    }
    first, second = _weak(list(rates))
    times = second[0] / first[0]
    weak = judge(
        "weak_scaling",
        f"Weak scaling: {second[0]} cores with {second[1]} environments against {first[0]} with {first[1]}",
        ratio([rate / times for rate in rates[second]], rates[first])
        if times > 1 and rates[first] and rates[second]
        else None,
        above=0.75,
        since="three quarters of the ideal: a convention",
        unit="of the ideal rate",
        published="weak scaling (Gustafson) was claimed, without a figure that can be set beside this",
        seen=f"Steps per second, on {results.cores_shown}: "
        f"{side_by_side({f'{cores}-{envs}': rates[cores, envs] for cores, envs in dict.fromkeys((first, second))})}.",
        because="Frames are emulated and learnt from side by side.",
        otherwise="Likely the cores share memory and clocks; a virtual machine's may be halves of one.",
    )
    finals = {
        f"{cores}-{envs}:": group.numbers("result.return_mean")
        for (cores, envs), group in results.by("cores", "envs").items()
    }
    named = {f"{cores}-{envs}": values for (cores, envs), values in rates.items()}
    rows = [
        (str(cores), str(envs), f"{estimate(values).value:,.1f}") for (cores, envs), values in rates.items() if values
    ]
    return Report(
        [weak],
        [
            Bars(
                name="rates",
                title="PPO on full frames of Tetris",
                caption=f"{weak.claim}: {weak.shown}, {weak.state}. Labels have the form of the document's, "
                "cores-environments; their numbers are ours.",
                x="cores-environments",
                y="environment steps per second",
                groups=named,
            ),
            Curves(
                name="returns",
                title="Returns",
                caption=_ended(finals),
                x="seconds",
                y="mean return of 100 episodes",
                groups={
                    f"{cores}-{envs}": group.curves("wall_s")
                    for (cores, envs), group in results.by("cores", "envs").items()
                },
            ),
        ],
        [Table("Environment steps per second", ("cores", "environments", "rate"), rows)],
        [f"Frames of 3 x 240 x 256 and a CNN of {TETRIS_WEIGHTS:,} weights, as in the document. {HOURS}"],
    )


def _ended(finals: dict[str, list[float]]) -> str:
    """What the runs came to, if they came to anything."""
    if any(finals.values()):
        return f"Return at the end: {side_by_side(finals)}. Random play clears no lines."
    return "No game was over in any run: a game takes longer than the run."


def _weak(pairs: list[tuple[int, int]]) -> tuple[tuple[int, int], tuple[int, int]]:
    """Fewest and most cores with equally many environments for each."""
    found = [
        (few, many) for few in pairs for many in pairs if few[0] < many[0] and few[1] * many[0] == many[1] * few[0]
    ]
    return max(found, key=lambda both: both[1][0] / both[0][0], default=(pairs[0], pairs[0]))


STUDY = Study(
    name="tetris",
    title="PPO on full frames of Tetris: cores x environments, weak scaling",
    source=f"{TETRIS}: CPU study",
    engines=("local", "mpi"),
    cells=cells,
    report=report,
    needs=("tetris",),
    paper_notes=(HOURS,),
)
