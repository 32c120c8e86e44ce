"""What was changed in a run's config.toml between two sessions, as far as results depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from whorl.config.layers import Change, flat
from whorl.errors import ConfigError

FREE = frozenset(
    (
        *("engine", "env.hosting", "env.slow_step_s", "env.restore", "env.autoreset"),
        *("env.step_timeout_s", "env.max_observation_bytes"),
        *("resources.actors", "resources.actors_schedule", "resources.envs_per_actor", "resources.learners"),
        *("resources.cpus_per_actor", "resources.gpus_per_actor"),
        *("run.steps", "run.stop_return", "run.checkpoint_every_s", "run.keep_checkpoints"),
        *("run.tensorboard", "run.record_schedule", "run.stop_before_s"),
    )
)
"""Settings, and tables of settings, that may change at any time."""


def changes_that_matter(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """Settings that differ and decide the result. ``ConfigError`` where the run cannot go on with one at all.

    ``before`` is of a checkpoint; an old one holds no config and nothing is compared.
    """
    if not before:
        return []
    lanes_before, lanes_after = (
        table["resources"]["actors"] * table["resources"]["envs_per_actor"] for table in (before, after)
    )
    if lanes_before != lanes_after:
        raise ConfigError(
            f"the run has {lanes_before} environments and cannot go on with {lanes_after}: put actors and "
            "envs_per_actor in its config.toml back"
        )
    old, new = dict(flat("", dict(before))), dict(flat("", dict(after)))
    return [
        Change(name, old[name], new[name])
        for name in old
        if name in new and old[name] != new[name] and not _is_free(name)
    ]


def _is_free(name: str) -> bool:
    parts = name.split(".")
    return any(".".join(parts[:end]) in FREE for end in range(1, len(parts) + 1))
