"""Replay of transitions."""

from __future__ import annotations

from collections.abc import Sequence

from whorl.replay.memory import Drawn, Memory
from whorl.replay.rows import RowRing, Transitions
from whorl.types import EnvSpec, Field

Batch = Drawn[Transitions]
"""Drawn transitions, where they lie, and their importance weights."""


class Replay(Memory[Transitions]):
    """The last ``rows`` rows of some lanes, drawn as transitions over ``n_step`` steps."""

    def __init__(
        self,
        env: EnvSpec,
        lanes: int,
        rows: int,
        *,
        n_step: int = 1,
        discount: float = 0.99,
        alpha: float = 0.0,
        extra: Sequence[Field] = (),
    ) -> None:
        super().__init__(RowRing(env, lanes, rows, n_step, discount, extra), alpha)
