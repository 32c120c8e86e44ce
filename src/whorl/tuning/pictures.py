"""A study as a picture: how it went on, which settings mattered, and which values did well together."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from whorl.errors import BadInputError
from whorl.runs.files import os_reason
from whorl.runs.plot import figure_class
from whorl.tuning.report import TrialSummary
from whorl.tuning.search import fixed_labels
from whorl.tuning.search_file import SearchFile
from whorl.tuning.spaces import Choices, Range, Space, label_of
from whorl.tuning.table import short_name

COLOURS = ("#2266cc", "#d9541e", "#2a9d5c", "#8e44ad", "#c9a227", "#17a2b8", "#c2185b", "#5d6d7e")
LEAST_FOR_IMPORTANCES = 4
"""Trials; with fewer a share means nothing."""


def draw_study(search: SearchFile, study: optuna.Study, trials: Sequence[TrialSummary], out: Path) -> Path:
    """History, importances and parallel coordinates, one below the other."""
    figure = figure_class()(figsize=(9.0, 10.0), dpi=150, layout="constrained")
    history, importances, parallel = figure.subplots(3, 1, height_ratios=[1.2, 0.35 + 0.2 * len(search.spaces), 1.6])
    groups = list(dict.fromkeys(trial.env for trial in trials))
    _history(history, search, trials, groups)
    _importances(importances, search, study, groups)
    _parallel(figure, parallel, search, [trial for trial in trials if trial.score is not None], groups)
    try:
        figure.savefig(out)
    except OSError as error:
        raise BadInputError(f"{out}: cannot write the picture: {os_reason(error)}") from error
    return out


def _history(axes: Any, search: SearchFile, trials: Sequence[TrialSummary], groups: Sequence[str]) -> None:
    """Every trial's score in order, and the best so far of each environment."""
    better = max if search.settings.goal == "maximise" else min
    for group, colour in zip(groups, _colours(groups), strict=True):
        done = [trial for trial in trials if trial.env == group and trial.score is not None]
        scores = [float(trial.score or 0.0) for trial in done]
        numbers = [trial.number for trial in done]
        axes.plot(numbers, scores, "o", color=colour, markersize=5, label=group if len(groups) > 1 else "done")
        best = [better(scores[: index + 1]) for index in range(len(scores))]
        axes.step(numbers, best, where="post", color=colour, linewidth=1.8, alpha=0.7)
    for state, marker in (("pruned", "|"), ("failed", "x")):
        numbers = [trial.number for trial in trials if trial.state == state]
        if numbers:  # at the bottom: they have no score
            bottom = axes.get_xaxis_transform()
            axes.plot(numbers, [0.03] * len(numbers), marker, color="#888888", label=state, transform=bottom)
    axes.set_title("Score of each trial, and the best so far", fontsize=12, fontweight="bold", loc="left")
    axes.set_xlabel("trial")
    axes.set_ylabel(f"{search.settings.metric} ({search.settings.score})")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(True, color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if len(axes.get_legend_handles_labels()[1]) > 1:
        axes.legend(frameon=False, fontsize=9)


def importances_of(search: SearchFile, study: optuna.Study, group: str) -> dict[str, float]:
    """By setting, the share of what made trials of one environment good; empty where there are too few."""
    trials = [
        trial
        for trial in study.get_trials(states=(TrialState.COMPLETE,))
        if search.group_of(fixed_labels(trial)) == group
    ]
    if len(trials) < LEAST_FOR_IMPORTANCES or len({trial.value for trial in trials}) < 2:
        return {}
    names = [name for name in search.spaces if name != "env.id"]
    alone = optuna.create_study(direction=study.direction)
    alone.add_trials(trials)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of an evaluator that may change
        evaluator = optuna.importance.PedAnovaImportanceEvaluator()
        return optuna.importance.get_param_importances(alone, evaluator=evaluator, params=names) if names else {}


def _importances(axes: Any, search: SearchFile, study: optuna.Study, groups: Sequence[str]) -> None:
    names = [name for name in search.spaces if name != "env.id"]
    found = {group: importances_of(search, study, group) for group in groups}
    known = [group for group in groups if found[group]]
    height = 0.8 / max(1, len(known))
    for index, group in enumerate(known):
        places = [row + index * height for row in range(len(names))]
        shares = [100 * found[group].get(name, 0.0) for name in names]
        colour = _colours(groups)[groups.index(group)]
        bars = axes.barh(places, shares, height=0.9 * height, color=colour, label=group)
        axes.bar_label(bars, fmt="%.0f %%", padding=3, fontsize=8)
    axes.set_yticks([row + 0.4 - height / 2 for row in range(len(names))], [short_name(name) for name in names])
    axes.invert_yaxis()
    axes.set_xlim(0, 1.15 * max((100 * share for shares in found.values() for share in shares.values()), default=100))
    axes.set_xlabel("share of what set the good trials apart (%)")
    axes.set_title("Which settings mattered", fontsize=12, fontweight="bold", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    if not known:
        axes.text(0.5, 0.5, "too few trials to tell", ha="center", transform=axes.transAxes, color="#777777")
        axes.set_yticks([])
    elif len(known) > 1:
        axes.legend(frameon=False, fontsize=9, loc="lower right")


def _parallel(figure: Any, axes: Any, search: SearchFile, done: Sequence[TrialSummary], groups: Sequence[str]) -> None:
    """A line for each trial through its values to its score; the better, the more coloured."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    names = list(search.spaces)
    sign = 1 if search.settings.goal == "maximise" else -1
    ranks = _ranks(done, groups, sign)
    colours = colormaps["viridis_r"]
    for trial in sorted(done, key=lambda trial: ranks[trial.number]):
        rank = ranks[trial.number]
        heights = [_height(search.spaces[name], trial.values[name]) for name in names] + [rank]
        axes.plot(range(len(heights)), heights, color=colours(rank), alpha=0.35 + 0.6 * rank, linewidth=1 + 1.4 * rank)
    for column, name in enumerate(names):
        axes.axvline(column, color="#555555", linewidth=0.8)
        for height, text in _ticks(search.spaces[name]):
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.0}
            axes.text(column - 0.02, height, text, ha="right", va="center", fontsize=8, color="#333333", bbox=box)
    axes.axvline(len(names), color="#555555", linewidth=0.8)
    axes.set_xlim(-0.35, len(names) + 0.05)
    axes.set_ylim(-0.05, 1.05)
    titles = [short_name(name).replace("_", "\n") for name in names]
    axes.set_xticks(range(len(names) + 1), [*titles, "rank of\nthe score"])
    axes.set_yticks([])
    axes.set_title("Which values did well together", fontsize=12, fontweight="bold", loc="left")
    axes.spines[["top", "right", "left", "bottom"]].set_visible(False)
    bar = figure.colorbar(ScalarMappable(Normalize(0, 1), colours), ax=axes, pad=0.01, aspect=30)
    bar.set_ticks([0, 1], labels=["worst", "best"])


def _ranks(done: Sequence[TrialSummary], groups: Sequence[str], sign: int) -> dict[int, float]:
    """From 0, the worst, to 1, the best of its environment. Ranks, since scores of environments have no common scale
    and a single failure would squeeze all others into one colour."""
    ranks = {}
    for group in groups:
        members = sorted((t for t in done if t.env == group), key=lambda trial: sign * float(trial.score or 0.0))
        for place, trial in enumerate(members):
            ranks[trial.number] = place / (len(members) - 1) if len(members) > 1 else 1.0
    return ranks


def _height(space: Space, value: Any) -> float:
    if isinstance(space, Choices):
        place = space.labels.index(label_of(value))
        return place / max(1, len(space.values) - 1)
    low, high, here = (math.log(x) if space.log else float(x) for x in (space.low, space.high, value))
    return (here - low) / (high - low)


def _ticks(space: Space) -> list[tuple[float, str]]:
    if isinstance(space, Choices):
        return [(_height(space, value), str(label_of(value))[:24]) for value in space.values]
    assert isinstance(space, Range)
    numbers = np.geomspace(space.low, space.high, 4) if space.log else np.linspace(space.low, space.high, 4)
    if space.whole:
        numbers = np.unique(np.round(numbers))
    return [(_height(space, number), f"{number:.3g}") for number in numbers]


def _colours(groups: Sequence[str]) -> list[str]:
    return [COLOURS[index % len(COLOURS)] for index in range(len(groups))]
