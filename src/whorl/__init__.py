"""Scalable reinforcement learning for real environments.

    run = whorl.train("ppo", "CartPole-v1", steps=100_000, actors=4)

Names are imported when first used, so that ``import whorl`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from whorl.runs.run import Run
    from whorl.trainer import Trainer, load, train
    from whorl.tuning.study import Study, tune

__version__ = "0.1.0"

_HOMES = {
    "Run": "whorl.runs.run",
    "Study": "whorl.tuning.study",
    "Trainer": "whorl.trainer",
    "load": "whorl.trainer",
    "train": "whorl.trainer",
    "tune": "whorl.tuning.study",
}

__all__ = ["Run", "Study", "Trainer", "__version__", "load", "train", "tune"]


def __getattr__(name: str) -> Any:
    """Import a public name on first use and keep it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'whorl' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
