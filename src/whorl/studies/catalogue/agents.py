"""Agents side by side on CartPole, the Booster and a continuous task: DQN, A2C, A3C, IMPALA, DDPG, TD3."""

from __future__ import annotations

from typing import Any

import numpy as np

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Curves
from whorl.studies.findings import Finding, judge, side_by_side
from whorl.studies.published import BOOSTER_EPISODE_STEPS, BOOSTER_EPISODES, CARTPOLE_SOLVED, EXARL
from whorl.studies.results import Results
from whorl.studies.stats import Estimate, difference, estimate

LSTM = {"agent.network.core": "lstm", "agent.gradient_steps": 4, "agent.batch_size": 16}
"""Fewer and smaller batches: each element of one is a sequence."""
DISCRETE: dict[str, tuple[str, dict[str, Any]]] = {
    "dqn": ("dqn", {}),
    "dqn-lstm": ("dqn", LSTM),
    "a2c": ("a2c", {}),
    "a3c": ("a3c", {}),
    "impala": ("impala", {}),
}
CONTINUOUS: dict[str, tuple[str, dict[str, Any]]] = {"ddpg": ("ddpg", {}), "td3": ("td3", {})}
TASKS = {
    "CartPole-v1": DISCRETE,
    "whorl/Booster-v0": DISCRETE,
    "Pendulum-v1": CONTINUOUS,
    "whorl/BoosterContinuous-v0": CONTINUOUS,
}
PAPER_STEPS = BOOSTER_EPISODES * BOOSTER_EPISODE_STEPS
SIZES: dict[Scale, tuple[int, dict[str, int]]] = {
    "smoke": (1, dict(zip(TASKS, (4_000, 4_000, 2_500, 2_500), strict=True))),
    "small": (3, dict(zip(TASKS, (60_000, 60_000, 15_000, 20_000), strict=True))),
    "paper": (10, dict.fromkeys(TASKS, PAPER_STEPS)),
}
"""Seeds, and environment steps by task."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every agent on each task it can do, with its presets where there are any."""
    seeds, steps = SIZES[scale]
    return [
        Training(agent, env, steps[env], {"engine": engine}, settings).cell({"env": env, "agent": name}, seed)
        for seed in range(1, seeds + 1)
        for env, agents in TASKS.items()
        for name, (agent, settings) in agents.items()
    ]


def report(results: Results) -> Report:
    """Curves by task, and what was published about them."""
    cartpole = results.where(env="CartPole-v1").by("agent")
    booster = results.where(env="whorl/Booster-v0").by("agent")
    pendulum = results.where(env="Pendulum-v1").by("agent")
    reached = judge(
        "dqn_reaches_200_on_cartpole",
        f"DQN comes to {CARTPOLE_SOLVED:.0f} on CartPole as well",
        _estimate(_best(cartpole.get("dqn"))),
        above=CARTPOLE_SOLVED,
        unit="best mean return",
        published="DQN (MLP or LSTM) did not come to 200; A2C and A3C did",
        because="Stored transitions are what they should be (s, a, r, s'), and actors act with the newest weights.",
        otherwise="Runs of this length are too short for DQN's preset.",
    )
    converged = judge(
        "a2c_converges_faster_than_lstm_dqn",
        "A2C converges faster than LSTM DQN on the Booster",
        _difference(_area(booster.get("a2c")), _area(booster.get("dqn-lstm"))),
        above=0.0,
        unit="of mean return over the run",
        published="slightly faster",
        otherwise="A2C's preset is made for 25 times as many environment steps.",
    )
    matched = judge(
        "td3_matches_ddpg",
        "TD3 is no worse than DDPG on Pendulum",
        _difference(_final(pendulum.get("td3")), _final(pendulum.get("ddpg"))),
        above=-100.0,
        unit="of return, TD3 less DDPG",
        published="TD3 matched DDPG (sync)",
    )
    findings: list[Finding] = [reached, converged, matched]
    held = {name: _final(group) for name, group in results.where(env="whorl/BoosterContinuous-v0").by("agent").items()}
    figures = [
        Curves(
            name=f"returns-{env.rpartition('/')[2]}",
            title=env,
            caption=caption,
            x="environment steps",
            y="mean return of 100 episodes",
            groups={name: group.curves() for name, group in results.where(env=env).by("agent").items()},
        )
        for env, caption in (
            ("CartPole-v1", f"{reached.claim}: {reached.shown}, {reached.state}."),
            ("whorl/Booster-v0", f"{converged.claim}: {converged.shown}, {converged.state}."),
            ("Pendulum-v1", f"{matched.claim}: {matched.shown}, {matched.state}."),
            (
                "whorl/BoosterContinuous-v0",
                f"Return at the end: {side_by_side(held)}. 0 is best: less the magnet current's error.",
            ),
        )
    ]
    rows = []
    for (env, agent), group in results.by("env", "agent").items():
        converged_percent = [100 * share for share in group.numbers("metrics.converged_mean")]
        columns = (_final(group), _best(group), converged_percent)
        rows.append((env, agent, *(f"{estimate(values).value:.1f}" if values else "-" for values in columns)))
    header = ("environment", "agent", "return at the end", "best return", "converged, %")
    note = (
        "Converged: ticks on which the magnet current is within a tolerance of its optimum, in the last 100 episodes."
    )
    table = Table("Interquartile means over seeds", header, rows, note)
    remarks = ["The Booster is a physics-based stand-in, as the original's records cannot be had here."]
    return Report(findings, figures, [table], remarks)


def _final(group: Results | None) -> list[float]:
    return group.numbers("result.return_mean") if group else []


def _best(group: Results | None) -> list[float]:
    return [float(np.max(ys)) for _, ys in group.curves()] if group else []


def _area(group: Results | None) -> list[float]:
    """Mean of the curve over environment steps."""
    curves = group.curves() if group else []
    return [float(np.trapezoid(ys, xs) / (xs[-1] - xs[0])) for xs, ys in curves if len(xs) > 1]


def _estimate(values: list[float]) -> Estimate | None:
    return estimate(values) if values else None


def _difference(first: list[float], second: list[float]) -> Estimate | None:
    return difference(first, second) if first and second else None


STUDY = Study(
    name="agents",
    title="DQN with and without LSTM, A2C, A3C, IMPALA, DDPG and TD3 side by side",
    source=f"{EXARL}: agents on CartPole, the Booster and continuous tasks",
    engines=("inline", "local"),
    cells=cells,
    report=report,
    timed=False,
)
