"""What an actor says of its rows is what the learner would say, while the target network is still the online one."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from agent_batches import BOUNDED, IMAGE, PLACE, VECTOR, collect, env_spec, settings

from whorl.agents.contract import MemorySize, Progress
from whorl.agents.off_policy.settings import ReplayConfig
from whorl.agents.registry import get_agent
from whorl.models.config import NetworkConfig
from whorl.replay.memory import Drawn, Memory
from whorl.replay.rows import in_one_column, with_cut
from whorl.types import Array, Arrays

LANES = 3
PRIORITISED = ReplayConfig(capacity=4000, prioritised=True)
MLP = NetworkConfig(hidden=(16, 12), activation="relu")
LSTM = NetworkConfig(hidden=(12,), core="lstm", lstm_size=8)
CASES: dict[str, tuple[str, Any, NetworkConfig, dict[str, Any]]] = {
    "dqn": ("dqn", env_spec((VECTOR, PLACE)), MLP, {"n_step": 3}),
    "dueling dqn": ("dqn", env_spec((VECTOR, PLACE)), MLP, {"dueling": True}),
    "image dqn": ("dqn", env_spec((IMAGE, VECTOR)), NetworkConfig(image_features=16), {"dueling": True, "n_step": 2}),
    "lstm dqn": ("dqn", env_spec((VECTOR,)), LSTM, {"burn_in": 3, "n_step": 2}),
    "dueling lstm dqn": ("dqn", env_spec((VECTOR,)), LSTM, {"dueling": True}),
    "ddpg": ("ddpg", env_spec((VECTOR, PLACE), BOUNDED), MLP, {"n_step": 3}),
    "td3": ("td3", env_spec((VECTOR, PLACE), BOUNDED), MLP, {"target_noise": 0.0, "policy_delay": 1}),
    "sac": ("sac", env_spec((VECTOR, PLACE), BOUNDED), MLP, {"n_step": 2}),
}


class Everything:
    """Draws every stored place once, and keeps what the learner says of them."""

    def __init__(self, memory: Memory[Any], count: int) -> None:
        self._memory, self._count = memory, count
        self.errors: Array = np.zeros(count)

    def __len__(self) -> int:
        return self._count

    def draw(self, uniforms: Array, beta: float = 1.0) -> Drawn[Any]:
        indices = self._memory._order[: self._count]
        ones = np.ones(self._count, np.float32)
        return Drawn(self._memory.take(indices), ones, indices, np.zeros_like(indices))

    def set_priorities(self, indices: Array, generations: Array, errors: Array) -> int:
        self.errors = errors
        return 0


def made(case: str) -> tuple[Any, Everything, Arrays, Array]:
    """A learning half that has learnt from every row of a trajectory, what it says of them, the trajectory, and what an
    actor says of it."""
    name, env, network, more = CASES[case]
    agent = get_agent(name)
    places = LANES if network.core == "lstm" else 10 * LANES  # of 12 rows two only hold final observations
    config = agent.config(
        rows=12, gradient_steps=1, batch_size=places, learning_starts=0, replay=PRIORITISED, network=network, **more
    )
    learning = agent.learning(config, env, replace(settings(lanes=LANES), contiguous=False))
    trajectory = collect(agent.policy(config, env), learning.weights().copy(), env, LANES)
    memory = agent.memory(config, env, MemorySize(1, 400, contiguous=False))
    for _ in range(2):  # the second, so that there are rows behind the first
        memory.insert(in_one_column(with_cut(trajectory)))
    source = Everything(memory, places)
    learning.draw_from({0: source}, 1)
    learning.begin({}, Progress(0, 100, 1000))
    learning.contribute(next(iter(learning.plan((3, 0)))), 0)
    views = learning.spec.parameters.views(learning.everything().copy())
    return learning, source, trajectory, agent.postprocess(config, env)(views, trajectory)


@pytest.mark.parametrize("case", [case for case in CASES if case != "sac"])
def test_actor_and_learner_agree(case: str) -> None:
    learning, source, trajectory, ours = made(case)
    assert ours.shape == (learning.spec.priority_rows, LANES)
    stored = ours.T.reshape(-1) if len(ours) == 1 else ours.T[trajectory["valid"][:12].T]
    np.testing.assert_allclose(stored, source.errors, rtol=2e-4, atol=2e-5)
    assert (np.abs(ours) > 1e-3).any()


def test_rows_that_are_not_valid_have_none() -> None:
    _, _, trajectory, ours = made("dqn")
    assert not ours[~trajectory["valid"][:12]].any()
    assert (~trajectory["valid"][:12]).any()


def test_sac_comes_near_without_sampling() -> None:
    """The learner samples next actions: the two agree on average."""
    _, source, trajectory, ours = made("sac")
    stored = ours.T[trajectory["valid"][:12].T]
    assert abs(stored.mean() - source.errors.mean()) < 0.2 * source.errors.mean()


def test_light_agents_say_so_without_torch() -> None:
    """In a fresh interpreter: actors of small networks import no torch."""
    code = (
        "import sys; from whorl.agents.registry import get_agent; from whorl.types import *;"
        "env = EnvSpec('t', (ObservationLeaf('obs', 'vector', (5,), 'float32'),),"
        " ActionSpec('box', (1,), 'float32', (), (-1.0,), (1.0,)), 'replay', False, 100);"
        "a = get_agent('sac'); c = a.config(); a.postprocess(c, env);"
        "from whorl.agents.contract import MemorySize; a.memory(c, env, MemorySize(1, 100, False));"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
