"""Two resource shapes compared on Qbert and SpaceInvaders: one dense node (shared memory), and several nodes that send
messages only."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

from whorl.studies.atari_rows import training_of
from whorl.studies.contract import Cell, Report, Scale, Study, Table
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import Finding, judge, side_by_side
from whorl.studies.published import RAY, TABLE_II, TABLE_II_CS, TABLE_II_RESULTS, TABLE_II_XC
from whorl.studies.results import Results
from whorl.studies.stats import estimate, ratio

GAMES = ("Qbert", "SpaceInvaders")
"""Figs. 6 and 7."""
SHAPES = ("one node", "messages only")
SIZES: dict[Scale, tuple[int, int, int, int, int]] = {
    "smoke": (1, 2, 3, 20, 480),
    "small": (3, 7, 1, 20, 3_500),
    "paper": (3, 7, 9, 111, 0),
}
"""Seeds, workers, environments of each, rows, environment steps: of three updates or more, to have a rate."""
EMULATED = "processes of one machine that send messages stand in for several nodes"
"""Below paper scale."""
_XC, _CS = (
    " and ".join(f"{one.minutes:.0f}" for one in TABLE_II_RESULTS if one.platform.startswith(name))
    for name in ("XC", "CS")
)
PUBLISHED_TIMES = (
    f"Published times (A2C and PPO) are shorter on {TABLE_II_XC.nodes} nodes, {_XC} min, than on the dense one, {_CS} "
    f"min, likely because those have {TABLE_II_XC.nodes} x {TABLE_II_XC.cpus} CPUs and this one {TABLE_II_CS.cpus}."
)
ONE_OF_XC = (
    "This job asks for the nodes of XC; cells of the shape 'one node' get one of them, and not the denser one of CS."
)
ON_ONE_MACHINE = (
    "Here both shapes have the same CPUs, those of one machine: 'messages only' are processes on it that share no "
    "memory, in place of nodes. So only what messages cost is left, and the ratio of rates is expected below 1."
)
BATCH = (
    "Published fragments are of 100 rows and batches of 7,000 environment steps, which 7 workers with 9 environments "
    "cannot fill evenly. An update takes one fragment of each environment here: those of 111 rows make batches of "
    "6,993."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both agents on both games and shapes."""
    seeds, workers, envs, rows, steps = SIZES[scale]
    found = []
    for seed, game, row, shape in product(range(1, seeds + 1), GAMES, TABLE_II, SHAPES):
        chosen = "local" if shape == "one node" else engine
        training = training_of(row, game, chosen)
        if scale != "paper":
            options = {"engine": chosen, "actors": workers, "envs-per-actor": envs, "cpus-per-actor": 1}
            training = replace(training, steps=steps, options=options, settings={})
        more: dict[str, Any] = {"engine.one_sided": "never"} if chosen == "mpi" else {}
        training = replace(training, settings={**training.settings, "agent.rows": rows, **more})
        labels = {"game": game, "agent": row.agent, "shape": shape}
        found.append(training.cell(labels, seed, "" if shape == "one node" else emulated(scale)))
    return found


def emulated(scale: Scale) -> str:
    """What stands in for nodes at a scale."""
    return "" if scale == "paper" else EMULATED


def report(results: Results) -> Report:
    """Rates and rewards of both shapes."""
    rates = {
        f"{agent}, {shape}": group.per_seed(lambda one: one.number("result.env_steps_per_s"))
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
            since="losing a fifth is more than little",
            unit="of the rate on one node, mean of the games",
            published="Qbert: "
            + "; ".join(f"{one.platform}: {one.minutes:.0f} min" for one in TABLE_II_RESULTS if one.agent == row.agent),
            because="A trajectory takes far longer to collect than to send.",
            otherwise=f"Likely: on {results.cores_shown}, whoever carries messages takes time from who learns.",
            emulated=emulated(results.scale),
        )
        for row in TABLE_II
    ]
    same = results.share_with_same_weights("game", "agent")
    equal = judge(
        "shapes_do_not_change_the_result",
        "Both shapes learn the same: the same weights, bit for bit",
        estimate(same) if same else None,
        above=0.99,
        since="all of them, as sync is exact",
        unit="of the agents and games",
        published="Qbert: rewards of 15,101 and 4,193 (A2C), 12,775 and 6,998 (PPO)",
        because="In sync the result does not depend on where processes live; likely the published rewards differ by "
        "chance, or by settings that are not given.",
        otherwise="A run whose shape changes its result is not exact.",
        emulated=emulated(results.scale),
    )
    rows = [(one.platform, one.agent, f"{one.reward:,.0f}", f"{one.minutes:.1f} min") for one in TABLE_II_RESULTS]
    return Report(
        [*near, equal],
        [
            Bars(
                name="rates",
                title=f"{' and '.join(GAMES)}: rates on both shapes, mean of the games",
                caption="; ".join(f"{one.claim}: {one.shown}, {one.state}" for one in near) + ".",
                x="agent, shape",
                y="environment steps per second",
                groups=rates,
                emulated=emulated(results.scale),
            ),
            *(_returns(game, group, equal) for game, group in results.by("game").items()),
        ],
        [Table("Published: Qbert, 10 M steps", ("platform", "agent", "reward", "time"), rows)],
        [PUBLISHED_TIMES, *((ONE_OF_XC, BATCH) if results.scale == "paper" else (ON_ONE_MACHINE,))],
    )


def _returns(game: str, group: Results, equal: Finding) -> Curves:
    sides = {f"{agent}, {shape}": side for (agent, shape), side in group.by("agent", "shape").items()}
    finals = {f"{name}:": side.numbers("result.return_mean") for name, side in sides.items()}
    short = "" if group.scale == "paper" else " Too short to learn."
    return Curves(
        name=f"returns-{game}",
        title=f"{game}: returns over time",
        caption=f"Return at the end: {side_by_side(finals)}.{short} {equal.claim}: {equal.state}.",
        x="seconds since the first process's start",
        y="mean return of 100 episodes",
        groups={name: side.curves("wall_s") for name, side in sides.items()},
        emulated=emulated(group.scale),
    )


STUDY = Study(
    name="platforms",
    title="Two resource shapes: one dense node, and messages between nodes",
    source=f"{RAY}: Table II, Figs. 6 and 7",
    engines=("mpi", "ray"),
    cells=cells,
    report=report,
    needs=("atari",),
    machine=TABLE_II_XC,
    paper_engine="ray",
    paper_notes=(
        f"Published with P100s: XC, {TABLE_II_XC.shown}, against CS, {TABLE_II_CS.shown}.",
        ONE_OF_XC,
        "For CS: whorl study platforms --scale paper --study-dir studies/platforms-cs --dry-run > cs.sh, then "
        f"sbatch --nodes {TABLE_II_CS.nodes} --cpus-per-task {TABLE_II_CS.cpus} --gpus-per-node {TABLE_II_CS.gpus} "
        "cs.sh; its shape 'one node' is that of CS. The published pair is that one and 'messages only' of this job.",
        "The GPU of each worker is set aside for it; actors compute on CPUs here.",
        BATCH,
    ),
)
