"""``whorl/Tetris-v0`` and ``whorl/TetrisGrey-v0``."""

from __future__ import annotations

from collections import deque
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import one_of
from whorl.envs.library.tetris.emulator import BUTTONS, DOWN, FRAMES_PER_S, Console
from whorl.types import Array

HEIGHT, WIDTH = 240, 256

Info = dict[str, Any]


class Tetris(gymnasium.Env[Any, Any]):
    """Tetris of the NES, as frames of 240 x 256 in colour; nothing, two turns, right, left and down as actions.

    frame_skip:       frames of an action (of 60 a second). Its button is let go in the last one, so that the same
                      action again is another press; but for down, which stays held until the piece has landed: the
                      game gives points for rows that it was pushed down without a pause
    reward:           score (the game's points) or lines (cleared lines)
    penalise_height:  take away one for each row by which the pile grows
    grey:             small grey frames instead: the last ``stack`` of them, ``size`` x ``size`` each
    episode_metrics:  score and lines
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FRAMES_PER_S / 4}
    episode_metrics = ("score", "lines")

    def __init__(
        self,
        frame_skip: int = 4,
        reward: str = "score",
        penalise_height: bool = False,
        grey: bool = False,
        size: int = 84,
        stack: int = 4,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None:
            one_of("render_mode", render_mode, ("rgb_array",))
        self._frame_skip = _whole("frame_skip", frame_skip, 1, 60)
        size, stack = _whole("size", size, 8, HEIGHT), _whole("stack", stack, 1, 16)
        shape = (stack, size, size) if grey else (HEIGHT, WIDTH, 3)
        self._shrink = Shrinker(size) if grey else None
        self._frames: deque[Array] = deque(maxlen=stack)
        self.frame_stack, self.frame_stack_padding = stack if grey else 1, "reset"
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(len(BUTTONS))
        self.render_mode = render_mode
        self.metadata = {**self.metadata, "render_fps": max(1, round(FRAMES_PER_S / self._frame_skip))}
        self._console = Console(one_of("reward", reward, ("score", "lines")), bool(penalise_height))
        self._screen = np.zeros((HEIGHT, WIDTH, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Array, Info]:
        """A new game with other pieces."""
        super().reset(seed=seed, options=options)
        self._screen = self._console.reset(int(self.np_random.integers(2**32)))
        self._frames.clear()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[Array, float, bool, bool, Info]:
        """Some frames with one button."""
        total, over, buttons = 0.0, False, BUTTONS[int(action)]
        for frame in range(self._frame_skip):
            is_last = frame > 0 and frame == self._frame_skip - 1
            is_let_go = not self._console.is_falling if buttons == DOWN else is_last
            reward, over = self._console.press(0 if is_let_go else buttons)
            total += reward
            if over:
                break
        self._screen = self._console.frame()
        return self._observation(), total, over, False, self._console.told() if over else {}

    def render(self) -> Array:
        """The screen in colour."""
        return self._screen.copy()

    def close(self) -> None:
        """Free the emulator."""
        self._console.close()

    def _observation(self) -> Array:
        if self._shrink is None:
            return self._screen.copy()
        small = self._shrink(self._screen)
        missing = self.frame_stack - len(self._frames) if not self._frames else 1
        self._frames.extend([small] * missing)
        return np.stack(self._frames)


class TetrisGrey(Tetris):
    """Tetris of the NES, as the last four grey frames of 84 x 84; otherwise as whorl/Tetris-v0."""

    def __init__(self, grey: bool = True, **kwargs: Any) -> None:
        super().__init__(grey=grey, **kwargs)


class Shrinker:
    """A screen in colour to a small grey one: the mean of the pixels that fall on each. Whole numbers throughout, so
    that every machine sees the same."""

    def __init__(self, size: int) -> None:
        self._rows, self._columns = (np.arange(size) * side // size for side in (HEIGHT, WIDTH))
        heights = np.diff(self._rows, append=HEIGHT)
        widths = np.diff(self._columns, append=WIDTH)
        self._counts = 1000 * heights[:, None] * widths

    def __call__(self, screen: Array) -> Array:
        """[size, size] of uint8."""
        light = screen.astype(np.int64) @ np.array([299, 587, 114])
        sums = np.add.reduceat(np.add.reduceat(light, self._rows, axis=0), self._columns, axis=1)
        small: Array = (sums // self._counts).astype(np.uint8)
        return small


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ValueError(f"{name} must be a whole number from {low} to {high}, not {value!r}")
    return value
