"""Environments of our own under ``whorl/...``: the Booster, a heated plate, external programs, and ones to test and to
rehearse with.

They are registered with Gymnasium when one is first asked for, and never at import.
"""

from __future__ import annotations

import importlib

import gymnasium

_PLACE = "whorl.envs.library"

_ENTRIES = {
    "whorl/Slow-v0": "slow:Slow",
    "whorl/Identity-v0": "exact:Identity",
    "whorl/IdentityBox-v0": "exact:IdentityBox",
    "whorl/IdentityMulti-v0": "exact:IdentityMulti",
    "whorl/Chain-v0": "exact:Chain",
    "whorl/Reach-v0": "exact:Reach",
    "whorl/Cliff-v0": "exact:Cliff",
    "whorl/DelayedReward-v0": "exact:DelayedReward",
    "whorl/Recall-v0": "exact:Recall",
    "whorl/Dict-v0": "rich:DictObservation",
    "whorl/Image-v0": "rich:Image",
    "whorl/Catch-v0": "rich:Catch",
    "whorl/Endless-v0": "odd:Endless",
    "whorl/Empty-v0": "odd:Empty",
    "whorl/Booster-v0": "booster.env:Booster",
    "whorl/BoosterContinuous-v0": "booster.env:BoosterContinuous",
    "whorl/Heat-v0": "heat.env:Heat",
    "whorl/Tetris-v0": "tetris.env:Tetris",
    "whorl/TetrisGrey-v0": "tetris.env:TetrisGrey",
    "whorl/Process-v0": "process.env:Process",
    "whorl/Crash-v0": "faulty:Crash",
    "whorl/Hang-v0": "faulty:Hang",
    "whorl/NaN-v0": "faulty:NotFinite",
    "whorl/WrongShape-v0": "faulty:WrongShape",
    "whorl/Leak-v0": "leaking:Leak",
}


def register() -> None:
    """Make the ``whorl/...`` ids known to Gymnasium; again and again does no harm."""
    for env_id, entry in _ENTRIES.items():
        if env_id not in gymnasium.registry:
            gymnasium.register(env_id, entry_point=f"{_PLACE}.{entry}", disable_env_checker=True)


def catalogue() -> list[tuple[str, str]]:
    """Each id with the first line of its docstring."""
    entries = []
    for env_id, entry in _ENTRIES.items():
        module, _, name = entry.partition(":")
        documented = getattr(importlib.import_module(f"{_PLACE}.{module}"), name)
        entries.append((env_id, (documented.__doc__ or "").strip().splitlines()[0]))
    return entries
