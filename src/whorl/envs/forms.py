"""What a vector form is, and which one an environment has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

from whorl.config.schema import EnvConfig
from whorl.envs.atari.games import is_atari
from whorl.envs.door import ObservationDoor
from whorl.envs.lane import pack_snapshot, unpack_snapshot
from whorl.envs.remote.address import is_address
from whorl.types import Array, EnvSpec

BOOSTERS = ("whorl/Booster-v0", "whorl/BoosterContinuous-v0")


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


@runtime_checkable
class SavingForm(VectorForm, Protocol):
    """A form whose copies save themselves as single environments do: for those that bear on more than an episode."""

    def states(self) -> list[bytes]:
        """What ``get_state`` of single environments would give."""
        ...

    def bring_back(self, states: Mapping[int, bytes]) -> None:
        """Bring some copies to where they stood; the others must be reset."""
        ...


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
    if config.id in BOOSTERS:
        from whorl.envs.library.booster.form import BoosterForm

        return lambda _, blocks: BoosterForm(config, blocks)
    if is_atari(config.id):
        from whorl.envs.atari.form import AtariForm

        return partial(AtariForm, config)
    return None


def saved_states(form: VectorForm, spec: EnvSpec, steps: Array) -> list[bytes] | None:
    """Every copy's snapshot, with the steps of its episode; None of a form that does not tell."""
    if spec.restore != "snapshot" or not isinstance(form, SavingForm):
        return None
    return [pack_snapshot(count, state) for count, state in zip(steps.tolist(), form.states(), strict=True)]


def bring_back(form: VectorForm, spec: EnvSpec, snapshots: Mapping[int, bytes]) -> dict[int, int]:
    """The copies that came back from their snapshots, and the steps of their episodes."""
    if spec.restore != "snapshot" or not isinstance(form, SavingForm) or not snapshots:
        return {}
    saved = {index: unpack_snapshot(snapshot) for index, snapshot in snapshots.items()}
    form.bring_back({index: state for index, (_, state) in saved.items()})
    return {index: steps for index, (steps, _) in saved.items()}
