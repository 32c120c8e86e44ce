"""What a vector form is, and which one an environment has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol

from whorl.config.schema import EnvConfig
from whorl.envs.atari.games import is_atari
from whorl.envs.door import ObservationDoor
from whorl.envs.remote.address import is_address
from whorl.types import Array, EnvSpec

_BOOSTERS = frozenset({"whorl/Booster-v0", "whorl/BoosterContinuous-v0"})


class VectorForm(Protocol):
    """Copies of one environment, each with its own seed, that one call steps. Observations go into ``blocks``."""

    door: ObservationDoor
    raised: dict[int, str]
    """The copies whose environment raised in the last call, and its words, for a form that can tell; their rows hold
    what they held, and they must be reset. A form that cannot tell raises instead."""

    @property
    def metrics(self) -> Array:
        """[copies, metrics]: what is told of the episodes that ended with the last step."""
        ...

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Reset the copies named, each with its seed, and leave the others alone."""
        ...

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """Step every copy, but reset those in ``seeds`` instead. Rewards, terminated, truncated; a reset copy's
        entries mean nothing."""
        ...

    def close(self) -> None: ...


def make_form(config: EnvConfig, spec: EnvSpec, blocks: Sequence[Array]) -> VectorForm:
    """Our own form where there is one, else Gymnasium's."""
    from whorl.envs import gym_vector

    own = find_own_form(config)
    if own is not None:
        return own(spec, blocks)
    return gym_vector.GymForm(gym_vector.make_vector_env(config, len(blocks[0])), config, spec, blocks)


def find_own_form(config: EnvConfig) -> Callable[[EnvSpec, Sequence[Array]], VectorForm] | None:
    """What makes a form of our own, which needs no probing: its copies do bit for bit what single ones do. It is given
    the blocks that observations go to."""
    from whorl.envs import cartpole

    if is_address(config.id):
        from whorl.envs.remote.form import RemoteForm

        return partial(RemoteForm, config)
    if cartpole.applies(config):
        return lambda _, blocks: cartpole.CartPoleForm(blocks)
    if config.id in _BOOSTERS:
        from whorl.envs.library.booster.form import BoosterForm

        return lambda _, blocks: BoosterForm(config, blocks)
    if is_atari(config.id):
        from whorl.envs.atari.form import AtariForm

        return lambda _, blocks: AtariForm(config, blocks)
    return None
