"""Memories of agents with a replay, and their sizes. No torch: they may live in a process of their own."""

from __future__ import annotations

from whorl.agents.contract import AgentSpec, Draws, MemorySize
from whorl.agents.off_policy.settings import OffPolicyConfig
from whorl.errors import ConfigError
from whorl.replay.buffer import Replay
from whorl.replay.frames import lead_rows_of
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


def least_rows(config: OffPolicyConfig, env: EnvSpec, burn_in: int, *, contiguous: bool) -> int:
    """Rows of a lane that a memory needs: for a trajectory, and for something to draw while the next one comes in."""
    length = stored_rows(config.rows, contiguous)
    if config.network.core == "lstm":
        lead = burn_in if contiguous else 0
        return length * -(-(lead + 2 * length + config.n_step) // length)
    lead = lead_rows_of(env)
    return (0 if contiguous else lead) + length + lead + config.n_step + 1


def check_draws(drawn: Draws, *, lanes: int, shards: int, contiguous: bool) -> None:
    """Refuse draws that cannot be cut evenly, and a memory too small to draw from."""
    share, rest = divmod(drawn.batch_size, shards)
    if rest or not share:
        raise ConfigError(
            f"agent.batch_size = {drawn.batch_size} cannot be drawn evenly from {shards} shards: "
            f"use a multiple such as {shards * max(1, share)}"
        )
    rows, needed = drawn.capacity // lanes, drawn.least_rows if contiguous else drawn.least_rows_apart
    if rows < needed:
        raise ConfigError(
            f"agent.replay.capacity = {drawn.capacity} leaves {rows} rows for each of {lanes} environments, and "
            f"{needed} are needed: use a capacity of at least {needed * lanes}"
        )
