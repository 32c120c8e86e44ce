"""Whether an environment is still the one that a run was made for: the same spaces, and the same metrics of episodes.

A run directory keeps what its environment was, because an address or the name of a user's own class may come to stand
for another.
"""

from __future__ import annotations

import json
from pathlib import Path

from whorl.envs.spec_json import spec_from_json, spec_to_json
from whorl.errors import BadInputError
from whorl.runs.files import write_atomic
from whorl.types import EnvSpec


def keep_spaces(path: Path, spec: EnvSpec) -> None:
    """Write them down, once."""
    if not path.exists():
        write_atomic(path, json.dumps(spec_to_json(spec), indent=1).encode() + b"\n")


def check_kept_spaces(path: Path, found: EnvSpec) -> None:
    """Refuse another environment than the one whose spaces were kept here."""
    if not path.is_file():
        return
    try:
        kept = spec_from_json(json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadInputError(f"{path}: holds no spaces ({error}); restore it, or delete it to go on unchecked") from None
    if differs := difference(kept, found):
        raise BadInputError(f"{found.env_id}: has other spaces than the run in {path.parent}: {differs}")


def difference(expected: EnvSpec, got: EnvSpec) -> str:
    """What is expected and what is there, for people; empty where a run can go on with it."""
    if _rested_on(expected) == _rested_on(got):
        return ""
    return f"expected {_described(expected)}, got {_described(got)}"


def _rested_on(spec: EnvSpec) -> tuple[object, ...]:
    return spec.observation, spec.action, spec.episode_metrics


def _described(spec: EnvSpec) -> str:
    leaves = ", ".join(f"{leaf.name} {leaf.kind}{list(leaf.shape)}" for leaf in spec.observation)
    action = spec.action
    choices = list(action.nvec) if action.nvec else list(action.shape)
    metrics = f"; metrics {', '.join(spec.episode_metrics)}" if spec.episode_metrics else ""
    return f"({leaves}; {action.kind}{choices}{metrics})"
