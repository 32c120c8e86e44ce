"""Atari: one console and many are the same, bit for bit; lives, scores and stacks are what they should be."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.config.schema import EnvConfig
from whorl.envs.atari.copies import Copies, read_state
from whorl.envs.atari.settings import Settings
from whorl.envs.contract import LaneState
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import plain_spec, probe_env
from whorl.envs.registry import make_env
from whorl.envs.spaces import random_actions
from whorl.envs.vector import VectorLanes
from whorl.errors import BadInputError, MissingExtraError
from whorl.types import Array, EnvSpec

BREAKOUT = "atari/Breakout-v0"
LIVES = {"episodic_life": True, "noop_max": 5}
STICKY = {"repeat_action_probability": 0.25, "max_frames": 160, "clip_rewards": False}


def spec_of(config: EnvConfig, **changes: Any) -> EnvSpec:
    env = make_env(config.id, config.kwargs)
    spec = plain_spec(config, env)
    env.close()
    return EnvSpec(**{**vars(spec), "vector_form": True, **changes})


def run(generator: Any) -> Any:
    try:
        while True:
            next(generator)
    except StopIteration as done:
        return done.value


def play(lanes: Any, states: list[LaneState], actions: Array) -> list[tuple[Any, ...]]:
    """Everything that rows and outcomes say."""
    rows = run(lanes.start(states))
    told = []
    for action in actions:
        seen = (rows.observation["obs"].copy(), rows.valid.copy(), rows.first.copy())
        lanes.send(action)
        run(lanes.arrival())
        outcome = lanes.receive()
        told.append((*seen, *(np.array(part) for part in vars(outcome).values())))
    return told


def assert_same(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> None:
    assert len(one) == len(other)
    for row, (a, b) in enumerate(zip(one, other, strict=True)):
        for part, (mine, theirs) in enumerate(zip(a, b, strict=True)):
            np.testing.assert_array_equal(mine, theirs, err_msg=f"row {row}, part {part}")


@pytest.mark.parametrize(
    ("kwargs", "restore"),
    [(LIVES, "snapshot"), (STICKY, "snapshot"), (STICKY, "replay")],
    ids=["lives", "sticky", "loaded for each game"],
)
def test_many_consoles_are_single_ones_whatever_their_neighbours_do(kwargs: dict[str, Any], restore: str) -> None:
    config = EnvConfig(id=BREAKOUT, kwargs=kwargs)
    spec = spec_of(config, restore=restore)
    actions = random_actions(spec.action, 3 * 160, 5).reshape(160, 3)
    together, alone = VectorLanes(config, spec, range(3), 7), ScalarLanes(config, spec, range(1, 2), 7)
    try:
        many = play(together, [LaneState(lane) for lane in range(3)], actions)
        single = play(alone, [LaneState(1)], actions[:, 1:2])
        assert_same([tuple(part[1:2] for part in row) for row in many], single)
    finally:
        together.close()
        alone.close()
    ends = sum(int((row[4] | row[5]).sum()) for row in many)
    assert ends >= 3
    observations = [row[0] for row in many]
    assert len({stack.tobytes() for stack in observations[0]}) > 1  # by their seeds
    check_stacks(many)


def check_stacks(told: list[tuple[Any, ...]]) -> None:
    """Rows follow on each other within an episode, and each begins with zeros: a replay may store frames once."""
    firsts = 0
    for before, row in zip([None, *told], told, strict=False):
        for lane in range(len(row[1])):
            if row[2][lane]:
                firsts += 1
                assert not row[0][lane, :-1].any()
                assert row[0][lane, -1].any()
            elif before is not None and before[1][lane]:
                np.testing.assert_array_equal(row[0][lane, :-1], before[0][lane, 1:])
    assert firsts > 3


@pytest.mark.parametrize(
    ("kwargs", "restore"), [(LIVES, "snapshot"), (STICKY, "snapshot"), ({"max_frames": 200}, "replay")]
)
def test_lanes_come_back_where_they_stood(kwargs: dict[str, Any], restore: Any) -> None:
    config = EnvConfig(id=BREAKOUT, kwargs=kwargs)
    spec = spec_of(config, restore=restore)
    actions = random_actions(spec.action, 3 * 110, 5).reshape(110, 3)
    lanes = VectorLanes(config, spec, range(3), 7)
    try:
        whole = play(lanes, [LaneState(lane) for lane in range(3)], actions)
    finally:
        lanes.close()
    ended = [row for row in range(40, 100) if not whole[row][1].all()]
    for make, stop in ((VectorLanes, ended[0]), (ScalarLanes, ended[0])):  # one lane on its final observation
        before = VectorLanes(config, spec, range(3), 7)
        try:
            play(before, [LaneState(lane) for lane in range(3)], actions[:stop])
            snapshots = before.snapshots()
            assert (snapshots is not None) == (restore == "snapshot")
            states = [state_at(whole, actions, stop, lane, before.episodes[lane]) for lane in range(3)]
            for lane, snapshot in enumerate(snapshots or ()):
                states[lane].snapshot = snapshot
        finally:
            before.close()
        again = make(config, spec, range(3), 7)
        try:
            rest = play(again, states, actions[stop:])
            assert again.exact
        finally:
            again.close()
        assert_same(whole[stop:], rest)


def state_at(told: list[tuple[Any, ...]], actions: Array, row: int, lane: int, episode: int) -> LaneState:
    """What the ledger would know of a lane after so many rows."""
    begin = max(index for index in range(row + 1) if told[index][2][lane])
    taken = [actions[index, lane] for index in range(begin, row) if told[index][1][lane]]
    observation, ended = {"obs": told[row][0][lane]}, not told[row][1][lane]
    return LaneState(lane, episode, np.array(taken, actions.dtype), ended, observation)


def test_games_follow_each_other_until_their_console_is_due_to_be_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whorl.envs.atari.copies.STEPS_PER_LOAD", 90)
    copies = Copies(Settings("breakout", max_frames=160), np.zeros((2, 4, 84, 84), np.uint8))
    copies.restart({0: 3, 1: 4})
    seeds, lengths, begun = [], [], 0
    for _ in range(200):
        over = {int(lane): 5 for lane in np.flatnonzero(copies.game_over)}
        begun += len(over)
        copies.step(np.zeros(2, np.int64), over)
        seed, done = read_state(copies.states()[0])
        seeds.append(seed)
        lengths.append(len(done))
    copies.close()
    assert begun > 6
    assert 90 <= max(lengths) <= 130  # two games, and the one that was going on
    assert seeds[0] == 3
    assert seeds[-1] == 5  # the seed counts when a console is loaded


def test_a_reset_is_decided_by_its_seed_unless_asked_to_follow() -> None:
    env = make_env("atari/Pong-v0", {"max_frames": 60, "repeat_action_probability": 0.5})

    def play_on(**asked: Any) -> bytes:
        seen = [env.reset(seed=3, **asked)[0].tobytes()]
        truncated = False
        while not truncated:
            observation, _, _, truncated, _ = env.step(2)
            seen.append(observation.tobytes())
        return b"".join(seen)

    try:
        first, again, following = play_on(), play_on(), play_on(options={"follow": True})
    finally:
        env.close()
    assert first == again != following


def test_the_score_is_that_of_the_whole_game_and_is_not_told_when_a_life_is_lost() -> None:
    env = make_env("atari/SpaceInvaders-v0", {"episodic_life": True, "max_frames": 4000})
    try:
        env.reset(seed=3)
        points, ends, game_ends, steps = 0.0, 0, 0, 0
        plain = Copies(
            Settings("space_invaders", clip_rewards=False, max_frames=4000), np.zeros((1, 4, 84, 84), np.uint8)
        )
        plain.restart({0: 3})
        while not game_ends:
            _, reward, terminated, truncated, info = env.step(1)
            rewards, _, _ = plain.step(np.array([1]), {})
            points, steps = points + float(rewards[0]), steps + 1
            assert reward in (0.0, 1.0)
            if terminated or truncated:
                ends += 1
                if "episode_return" in info:
                    game_ends += 1
                else:
                    assert info["lives"] < 3
                    env.reset(seed=3)
                    points, steps = points + float(plain.step(np.array([1]), {})[0][0]), steps + 1
        assert info["episode_return"] == points > 1
        assert info["game_length"] == steps
        assert ends > game_ends == 1
        plain.close()
    finally:
        env.close()


def test_a_film_shows_what_is_played() -> None:
    env = make_env("atari/Pong-v0", {"render_mode": "rgb_array", "noop_max": 2})
    try:
        env.reset(seed=1)
        first = env.render()
        for _ in range(20):
            observation, *_ = env.step(3)
        picture = env.render()
    finally:
        env.close()
    assert picture.shape == (210, 160, 3)
    assert picture.dtype == np.uint8
    assert (picture != first).any()
    grey = picture @ np.array([0.299, 0.587, 0.114])
    rows, columns = np.linspace(0, 209, 84).astype(int), np.linspace(0, 159, 84).astype(int)
    assert np.median(np.abs(grey[np.ix_(rows, columns)] - observation[-1])) < 8


def test_gymnasium_finds_nothing_wrong() -> None:
    env = make_env("atari/Pong-v0", {"noop_max": 3, "size": 40, "full_action_space": True})
    try:
        assert env.action_space.n == 18
        assert env.observation_space.shape == (4, 40, 40)
        gymnasium_check(env.unwrapped, skip_render_check=True)
        with pytest.raises(ValueError, match="action must be from 0 to 17, not 18"):
            env.step(18)
    finally:
        env.close()


def test_the_probe_chooses_how_games_come_back() -> None:
    long = {"frame_skip": 1}  # with too many steps for a saved state
    assert probe_env(EnvConfig(id="atari/Pong-v0", kwargs={"noop_max": 2, **long})).spec.restore == "replay"
    probe = probe_env(EnvConfig(id="atari/Pong-v0", kwargs={"noop_max": 2}))
    assert (probe.spec.restore, probe.spec.vector_form) == ("snapshot", True)
    assert (probe.spec.observation[0].frames, probe.spec.observation[0].padding) == (4, "zero")
    assert probe.spec.episode_metrics == ("episode_return", "game_length")


@pytest.mark.parametrize(
    ("env_id", "kwargs", "words"),
    [
        ("atari/Pongg-v0", {}, "no environment 'atari/Pongg-v0'; did you mean atari/Pong-v0"),
        ("atari/space_invaders-v0", {}, "did you mean atari/SpaceInvaders-v0"),
        ("atari/Pong-v0", {"noop_max": -1}, "noop_max must be a whole number from 0 to 10000, not -1"),
        ("atari/Pong-v0", {"clip_rewards": 3}, "clip_rewards must be true or false, not 3"),
        ("atari/Pong-v0", {"repeat_action_probability": 1.0}, "must be a number from 0 to below 1, not 1.0"),
        ("atari/Pong-v0", {"lives": 3}, "unexpected keyword argument 'lives'"),
        ("atari/Pong-v0", {"render_mode": "ansi"}, "render_mode must be rgb_array or none, not 'ansi'"),
    ],
)
def test_what_cannot_be_played_is_refused_in_one_line(env_id: str, kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(BadInputError) as error:
        make_env(env_id, kwargs)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_package_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("ale_py")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ale_py", None)
    with pytest.raises(MissingExtraError, match=r"atari/Pong-v0 needs more packages: pip install 'whorl\[atari\]'"):
        make_env("atari/Pong-v0")
