"""The Booster as an environment: what Gymnasium and Whorl ask of it, its bounds, its state, its pictures."""

import itertools
import json
import warnings

import gymnasium
import numpy as np
import pytest
from env_helpers import spec_of, trace
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.config.schema import EnvConfig
from whorl.envs.check import check_env
from whorl.envs.contract import LaneState
from whorl.envs.lanes import ScalarLanes
from whorl.envs.library.booster import env as boosters
from whorl.envs.library.booster import plant
from whorl.envs.library.booster.copies import WORST_REWARD
from whorl.envs.registry import make_env
from whorl.envs.vector import VectorLanes
from whorl.errors import BadInputError

IDS = ("whorl/Booster-v0", "whorl/BoosterContinuous-v0")


@pytest.mark.parametrize("env_id", IDS)
def test_gymnasium_and_whorl_find_no_fault(env_id: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(make_env(env_id, {"render_mode": "rgb_array"}).unwrapped)
    report = check_env(EnvConfig(id=env_id))
    assert report.is_good, report.lines()
    assert report.facts["restore"] == "snapshot (tried)"
    assert report.facts["vector_form"] == "our own"


@pytest.mark.parametrize(
    ("env_id", "kwargs", "action"),
    [
        ("whorl/Booster-v0", {"action_set": [-0.05, 0.0, 0.05]}, 2),
        ("whorl/Booster-v0", {"action_set": [-0.05, 0.0, 0.05]}, 0),
        ("whorl/BoosterContinuous-v0", {"max_change": 0.3}, np.ones(1, np.float32)),
    ],
)
def test_quitting_never_pays(env_id: str, kwargs: dict, action: object) -> None:
    """The worst that can happen within the bounds is better than leaving them, whenever it happens and whatever the
    discount: a tick within costs at most ``-WORST_REWARD``, and leaving costs that for every tick that remains."""
    still = 1 if env_id == "whorl/Booster-v0" else np.zeros(1, np.float32)
    ticks = 20
    env = make_env(env_id, {**kwargs, "episode_ticks": ticks})
    for seed, patience in itertools.product(range(3), (0, 5, 12, 19)):
        env.reset(seed=seed)
        terminated, taken = False, 0
        while not terminated and taken < ticks:
            _, reward, terminated, truncated, info = env.step(still if taken < patience else action)
            taken += 1
            if not terminated:
                assert WORST_REWARD <= reward <= 0
                assert plant.IMINER_RANGE[0] <= info["IMINER"] <= plant.IMINER_RANGE[1]
                assert plant.VIMIN_RANGE[0] <= info["VIMIN"] <= plant.VIMIN_RANGE[1]
        if terminated:
            remaining = ticks - taken + 1
            assert reward == pytest.approx(WORST_REWARD * remaining)
            assert not truncated
        else:
            assert truncated
            assert taken == ticks
        assert terminated or patience > 12


def test_an_episode_ends_by_truncation_after_its_ticks() -> None:
    env = make_env("whorl/Booster-v0", {"episode_ticks": 7})
    env.reset(seed=3)
    ends = [env.step(0)[2:4] for _ in range(7)]
    assert ends == [(False, False)] * 6 + [(False, True)]


def test_starts_differ_and_seeds_repeat() -> None:
    env = make_env("whorl/Booster-v0")
    starts = {env.reset(seed=seed)[0].tobytes() for seed in (1, 2, 3, 1)}
    assert len(starts) == 3
    ramps = [env.reset(seed=seed)[0][4::5][-1] for seed in range(40)]
    assert min(ramps) < -0.8 < 0.8 < max(ramps), "random phases of the supercycle"


def test_the_observation_moves_on_tick_by_tick() -> None:
    env = make_env("whorl/Booster-v0", {"history": 4, "action_set": "quantiles"})
    before, _ = env.reset(seed=5)
    after, reward, *_, info = env.step(29)
    assert np.array_equal(before[5:20], after[:15])
    assert after[15] == pytest.approx(info["IMINER"] / 0.25, abs=1e-5)
    assert reward == -abs(info["IMINER"])
    assert after[16] - before[16] == pytest.approx(boosters.QUANTILE_CHANGES_A[29] / 0.03, abs=1e-4)


def test_converged_is_the_share_of_ticks_within_the_tolerance() -> None:
    env = make_env("whorl/Booster-v0", {"tolerance": 0.15, "episode_ticks": 60})
    env.reset(seed=1)
    infos = [env.step(0)[4] for _ in range(60)]
    within = [abs(info["IMINER"]) <= 0.15 for info in infos]
    assert 0 < sum(within) < 60
    assert [info["converged"] for info in infos] == [np.mean(within[: tick + 1]) for tick in range(60)]


@pytest.mark.parametrize("env_id", IDS)
def test_a_saved_state_brings_back_the_same_future(env_id: str) -> None:
    env, other = make_env(env_id, {"episode_ticks": 30}), make_env(env_id, {"episode_ticks": 30})
    env.reset(seed=9)
    other.reset(seed=1)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(40)]
    for action in actions[:12]:
        env.step(action)
    other.unwrapped.set_state(env.unwrapped.get_state())
    for action in actions[12:30]:
        mine, theirs = env.step(action), other.step(action)
        assert mine[0].tobytes() == theirs[0].tobytes()
        assert mine[1:] == theirs[1:]
    assert np.array_equal(env.reset()[0], other.reset()[0]), "the generator is part of the state"
    assert json.loads(env.unwrapped.get_state().partition(b"\n")[0])["ticks"] == 0


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("whorl/Booster-v0", {"episode_ticks": 17}),
        ("whorl/Booster-v0", {"episode_ticks": 40, "action_set": "quantiles", "history": 3}),
        ("whorl/BoosterContinuous-v0", {"episode_ticks": 40, "max_change": 0.05}),
    ],
)
def test_lanes_of_the_vector_form_are_single_ones_bit_for_bit(env_id: str, kwargs: dict) -> None:
    """Also where episodes end at different ticks, by leaving the bounds or by truncation, and in other company."""
    config = EnvConfig(id=env_id, kwargs=kwargs)
    spec = spec_of(config)
    lanes = range(40)  # more than are drawn at once
    generator = np.random.default_rng(0)
    shape = (60, len(lanes), *spec.action.shape)
    if spec.action.kind == "box":
        actions = generator.uniform(-1, 1, shape).astype(np.float32)
    else:
        actions = generator.integers(spec.action.nvec[0], size=shape)
    together = trace(VectorLanes(config, spec, lanes, 3), actions)
    alone = trace(ScalarLanes(config, spec, lanes, 3), actions)
    assert together == alone
    ends = {(row[4], row[5]) for rows in together for row in rows}
    expected = {(False, False), (False, True)}
    assert ends == expected if kwargs["episode_ticks"] == 17 else ends >= {(False, False), (True, False)}
    some = trace(VectorLanes(config, spec, range(5, 8), 3), actions[:, 5:8])
    assert some == [rows[5:8] for rows in together]


def test_a_vector_form_comes_back_where_its_ledger_stood() -> None:
    config = EnvConfig(id="whorl/Booster-v0")
    spec = spec_of(config)
    actions = np.random.default_rng(1).integers(7, size=(20, 3))
    lanes = VectorLanes(config, spec, range(3), 4)
    whole = trace(lanes, actions)
    first = VectorLanes(config, spec, range(3), 4)
    trace(first, actions[:8])
    observation = first._block.rows.observation
    states = [
        LaneState(lane, 0, actions[:8, lane], observation={name: block[lane] for name, block in observation.items()})
        for lane in range(3)
    ]
    again = VectorLanes(config, spec, range(3), 4)
    assert trace(again, actions[8:], states) == whole[8:]
    assert again.exact


@pytest.mark.parametrize(
    ("env_id", "kwargs", "message"),
    [
        ("whorl/Booster-v0", {"episode_ticks": 0}, "episode_ticks must be a whole number from 1 to 100000, not 0"),
        ("whorl/Booster-v0", {"episode_ticks": 2.5}, "episode_ticks must be a whole number"),
        ("whorl/Booster-v0", {"history": 0}, "history must be a whole number from 1 to 1000, not 0"),
        ("whorl/Booster-v0", {"tolerance": -1}, "tolerance must be above 0 A, not -1"),
        ("whorl/Booster-v0", {"action_set": "seven"}, "action_set must be one of paper, quantiles, not 'seven'"),
        ("whorl/Booster-v0", {"action_set": [0.1]}, "action_set must be paper, quantiles or at least two steps in A"),
        ("whorl/Booster-v0", {"action_set": [0.1, "up"]}, "at least two steps in A"),
        ("whorl/Booster-v0", {"render_mode": "ansi"}, "render_mode must be one of rgb_array"),
        ("whorl/BoosterContinuous-v0", {"max_change": 0}, "max_change must be above 0 and at most 0.739 A, not 0"),
        ("whorl/BoosterContinuous-v0", {"action_set": "paper"}, "action_set"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(env_id: str, kwargs: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as error:
        make_env(env_id, kwargs)
    assert "\n" not in str(error.value)


def test_pictures_show_the_agent_beside_the_regulator() -> None:
    env = make_env("whorl/Booster-v0", {"render_mode": "rgb_array"})
    env.reset(seed=2)
    frames = [env.render()]
    for _ in range(2):
        for _ in range(30):
            env.step(3)
        frames.append(env.render())
    assert all(frame.shape == (384, 576, 3) and frame.dtype == np.uint8 for frame in frames)
    blue = [int((frame == (31, 119, 180)).all(axis=2).sum()) for frame in frames]
    grey = [int((frame == (153, 153, 153)).all(axis=2).sum()) for frame in frames]
    assert blue[0] < blue[1] < blue[2]
    assert grey[0] < grey[1] < grey[2]


def test_both_are_registered_with_gymnasium() -> None:
    for env_id in IDS:
        make_env(env_id)
        assert env_id in gymnasium.registry
