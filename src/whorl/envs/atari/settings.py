"""What may be chosen of a game. Everything but the threads changes what is played."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

MOST = 2**31 - 1
STEPS_PER_LOAD = 20_000
"""Steps that are played on a console, at least, before a new game is a reason to load it again. So many, because a load
takes as long as hundreds of steps; not more, because coming back takes playing them again."""
_MOST_HISTORY = 60_000
"""Bytes of a saved state that its way to the ledger has room for."""
_WHOLE_NUMBERS = {
    "noop_max": (0, 10_000),
    "frame_skip": (1, 100),
    "frame_stack": (1, 64),
    "size": (8, 1024),
    "max_frames": (1, MOST),
    "threads": (1, 1024),
}


@dataclass(frozen=True)
class Settings:
    """The usual preprocessing by default (Mnih et al. 2015), but for lives: a game is an episode."""

    game: str
    """Name of the ROM in ale-py: ``space_invaders``."""
    clip_rewards: bool = True
    """Rewards are -1, 0 or 1; the game's own score is still what is reported."""
    episodic_life: bool = False
    """The loss of a life ends an episode, and the next one goes on in the same game."""
    repeat_action_probability: float = 0.0
    """Sticky actions: how probably a frame repeats the action of the one before. Machado et al. (2018) propose 0.25."""
    full_action_space: bool = False
    """All 18 actions of the joystick instead of those that mean something in the game."""
    noop_max: int = 30
    """A game begins with 0 to so many frames without action, by its seed."""
    fire_reset: bool = True
    """Press fire to begin, in games that have it: once for a frame in a new game, for a step after a lost life."""
    frame_skip: int = 4
    """Frames that an action is held; an observation is the brighter of the last two, pixel by pixel."""
    frame_stack: int = 4
    """Frames in an observation, the newest last; zeros before an episode's first."""
    size: int = 84
    """Pixels of a frame each way, in grey."""
    max_frames: int = 108_000
    """A game is truncated here; 108,000 are half an hour of play."""
    threads: int = 1
    """Of ALE, for all consoles of one actor."""

    @property
    def longest_history(self) -> int:
        """Steps on one console, if a game as long as can be begins on it just before it is due to be loaded."""
        longest_game = self.max_frames // self.frame_skip + 2
        return STEPS_PER_LOAD + longest_game if self.may_follow else longest_game

    @property
    def may_follow(self) -> bool:
        """Whether games may follow each other on a console: the last episode's actions do not tell of those before, so
        that all of them must fit into a saved state."""
        return STEPS_PER_LOAD + self.max_frames // self.frame_skip + 2 <= _MOST_HISTORY

    @property
    def has_history(self) -> bool:
        """Whether a console's state is all that was done on it, and not the last episode's actions alone."""
        return self.episodic_life or self.may_follow

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), field.default)


def _check(name: str, value: Any, default: Any) -> None:
    least, most = _WHOLE_NUMBERS.get(name, (0, 0))
    kind, wanted = type(value), ""
    if isinstance(default, bool):
        wanted = "" if kind is bool else "true or false"
    elif isinstance(default, int):
        wanted = "" if kind is int and least <= value <= most else f"a whole number from {least} to {most}"
    elif isinstance(default, float):
        wanted = "" if kind in (int, float) and 0 <= value < 1 else "a number from 0 to below 1"
    if wanted:
        raise ValueError(f"{name} must be {wanted}, not {value!r}")
