"""Learning curves of one or several runs as a picture."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whorl.errors import BadInputError, MissingExtraError
from whorl.runs.directory import RunDirectory
from whorl.runs.files import os_reason
from whorl.runs.metrics import read_metrics
from whorl.runs.status import one_line
from whorl.types import Array

_COLOURS = ("#2266cc", "#d9541e", "#2a9d5c", "#8e44ad", "#c9a227", "#17a2b8", "#c2185b", "#5d6d7e")
_GRID_POINTS = 400
_NOT_COMPARED = {"run.seed", "run.tensorboard", "run.checkpoint_every_s", "run.keep_checkpoints"}
_MOST_NAMED = 2
"""Groups are told apart by up to so many settings; beyond that by their directories."""


@dataclass(frozen=True)
class Curves:
    """The metrics of one run, and what it is called."""

    path: Path
    config: dict[str, Any]
    metrics: dict[str, Array]

    @property
    def title(self) -> str:
        """``ppo on CartPole-v1`` where the configuration says so, else the directory's name."""
        agent, env = _word(self.config, "agent", "name"), _word(self.config, "env", "id")
        return f"{agent} on {env}" if agent and env else self.path.name

    @property
    def group_key(self) -> str:
        """Equal for runs that differ by their seed alone (or by what is kept, which changes no curve)."""
        return json.dumps(self.settings, sort_keys=True, default=str) if self.config else str(self.path)

    @property
    def settings(self) -> dict[str, Any]:
        """By dotted name, without those in which runs of one group may differ."""
        return {name: value for name, value in _flat(self.config) if name not in _NOT_COMPARED}


@dataclass(frozen=True)
class Group:
    """Runs that differ by their seed alone: drawn as a mean with a band."""

    label: str
    members: tuple[Curves, ...]


def plot_runs(paths: Sequence[Path | str], out: Path | str) -> Path:
    """Draw return and speed over environment steps, one colour per run (or per group of seeds); returns the picture."""
    if not paths:
        raise BadInputError("nothing to plot: give at least one run directory")
    make_figure = figure_class()
    groups = group_runs([_read(Path(path)) for path in paths])
    figure = make_figure(figsize=(9.0, 6.0), dpi=150, layout="constrained")
    returns, speed = figure.subplots(2, 1, sharex=True, height_ratios=[2.6, 1])
    for index, group in enumerate(groups):
        colour = _COLOURS[index % len(_COLOURS)]
        _draw(returns, group, "return_mean", colour, raw=True)
        _draw(speed, group, "env_steps_per_s", colour, raw=False)
    _label(returns, speed, groups)
    out = Path(out)
    if out.is_dir():
        raise BadInputError(f"{out}: a directory; name a picture in it, such as {out / 'curve.png'}")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(out)
    except OSError as error:
        raise BadInputError(f"{out}: cannot write the picture: {os_reason(error)}") from error
    except ValueError as error:
        raise BadInputError(f"{out}: cannot draw this kind of picture: {one_line(str(error))}") from error
    return out


def group_runs(runs: Sequence[Curves]) -> list[Group]:
    """Put runs together that differ by their seed alone, in the order given; labels tell the groups apart."""
    found: dict[str, list[Curves]] = {}
    for run in runs:
        found.setdefault(run.group_key, []).append(run)
    firsts = [members[0] for members in found.values()]
    groups = []
    for members in found.values():
        label = members[0].title
        rivals = [run for run in firsts if run.title == label]
        if len(rivals) > 1:
            label += f" ({_distinction(members[0], rivals)})"
        if len(members) > 1:
            label += f", mean of {len(members)} seeds"
        groups.append(Group(one_line(label, 80), tuple(members)))
    return groups


def _distinction(run: Curves, rivals: Sequence[Curves]) -> str:
    """What sets a run apart from others of the same agent and environment."""
    names = dict.fromkeys(name for rival in rivals for name in rival.settings)
    differing = [name for name in names if len({repr(rival.settings.get(name)) for rival in rivals}) > 1]
    if not 0 < len(differing) <= _MOST_NAMED:
        return run.path.name
    return ", ".join(f"{name.rpartition('.')[2]} {run.settings.get(name, '-')}" for name in differing)


def smooth(values: Array, window: int) -> Array:
    """Centred mean over ``window`` values, shorter at both ends, so that nothing is shifted."""
    half = max(0, window // 2)
    sums = np.concatenate([[0.0], np.cumsum(values)])
    positions = np.arange(len(values))
    # Reach equally far to both sides: a one-sided mean would bend the ends.
    reach = np.minimum(half, np.minimum(positions, len(values) - 1 - positions))
    smoothed: Array = (sums[positions + reach + 1] - sums[positions - reach]) / (2 * reach + 1)
    return smoothed


def _draw(axes: Any, group: Group, name: str, colour: str, raw: bool) -> None:
    lines = [line for line in (_line(run.metrics, name) for run in group.members) if line is not None]
    if not lines:
        return
    smoothed = [(x, smooth(y, max(1, len(y) // 40))) for x, y in lines]
    if len(lines) == 1:
        (x, y), (_, mean) = lines[0], smoothed[0]
        if raw:
            axes.plot(x, y, color=colour, alpha=0.25, linewidth=0.9)
        axes.plot(x, mean, color=colour, linewidth=2.0, label=group.label)
        return
    # Only where every run has been: the mean must not jump when a shorter one ends.
    grid = np.linspace(max(x[0] for x, _ in lines), min(x[-1] for x, _ in lines), _GRID_POINTS)
    heights = np.stack([np.interp(grid, x, y) for x, y in smoothed])
    mean, deviation = heights.mean(axis=0), heights.std(axis=0)
    axes.fill_between(grid, mean - deviation, mean + deviation, color=colour, alpha=0.18, linewidth=0)
    if raw:
        for x, y in smoothed:
            axes.plot(x, y, color=colour, alpha=0.3, linewidth=0.7)
    axes.plot(grid, mean, color=colour, linewidth=2.0, label=group.label)


def _label(returns: Any, speed: Any, groups: Sequence[Group]) -> None:
    from matplotlib.ticker import EngFormatter, MaxNLocator

    single = len(groups) == 1
    returns.set_title(groups[0].label if single else "Learning curves", fontsize=13, fontweight="bold", loc="left")
    for line in speed.lines:
        line.set_linewidth(1.4)
    returns.set_ylabel("return (mean of 100 episodes)")
    speed.set_ylabel("env steps/s")
    speed.set_xlabel("environment steps")
    if speed.lines:
        speed.set_ylim(0, 1.1 * float(speed.dataLim.y1) or 1.0)
    speed.xaxis.set_major_formatter(EngFormatter(sep=""))
    speed.yaxis.set_major_formatter(EngFormatter(sep=""))
    speed.yaxis.set_major_locator(MaxNLocator(4))
    for axes in (returns, speed):
        axes.grid(True, color="#dddddd", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.margins(x=0.01)
    returns.set_xlim(left=0)
    if not returns.lines:
        returns.text(0.5, 0.5, "no episode has ended yet", ha="center", transform=returns.transAxes, color="#777777")
    elif not single:
        returns.legend(frameon=False, loc="best")


def _line(metrics: dict[str, Array], name: str) -> tuple[Array, Array] | None:
    """env_steps and the metric where it is known; None when it never is."""
    if name not in metrics or "env_steps" not in metrics:
        return None
    x, y = metrics["env_steps"].astype(np.float64), metrics[name].astype(np.float64)
    known = np.isfinite(x) & np.isfinite(y)
    return (x[known], y[known]) if known.any() else None


def _read(path: Path) -> Curves:
    directory = RunDirectory.open(path)
    try:
        config = tomllib.loads(directory.config.read_text())
    except (OSError, ValueError) as error:
        raise BadInputError(f"{directory.config}: cannot be read: {one_line(str(error))}") from error
    metrics = read_metrics(directory.metrics)
    if not metrics:
        raise BadInputError(f"{path}: has no metrics to plot yet")
    return Curves(path, config, metrics)


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _table(config: dict[str, Any], name: str) -> dict[str, Any]:
    table = config.get(name)
    return table if isinstance(table, dict) else {}


def _word(config: dict[str, Any], table: str, name: str) -> str:
    """``config[table][name]``, or ``config[table]`` itself where it is a word."""
    plain = config.get(table)
    return plain if isinstance(plain, str) else str(_table(config, table).get(name, ""))


def figure_class() -> Any:
    """Matplotlib's ``Figure``; ``MissingExtraError`` without it."""
    try:
        from matplotlib.figure import Figure  # not pyplot: no display, no global state
    except ImportError as error:
        raise MissingExtraError(
            "plotting needs matplotlib, which is not installed: pip install 'whorl[plot]'"
        ) from error
    return Figure
