"""Prioritised replay against uniform where the only reward is far away and rare: DQN on a cliff, DDPG on a line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from whorl.agents.off_policy.settings import ReplayConfig
from whorl.studies.contract import Cell, Report, Scale, Study, Table, probe
from whorl.studies.figures import Bars, Curves
from whorl.studies.findings import judge, side_by_side
from whorl.studies.priority_tasks import DISCOUNT, TASKS
from whorl.studies.published import EXARL
from whorl.studies.results import Results
from whorl.studies.stats import ratio
from whorl.types import Array

SIDES = {"uniform": False, "prioritised": True}
SEEDS: dict[Scale, int] = {"smoke": 2, "small": 10, "paper": 30}
FULL = {
    "dqn": {"size": 12, "filled": 12_000, "env_steps": 60_000, "gradient_steps": 20_000},
    "ddpg": {"size": 9, "filled": 20_000, "env_steps": 100_000, "gradient_steps": 5_000},
}
LITTLE = {
    "dqn": {"size": 8, "filled": 2_000, "env_steps": 8_000, "gradient_steps": 1_500},
    "ddpg": {"size": 4, "filled": 2_000, "env_steps": 8_000, "gradient_steps": 1_000},
}


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both sides of each seed on both tasks."""
    del engine  # runs under a loop of its own, in one process
    sizes = LITTLE if scale == "smoke" else FULL
    return [
        probe(
            "whorl.studies.priority_tasks:probe",
            {"agent": agent, "draws": side},
            seed,
            agent=agent,
            prioritised=prioritised,
            seed=seed,
            **sizes[agent],
        )
        for agent, task in TASKS.items()
        for seed in range(task.first_seed, task.first_seed + SEEDS[scale])
        for side, prioritised in SIDES.items()
    ]


def report(results: Results) -> Report:
    """Gradient steps until it is learnt."""
    findings, figures, rows = [], [], []
    groups: dict[str, list[float]] = {}
    for agent, of_agent in results.by("agent").items():
        sides = of_agent.by("draws")
        steps = {name: side.numbers("found.gradient_steps") for name, side in sides.items()}
        groups |= {f"{agent}, {name}": values for name, values in steps.items()}
        uniform, prioritised = (steps.get(name, []) for name in SIDES)
        found = ratio(uniform, prioritised) if uniform and prioritised else None
        ended = {name: sum(not one.values["found"]["learnt"] for one in side) for name, side in sides.items()}
        cut = ended.get("uniform", 0) > 0 and not ended.get("prioritised", 0)
        runs = ", ".join(f"{count} of {len(steps[name])} {name}" for name, count in ended.items())
        seen = f"Gradient steps: {side_by_side(steps)}; runs that ended before they had learnt: {runs}."
        if any(ended.values()):
            seen += " Those count with the steps they had" + (", so that the ratio is a lower bound." if cut else ".")
        finding = judge(
            f"prioritised_replay_helps_{agent}",
            f"Prioritised replay learns a rare reward sooner ({agent.upper()})",
            found,
            above=1.0,
            since="as many steps",
            unit="times fewer gradient steps" + (", or more" if cut else ""),
            published="prioritised replay sped DDPG up (no figure)" if agent == "ddpg" else "",
            seen=seen,
            because="Likely because the rows that matter are few, and prioritised draws find them.",
            otherwise="Likely uniform draws find the rare rows soon enough.",
        )
        findings.append(finding)
        for name, side in sides.items():
            learnt = sum(bool(one.values["found"]["learnt"]) for one in side)
            rows.append((agent, name, f"{np.median(steps[name]):,.0f}", f"{learnt} of {len(steps[name])}"))
        longest = max(of_agent.numbers("found.gradient_steps"), default=0.0)
        figures.append(
            Curves(
                name=f"learning-{agent}",
                title=f"{agent.upper()}: {TASKS[agent].axis}",
                caption=f"{finding.claim}: {finding.shown}; {finding.state}. A run ends when it has learnt, "
                "and keeps its last value here.",
                x="gradient steps",
                y=TASKS[agent].axis,
                groups={
                    name: [_to_the_end(one.values["found"], longest) for one in side] for name, side in sides.items()
                },
            )
        )
    bars = Bars(
        name="gradient-steps",
        title="Gradient steps until it is learnt",
        caption=f"{side_by_side(groups)}. Fewer is better; a run that did not learn counts with the steps it had.",
        x="agent, draws",
        y="gradient steps",
        groups=groups,
    )
    header = ("agent", "draws", "gradient steps, median", "learnt")
    return Report(findings, [bars, *figures], [Table("Gradient steps", header, rows)], _remarks(results.scale))


def _remarks(scale: Scale) -> list[str]:
    """What is alike on both sides, and what was settled on other seeds."""
    sizes = LITTLE if scale == "smoke" else FULL
    filled = ", ".join(f"{agent.upper()} after {size['filled']:,} environment steps" for agent, size in sizes.items())
    alphas = ", ".join(
        f"{task.settings.get('agent.replay.alpha', ReplayConfig.alpha):g} of {agent.upper()}"
        for agent, task in TASKS.items()
    )
    return [
        f"Behaviour is random throughout, and replays are filled before learning starts ({filled}): both sides have "
        "the same rows, and differ in nothing but what they draw of them.",
        f"Priorities count by their power alpha: {alphas}. Rewards are discounted by {DISCOUNT:g} a step.",
        f"DDPG's settings, alpha among them, were found on seeds below {TASKS['ddpg'].first_seed}: none of those that "
        "are used here was looked at then.",
    ]


def _to_the_end(found: Mapping[str, Any], longest: float) -> tuple[Array, Array]:
    """A run's curve, with its last value kept as far as the longest run goes: their mean covers all of it."""
    taken, measured = found["taken"], found["measured"]
    if taken[-1] >= longest:
        return np.array(taken, float), np.array(measured, float)
    return np.array([*taken, longest], float), np.array([*measured, measured[-1]], float)


STUDY = Study(
    name="priorities",
    title="Prioritised against uniform replay where rewards are sparse",
    source=f"{EXARL}: prioritised replay",
    engines=("inline",),
    cells=cells,
    report=report,
    timed=False,
)
