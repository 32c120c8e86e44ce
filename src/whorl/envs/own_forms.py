"""Vector forms of our own, which need no probing: bit for bit what single copies do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from whorl.config.schema import EnvConfig
from whorl.types import Array

if TYPE_CHECKING:
    from whorl.envs.vector import VectorForm

_BOOSTERS = frozenset({"whorl/Booster-v0", "whorl/BoosterContinuous-v0"})


def find_own_form(config: EnvConfig) -> Callable[[Sequence[Array]], VectorForm] | None:
    """What makes the form, given the blocks that its observations go to; None where there is no form of our own."""
    from whorl.envs import cartpole

    if cartpole.applies(config):
        return cartpole.CartPoleForm
    if config.id in _BOOSTERS:
        from whorl.envs.library.booster.form import BoosterForm

        return partial(BoosterForm, config)
    return None
