"""The examples of CONTRIBUTING are complete: they run."""

import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from whorl.agents.contract import LearnerSettings, Progress
from whorl.types import ActionSpec, EnvSpec, ObservationLeaf

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()


def example(first_line: str) -> dict[str, Any]:
    (code,) = [code for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.S | re.M) if code.startswith(first_line)]
    module = sys.modules["contributing_example"] = ModuleType("contributing_example")
    exec(code, module.__dict__)
    return module.__dict__


def test_the_agent_learns_what_pays() -> None:
    """Action 1 pays 1, action 0 pays nothing; the result does not depend on the number of shards."""
    names = example("# lab/agents.py")
    leaf = ObservationLeaf("obs", "vector", (1,), "float32")
    env = EnvSpec("Pay-v0", (leaf,), ActionSpec("discrete", (), "int64", (2,)), "replay", False, 10)
    agent, config = names["AGENT"], names["ReinforceConfig"](rows=1)
    policy = agent.policy(config, env)
    lanes, weights = 8, []
    for shards in (1, 2):
        learning = agent.learning(config, env, LearnerSettings(1, "cpu", 1, False, shards, lanes))
        generator = np.random.default_rng(1)
        for update in range(200):
            observation = np.ones((2, lanes, 1), np.float32)
            views = learning.spec.weights.views(learning.weights())
            noise = generator.random((lanes, 1))
            acted = policy.act(views, {"obs": observation[0]}, {}, np.zeros(lanes, bool), noise)
            batch = {
                "obs/obs": observation,
                "action": acted.actions[None],
                "reward": acted.actions[None].astype(np.float32),
                "terminated": np.ones((1, lanes), bool),
                "truncated": np.zeros((1, lanes), bool),
                "valid": np.ones((2, lanes), bool),
            }
            cuts = np.split(np.arange(lanes), shards)
            learning.begin(
                {shard: {name: array[:, cut] for name, array in batch.items()} for shard, cut in enumerate(cuts)},
                Progress(update, update * lanes, 200 * lanes),
            )
            for step in learning.plan((1, update)):
                parts = [learning.spec.contribution.views(learning.contribute(step, s)) for s in range(shards)]
                total = learning.spec.contribution.allocate()
                for name, view in learning.spec.contribution.views(total).items():
                    view[:] = sum(part[name] for part in parts)
                learning.apply(step, total)
            assert learning.finish() == {"learnt_rows": lanes}
        weights.append(learning.save()["w"])
        views = learning.spec.weights.views(learning.weights())
        assert policy.act(views, {"obs": np.ones((1, 1))}, {}, np.zeros(1, bool), None).actions.tolist() == [1]
        assert names["probabilities"](views["w"], np.ones((1, 1)))[0, 1] > 0.9
    assert np.allclose(weights[0], weights[1])


def test_the_environment_steps_and_repeats() -> None:
    env = example("# lab/envs.py")["Drift"]()

    def returns() -> float:
        env.reset(seed=7)
        return sum(float(env.step(action)[1]) for action in (0, 1, 1, 0))

    assert returns() == returns()


def test_the_plan_is_wired() -> None:
    plan = example("# one counter")["plan"](3)
    plan.check()
    assert [str(role.id) for role in plan.roles] == ["counter-0", "adder-0"]
