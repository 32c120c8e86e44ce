"""The numpy forward, the torch forward and the hand-written gradients say the same; lanes do not touch each other."""

import numpy as np
import pytest
import torch
from model_cases import BOX, DISCRETE, IMAGE, MATRIX, MULTI, NATURE, PLACE, VECTOR, env_spec, random_observation

from whorl.models.acting import ActingForward, ActingForwards, acting_forward
from whorl.models.config import NetworkConfig
from whorl.models.differentiable import Autograd, differentiable
from whorl.models.encoding import to_blocks
from whorl.models.flat import FlatParameters
from whorl.models.lstm import unroll_lstm
from whorl.models.network import Network, block_size
from whorl.models.precision import Precision
from whorl.models.torch_acting import TorchForward
from whorl.models.torch_forward import Inputs, forward
from whorl.models.towers import Towers
from whorl.types import ActionSpec, EnvSpec

CPU = torch.device("cpu")
CASES = {
    "mlp": ((VECTOR,), NetworkConfig()),
    "relu": ((VECTOR,), NetworkConfig(hidden=(32, 16, 8), activation="relu")),
    "linear": ((VECTOR,), NetworkConfig(hidden=())),
    "dict": ((VECTOR, PLACE, MATRIX), NetworkConfig()),
    "lstm": ((VECTOR, PLACE), NetworkConfig(core="lstm", lstm_size=24)),
    "image": ((IMAGE, VECTOR), NetworkConfig(image_features=32)),
    "nature": ((NATURE,), NetworkConfig()),
    "image_lstm": ((IMAGE,), NetworkConfig(core="lstm", lstm_size=16, image_features=32)),
}


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def build(case: str, action: ActionSpec = DISCRETE) -> tuple[EnvSpec, Network, FlatParameters]:
    leaves, config = CASES[case]
    env = env_spec(leaves, action)
    network = Network(config, env, normalise=True)
    parameters = FlatParameters(network, 5, CPU)
    rng = np.random.default_rng(0)
    for name, view in parameters.views.items():
        if "norm" not in name:
            view += rng.standard_normal(view.shape).astype(np.float32) * np.float32(0.1)
    parameters.from_host()
    return env, network, parameters


def random_state(network: Network, lanes: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {field.name: rng.standard_normal((lanes, *field.shape)).astype(np.float32) for field in network.state}


def torch_inputs(network: Network, weights: dict, observation: dict, state: dict, first: np.ndarray) -> Inputs:
    features = np.zeros((len(first), network.encoder.width), np.float32)
    network.encoder.encode(weights, observation, features)
    images = {
        leaf.name: torch.from_numpy(to_blocks(observation[leaf.name], block_size(leaf)))
        for leaf in network.encoder.images
    }
    if not network.recurrent:
        return Inputs(torch.from_numpy(features), images)
    h, c = (torch.from_numpy(state[name]) for name in ("h", "c"))
    return Inputs(torch.from_numpy(features), images, torch.from_numpy(first)[None], (h, c))


@pytest.mark.parametrize("case", CASES)
def test_acting_agrees_with_learning(case: str) -> None:
    env, network, parameters = build(case)
    observation, state = random_observation(env, 11), random_state(network, 11)
    first = np.arange(11) % 3 == 0
    weights = network.weights.views(parameters.weights())
    outputs, after = acting_forward(network, 11)(weights, observation, state, first)
    inputs = torch_inputs(network, weights, observation, state, first)
    expected = forward(network, parameters.tensors, inputs).policy[: network.head.width].T.numpy()
    np.testing.assert_allclose(outputs, expected, atol=1e-5)
    assert set(after) == {field.name for field in network.state}


@pytest.mark.parametrize("precision", [None, "float32", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_rows_have_the_same_bits_for_every_number_of_lanes(case: str, precision: Precision | None) -> None:
    env, network, parameters = build(case)
    weights = network.weights.views(parameters.weights())
    if precision is not None and network.acting == "numpy":
        pytest.skip("small networks know one way to compute")

    def forward_of(count: int) -> ActingForward:
        forward = acting_forward(network, count)
        if isinstance(forward, TorchForward) and precision is not None:
            forward.renew(weights, precision)
        return forward

    lanes = 40
    observation, state = random_observation(env, lanes), random_state(network, lanes)
    first = np.arange(lanes) % 5 == 0
    whole = forward_of(lanes)(weights, observation, state, first)
    whole_outputs, whole_state = whole.outputs.copy(), whole.state
    for count in (1, 2, 3, 4, 5, 8, 13, 16):
        part = forward_of(count)
        for start in range(0, lanes - count + 1, count):
            at = slice(start, start + count)
            outputs, after = part(
                weights, {k: v[at] for k, v in observation.items()}, {k: v[at] for k, v in state.items()}, first[at]
            )
            np.testing.assert_array_equal(outputs, whole_outputs[at])
            for name, array in after.items():
                np.testing.assert_array_equal(array, whole_state[name][at])


def test_a_network_with_images_acts_by_the_weights_it_was_last_renewed_with() -> None:
    env, network, parameters = build("image")
    weights = network.weights.views(parameters.weights())
    observation, first, forwards = random_observation(env, 5), np.zeros(5, bool), ActingForwards(network)
    plain = forwards(weights, observation, {}, first).outputs.copy()
    forwards.renew(weights, "float32")
    np.testing.assert_array_equal(forwards(weights, observation, {}, first).outputs, plain)
    forwards.renew(weights, "bfloat16")
    near = forwards(weights, observation, {}, first).outputs.copy()
    assert 0 < np.abs(near - plain).max() < 0.05 * np.abs(plain).max()
    weights["image/camera/0/weight"][:] *= np.float32(2)
    np.testing.assert_array_equal(forwards(weights, observation, {}, first).outputs, near)
    forwards.renew(weights, "bfloat16")
    assert np.abs(forwards(weights, observation, {}, first).outputs - near).max() > 0.05 * np.abs(near).max()


def test_acting_is_not_disturbed_by_what_was_acted_before() -> None:
    env, network, parameters = build("lstm")
    weights = network.weights.views(parameters.weights())
    act = acting_forward(network, 5)
    state, first = random_state(network, 5), np.zeros(5, bool)
    once = act(weights, random_observation(env, 5), state, first)
    once = (once.outputs.copy(), once.state)
    act(weights, random_observation(env, 5, seed=9), state, first)
    again = act(weights, random_observation(env, 5), state, first)
    np.testing.assert_array_equal(once[0], again.outputs)
    np.testing.assert_array_equal(once[1]["c"], again.state["c"])


@pytest.mark.parametrize("action", [DISCRETE, MULTI, BOX], ids=lambda action: action.kind)
@pytest.mark.parametrize("case", ["mlp", "relu", "linear"])
def test_hand_written_gradients_are_autograds(case: str, action: ActionSpec) -> None:
    _, network, parameters = build(case, action)
    towers, autograd = differentiable(network, parameters.tensors, False), Autograd(network, parameters.tensors, False)
    assert isinstance(towers, Towers)
    inputs = Inputs(torch.randn(37, network.encoder.width), {})
    results = []
    for model in (towers, autograd):
        gradients = parameters.named(torch.full((parameters.size,), np.nan))
        with torch.no_grad():
            outputs = model.forward(inputs)
            torch.manual_seed(0)
            d_policy, d_value = torch.randn(tuple(outputs.policy.shape)), torch.randn(37)
            if model.gives_numpy:
                d_policy, d_value = d_policy.numpy(), d_value.numpy()
            model.backward(d_policy, d_value, gradients)
            results.append((np.asarray(outputs.policy), np.asarray(outputs.value), gradients, model.values(inputs)))
    for one, other in zip(results[0][:2], results[1][:2], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(results[0][3], results[1][3], atol=1e-6)
    for name, gradient in results[0][2].items():
        torch.testing.assert_close(gradient, results[1][2][name], atol=1e-5, rtol=1e-4)


def plain_lstm(gates_x: torch.Tensor, recurrent: torch.Tensor, first: torch.Tensor, h: torch.Tensor, c: torch.Tensor):
    outputs = []
    for t in range(len(gates_x)):
        keep = (~first[t])[:, None].to(h.dtype)
        h, c = h * keep, c * keep
        i, f, g, o = (gates_x[t] + h @ recurrent).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs), (h, c)


def test_the_unrolled_lstm_and_its_gradient() -> None:
    torch.manual_seed(0)
    gates, recurrent = torch.randn(9, 4, 20, dtype=torch.float64), torch.randn(5, 20, dtype=torch.float64)
    first, h, c = torch.rand(9, 4) < 0.3, torch.randn(4, 5).double(), torch.randn(4, 5).double()
    weight = torch.randn(9, 4, 5).double()
    results = []
    for unroll in (unroll_lstm, plain_lstm):
        leaves = [gates.clone().requires_grad_(), recurrent.clone().requires_grad_()]
        outputs, state = unroll(*leaves, first, h, c)
        (outputs * weight).sum().backward()
        results.append((outputs.detach(), state[0].detach(), state[1].detach(), leaves[0].grad, leaves[1].grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other)


def test_one_flat_tensor_holds_everything() -> None:
    _, network, parameters = build("mlp")
    parameters.flat.zero_()
    assert not parameters.views["value/0/weight"].any()
    parameters.tensors["policy/0/weight"].fill_(2)
    assert np.all(network.weights.views(parameters.weights())["policy/0/weight"] == 2)
    assert parameters.weights().nbytes == network.weights.size_bytes
