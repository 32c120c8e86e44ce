"""Random against owned windows: how much is read twice, and what that costs in convergence.

At smoke and small scale everybody goes in rounds (``paced_window``), which is what the formula for random windows
assumes: L learners draw one of A windows each, while each window changes once. So the redundancy that is expected is
the formula's, to the digit. At paper scale actors and learners go at their own pace, as EXARL's did.

*redundancy*: as many actors as published, few and short trajectories: only draws are counted.
*convergence*: as many learners as actors, where random draws waste most, for long enough to learn.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, Training
from whorl.studies.figures import Curves, Lines
from whorl.studies.findings import Finding, judge
from whorl.studies.published import EXARL, NOTICEABLE_SHARE, WINDOW_ACTORS, redundant_share
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import difference, estimate

CHOICES = ("random", "owned")
Part = tuple[str, int, tuple[int, ...], int, int, int]
PARTS: dict[Scale, tuple[Part, ...]] = {
    "smoke": (("redundancy", 8, (2, 8), 1, 20, 4_000),),
    "small": (
        ("redundancy", WINDOW_ACTORS, (30, 60, 120), 10, 4, 36 * WINDOW_ACTORS * 4),
        ("convergence", 8, (8,), 5, 20, 100_000),
    ),
    "paper": (("redundancy", WINDOW_ACTORS, (1, 12, 30, 60, 120), 5, 20, 2_000_000),),
}
"""Name, actors, numbers of learners, seeds, rows of a trajectory, environment steps."""
FIRST_SEED: dict[Scale, int] = {"smoke": 1, "small": 101, "paper": 1}
"""The numbers of seeds and updates at `small` were settled when draws of seeds 1 to 3 were known: it uses others."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both choices with each number of learners."""
    found = []
    for part, actors, numbers, seeds, rows, steps in PARTS[scale]:
        for seed in range(FIRST_SEED[scale], FIRST_SEED[scale] + seeds):
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
                        "agent.rows": rows,
                    }
                    env = "whorl/Booster-v0" if scale == "paper" else "CartPole-v1"
                    labels = {"part": part, "choice": choice, "learners": learners, "actors": actors}
                    found.append(Training("impala", env, steps, options, settings).cell(labels, seed))
    return found


def redundant_percent(one: CellResult) -> float:
    """Of what learners read: how much another had read already."""
    again, once = (one.number(f"result.transitions.{name}") or 0.0 for name in ("reused", "used"))
    return 100 * again / max(1.0, again + once)


def _clash(random: Results, learners: int, actors: int) -> Finding:
    """Beside what the formula gives, and nothing else."""
    values = [redundant_percent(one) for one in random.where(learners=learners)]
    percent = 100 * redundant_share(learners, actors)
    return judge(
        f"random_windows_clash_at_{100 * learners / actors:.0f}_percent",
        f"Random windows clash as the formula says, with {learners} learners on {actors} actors",
        estimate(values) if values else None,
        equals=percent,
        unit="% read again",
        published=f"significant from {100 * NOTICEABLE_SHARE:.0f} % on (no figure); the formula gives {percent:.1f} %",
        because="Learners draw without knowing of each other.",
        otherwise="Learners that go at their own pace read at other times than the formula assumes."
        if random.scale == "paper"
        else "",
    )


def report(results: Results) -> Report:
    """Redundancy beside the formula, and returns."""
    counted = results.where(part="redundancy")
    learning = results.where(part="convergence") or counted
    redundancy = {
        choice: {learners: [redundant_percent(one) for one in group] for learners, group in side.by("learners").items()}
        for choice, side in counted.by("choice").items()
    }
    actors = max((int(one.cell.labels["actors"]) for one in counted), default=1)
    numbers = sorted({int(one.cell.labels["learners"]) for one in counted})
    theory = [(float(n), 100 * redundant_share(n, actors)) for n in range(1, max(numbers, default=1) + 1)]
    owned = counted.where(choice="owned").per_seed(redundant_percent)
    wasted = judge(
        "owned_windows_waste_nothing",
        "Owned windows waste nothing",
        estimate(owned) if owned else None,
        at_most=0.0,
        unit="% read again",
        published="no learner reads another's window, by their making",
        because="Every window has one reader, who waits for something new.",
        otherwise="A window was read by two learners, or twice by one: a fault of this implementation.",
    )
    random = counted.where(choice="random")
    clashes = [_clash(random, n, actors) for n in numbers if n in (actors * NOTICEABLE_SHARE, actors)]
    most = max((int(one.cell.labels["learners"]) for one in learning), default=1)
    few = max((int(one.cell.labels["actors"]) for one in learning), default=1)
    sides = {choice: learning.where(learners=most, choice=choice) for choice in CHOICES}
    finals = [sides[choice].numbers("result.return_mean") for choice in ("owned", "random")]
    converged = judge(
        "owned_windows_converge_faster",
        f"Owned windows converge faster ({most} learners on {few} actors)",
        difference(*finals) if all(finals) else None,
        above=0.0,
        unit="of return at the same environment steps, owned less random",
        published="owned windows converged faster (no figure)",
        because="A batch without repetitions holds more.",
        otherwise="What is read twice makes a batch smaller, and no worse; at this size that decides little.",
    )
    return Report(
        [wasted, *clashes, converged],
        [
            Lines(
                name="redundancy",
                title=f"What learners read that another had read, {actors} actors",
                caption=f"Owned windows: {wasted.shown}, {wasted.state}. "
                + " ".join(f"{one.claim}: {one.shown}, expected {one.expected}; {one.state}." for one in clashes),
                x="learners",
                y="read again (%)",
                groups=redundancy,
                theory={"formula for random windows": theory},
            ),
            Curves(
                name="returns",
                title=f"Convergence with {most} learners on {few} actors",
                caption=f"{converged.claim}: {converged.state} ({converged.shown}).",
                x="environment steps",
                y="mean return of 100 episodes",
                groups={choice: side.curves() for choice, side in sides.items()},
            ),
        ],
        [
            Table(
                f"Read again, by the formula 1 - (A/L)(1 - (1 - 1/A)^L), with A = {WINDOW_ACTORS} actors",
                ("learners L", "share"),
                [(str(n), f"{100 * redundant_share(n, WINDOW_ACTORS):.1f} %") for n in (1, 12, 30, 60, 120)],
            )
        ],
        []
        if results.scale == "paper"
        else [
            "Actors and learners go in rounds here, which is what the formula assumes; the workflow window of everyday "
            "use has nobody wait. What is read by nobody is overwritten, in either choice."
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
    machine=Machine(nodes=7),
    paper_engine="mpi",
)
