"""Two resource shapes compared on Qbert: one dense node (shared memory) and several nodes (messages only)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from whorl.studies.atari_rows import training_of
from whorl.studies.contract import Cell, Report, Scale, Study, Table
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge
from whorl.studies.published import RAY, TABLE_II, TABLE_II_CS, TABLE_II_RESULTS, TABLE_II_XC
from whorl.studies.results import Results
from whorl.studies.stats import estimate, ratio

GAME = "Qbert"
SHAPES = ("one node", "messages only")
SIZES: dict[Scale, tuple[int, int, int, int, int]] = {
    "smoke": (1, 2, 3, 20, 480),
    "small": (3, 7, 9, 10, 5_040),
    "paper": (3, 7, 9, 100, 0),
}
"""Seeds, workers, environments of each, rows, environment steps."""
BATCH = (
    "Published batches are of 7,000 environment steps; 7 workers x 9 environments x 100 rows are 6,300, since an "
    "update takes one fragment of each worker here."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both agents on both shapes."""
    seeds, workers, envs, rows, steps = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for row in TABLE_II:
            for shape in SHAPES:
                chosen = "local" if shape == "one node" else engine
                training = training_of(row, GAME, chosen)
                more: dict[str, Any] = {"engine.one_sided": "never"} if chosen == "mpi" else {}
                if scale != "paper":
                    options = {"engine": chosen, "actors": workers, "envs-per-actor": envs, "cpus-per-actor": 1}
                    training = replace(training, steps=steps, options=options, settings={"agent.rows": rows})
                training = replace(training, settings={**training.settings, **more})
                found.append(training.cell({"agent": row.agent, "shape": shape}, seed))
    return found


def report(results: Results) -> Report:
    """Rates and rewards of both shapes."""
    rates = {
        f"{agent}, {shape}": group.numbers("result.env_steps_per_s")
        for (agent, shape), group in results.by("agent", "shape").items()
    }
    near = [
        judge(
            f"messages_cost_little_{row.agent}",
            f"{row.agent.upper()} with messages only keeps most of its rate",
            ratio(rates[f"{row.agent}, {SHAPES[1]}"], rates[f"{row.agent}, {SHAPES[0]}"])
            if all(rates.get(f"{row.agent}, {shape}") for shape in SHAPES)
            else None,
            above=0.8,
            unit="of the rate on one node",
            published="; ".join(
                f"{one.platform}: {one.minutes:.0f} min" for one in TABLE_II_RESULTS if one.agent == row.agent
            ),
            because="A trajectory takes far longer to collect than to send.",
            otherwise="On few cores, whoever carries messages takes time from who learns.",
        )
        for row in TABLE_II
    ]
    same = [
        sum(_is_one(pair) for pair in group.by("agent").values()) / len(group.by("agent"))
        for group in results.by("seed").values()
    ]
    equal = judge(
        "shapes_do_not_change_the_result",
        "Both shapes learn the same: the same weights, bit for bit",
        estimate(same) if same else None,
        above=0.99,
        unit="of the agents",
        published="rewards of 15,101 and 4,193 (A2C), 12,775 and 6,998 (PPO)",
        because="In sync the result does not depend on where processes live; the published rewards differ by chance "
        "or by settings that are not given.",
    )
    rows = [(one.platform, one.agent, f"{one.reward:,.0f}", f"{one.minutes:.1f} min") for one in TABLE_II_RESULTS]
    return Report(
        [*near, equal],
        [
            Bars(
                name="rates",
                title=f"{GAME}: rates on both shapes",
                caption="; ".join(f"{one.claim}: {one.shown}" for one in near) + ".",
                x="agent, shape",
                y="environment steps per second",
                groups=rates,
            ),
            Curves(
                name="returns",
                title="Returns over time",
                caption=f"{equal.claim}: {equal.state}.",
                x="seconds",
                y="mean return of 100 episodes",
                groups={
                    f"{agent}, {shape}": group.curves("wall_s")
                    for (agent, shape), group in results.by("agent", "shape").items()
                },
            ),
        ],
        [Table("Published: Qbert, 10 M steps", ("platform", "agent", "reward", "time"), rows)],
        [BATCH],
    )


def _is_one(runs: Results) -> bool:
    """All of them have come to the same weights."""
    return len({one.values.get("result", {}).get("weights_sha256") for one in runs}) == 1


STUDY = Study(
    name="platforms",
    title="Two resource shapes: one dense node, and messages between nodes",
    source=f"{RAY}: Table II, Fig. 6",
    engines=("mpi", "ray"),
    cells=cells,
    report=report,
    needs=("atari",),
    machine=TABLE_II_XC,
    paper_engine="ray",
    paper_notes=(
        f"Published with P100s: XC, {TABLE_II_XC.shown}, against CS, {TABLE_II_CS.shown}.",
        "This job asks for those of XC; cells of the shape 'one node' get one of them, and not the denser one of CS.",
        "The GPU of each worker is set aside for it; actors compute on CPUs here.",
        BATCH,
    ),
)
