"""The memory of agents with bounded actions. No torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from whorl.agents.contract import AgentSpec, MemorySize
from whorl.agents.off_policy.memory import transition_memory
from whorl.replay.memory import Memory
from whorl.types import EnvSpec


def memory_of(spec: Callable[[Any, EnvSpec], AgentSpec]) -> Callable[[Any, EnvSpec, MemorySize], Memory[Any]]:
    """How an agent with this spec makes its memory."""

    def memory(config: Any, env: EnvSpec, size: MemorySize) -> Memory[Any]:
        return transition_memory(config, env, spec(config, env), size)

    return memory
