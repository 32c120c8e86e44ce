"""An environment registered with and without a vector form. Import it to register them: ``vector_envs:Vector-v0``."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from whorl.envs.registry import make_env


def make_vector(num_envs: int, autoreset_mode: Any = AutoresetMode.NEXT_STEP, **kwargs: Any) -> SyncVectorEnv:
    """Copies with seeds of their own."""
    return SyncVectorEnv(
        [partial(make_env, "whorl/IdentityBox-v0", kwargs)] * num_envs, autoreset_mode=AutoresetMode(autoreset_mode)
    )


gymnasium.register("Scalar-v0", "whorl.envs.library.exact:IdentityBox", disable_env_checker=True)
gymnasium.register(
    "Vector-v0",
    "whorl.envs.library.exact:IdentityBox",
    vector_entry_point="vector_envs:make_vector",
    disable_env_checker=True,
)
