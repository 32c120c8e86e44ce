"""Which games there are: an id for each ROM of ale-py, known to Gymnasium when one is first asked for."""

from __future__ import annotations

import importlib
from importlib.util import find_spec

import gymnasium

from whorl.errors import MissingExtraError

NAMESPACE = "atari/"


def is_atari(env_id: str) -> bool:
    """Whether an id is meant to be one of ours."""
    return env_id.startswith(NAMESPACE)


def is_installed() -> bool:
    """Whether ale-py is here."""
    return find_spec("ale_py") is not None


def register(asked: str) -> None:
    """Make ``atari/...`` known to Gymnasium; again and again does no harm. ``asked`` is named where ale-py lacks."""
    try:
        roms = importlib.import_module("ale_py.roms")
    except ImportError as error:
        raise MissingExtraError(f"{asked} needs more packages: pip install 'whorl[atari]'") from error
    for rom in roms.get_all_rom_ids():
        env_id = f"{NAMESPACE}{rom.title().replace('_', '')}-v0"
        if env_id not in gymnasium.registry:
            gymnasium.register(
                env_id,
                entry_point="whorl.envs.atari.env:Atari",
                kwargs={"game": rom},
                disable_env_checker=True,
                order_enforce=False,
            )
