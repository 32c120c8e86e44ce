"""A2C on data that is some updates old, with V-trace and without: what the correction is worth.

The workflow is ``async`` in one thread, so that a seed gives the same run each time; actors see every twelfth version
of the weights only, which makes the data 6 updates old on average and 13 at most. Both sides have the same settings.
"""

from __future__ import annotations

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import CARTPOLE_SOLVED, EXARL
from whorl.studies.results import Results
from whorl.studies.stats import difference

PUBLISH_EVERY = 12
SIDES = {"with V-trace": True, "without": False}
SOLVED = 475.0
SIZES: dict[Scale, tuple[range, int]] = {
    "smoke": (range(1, 3), 30_000),
    "small": (range(101, 131), 250_000),
    "paper": (range(1, 21), 500_000),
}
"""Seeds and environment steps."""
SETTLED = (
    "How many seeds this scale takes (101 to 130) was settled when the returns of seeds 1 to 10 were known, which left "
    "the finding undecided: none of those is used."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both sides of each seed, one after the other."""
    seeds, steps = SIZES[scale]
    found = []
    for seed in seeds:
        for name, corrected in SIDES.items():
            settings = {
                "workflow.publish_every": PUBLISH_EVERY,
                "workflow.accept_stale": True,
                "agent.learning_rate": 0.003,
                "agent.rows": 20,
                "agent.gae_lambda": 1.0,
                "agent.vtrace": corrected,
            }
            training = Training("a2c", "CartPole-v1", steps, {"workflow": "async", "engine": engine}, settings)
            found.append(training.cell({"side": name}, seed))
    return found


def _collapsed(uncorrected: Results | None) -> str:
    """How many runs lost half of their best again, or more."""
    runs = uncorrected.curves() if uncorrected else []
    count = sum(float(ys[-1]) < float(ys.max()) / 2 for _, ys in runs)
    return f"{count} of {len(runs)} uncorrected runs rise, then end below half of their best."


def report(results: Results) -> Report:
    """Final returns, and how they came about."""
    sides = results.by("side")
    finals = {name: side.numbers("result.return_mean") for name, side in sides.items()}
    corrected, plain = (finals.get(name, []) for name in SIDES)
    best = {name: [float(ys.max()) for _, ys in side.curves()] for name, side in sides.items()}
    seen = (
        f"Best return on the way: {side_by_side(best)}; at the end: {side_by_side(finals)}. "
        f"{_collapsed(sides.get('without'))}"
    )
    rescued = judge(
        "vtrace_rescues_stale_a2c",
        "V-trace rescues A2C from stale data",
        difference(corrected, plain) if corrected and plain else None,
        above=0.0,
        since="no better",
        unit="of return, with V-trace less without",
        published=f"A2C reached {CARTPOLE_SOLVED:.0f} on CartPole with the off-policy correction and not without",
        seen=seen,
        because="Likely because the policy that is improved is not the one that acted.",
        otherwise="Likely clipped ratios let less be learnt from a step, and this data is not old enough to need them.",
    )
    counts = [
        (name, f"{sum(value >= SOLVED for value in values)} of {len(values)}",
         f"{sum(value >= CARTPOLE_SOLVED for value in values)} of {len(values)}")
        for name, values in finals.items()
    ]  # fmt: skip
    staleness = results.numbers("result.staleness.mean")
    age = f"{sum(staleness) / len(staleness):.1f}" if staleness else "some"
    return Report(
        findings=[rescued],
        figures=[
            Curves(
                name="curves",
                title=f"A2C on CartPole-v1, data {age} updates old on average",
                caption=f"{rescued.claim}: {rescued.shown}; {rescued.state}. "
                "Thick: interquartile mean with its 95 % band.",
                x="environment steps",
                y="mean return of 100 episodes",
                groups={name: side.curves() for name, side in sides.items()},
            ),
            Bars(
                name="final-returns",
                title="Final returns",
                caption=f"Return at the end: {side_by_side(finals)}. The line is what EXARL's runs came to.",
                x="A2C",
                y="mean return of 100 episodes",
                groups=finals,
                published={"with V-trace": CARTPOLE_SOLVED},
            ),
        ],
        tables=[Table("Runs that ended well", ("", f"at {SOLVED:.0f} or more", f"at {CARTPOLE_SOLVED:.0f}"), counts)],
        remarks=[
            "EXARL's correction had no behaviour probabilities and no clipped ratios; this is V-trace as published by "
            "Espeholt et al. (2018). Its CartPole ended episodes at 200 steps, this one ends them at 500.",
            *([SETTLED] if results.scale == "small" else []),
        ],
    )


STUDY = Study(
    name="vtrace",
    title="What V-trace is worth to A2C on stale data",
    source=f"{EXARL}: off-policy correction",
    engines=("inline",),
    cells=cells,
    report=report,
    timed=False,
)
