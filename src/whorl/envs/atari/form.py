"""The Atari games of an actor as a vector form: one call of ALE steps them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from whorl.config.schema import EnvConfig
from whorl.envs.atari.copies import Copies
from whorl.envs.door import ObservationDoor
from whorl.envs.registry import make_env
from whorl.types import Array, EnvSpec


class AtariForm:
    """``Copies`` whose observations go into Whorl's block: bit for bit those of single environments."""

    def __init__(self, config: EnvConfig, spec: EnvSpec, blocks: Sequence[Array]) -> None:
        (block,) = blocks
        env = make_env(config.id, config.kwargs)
        self.door = ObservationDoor(env.observation_space, config.id, config.max_observation_bytes)
        self.raised: dict[int, str] = {}
        settings = env.unwrapped.settings  # type: ignore[attr-defined]
        env.close()
        self._copies = Copies(settings, block, follows=spec.restore == "snapshot")

    @property
    def metrics(self) -> Array:
        """[copies, 2]: as in a single environment's ``info``."""
        return self._copies.metrics

    def restart(self, seeds: Mapping[int, int]) -> None:
        """New games in some copies."""
        self._copies.restart(seeds)

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """Step every copy; those in ``seeds`` begin an episode instead."""
        rewards, terminated, truncated = self._copies.step(actions, seeds)
        return rewards.tolist(), terminated, truncated

    def states(self) -> list[bytes]:
        """What was done on each console."""
        return self._copies.states()

    def bring_back(self, states: Mapping[int, bytes]) -> None:
        """Play these games again up to where they stood; the other copies must be reset."""
        self._copies.bring_back(states)

    def close(self) -> None:
        """End ALE's threads."""
        self._copies.close()
