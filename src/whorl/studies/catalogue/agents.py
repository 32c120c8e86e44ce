"""Agents side by side on CartPole, the Booster and a continuous task: DQN, A2C, A3C, IMPALA, DDPG, TD3."""

from __future__ import annotations

from typing import Any

import numpy as np

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.curves import mean_returns
from whorl.studies.figures import Curves
from whorl.studies.findings import Finding, judge, plain_number, side_by_side
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
    "small": (10, dict(zip(TASKS, (60_000, 40_000, 30_000, 40_000), strict=True))),
    "paper": (10, dict.fromkeys(TASKS, PAPER_STEPS)),
}
"""Seeds, and environment steps by task."""
LONGER: dict[Scale, dict[str, dict[str, int]]] = {
    "smoke": {},
    "small": {
        "CartPole-v1": {"a2c": 200_000, "a3c": 200_000, "impala": 100_000},
        "whorl/Booster-v0": dict.fromkeys(("a2c", "a3c", "impala"), PAPER_STEPS),
    },
    "paper": {},
}
"""Of agents that take few gradient steps for each environment step: their presets are made for 250,000 to 1,500,000 of
them, DQN's for 100,000. Where two are compared, it is over the steps that both have."""
LAST = "over the run's last 100 episodes"
BOTH = "over the environment steps that both have"


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every agent on each task it can do, with its presets where there are any."""
    seeds, _ = SIZES[scale]
    return [
        Training(agent, env, _steps(scale, env, name), {"engine": engine}, settings).cell(
            {"env": env, "agent": name}, seed
        )
        for seed in range(1, seeds + 1)
        for env, agents in TASKS.items()
        for name, (agent, settings) in agents.items()
    ]


def _steps(scale: Scale, env: str, name: str) -> int:
    return LONGER[scale].get(env, {}).get(name, SIZES[scale][1][env])


def report(results: Results) -> Report:
    """Curves by task, and what was published about them."""
    cartpole = results.where(env="CartPole-v1").by("agent")
    booster = results.where(env="whorl/Booster-v0").by("agent")
    pendulum = results.where(env="Pendulum-v1").by("agent")
    solved = [_comes_to_200(name, cartpole.get(name)) for name in DISCRETE if name != "impala"]
    sides = {name: booster[name] for name in ("a2c", "dqn-lstm") if name in booster}
    means, more = mean_returns(sides), mean_returns(sides, "converged_mean")
    areas = [means.get(name, []) for name in ("a2c", "dqn-lstm")]
    shares = [[100 * share for share in more.get(name, [])] for name in ("a2c", "dqn-lstm")]
    few_updates = "Likely: A2C takes few gradient steps for each environment step, and LSTM DQN many."
    converged = judge(
        "a2c_converges_faster_than_lstm_dqn",
        "A2C converges faster than LSTM DQN on the Booster",
        _difference(*areas),
        above=0.0,
        since="as fast",
        unit=f"of mean return {BOTH}",
        published="slightly faster",
        seen=_beside(areas, "mean return"),
        otherwise=few_updates,
    )
    within = judge(
        "a2c_is_converged_more_often_than_lstm_dqn",
        f"A2C holds the magnet current within its tolerance more often than LSTM DQN, {BOTH}",
        _difference(*shares),
        above=0.0,
        since="as often",
        unit="percentage points of the ticks",
        published="slightly faster (of what it calls converged; no figure)",
        seen=_beside(shares, "% of ticks"),
        otherwise=few_updates,
    )
    ends = [_final(pendulum.get(name)) for name in ("td3", "ddpg")]
    matched = judge(
        "td3_matches_ddpg",
        f"TD3 is no worse than DDPG on Pendulum, {LAST}",
        _difference(*ends),
        above=-100.0,
        since="some 5 % of what lies between a random policy and a good one: a convention",
        unit="of return, TD3 less DDPG",
        published="TD3 matched DDPG (sync)",
        seen=_beside(ends, "return", ("TD3", "DDPG")),
        otherwise="Likely: TD3 lets its policy learn from every second update only, and is behind in so short a run.",
    )
    findings: list[Finding] = [*solved, converged, within, matched]
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
            (
                "CartPole-v1",
                f"Best mean return: {side_by_side({name: _best(group) for name, group in cartpole.items()})}.",
            ),
            (
                "whorl/Booster-v0",
                f"{converged.claim}: {converged.shown}, {converged.state}. "
                f"{within.claim}: {within.shown}, {within.state}.",
            ),
            ("Pendulum-v1", f"{matched.claim}: {matched.shown}, {matched.state}."),
            (
                "whorl/BoosterContinuous-v0",
                f"Mean return {LAST}: {side_by_side(held)}. 0 is best: less the magnet current's error.",
            ),
        )
    ]
    rows = []
    for (env, agent), group in results.by("env", "agent").items():
        converged_percent = [100 * share for share in group.numbers("metrics.converged_mean")]
        steps = group.numbers("result.env_steps")
        columns = (group.numbers("result.episodes"), _final(group), _best(group), converged_percent)
        shown = (f"{estimate(values).value:.1f}" if values else "-" for values in columns)
        rows.append((env, agent, f"{estimate(steps).value:,.0f}" if steps else "-", *shown))
    header = (
        *("environment", "agent", "environment steps", "episodes"),
        *("mean return at the end", "best mean return", "converged, %"),
    )
    note = (
        f"Mean returns at the end are {LAST}. Converged: ticks on which the magnet current is within a tolerance of "
        "its optimum, in the same episodes. Agents with unlike numbers of environment steps do not compare here."
    )
    table = Table("Interquartile means over seeds", header, rows, note)
    remarks = ["The Booster is a physics-based stand-in, as the original's records cannot be had here."]
    return Report(findings, figures, [table], remarks)


def _comes_to_200(name: str, group: Results | None) -> Finding:
    """On CartPole, as published or not: A2C and A3C do, DQN does not."""
    title, does = name.replace("-", " ").upper(), name in ("a2c", "a3c")
    best = _best(group)
    steps = max((xs[-1] for xs, _ in group.curves()), default=0.0) if group else 0.0
    shown = f"Of {len(best)} runs of {plain_number(steps)} steps {sum(x > CARTPOLE_SOLVED for x in best)} came to it."
    return judge(
        f"{name.replace('-', '_')}_{'comes_to' if does else 'stays_below'}_200_on_cartpole",
        f"{title} {'comes to' if does else 'stays below'} {CARTPOLE_SOLVED:.0f} on CartPole",
        estimate(best) if best else None,
        above=CARTPOLE_SOLVED if does else None,
        below=None if does else CARTPOLE_SOLVED,
        since="the document's mark",
        unit="best mean return",
        published="A2C and A3C came to 200 with the off-policy correction" if does else "DQN, MLP or LSTM, did not",
        seen=shown,
        because="Here data is fresh, and needs no correction." if name == "a2c" else "",
        otherwise="" if does else "Likely because stored transitions are what they should be (s, a, r, s').",
    )


def _beside(sides: list[list[float]], what: str, names: tuple[str, str] = ("A2C", "LSTM DQN")) -> str:
    return f"{what[0].upper()}{what[1:]}: {side_by_side(dict(zip(names, sides, strict=True)))}."


def _final(group: Results | None) -> list[float]:
    return group.numbers("result.return_mean") if group else []


def _best(group: Results | None) -> list[float]:
    return [float(np.max(ys)) for _, ys in group.curves()] if group else []


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
