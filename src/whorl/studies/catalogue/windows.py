"""Random against owned windows: how much is read twice, and what that costs in convergence.

At smoke and small scale everybody goes in rounds (``paced_window``), which is what the formula for random windows
assumes: L learners draw one of A windows each, while each window changes once. So the redundancy that is expected is
the formula's, to the digit. At paper scale actors and learners go at their own pace, as EXARL's did.

*redundancy*: as many actors as published, few and short trajectories: only draws are counted.
*convergence*: as many learners as actors, where random draws waste most, for long enough to learn.
*shipped*: the workflow ``window`` as anybody runs it, where nobody waits for a round.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, Training
from whorl.studies.curves import mean_returns
from whorl.studies.figures import Curves, Lines
from whorl.studies.findings import Finding, judge, side_by_side
from whorl.studies.published import (
    BOOSTER_EPISODE_STEPS,
    BOOSTER_EPISODES,
    EXARL,
    NOTICEABLE_SHARE,
    WINDOW_ACTORS,
    redundant_share,
)
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import difference, estimate

CHOICES = ("random", "owned")
PACED, SHIPPED = "whorl.studies.paced_window:PACED", "window"
Part = tuple[str, str, int, tuple[int, ...], range, int, int]
PARTS: dict[Scale, tuple[Part, ...]] = {
    "smoke": (
        ("redundancy", PACED, 8, (2, 8), range(1, 2), 20, 4_000),
        ("shipped", SHIPPED, 8, (8,), range(1, 2), 20, 4_000),
    ),
    "small": (
        ("redundancy", PACED, WINDOW_ACTORS, (30, 60, 120), range(101, 111), 4, 36 * WINDOW_ACTORS * 4),
        ("convergence", PACED, 8, (8,), range(301, 321), 20, 60_000),
        ("shipped", SHIPPED, 8, (8,), range(301, 311), 20, 30_000),
    ),
    "paper": (
        (
            "redundancy",
            SHIPPED,
            WINDOW_ACTORS,
            (1, 12, 30, 60, 120),
            range(1, 6),
            20,
            BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS,
        ),
    ),
}
"""Name, workflow, actors, numbers of learners, seeds, rows of a trajectory, environment steps."""
SETTLED = (
    "How many seeds and updates this scale takes was settled when the draws of seeds 1 to 3 and the returns of seeds "
    "101 to 105 were known: what is read twice is counted on seeds from 101 on, and returns are compared on seeds from "
    "301 on, so that each uses others than were looked at for it."
)
ACCESS = (
    "Published as well: owned windows changed access time little (no figure). It is not measured here: owned or "
    "random, a learner copies a window by the same call, and only the number of the window differs."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both choices with each number of learners."""
    found = []
    for part, workflow, actors, numbers, seeds, rows, steps in PARTS[scale]:
        for seed in seeds:
            for learners in numbers:
                for choice in CHOICES:
                    options = {
                        "workflow": workflow,
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


def _shipped(shipped: Results) -> list[Finding]:
    """The workflow of everyday use: what is read twice there."""
    if not shipped and shipped.scale == "paper":
        return []
    sides = {choice: shipped.where(choice=choice) for choice in CHOICES}
    wasted = {choice: side.per_seed(redundant_percent) for choice, side in sides.items()}
    return [
        judge(
            "owned_windows_of_the_workflow_waste_less",
            "Owned windows waste less than random ones in the workflow as shipped, where nobody waits for a round",
            difference(wasted["owned"], wasted["random"]) if all(wasted.values()) else None,
            below=0.0,
            since="as much",
            unit="percentage points read again, owned less random",
            published="no learner reads another's window, by their making",
            seen=f"Read again, %: {side_by_side(wasted)}.",
            otherwise="Likely actors are so much faster than learners that there is something new in every window.",
        ),
    ]


def _clash(random: Results, learners: int, actors: int) -> Finding:
    """Beside what the formula gives, and nothing else."""
    values = [redundant_percent(one) for one in random.where(learners=learners)]
    percent = 100 * redundant_share(learners, actors)
    return judge(
        f"random_windows_clash_at_{100 * learners / actors:.0f}_percent",
        f"Random windows clash as the formula says, with {learners} learners on {actors} actors",
        estimate(values) if values else None,
        equals=percent,
        within=percent / 5,
        since="the formula, for rounds; an interval that reaches farther than a fifth from it is too wide to tell, "
        "by a convention",
        unit="% read again",
        published=f"significant from {100 * NOTICEABLE_SHARE:.0f} % on (no figure); the formula gives {percent:.1f} %",
        because="Learners draw without knowing of each other.",
        otherwise="Likely learners that go at their own pace read at other times than the formula assumes."
        if random.scale == "paper"
        else "Likely not everybody went in rounds, which is what the formula assumes.",
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
        since="by their making",
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
    means = mean_returns(sides)
    converged = judge(
        "owned_windows_converge_faster",
        f"Owned windows converge faster ({most} learners on {few} actors)",
        difference(means["owned"], means["random"]) if all(means.values()) else None,
        above=0.0,
        since="as fast",
        unit="of mean return over the run, owned less random",
        published="owned windows converged faster (no figure)",
        seen=f"Mean return over the run: {side_by_side(means)}.",
        because="A batch without repetitions likely holds more.",
        otherwise="What is read twice makes a batch smaller, and likely no worse.",
    )
    everyday = _shipped(results.where(part="shipped"))
    return Report(
        [wasted, *clashes, converged, *everyday],
        [
            Lines(
                name="redundancy",
                title=f"What learners read that another had read, {actors} actors",
                caption=f"Owned windows: {wasted.shown}, {wasted.state}. "
                + " ".join(f"{one.claim}: {one.shown}, expected {one.expected}; {one.state}." for one in clashes),
                x="learners",
                y="read again (%)",
                from_zero=True,
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
            *_shipped_table(results.where(part="shipped")),
            Table(
                f"Read again, by the formula 1 - (A/L)(1 - (1 - 1/A)^L), with A = {WINDOW_ACTORS} actors",
                ("learners L", "share"),
                [(str(n), f"{100 * redundant_share(n, WINDOW_ACTORS):.1f} %") for n in (1, 12, 30, 60, 120)],
            ),
        ],
        [ACCESS]
        if results.scale == "paper"
        else [
            ACCESS,
            "Redundancy and convergence are measured with actors and learners that go in rounds, which is what the "
            "formula assumes; the workflow window of everyday use has nobody wait, and is measured apart. "
            "On inline its roles take turns. What is read by nobody is overwritten, in either choice.",
            *([SETTLED] if results.scale == "small" else []),
        ],
    )


def _shipped_table(shipped: Results) -> list[Table]:
    rows = [
        (choice, f"{estimate(again).value:.1f} %")
        for choice, side in shipped.by("choice").items()
        if (again := side.per_seed(redundant_percent))
    ]
    header = ("windows", "read again")
    return [Table("The workflow window as shipped, 8 learners on 8 actors", header, rows)] if rows else []


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
