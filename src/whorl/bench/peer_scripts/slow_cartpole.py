"""CartPole-v1 with slow steps, for peers in environments of their own: what ``whorl/Slow-v0`` is here."""

from __future__ import annotations

import math
import os
import time
from typing import Any

SLOW_SHARE = 0.1


def make_env(step_s: float, distribution: str, cv: float, tally: str | None = None) -> Any:
    """CartPole-v1 whose steps end at their own entry plus a drawn duration. Each adds a byte to the tally."""
    import gymnasium

    counter = os.open(tally, os.O_WRONLY | os.O_APPEND) if tally else None

    class Slow(gymnasium.Wrapper):
        """Sleeps."""

        def step(self, action: Any) -> Any:
            end = time.perf_counter() + self._draw()
            outcome = self.env.step(action)
            time.sleep(max(0.0, end - time.perf_counter()))
            if counter is not None:
                os.write(counter, b".")
            return outcome

        def _draw(self) -> float:
            draws = self.unwrapped.np_random
            if distribution == "lognormal":
                variance = math.log1p(cv * cv)
                return step_s * math.exp(math.sqrt(variance) * draws.standard_normal() - variance / 2)
            if distribution == "mixture":
                odds = math.sqrt((1 - SLOW_SHARE) / SLOW_SHARE)
                return step_s * (1 + cv * odds if draws.random() < SLOW_SHARE else 1 - cv / odds)
            return step_s

    return Slow(gymnasium.make("CartPole-v1"))
