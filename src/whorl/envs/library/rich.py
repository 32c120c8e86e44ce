"""Small environments with rich observations: Dict, Tuple, images."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Info, StepResult

_CAMERA = 8
_CELL = 4


class DictObservation(gymnasium.Env[Any, Any]):
    """A Dict of an image, a Tuple and bits; reward 1 for naming the hidden number, which each of them shows.

    ``camera`` is an 8x8 RGB image whose brightness tells it, ``pair`` is (vector, Discrete counted from 1), ``flags``
    are bits.

    length:  env steps per episode, which is also the best return
    """

    def __init__(self, length: int = 10) -> None:
        self.observation_space = spaces.Dict(
            camera=spaces.Box(0, 255, (_CAMERA, _CAMERA, 3), np.uint8),
            pair=spaces.Tuple((spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3, start=1))),
            flags=spaces.MultiBinary(3),
        )
        self.action_space = spaces.Discrete(3, start=1)
        self._length, self._left, self._number = length, length, 1

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Hide a first number."""
        super().reset(seed=seed, options=options)
        self._left = self._length
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """Reward the right number and hide another."""
        reward = float(action == self._number)
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> dict[str, Any]:
        self._number = int(self.np_random.integers(1, 4))
        camera = self.np_random.integers(0, 60, (_CAMERA, _CAMERA, 3), np.uint8) + np.uint8(60 * self._number)
        vector = np.array([self._number - 2, self.np_random.uniform(-1, 1)], np.float32)
        flags = np.array([self._number == number for number in (1, 2, 3)], np.int8)
        return {"camera": camera, "pair": (vector, np.int64(self._number)), "flags": flags}


class Image(gymnasium.Env[Any, Any]):
    """A bright square in one quarter of an image; reward 1 for naming the quarter. Learnable by a small CNN.

    size:    height and width (36 is the least that the Nature CNN takes)
    length:  env steps per episode, which is also the best return
    """

    def __init__(self, size: int = 36, length: int = 10) -> None:
        if size < 8:
            raise ValueError(f"size must be at least 8, not {size}")
        self.observation_space = spaces.Box(0, 255, (size, size, 1), np.uint8)
        self.action_space = spaces.Discrete(4)
        self._size, self._length, self._left, self._quarter = size, length, length, 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Show a first square."""
        super().reset(seed=seed, options=options)
        self._left = self._length
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """Reward the right quarter and show another."""
        reward = float(action == self._quarter)
        self._left -= 1
        return self._show(), reward, self._left == 0, False, {}

    def _show(self) -> Any:
        self._quarter = int(self.np_random.integers(4))
        half, side = self._size // 2, self._size // 4
        row, column = (half * part + int(self.np_random.integers(half - side)) for part in divmod(self._quarter, 2))
        image = np.zeros((self._size, self._size, 1), np.uint8)
        image[row : row + side, column : column + side] = 255
        return image


class Catch(gymnasium.Env[Any, Any]):
    """A ball falls through an image: move the paddle below it (left, stay, right); reward 1 if caught, else -1.

    The paddle is three cells wide.

    cells:  width and height of the field, and of the image in cells of 4 x 4 pixels; an episode has cells - 1 env steps
    """

    def __init__(self, cells: int = 10) -> None:
        if cells < 4:
            raise ValueError(f"cells must be at least 4, not {cells}")
        self.observation_space = spaces.Box(0, 255, (cells * _CELL, cells * _CELL, 1), np.uint8)
        self.action_space = spaces.Discrete(3)
        self._cells, self._row, self._ball, self._paddle = cells, 0, 0, 1

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """A ball in any column of the top row, the paddle in the middle of the bottom row."""
        super().reset(seed=seed, options=options)
        self._row, self._ball, self._paddle = 0, int(self.np_random.integers(self._cells)), self._cells // 2
        return self._show(), {}

    def step(self, action: Any) -> StepResult:
        """The ball falls by one row."""
        self._row += 1
        self._paddle = min(max(self._paddle + int(action) - 1, 1), self._cells - 2)
        landed = self._row == self._cells - 1
        reward = (1.0 if abs(self._paddle - self._ball) <= 1 else -1.0) if landed else 0.0
        return self._show(), reward, landed, False, {}

    def _show(self) -> Any:
        field = np.zeros((self._cells, self._cells), np.uint8)
        field[-1, self._paddle - 1 : self._paddle + 2] = 128
        field[self._row, self._ball] = 255
        return np.kron(field, np.ones((_CELL, _CELL), np.uint8))[..., None]
