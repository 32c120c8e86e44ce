"""The Booster's vector form: one numpy call for all lanes, each lane with its own generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.door import ObservationDoor
from whorl.envs.library.booster.replayed import make_copies
from whorl.envs.registry import make_env
from whorl.types import Array


class BoosterForm:
    """``Copies`` whose observations go into Whorl's block: bit for bit those of single environments."""

    def __init__(self, config: EnvConfig, blocks: Sequence[Array]) -> None:
        (self._block,) = blocks
        self.raised: dict[int, str] = {}
        env = make_env(config.id, config.kwargs)
        self._changes_of = env.unwrapped.changes_of  # type: ignore[attr-defined]
        self._copies = make_copies(env.unwrapped.settings, len(self._block))  # type: ignore[attr-defined]
        self.door = ObservationDoor(env.observation_space, config.id, config.max_observation_bytes)

    @property
    def metrics(self) -> Array:
        """[copies, 1]: the share of ticks so far within the tolerance, as in a single environment's ``info``."""
        return self._copies.converged[:, None]

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Reset some copies, each from the generator that Gymnasium would give it."""
        self._copies.restart({lane: np.random.Generator(np.random.PCG64(seed)) for lane, seed in seeds.items()})
        lanes = list(seeds)
        self._block[lanes] = self._copies.observation[lanes]

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """A tick of every copy; then reset those in ``seeds``."""
        rewards, terminated, truncated = self._copies.step(self._changes_of(actions))
        self._block[...] = self._copies.observation
        if seeds:
            self.restart(seeds)
        return rewards.tolist(), terminated, truncated

    def close(self) -> None:
        """Nothing to close."""
