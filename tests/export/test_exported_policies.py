"""Every kind of policy, exported to every format, says what the policy itself says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from whorl.cli.main import main
from whorl.errors import BadInputError, WhorlError
from whorl.export import Target, export_policy
from whorl.models.acting import acting_forward
from whorl.models.exported import GreedyPolicy
from whorl.models.heads import head_for
from whorl.policy import TrainedPolicy
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords
from whorl.trainer import load_policy
from whorl.types import ActionSpec

NORMALISED = {"agent.normalise_observations": True}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
AGENTS = {"dqn": "dqn", "dqn lstm": "dqn", "impala": "impala", "sac": "sac", "td3": "td3", "ddpg": "ddpg"}
"""Of the kinds that are not PPO's."""
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "categorical": ("CartPole-v1", NORMALISED),
    "relu": ("CartPole-v1", {"agent.network.activation": "relu"}),
    "gaussian": ("Pendulum-v1", NORMALISED),
    "multi-discrete": ("whorl/IdentityMulti-v0", {}),
    "discrete observation": ("whorl/Identity-v0", {}),
    "dict": ("whorl/Dict-v0", {"agent.network.image_features": 16, **NORMALISED}),
    "image": ("whorl/Image-v0", {"agent.network.image_features": 16}),
    "lstm": ("whorl/Recall-v0", LSTM),
    "gaussian lstm": ("Pendulum-v1", {**LSTM, **NORMALISED}),
    "dqn": ("CartPole-v1", {}),
    "dqn lstm": ("CartPole-v1", LSTM),
    "impala": ("CartPole-v1", {}),
    "sac": ("Pendulum-v1", {}),
    "td3": ("Pendulum-v1", {}),
    "ddpg": ("Pendulum-v1", {"agent.noise.kind": "ou"}),
    "dict lstm": ("whorl/Dict-v0", {"agent.network.image_features": 16, **LSTM}),
}
SHAPES = {
    "categorical": (["obs float32 [batch, 4]"], ["action int64 [batch]", "logits float32 [batch, 2]"]),
    "gaussian": (["obs float32 [batch, 3]"], ["action float32 [batch, 1]", "mean float32 [batch, 1]"]),
    "multi-discrete": (["obs float32 [batch, 3]"], ["action int64 [batch, 3]", "logits float32 [batch, 9]"]),
    "dict": (
        [
            "camera uint8 [batch, 3, 8, 8]",
            "flags float32 [batch, 3]",
            "pair.0 float32 [batch, 2]",
            "pair.1 int64 [batch]",
        ],
        ["action int64 [batch]", "logits float32 [batch, 3]"],
    ),
    "image": (["obs uint8 [batch, 1, 36, 36]"], ["action int64 [batch]", "logits float32 [batch, 4]"]),
    "dqn": (["obs float32 [batch, 4]"], ["action int64 [batch]", "values float32 [batch, 2]"]),
    "sac": (["obs float32 [batch, 3]"], ["action float32 [batch, 1]", "mean float32 [batch, 1]"]),
    "ddpg": (["obs float32 [batch, 3]"], ["action float32 [batch, 1]", "mean float32 [batch, 1]"]),
    "lstm": (
        ["obs float32 [batch, 3]", "h float32 [batch, 8]", "c float32 [batch, 8]"],
        [
            "action int64 [batch]",
            "logits float32 [batch, 2]",
            "h_next float32 [batch, 8]",
            "c_next float32 [batch, 8]",
        ],
    ),
}


def untrained(kind: str, seed: int = 1) -> TrainedPolicy:
    """A policy with random weights and random statistics, none of them zero."""
    env, settings = KINDS[kind]
    job = prepare(config_from_keywords(AGENTS.get(kind, "ppo"), env, {"engine": "inline", "set": settings}))
    buffer = job.agent_spec.weights.allocate()
    numbers = np.random.default_rng(seed)
    for name, view in job.agent_spec.weights.views(buffer).items():
        view[...] = (
            numbers.uniform(0.2, 2, view.shape) if name.endswith("/scale") else numbers.normal(0, 0.3, view.shape)
        )
    return TrainedPolicy(job, buffer)


def network_of(policy: TrainedPolicy) -> Any:
    return policy.acting.network  # type: ignore[attr-defined]


QUICK_ONNX = ("categorical", "gaussian", "multi-discrete", "image", "dict lstm", "sac")
"""Export to ONNX takes seconds; these touch every operation between them."""


@pytest.mark.parametrize(
    ("kind", "to"),
    [
        *((kind, "torchscript") for kind in KINDS),
        *(pytest.param(kind, "onnx", marks=() if kind in QUICK_ONNX else pytest.mark.verify) for kind in KINDS),
    ],
)
def test_the_file_agrees_with_the_policy(tmp_path: Path, kind: str, to: Target) -> None:
    export = export_policy(untrained(kind), to, tmp_path / "policy")
    assert export.difference < 2e-5
    assert [path.name for path in tmp_path.iterdir()] == ["policy"]
    if kind in SHAPES:
        assert [f"{name} {text}" for name, text in export.inputs.items()] == SHAPES[kind][0]
        assert [f"{name} {text}" for name, text in export.outputs.items()] == SHAPES[kind][1]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in AGENTS])
def test_the_module_scores_actions_as_the_acting_forward_does(kind: str) -> None:
    policy = untrained(kind)
    network = network_of(policy)
    module = GreedyPolicy(network, policy.job.env.observation, policy.weights)
    inputs = module.example_inputs(11, seed=5)
    state = {field.name: inputs[field.name].numpy() for field in network.state}
    outputs, after = acting_forward(network, 11)(
        policy.weights, module.observation_of(inputs), state, np.zeros(11, np.bool_)
    )
    with torch.no_grad():
        results = module(*inputs.values())
    np.testing.assert_allclose(results[1].numpy(), outputs, rtol=1e-5, atol=1e-5 * np.abs(outputs).max())
    for name, tensor in zip(after, results[2:], strict=True):
        np.testing.assert_allclose(tensor.numpy(), after[name], atol=1e-5)


def test_onnx_names_and_a_whole_episode_with_memory(tmp_path: Path) -> None:
    """Fed its own state, the file plays the episode that the policy plays."""
    import onnxruntime

    from whorl.envs.registry import make_env

    policy = untrained("gaussian lstm")
    path = export_policy(policy, "onnx", tmp_path / "policy.onnx").path
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    assert [entry.name for entry in session.get_inputs()] == ["obs", "h", "c"]
    assert [entry.name for entry in session.get_outputs()] == ["action", "mean", "h_next", "c_next"]
    env = make_env("Pendulum-v1")
    observation, _ = env.reset(seed=4)
    h, c = np.zeros((1, 8), np.float32), np.zeros((1, 8), np.float32)
    for _ in range(30):
        action, _, h, c = session.run(None, {"obs": observation[None], "h": h, "c": c})
        np.testing.assert_allclose(action[0], policy.act(observation), atol=1e-4)
        observation, *_ = env.step(action[0])
    env.close()


def test_wrong_weights_are_noticed_and_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = untrained("categorical")
    out = tmp_path / "policy.pt"
    export_policy(policy, "torchscript", out)
    before = out.read_bytes()
    module_class = GreedyPolicy

    class Wrong(module_class):
        def _action(self, held: Any, outputs: torch.Tensor) -> torch.Tensor:
            return 1 - super()._action(held, outputs)

    monkeypatch.setattr("whorl.models.exported.GreedyPolicy", Wrong)
    with pytest.raises(WhorlError, match="not written, since it differs from the policy by up to 1 "):
        export_policy(policy, "torchscript", out)
    assert out.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["policy.pt"]


def test_an_agent_without_a_network_is_refused(tmp_path: Path) -> None:
    policy = untrained("categorical")
    del policy.acting.network  # type: ignore[attr-defined]
    with pytest.raises(BadInputError, match="'ppo' does not offer its network for export"):
        export_policy(policy, "onnx", tmp_path / "policy.onnx")


def test_an_exported_action_is_inside_bounds_that_float32_rounds_outwards() -> None:
    policy = untrained("gaussian")
    network = network_of(policy)
    network.head = head_for(ActionSpec("box", (1,), "float32", (), (-0.1,), (0.1,)))
    module = GreedyPolicy(network, policy.job.env.observation, policy.weights)
    held = {name: module.get_buffer(module._buffer_of[name]) for name in ("low", "high", "middle", "half_range")}
    low, high = module._action(held, torch.tensor([[-9.0], [9.0]])).double().flatten().tolist()
    assert -0.1 <= low < -0.0999999
    assert 0.0999999 < high <= 0.1


def test_a_leaf_named_like_an_output_gets_a_prefix() -> None:
    policy = untrained("categorical")
    leaf = policy.job.env.observation[0]
    renamed = tuple(type(leaf)(name, "vector", (4,), "float32") for name in ("action", "h", "x"))
    assert GreedyPolicy(network_of(policy), renamed, policy.weights).input_names == ["obs.action", "obs.h", "x"]


@pytest.mark.filterwarnings("ignore:`torch.jit.load` is deprecated")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    assert main(["train", "ppo", "CartPole-v1", "--steps", "500", "--run-dir", str(run), "--quiet"]) == 0
    capsys.readouterr()
    assert main(["export", str(run), "--to", "torchscript"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == [
        str(run / "policy.pt"),
        "  inputs    obs float32 [batch, 4]",
        "  outputs   action int64 [batch], logits float32 [batch, 2]",
    ]
    assert lines[3].startswith("  checked   against the policy: largest difference ")
    policy, module = load_policy(run), torch.jit.load(str(run / "policy.pt"))
    for observation in np.random.default_rng(1).uniform(-1, 1, (20, 4)).astype(np.float32):
        assert module(torch.from_numpy(observation[None]))[0].item() == policy.act(observation)
    assert main(["export", str(run), "--to", "onnx", "-o", str(run / "config.toml" / "x.onnx")]) == 2
    assert "cannot write the export: " in capsys.readouterr().err
    assert main(["export", str(tmp_path / "nowhere"), "--to", "onnx"]) == 2
    assert main(["export", str(run), "--to", "onxx"]) == 2
    assert "did you mean" in capsys.readouterr().err
