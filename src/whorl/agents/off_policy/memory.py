"""Memories of agents with a replay, and their sizes. No torch: they may live in a process of their own."""

from __future__ import annotations

from whorl.agents.contract import AgentSpec, LearnerSettings, MemorySize
from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.errors import ConfigError
from whorl.replay.buffer import Replay
from whorl.types import EnvSpec


def stored_rows(rows: int, contiguous: bool) -> int:
    """Rows that a trajectory takes in a memory."""
    return rows if contiguous else rows + 1


def transition_memory(config: OffPolicyConfig, env: EnvSpec, spec: AgentSpec, size: MemorySize) -> Replay:
    """A memory of transitions."""
    return Replay(
        env,
        size.lanes,
        size.rows,
        n_step=config.n_step,
        discount=config.discount,
        alpha=config.replay.exponent,
        extra=spec.fields,
    )


def rows_per_lane(config: OffPolicyConfig, settings: LearnerSettings, tail: int) -> int:
    """Rows that each lane keeps. Refuses a replay too small for one trajectory and the ``tail`` rows behind it."""
    rows = config.replay.capacity // settings.lanes
    needed = stored_rows(config.rows, settings.contiguous) + tail + 1
    if rows < needed:
        raise ConfigError(
            f"agent.replay.capacity = {config.replay.capacity} leaves {rows} rows for each of {settings.lanes} "
            f"environments, and {needed} are needed: use a capacity of at least {needed * settings.lanes}"
        )
    return rows


def share_of_batch(config: OffPolicyConfig, settings: LearnerSettings) -> int:
    """Of the rows of every gradient step, those that each shard draws. Refuses a batch that cannot be cut evenly."""
    share, rest = divmod(config.batch_size, settings.shards)
    if rest or not share:
        nearest = settings.shards * max(1, share)
        raise ConfigError(
            f"agent.batch_size = {config.batch_size} cannot be drawn evenly from {settings.shards} shards: "
            f"use a multiple such as {nearest}"
        )
    return share
