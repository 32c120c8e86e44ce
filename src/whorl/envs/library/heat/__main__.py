"""Print what the baselines reach: ``python -m whorl.envs.library.heat [--tune]``."""

from __future__ import annotations

import sys
from collections.abc import Callable

from whorl.envs.library.heat.controllers import (
    GAINS,
    REACHES,
    Controller,
    FeedForward,
    Proportional,
    score,
)
from whorl.envs.library.heat.env import Heat

_EPISODES = 200


def main() -> None:
    """Baselines on 200 episodes; ``--tune`` looks for the best gains on others."""
    env = Heat()
    if "--tune" in sys.argv[1:]:
        _tune("proportional", Proportional, env)
        _tune("with feed-forward", lambda gain, reach: FeedForward(env, gain, reach), env)
        return
    controllers: dict[str, Controller | None] = {
        "heaters off": None,
        "proportional": Proportional(),
        "with feed-forward": FeedForward(env),
    }
    print(f"{'controller':<20}{'return':>18}{'final error':>14}")
    for name, controller in controllers.items():
        found_score = score(controller, _EPISODES, 0, env)
        returns_text = f"{found_score.returns:.2f} +- {found_score.spread:.2f}"
        print(f"{name:<20}{returns_text:>18}{found_score.final_error:>14.3f}")


def _tune(name: str, make: Callable[[float, float], Controller], env: Heat) -> None:
    found = [(score(make(gain, reach), 40, 1000, env).returns, gain, reach) for gain in GAINS for reach in REACHES]
    returns, gain, reach = max(found)
    print(f"{name}: gain {gain}, reach {reach}, return {returns:.2f}")


if __name__ == "__main__":
    main()
