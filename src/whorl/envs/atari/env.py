"""One Atari console as a Gymnasium environment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.atari.copies import Copies
from whorl.envs.atari.settings import MOST, Settings

FRAMES_PER_S = 60
Info = dict[str, Any]


class Atari(gymnasium.Env[Any, Any]):
    """An Atari 2600 game; see ``Settings`` for what may be chosen.

    A game whose last step cost a life (with ``episodic_life``) goes on with the next reset. Any other reset loads the
    console, so that the seed decides about the game; but not one with ``options={"follow": True}`` after the end of a
    game: the next one then follows on the same console, which is much quicker. ``info`` holds ``lives`` and, but for
    such a step, ``episode_return`` and ``game_length``: score and steps of the game so far.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_S}
    episode_metrics = ("episode_return", "game_length")
    frame_stack_padding = "zero"
    get_state: Callable[[], bytes] | None = None
    """Where the last episode's actions do not tell all: a game goes on over several, or follows others."""
    set_state: Callable[[bytes], None] | None = None
    episode_options: Info = {"follow": True}
    """What Whorl resets it with, where its state can be saved."""

    def __init__(self, game: str, render_mode: str | None = None, **chosen: Any) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be rgb_array or none, not {render_mode!r}")
        self.settings = settings = Settings(game, **chosen)
        self.render_mode, self.frame_stack = render_mode, settings.frame_stack
        shape = (settings.frame_stack, settings.size, settings.size)
        self._row = np.zeros((1, *shape), np.uint8)
        self._copies = Copies(settings, self._row, filmed=render_mode is not None)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(self._copies.actions)
        self.metadata = {**self.metadata, "render_fps": FRAMES_PER_S / settings.frame_skip}
        if settings.has_history:
            self.get_state = lambda: self._copies.states()[0]
            self.set_state = lambda state: self._copies.bring_back({0: state})

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """A new game; or the next episode of the same one, after the loss of a life."""
        super().reset(seed=seed, options=options)
        if seed is None:
            seed = int(self.np_random.integers(MOST))
        if self._copies.between_lives[0] or ((options or {}).get("follow") and self._copies.game_over[0]):
            self._copies.step(np.zeros(1, np.int64), {0: seed})
        else:
            self._copies.restart({0: seed})
        return self._row[0].copy(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Hold an action for some frames."""
        if not self.action_space.contains(action):  # ALE would wait for ever
            raise ValueError(f"action must be from 0 to {self._copies.actions - 1}, not {action!r}")
        rewards, terminated, truncated = self._copies.step(np.array([action], np.int64), {})
        return self._row[0].copy(), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), self._info()

    def render(self) -> Any:
        """The screen in colour."""
        pictures = self._copies.pictures
        return None if pictures is None else pictures[0].copy()

    def close(self) -> None:
        """End ALE's threads."""
        self._copies.close()

    def _info(self) -> Info:
        told = {"lives": int(self._copies.lives[0])}
        if not self._copies.between_lives[0]:
            names = zip(self.episode_metrics, self._copies.metrics[0].tolist(), strict=True)
            told |= {name: int(value) for name, value in names}
        return told
