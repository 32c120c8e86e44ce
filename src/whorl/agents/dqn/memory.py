"""The memory of DQN: transitions, or whole sequences for an LSTM. No torch."""

from __future__ import annotations

from typing import Any

from whorl.agents.contract import MemorySize
from whorl.agents.dqn.acting import spec
from whorl.agents.dqn.config import DQNConfig
from whorl.agents.off_policy.memory import stored_rows, transition_memory
from whorl.replay.memory import Memory
from whorl.replay.sequences import SequenceReplay
from whorl.types import EnvSpec


def memory(config: DQNConfig, env: EnvSpec, size: MemorySize) -> Memory[Any]:
    """What DQN learns from."""
    recurrent = config.network.core == "lstm"
    return sequence_memory(config, env, size) if recurrent else transition_memory(config, env, spec(config, env), size)


def sequence_memory(config: DQNConfig, env: EnvSpec, size: MemorySize) -> SequenceReplay:
    """A memory of sequences. Where trajectories follow on each other the burn-in rows are those before the learnt ones;
    else the first of the same trajectory."""
    return SequenceReplay(
        env,
        size.lanes,
        size.rows,
        length=stored_rows(config.rows, size.contiguous),
        lead=config.burn_in if size.contiguous else 0,
        tail=config.n_step,
        state=spec(config, env).state,
        alpha=config.replay.exponent,
    )
