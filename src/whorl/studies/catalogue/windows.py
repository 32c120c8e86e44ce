"""Random against owned windows: how much is read twice, and what that costs in convergence.

Actors show one trajectory for each version of the weights (``paced_window``), which is what the formula for random
windows assumes: L learners draw one of A windows each, while each window changes once. At paper scale they go at their
own pace.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Curves, Lines
from whorl.studies.findings import judge
from whorl.studies.published import EXARL, redundant_share
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import difference, estimate

CHOICES = ("random", "owned")
SIZES: dict[Scale, tuple[int, tuple[int, ...], int, int]] = {
    "smoke": (4, (2, 4), 1, 4_000),
    "small": (8, (1, 2, 4, 8), 5, 120_000),
    "paper": (120, (1, 12, 30, 60, 120), 5, 2_000_000),
}
"""Actors, numbers of learners, seeds, environment steps."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both choices with each number of learners."""
    actors, numbers, seeds, steps = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for learners in numbers:
            for choice in CHOICES:
                options = {
                    "workflow": "window" if scale == "paper" else "whorl.studies.paced_window:PACED",
                    "engine": engine,
                    "actors": actors,
                    "envs-per-actor": 1,
                    "learners": learners,
                }
                settings: dict[str, Any] = {
                    "workflow.choice": choice,
                    "workflow.trajectories_per_update": learners,
                    "agent.rows": 20,
                }
                env = "whorl/Booster-v0" if scale == "paper" else "CartPole-v1"
                training = Training("impala", env, steps, options, settings)
                found.append(training.cell({"choice": choice, "learners": learners, "actors": actors}, seed))
    return found


def redundant_percent(one: CellResult) -> float:
    """Of what learners read: how much another had read already."""
    again, once = (one.number(f"result.transitions.{name}") or 0.0 for name in ("reused", "used"))
    return 100 * again / max(1.0, again + once)


def report(results: Results) -> Report:
    """Redundancy beside the formula, and returns."""
    redundancy = {
        choice: {learners: [redundant_percent(one) for one in group] for learners, group in side.by("learners").items()}
        for choice, side in results.by("choice").items()
    }
    actors = max((int(one.cell.labels["actors"]) for one in results), default=1)
    numbers = sorted({int(one.cell.labels["learners"]) for one in results})
    most = max(numbers, default=1)
    theory = [(float(n), 100 * redundant_share(n, actors)) for n in range(1, most + 1)]
    owned = [value for values in redundancy.get("owned", {}).values() for value in values]
    random = redundancy.get("random", {}).get(most, [])
    finals = {
        choice: side.where(learners=most).numbers("result.return_mean") for choice, side in results.by("choice").items()
    }
    wasted = judge(
        "owned_windows_waste_nothing",
        "Owned windows waste nothing",
        estimate(owned) if owned else None,
        below=0.5,
        unit="% of what is read was read before",
        published="owned windows: none, by their making",
        because="Every window has one reader, who waits for something new.",
    )
    clash = judge(
        "random_windows_clash",
        f"Random windows are read twice, with {most} learners on {actors} actors",
        estimate(random) if random else None,
        above=50 * redundant_share(most, actors),
        unit="% of what is read was read before",
        published=f"noticeable from 25 % on; by the formula {100 * redundant_share(most, actors):.1f} % here",
        because="Learners draw without knowing of each other. Expected was half of what the formula says, at least.",
        otherwise="Learners read at other times than the formula assumes.",
    )
    sides = [finals.get(choice, []) for choice in ("owned", "random")]
    converged = judge(
        "owned_windows_converge_faster",
        "Owned windows converge faster",
        difference(*sides) if all(sides) else None,
        above=0.0,
        unit="of return, owned less random",
        published="owned windows converged faster",
        otherwise="What is read twice makes a batch smaller, and no worse; at this size that decides little.",
    )
    return Report(
        [wasted, clash, converged],
        [
            Lines(
                name="redundancy",
                title=f"What learners read that another had read, {actors} actors",
                caption=f"Owned windows: {wasted.shown}. Random ones clash as the formula says: {clash.state}.",
                x="learners",
                y="read again (%)",
                groups=redundancy,
                theory={"formula for random windows": theory},
            ),
            Curves(
                name="returns",
                title=f"Convergence with {most} learners on {actors} actors",
                caption=f"Owned windows converge faster: {converged.state} ({converged.shown}).",
                x="environment steps",
                y="mean return of 100 episodes",
                groups={choice: side.where(learners=most).curves() for choice, side in results.by("choice").items()},
            ),
        ],
        [
            Table(
                "Read again, by the formula, with 120 actors",
                ("learners", "share"),
                [(str(n), f"{100 * redundant_share(n, 120):.1f} %") for n in (1, 12, 30, 60, 120)],
            )
        ],
    )


STUDY = Study(
    name="windows",
    title="Random against owned windows: redundancy and convergence",
    source=f"{EXARL}: window selection",
    engines=("inline", "local", "mpi"),
    cells=cells,
    report=report,
    timed=False,
    machine="150 processes (--engine mpi)",
    paper_engine="mpi",
)
