"""What an agent with a replay stores and sends, and what of it is refused. No torch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from whorl.agents.contract import AgentSpec, Draws
from whorl.agents.off_policy.memory import least_rows
from whorl.agents.off_policy.parameters import ParameterPlan
from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.errors import ConfigError
from whorl.replay.frames import as_they_are, lead_rows_of
from whorl.replay.rows import row_layout
from whorl.types import EnvSpec, Field, Layout

SUMS_WIDTH = 8
"""Numbers that a step sums beside its gradient: the number of rows, then whatever the phase measures."""


def build_spec(
    config: OffPolicyConfig,
    env: EnvSpec,
    plan: ParameterPlan,
    *,
    noise_width: int,
    acting: Literal["numpy", "torch"],
    fields: tuple[Field, ...] = (),
    state: tuple[Field, ...] = (),
    lead_rows: int = 0,
    exploration: str = "",
) -> AgentSpec:
    """The spec of an agent with a replay. Refuses replays that cannot work."""
    _check_batch(config)
    stored = _as_stored(config, env)
    return AgentSpec(
        fields=fields,
        state=state,
        weights=plan.weights,
        contribution=Layout((Field("gradient", (plan.size,), "float32"), Field("sums", (SUMS_WIDTH,), "float64"))),
        noise_width=noise_width,
        rows=config.rows,
        lead_rows=lead_rows,
        staleness="any",
        replay="prioritised" if config.replay.prioritised else "uniform",
        draws=Draws(
            batch_size=config.batch_size,
            gradient_steps=config.gradient_steps,
            capacity=config.replay.capacity,
            learning_starts=config.learning_starts,
            n_step=config.n_step,
            least_rows=least_rows(config, stored, lead_rows, contiguous=True),
            least_rows_apart=least_rows(config, stored, lead_rows, contiguous=False),
        ),
        replay_bytes=replay_bytes(config, env, fields),
        replay_lead_rows=lead_rows_of(stored),
        discount=config.discount,
        acting=acting,
        exploration=exploration,
        priority_rows=(1 if config.network.core == "lstm" else config.rows) if config.replay.prioritised else 0,
        parameters=plan.everything,
    )


def replay_bytes(config: OffPolicyConfig, env: EnvSpec, extra: Sequence[Field] = ()) -> int:
    """The memory of a full replay: rows, the order they were stored in, and priorities with their tree."""
    capacity = config.replay.capacity
    rows = sum(field.size_bytes for field in row_layout(_as_stored(config, env), 1, capacity, extra).fields)
    return rows + capacity * (8 + (17 if config.replay.prioritised else 0))


def _as_stored(config: OffPolicyConfig, env: EnvSpec) -> EnvSpec:
    """Sequences hold whole stacks of frames."""
    return as_they_are(env) if config.network.core == "lstm" else env


def _check_batch(config: OffPolicyConfig) -> None:
    capacity = config.replay.capacity
    if config.batch_size > capacity:
        raise ConfigError(
            f"agent.batch_size = {config.batch_size} is more than the replay holds (agent.replay.capacity = "
            f"{capacity}): use a larger capacity or a batch of at most {capacity}"
        )
    if config.learning_starts > capacity:
        raise ConfigError(
            f"agent.learning_starts = {config.learning_starts} is more than the replay holds "
            f"(agent.replay.capacity = {capacity}): use a larger capacity or an earlier start"
        )
