"""Print what the baselines reach: ``python -m whorl.envs.library.booster [--tune]``."""

from __future__ import annotations

import sys

from whorl.envs.library.booster.controllers import (
    ALPHAS,
    GAMMAS,
    TUNED_ALPHA,
    TUNED_GAMMA,
    Controller,
    FeedForward,
    Oracle,
    Regulator,
    Score,
    draw_lanes,
    regulate,
)
from whorl.envs.library.booster.copies import SETTLING_TICKS
from whorl.types import Array

_LANES, _TICKS = 500, 500


def main() -> None:
    """Baselines on 500 stretches of 500 ticks; ``--tune`` looks for the best alpha and gamma on others."""
    if "--tune" in sys.argv[1:]:
        drawn = draw_lanes(_LANES // 2, 2 * _TICKS, seed=1)
        found = [(_score(Regulator(a, g), drawn).error, a, g) for a in ALPHAS for g in GAMMAS]
        error, alpha, gamma = min(found)
        print(f"best: alpha {alpha}, gamma {gamma}, mean |IMINER| {error:.4f} A")
        return
    drawn = draw_lanes(_LANES, SETTLING_TICKS + _TICKS, seed=0)
    controllers: dict[str, Controller] = {
        "published regulator": Regulator(),
        "grid-tuned regulator": Regulator(TUNED_ALPHA, TUNED_GAMMA),
        "feed-forward": FeedForward(),
        "oracle": Oracle(drawn),
    }
    print(f"{'controller':<22}{'mean |IMINER|':>14}{'per 100 ticks':>18}{'within 0.1 A':>14}")
    for name, controller in controllers.items():
        score = _score(controller, drawn)
        returns = f"{score.per_100_ticks:.2f} +- {score.spread:.2f}"
        print(f"{name:<22}{score.error:>12.4f} A{returns:>18}{score.converged:>14.1%}")


def _score(controller: Controller, drawn: Array) -> Score:
    errors, _ = regulate(controller, drawn)
    return Score.of(errors[:, SETTLING_TICKS:])


if __name__ == "__main__":
    main()
