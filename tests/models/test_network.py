"""Layouts, initial weights and encodings."""

import math

import numpy as np
import pytest
from model_cases import BOX, IMAGE, MATRIX, NATURE, PLACE, VECTOR, env_spec, random_observation

from whorl.models.config import NetworkConfig
from whorl.models.heads import CategoricalHead, GaussianHead
from whorl.models.initial import initial_weights
from whorl.models.network import Network, convolutions
from whorl.types import ActionSpec, ObservationLeaf


def test_actors_get_the_front_of_the_buffer_and_no_values() -> None:
    network = Network(NetworkConfig(), env_spec((VECTOR,)), normalise=True)
    names = [field.name for field in network.weights.fields]
    assert names[:2] == ["norm/obs/mean", "norm/obs/scale"]
    assert not [name for name in names if name.startswith("value")]
    whole = [field.name for field in network.everything.fields]
    assert whole[: len(names)] == names
    assert network.everything.offsets[: len(names)] == network.weights.offsets


def test_initial_matrices_are_orthogonal_with_their_gain() -> None:
    network = Network(NetworkConfig(hidden=(64, 64)), env_spec((VECTOR,)), normalise=True)
    views = network.everything.views(initial_weights(network, 3))
    middle = views["policy/1/weight"]
    np.testing.assert_allclose(middle.T @ middle, 2 * np.eye(64), atol=1e-5)
    np.testing.assert_allclose(views["policy/out/weight"] @ views["policy/out/weight"].T, 1e-4 * np.eye(3), atol=1e-9)
    np.testing.assert_allclose(views["value/out/weight"] @ views["value/out/weight"].T, 1, rtol=1e-5)
    assert not views["policy/0/bias"].any()
    assert np.all(views["norm/obs/scale"] == 1)
    assert np.array_equal(initial_weights(network, 3), initial_weights(network, 3))
    assert not np.array_equal(initial_weights(network, 3), initial_weights(network, 4))


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 10, 20, 35, 36, 84])
def test_convolutions_fit_every_size(size: int) -> None:
    left = size
    for kernel, stride in convolutions(ObservationLeaf("x", "image", (1, size, size + 3), "uint8")):
        assert kernel <= left
        left = (left - kernel) // stride + 1
    assert left >= 1


def test_the_network_of_the_tetris_study() -> None:
    """1,548,352 weights up to its 64 features, convolutions without biases."""
    frames = ObservationLeaf("screen", "image", (3, 240, 256), "uint8", 0, 255)
    config = NetworkConfig(image_channels=(32, 64, 32), image_bias=False, image_features=64)
    parameters = Network(config, env_spec((frames,)), normalise=False).parameters
    sizes = {parameter.name: math.prod(parameter.shape) for parameter in parameters}
    trunk = {name: size for name, size in sizes.items() if name.startswith("image/")}
    assert list(trunk.values()) == [6_144, 32_768, 18_432, 1_490_944, 64]
    assert sum(trunk.values()) == 1_548_352
    with pytest.raises(ValueError, match="image_channels: expected 3 numbers; got 2"):
        NetworkConfig(image_channels=(32, 64))


def test_the_nature_network_is_natures() -> None:
    network = Network(NetworkConfig(), env_spec((NATURE,)), normalise=False)
    shapes = {parameter.name: parameter.shape for parameter in network.parameters}
    assert shapes["image/screen/0/weight"] == (32, 4, 8, 8)
    assert shapes["image/screen/out/weight"] == (3136, 512)
    assert shapes["policy/out/weight"] == (3, 512)
    assert network.acting == "torch"


def test_leaves_are_encoded_side_by_side() -> None:
    env = env_spec((MATRIX, PLACE, VECTOR, IMAGE))
    network = Network(NetworkConfig(), env, normalise=True)
    views = network.everything.views(initial_weights(network, 0))
    views["norm/obs/mean"][...] = 1
    views["norm/obs/scale"][...] = 100
    observation = random_observation(env, 2)
    observation["obs"][0] = [1.01, 0.99, 1.05, 2, -2]
    observation["place"][:] = [2, 0]
    out = np.full((2, network.encoder.width), np.nan, np.float32)
    network.encoder.encode(views, observation, out)
    np.testing.assert_allclose(out[:, :6], observation["matrix"].reshape(2, 6), rtol=1e-6)
    np.testing.assert_array_equal(out[:, 6:10], [[0, 0, 1, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(out[0, 10:], [1, -1, 5, 10, -10], rtol=1e-5)


def test_a_gaussian_head_scales_and_clips() -> None:
    head = GaussianHead(BOX)
    means = np.array([[0, 0, 0], [1, 1, 1], [-1, -1, -7], [9, -9, 9]], np.float32)
    chosen = head.choose(means, np.zeros(3, np.float32), None)
    np.testing.assert_array_equal(chosen.actions, [[0, 1, 0], [2, 3, 1], [-2, -1, -7], [2, -1, 9]])
    np.testing.assert_array_equal(chosen.fields["raw_action"], means)


def test_greedy_choices_are_the_likeliest() -> None:
    head = CategoricalHead(ActionSpec("multi_discrete", (2,), "int32", (2, 3)))
    chosen = head.choose(np.array([[0, 1, 5, 4, 3]], np.float32), None, None)
    assert chosen.actions.tolist() == [[1, 0]]
    assert chosen.actions.dtype == np.int32
