"""Memories of agents with a replay. No torch: they may live in a process of their own."""

from __future__ import annotations

from whorl.agents.contract import AgentSpec, MemorySize
from whorl.agents.off_policy.settings import OffPolicyConfig
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
