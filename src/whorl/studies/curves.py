"""Learning curves compared over the steps that all of them have, so that none is judged by a better part."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from whorl.studies.results import Results


def of_common_seeds(groups: Mapping[str, Results]) -> dict[str, Results]:
    """Of each group the cells of those seeds that all of them have a curve of, in the order of seeds."""
    curves = [
        {one.cell.seed: one for one in group if len(one.curve.get("return_mean", [])) > 1} for group in groups.values()
    ]
    common = sorted(set.intersection(*map(set, curves))) if curves else []
    return {
        name: Results(group.scale, group.engine, [known[seed] for seed in common])
        for (name, group), known in zip(groups.items(), curves, strict=True)
    }


def mean_returns(groups: Mapping[str, Results], of: str = "return_mean") -> dict[str, list[float]]:
    """The mean of each run's curve (of returns, or of another mean) over environment steps, from where the last of them
    all begins to where the first ends."""
    curves = {name: [one for one in group.curves(y=of) if len(one[0]) > 1] for name, group in groups.items()}
    every = [xs for few in curves.values() for xs, _ in few]
    if not every:
        return {name: [] for name in groups}
    first, last = max(xs[0] for xs in every), min(xs[-1] for xs in every)
    if last <= first:
        return {name: [] for name in groups}
    grid = np.linspace(first, last, 1000)
    return {name: [float(np.interp(grid, xs, ys).mean()) for xs, ys in few] for name, few in curves.items()}
