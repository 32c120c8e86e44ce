import json

import numpy as np
import pytest
from env_helpers import spec_of
from gymnasium import spaces

from whorl.config.schema import EnvConfig
from whorl.envs.door import ObservationDoor, RefusedValue, action_door, check_flag, check_reward
from whorl.envs.spaces import action_spec, into_space, observation_leaves, random_actions
from whorl.envs.spec_json import spec_from_json, spec_to_json
from whorl.errors import BadInputError
from whorl.types import ActionSpec, ObservationLeaf

RICH = spaces.Dict(
    camera=spaces.Dict(left=spaces.Box(0, 255, (20, 10, 3), np.uint8), grey=spaces.Box(0, 255, (7, 9), np.uint8)),
    pair=spaces.Tuple((spaces.Box(-2, 3, (2, 2), np.float64), spaces.Discrete(3, start=5))),
    bits=spaces.MultiBinary(4),
)


def targets_of(leaves: tuple[ObservationLeaf, ...]) -> list[np.ndarray]:
    return [np.zeros(leaf.shape, leaf.dtype) for leaf in leaves]


def test_nested_spaces_become_named_leaves() -> None:
    assert observation_leaves(RICH, "E") == (
        ObservationLeaf("bits", "vector", (4,), "float32", 0.0, 1.0),
        ObservationLeaf("camera.grey", "image", (1, 7, 9), "uint8", 0.0, 255.0),
        ObservationLeaf("camera.left", "image", (3, 20, 10), "uint8", 0.0, 255.0),
        ObservationLeaf("pair.0", "vector", (2, 2), "float32", -2.0, 3.0),
        ObservationLeaf("pair.1", "discrete", (), "int64", 0.0, 2.0, 3),
    )


def test_nested_observations_are_copied_into_their_leaves() -> None:
    door = ObservationDoor(RICH, "E", 10**6)
    left = np.random.default_rng(0).integers(0, 255, (20, 10, 3)).astype(np.uint8)
    grey = np.arange(63, dtype=np.uint8).reshape(7, 9)
    observation = {
        "camera": {"left": left, "grey": grey},
        "pair": (np.array([[0.5, 1], [2, 3]]), np.int64(7)),
        "bits": np.array([0, 1, 1, 0], np.int8),
    }
    targets = targets_of(door.leaves)
    door.write(observation, targets)
    bits, got_grey, got_left, vector, number = targets
    assert bits.tolist() == [0, 1, 1, 0]
    assert (got_grey[0] == grey).all()
    assert (got_left == left.transpose(2, 0, 1)).all()
    assert vector.tolist() == [[0.5, 1], [2, 3]]
    assert number == 2


@pytest.mark.parametrize(
    ("shape", "leaf_shape"), [((4, 84, 84), (4, 84, 84)), ((210, 160, 3), (3, 210, 160)), ((9, 5), (1, 9, 5))]
)
def test_images_are_channels_first(shape: tuple[int, ...], leaf_shape: tuple[int, ...]) -> None:
    (leaf,) = observation_leaves(spaces.Box(0, 255, shape, np.uint8), "E")
    assert (leaf.kind, leaf.shape) == ("image", leaf_shape)


@pytest.mark.parametrize("space", [spaces.Text(5), spaces.Sequence(spaces.Discrete(2))])
def test_unsupported_observations_are_refused_by_name(space: spaces.Space) -> None:
    with pytest.raises(
        BadInputError, match=rf"^E: observation 'a\.0' is a {type(space).__name__}, which is not.*; use Box"
    ):
        observation_leaves(spaces.Dict(a=spaces.Tuple((space,))), "E")


def test_actions() -> None:
    assert action_spec(spaces.Discrete(3, start=-1), "E") == ActionSpec("discrete", (), "int64", (3,))
    assert action_spec(spaces.MultiDiscrete([2, 3]), "E") == ActionSpec("multi_discrete", (2,), "int64", (2, 3))
    assert action_spec(spaces.MultiBinary(2), "E") == ActionSpec("multi_discrete", (2,), "int64", (2, 2))
    box = spaces.Box(np.array([-1, -np.inf]), np.array([1, 5]), dtype=np.float64)
    assert action_spec(box, "E") == ActionSpec("box", (2,), "float32", (), (-1, -np.inf), (1, 5))
    with pytest.raises(BadInputError, match="its action is a Tuple"):
        action_spec(spaces.Tuple((spaces.Discrete(2),)), "E")
    with pytest.raises(BadInputError, match="Box of int32"):
        action_spec(spaces.Box(0, 5, (2,), np.int32), "E")


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3, start=-1),
        spaces.MultiDiscrete([2, 3], start=[1, 7]),
        spaces.MultiBinary(3),
        spaces.Box(np.array([-1, -np.inf]), np.array([1, 5]), dtype=np.float64),
        spaces.Box(-1, 1, (2, 2), np.float32),
    ],
)
def test_every_action_reaches_the_environment_inside_its_space(space: spaces.Space) -> None:
    actions = random_actions(action_spec(space, "E"), 50, 3)
    given = action_door(space)(actions)
    assert len(given) == 50
    assert all(space.contains(action) for action in given)
    assert len({np.asarray(action).tobytes() for action in given}) > 2


@pytest.mark.parametrize("shape", [(), (2,)])
def test_an_action_at_a_bound_that_float32_rounds_outwards_is_inside(shape: tuple[int, ...]) -> None:
    space = spaces.Box(-0.1, 0.1, shape, np.float64)
    spec = action_spec(space, "E")
    low, high = (np.array(bound, spec.dtype).reshape(shape) for bound in (spec.low, spec.high))
    assert not space.contains(high.astype(np.float64))
    given = action_door(space)(np.stack([low, high, high / 2]))
    assert all(space.contains(action) for action in given)
    assert [action.ravel()[0] for action in given] == [-0.1, 0.1, np.float32(0.1) / 2]
    assert all(space.contains(np.asarray(action)) for action in into_space(space)(np.stack([low, high])))


@pytest.mark.parametrize(
    ("space", "value", "message"),
    [
        (
            spaces.Box(-1, 1, (2,)),
            np.zeros(3, np.float32),
            "obs: expected float of shape (2,), got float32 of shape (3,)",
        ),
        (spaces.Box(-1, 1, (2,)), np.zeros(2, np.int64), "obs: expected float of shape (2,), got int64 of shape (2,)"),
        (spaces.Box(-1, 1, (2,)), None, "obs: expected float of shape (2,), got object of shape ()"),
        (spaces.Discrete(3, start=2), 7, "obs: expected an integer in 2..4, got 7"),
        (spaces.Discrete(3), 1.0, "obs: expected integer of shape (), got float64 of shape ()"),
        (spaces.Box(0, 255, (9, 9), np.uint8), np.zeros((9, 9)), "obs: expected uint8 of shape (9, 9), got float64 of"),
        (
            spaces.Box(-1, 1, (2,)),
            np.zeros(10**6),
            "obs: expected at most 1000 bytes (env.max_observation_bytes), got 8000",
        ),
        (spaces.Dict(a=spaces.Discrete(2)), {}, "obs: expected a dict with keys ['a'], got no 'a'"),
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 1, "b": 2}, "obs: expected a dict with keys ['a'], got also 'b'"),
        (spaces.Tuple((spaces.Discrete(2),)), (1, 1), "obs: expected a tuple of 1, got 2"),
    ],
)
def test_refused_observations_say_expected_against_got(space: spaces.Space, value: object, message: str) -> None:
    door = ObservationDoor(space, "E", 1000)
    with pytest.raises(RefusedValue) as refused:
        door.write(value, targets_of(door.leaves))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("space", "block", "message"),
    [
        (spaces.Box(-1, 1, (2,)), [[0, 0], [0, np.nan]], "obs[1]: expected finite numbers, got nan"),
        (spaces.Box(0, 9, (2,), np.int32), [[0, 0], [10, 3]], "obs[0]: expected integers in 0..9, got 10.0"),
        (spaces.MultiBinary(2), [[0, 1], [2, 1]], "obs[0]: expected integers in 0..1, got 2.0"),
    ],
)
def test_rows_are_checked_for_all_lanes_at_once(space: spaces.Space, block: list, message: str) -> None:
    door = ObservationDoor(space, "E", 1000)
    blocks = [np.array(block, door.leaves[0].dtype)]
    passes = door.row_check(blocks)
    assert not passes()
    lane, reason = door.explain(blocks)
    assert (lane, str(reason)) == (1, message)
    blocks[0][1] = 1
    assert passes()
    assert door.explain(blocks) is None


def test_floats_a_little_outside_their_box_pass() -> None:
    door = ObservationDoor(spaces.Box(-1, 1, (2,)), "E", 1000)
    blocks = [np.array([[1.5, -7]], np.float32)]
    assert door.row_check(blocks)()


def test_a_float64_beyond_float32_is_refused_without_a_warning() -> None:
    door = ObservationDoor(spaces.Box(-np.inf, np.inf, (2,), np.float64), "E", 1000)
    block = np.zeros((1, 2), np.float32)
    door.write(np.array([1.0, 1e300]), [block[0]])
    assert not door.row_check([block])()


def test_rewards_and_flags() -> None:
    assert check_reward(np.float32(2)) == 2.0
    assert check_reward(np.array([3])) == 3.0
    assert check_flag("terminated", np.True_) is True
    with pytest.raises(RefusedValue, match="reward: expected one finite number, got a str"):
        check_reward("1")
    with pytest.raises(RefusedValue, match=r"got a ndarray of shape \(2,\)"):
        check_reward(np.zeros(2))
    with pytest.raises(RefusedValue, match="truncated: expected True or False, got None"):
        check_flag("truncated", None)


@pytest.mark.parametrize(
    "env_id", ["CartPole-v1", "Pendulum-v1", "whorl/Dict-v0", "whorl/Image-v0", "whorl/Endless-v0"]
)
def test_specs_survive_json(env_id: str) -> None:
    spec = spec_of(EnvConfig(id=env_id))
    text = json.dumps(spec_to_json(spec), allow_nan=False)
    assert spec_from_json(json.loads(text)) == spec


class _RaisesWhenRead:
    def __array__(self, *_: object, **__: object) -> np.ndarray:
        raise RuntimeError("not today")


@pytest.mark.parametrize(
    ("space", "observation", "message"),
    [
        (spaces.Dict(a=spaces.Discrete(2)), {"a": 0, 1: 2, None: 3}, r"also 1, None"),
        (spaces.Box(-1, 1, (3,)), _RaisesWhenRead(), "a _RaisesWhenRead .not today"),
    ],
)
def test_values_that_resist_being_looked_at_are_refused(space: spaces.Space, observation: object, message: str) -> None:
    door = ObservationDoor(space, "E", 10**6)
    with pytest.raises(RefusedValue, match=message):
        door.write(observation, targets_of(door.leaves))


def test_a_reward_beyond_floats_is_infinite() -> None:
    assert check_reward(10**400) == float("inf")
