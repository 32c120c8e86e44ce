"""What a user may have meant: the nearest name, also from another section or another library."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_ELSEWHERE = {
    "batch_size": "minibatches",
    "clip_coef": "clip",
    "clip_range": "clip",
    "ent_coef": "entropy_coefficient",
    "gamma": "discount",
    "lam": "gae_lambda",
    "n_envs": "envs_per_actor",
    "n_epochs": "epochs",
    "n_steps": "rows",
    "num_envs": "envs_per_actor",
    "num_steps": "rows",
    "num_workers": "actors",
    "total_timesteps": "steps",
    "update_epochs": "epochs",
    "vf_coef": "value_coefficient",
    "workers": "actors",
}
"""What other libraries call our settings."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, if any is like it."""
    by_folded = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(word.lower()[:100], by_folded, n=1, cutoff=0.6)
    return by_folded[matches[0]] if matches else None


def nearest_setting(name: str, known: Iterable[str]) -> str | None:
    """The dotted name most like this one: spelt alike, in another section, by initials, or by its name elsewhere."""
    names = list(known)
    *section, last = name.split(".")
    last = _ELSEWHERE.get(last.lower(), last)
    same_leaf = [candidate for candidate in names if candidate.rpartition(".")[2] == last]
    if same_leaf:
        return nearest(".".join([*section, last]), same_leaf) or same_leaf[0]
    if section and (match := nearest(".".join([*section, last]), names)):
        return match
    leaves = {candidate.rpartition(".")[2]: candidate for candidate in reversed(names)}
    if leaf := nearest(last, leaves):
        return leaves[leaf]
    initials = {"".join(word[0] for word in leaf.split("_")): full for leaf, full in leaves.items() if "_" in leaf}
    return initials.get(last.lower())


def did_you_mean(suggestion: str | None) -> str:
    """The end of a one-line message; empty without a suggestion."""
    return f"; did you mean {suggestion}?" if suggestion else ""
