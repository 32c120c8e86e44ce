"""The rows contract: the same stream of rows from every form of lanes."""

from dataclasses import replace
from functools import partial

import gymnasium
import numpy as np
import pytest
from env_helpers import drain, fresh, spec_of, trace
from gymnasium.vector import SyncVectorEnv
from hypothesis import given, settings
from hypothesis import strategies as st

from whorl.config.schema import EnvConfig
from whorl.envs.contract import LaneState
from whorl.envs.gym_vector import GymForm, vector_form_is_sound
from whorl.envs.lanes import ScalarLanes, make_lanes
from whorl.envs.probe import probe_env
from whorl.envs.registry import make_env
from whorl.envs.row_block import RowBlock
from whorl.envs.spaces import random_actions
from whorl.envs.vector import VectorLanes
from whorl.ops.keys import reset_seed

# A fault comes after a good step at the earliest: too many in a row end the run, which is another test.
endings = st.one_of(
    st.tuples(st.integers(1, 4), st.sampled_from(["terminated", "truncated"])),
    st.tuples(st.integers(2, 4), st.just("raise")),
).map(list)


def expected_rows(script: list, lane: int, seed: int, cap: int, actions: list[int]) -> list[tuple]:
    """The contract, written down once more and as simply as can be."""
    episode, count, final = 0, 0, False
    rows = []

    def now() -> int:
        return reset_seed(seed, lane, episode)

    for action in actions:
        length, ending = script[now() % len(script)]
        if final:
            episode, count, final = episode + 1, 0, False
            rows.append(((now() % 1000, 0, 0), True, True, 0.0, False, False, False))
        elif count + 1 >= length and ending == "raise":
            episode, count = episode + 1, 0
            rows.append(((now() % 1000, 0, 0), True, True, 0.0, False, False, True))
        else:
            count += 1
            over = count >= length
            terminated, truncated = over and ending == "terminated", (over and ending == "truncated") or count >= cap
            final = terminated or truncated
            rows.append(((now() % 1000, count, action), not final, False, float(count), terminated, truncated, False))
    return rows


@settings(max_examples=60, deadline=None)
@given(st.lists(endings, min_size=1, max_size=6), st.integers(0, 5), st.integers(2, 4), st.data())
def test_rows_follow_the_contract_for_any_pattern_of_endings(script, seed, cap, data) -> None:
    config = EnvConfig(id="env_helpers:Scripted", kwargs={"script": script}, max_episode_steps=cap)
    actions = np.array(
        data.draw(st.lists(st.lists(st.integers(0, 1), min_size=3, max_size=3), min_size=1, max_size=30))
    )
    lanes = ScalarLanes(config, spec_of(config), range(2, 5), seed)
    got = trace(lanes, actions)
    for index, lane in enumerate(lanes.lanes):
        wanted = expected_rows(script, lane, seed, cap, actions[:, index].tolist())
        shown = [(tuple(np.frombuffer(row[index][0][0], np.float32)), *row[index][1:]) for row in got]
        assert shown == wanted


@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
@pytest.mark.parametrize("env_id", ["CartPole-v1", "whorl/Dict-v0", "Pendulum-v1"])
def test_every_autoreset_mode_gives_the_rows_of_scalar_lanes(mode: str, env_id: str) -> None:
    config = EnvConfig(id=env_id, max_episode_steps=37)
    spec = spec_of(config)
    lanes = range(3, 7)
    flat = random_actions(spec.action, 4 * 300, 5)
    actions = flat.reshape(300, 4, *spec.action.shape)
    block = RowBlock(spec, 4)
    vector = SyncVectorEnv([partial(make_env, env_id)] * 4, autoreset_mode=gymnasium.vector.AutoresetMode(mode))
    form = GymForm(vector, config, spec, block.blocks)
    in_vector = VectorLanes(config, spec, lanes, 9, form=form, block=block)
    scalar = ScalarLanes(config, spec, lanes, 9)
    assert trace(in_vector, actions) == trace(scalar, actions)
    in_vector.close()
    scalar.close()


def test_our_cartpole_is_gymnasiums_bit_for_bit() -> None:
    config = EnvConfig()
    spec = spec_of(config)
    rng = np.random.default_rng(1)
    for lanes in (range(8), range(1), range(5, 8)):
        actions = rng.integers(0, 2, (600, len(lanes)))
        own = VectorLanes(config, spec, lanes, 4)
        assert trace(own, actions) == trace(ScalarLanes(config, spec, lanes, 4), actions)


def test_our_cartpole_is_cut_at_500_like_gymnasiums() -> None:
    """A policy that balances, so that episodes reach the limit: one is truncated, and the rows still agree."""
    config = EnvConfig()
    spec = spec_of(config)
    forms = [VectorLanes(config, spec, range(4), 2), ScalarLanes(config, spec, range(4), 2)]
    rows = [drain(form.start(fresh(range(4)))) for form in forms]
    truncated = 0
    for _ in range(1100):
        for form, row in zip(forms, rows, strict=True):
            observation = row.observation["obs"]
            form.send((observation @ np.array([0.1, 0.3, 1.0, 1.0], np.float32) > 0).astype(np.int64))
        ours, theirs = (form.receive() for form in forms)
        assert rows[0].observation["obs"].tobytes() == rows[1].observation["obs"].tobytes()
        for name in ("reward", "terminated", "truncated"):
            assert (getattr(ours, name) == getattr(theirs, name)).all()
        assert (rows[0].valid == rows[1].valid).all()
        assert (rows[0].first == rows[1].first).all()
        truncated += int(ours.truncated.sum())
    assert truncated >= 4


@pytest.mark.verify
def test_our_cartpole_over_many_steps() -> None:
    config = EnvConfig()
    spec = spec_of(config)
    actions = np.random.default_rng(2).integers(0, 2, (20_000, 8))
    assert trace(VectorLanes(config, spec, range(8), 1), actions) == trace(
        ScalarLanes(config, spec, range(8), 1), actions
    )


@pytest.mark.parametrize("env_id", ["CartPole-v1", "whorl/Recall-v0"])
def test_lanes_do_not_depend_on_how_they_are_split(env_id: str) -> None:
    config = EnvConfig(id=env_id)
    spec = probe_env(config).spec
    actions = np.random.default_rng(0).integers(0, 2, (120, 8))
    whole = trace(make_lanes(config, spec, range(8), 3), actions)
    parts = [trace(make_lanes(config, spec, range(i, i + 2), 3), actions[:, i : i + 2]) for i in range(0, 8, 2)]
    assert whole == [[cell for part in row for cell in part] for row in zip(*parts, strict=True)]


def test_gymnasiums_cartpole_vector_form_is_found_out() -> None:
    config = EnvConfig(kwargs={"sutton_barto_reward": True})
    assert not vector_form_is_sound(config, spec_of(config))
    assert not probe_env(config).spec.vector_form
    assert probe_env(EnvConfig()).spec.vector_form


def test_a_sound_vector_form_is_found_and_used() -> None:
    env_id = "WhorlTestSound-v0"
    gymnasium.register(
        env_id,
        entry_point="whorl.envs.library.exact:Identity",
        vector_entry_point=lambda num_envs, **kwargs: SyncVectorEnv([partial(make_env, env_id, kwargs)] * num_envs),
    )
    try:
        config = EnvConfig(id=env_id, kwargs={"length": 4})
        spec = probe_env(config).spec
        assert spec.vector_form
        actions = np.random.default_rng(0).integers(0, 4, (50, 3))
        lanes = make_lanes(config, spec, range(3), 1)
        assert isinstance(lanes, VectorLanes)
        assert trace(lanes, actions) == trace(ScalarLanes(config, spec, range(3), 1), actions)
        lanes.close()
    finally:
        del gymnasium.registry[env_id]


def test_rows_change_only_in_receive() -> None:
    config = EnvConfig()
    for vector_form in (False, True):
        lanes = make_lanes(config, replace(spec_of(config), vector_form=vector_form), range(2), 1)
        rows = drain(lanes.start(fresh(range(2))))
        before = rows.observation["obs"].copy()
        lanes.send(np.array([0, 1]))
        assert (rows.observation["obs"] == before).all()
        lanes.receive()
        assert (rows.observation["obs"] != before).any()
        lanes.close()


def make_stumbling(num_envs: int, autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP, **kwargs) -> SyncVectorEnv:
    env = SyncVectorEnv(
        [partial(make_env, "whorl/Identity-v0", {"length": 4})] * num_envs, autoreset_mode=autoreset_mode
    )
    step = env.step

    def stumble(actions):
        STUMBLES.append(len(STUMBLES))
        if len(STUMBLES) in STUMBLE_AT:
            raise RuntimeError("stumbled")
        return step(actions)

    env.step = stumble
    return env


STUMBLES: list[int] = []
STUMBLE_AT: set[int] = set()


@pytest.mark.parametrize("autoreset", ["auto", "next_step", "same_step", "disabled"])
def test_a_vector_form_that_raises_is_a_fault_of_all_its_lanes(autoreset: str) -> None:
    env_id = "WhorlTestStumbling-v0"
    entry = "whorl.envs.library.exact:Identity"
    gymnasium.register(env_id, entry_point=entry, vector_entry_point=make_stumbling, kwargs={"length": 4})
    try:
        config = EnvConfig(id=env_id, autoreset=autoreset)
        spec = probe_env(config).spec
        assert spec.vector_form
        lanes = make_lanes(config, spec, range(3), 1)
        rows = drain(lanes.start(fresh(range(3))))
        STUMBLES.clear()
        STUMBLE_AT.update({3, 8})  # amid an episode, and (4 steps after the first) on a final-observation row
        shown, seen = [], []
        for _ in range(9):
            lanes.send(np.zeros(3, np.int64))
            outcome = lanes.receive()
            shown.append((outcome.fault.tolist(), rows.first.tolist(), rows.valid.tolist()))
            seen.append(rows.observation["obs"].tolist())
        yes, no = [True] * 3, [False] * 3
        assert shown[2] == (yes, yes, yes)
        assert shown[6] == (no, no, no)
        assert shown[7] == (no, yes, yes)
        assert lanes.episodes == [2, 2, 2]
        assert lanes.fault_count == 2
        scalar = ScalarLanes(config, spec, range(3), 1)
        begun = drain(scalar.start([LaneState(lane, episode=1) for lane in range(3)]))
        assert seen[2] == begun.observation["obs"].tolist()
        scalar.close()
        lanes.close()
    finally:
        STUMBLE_AT.clear()
        del gymnasium.registry[env_id]


def test_a_vector_form_that_raises_while_it_is_brought_back_begins_the_next_episodes() -> None:
    env_id = "WhorlTestStumbling-v0"
    entry = "whorl.envs.library.exact:Identity"
    gymnasium.register(env_id, entry_point=entry, vector_entry_point=make_stumbling, kwargs={"length": 4})
    try:
        config = EnvConfig(id=env_id)
        spec = probe_env(config).spec
        lanes = make_lanes(config, spec, range(3), 1)
        STUMBLES.clear()
        STUMBLE_AT.update({2})
        observation = {"obs": np.int64(1)}
        amid = LaneState(1, episode=5, actions=np.zeros(2, np.int64), observation=observation)
        over = LaneState(2, episode=7, ended=True, observation=observation)
        rows = drain(lanes.start([LaneState(0, episode=3), amid, over]))
        assert lanes.episodes == [3, 6, 7]
        assert (rows.valid.tolist(), rows.first.tolist()) == ([True, True, False], [True, True, False])
        assert (lanes.fault_count, lanes.exact) == (1, False)
        lanes.send(np.zeros(3, np.int64))
        lanes.receive()
        assert lanes.episodes == [3, 6, 8]
        assert rows.first.tolist() == [False, False, True]
        lanes.close()
    finally:
        STUMBLE_AT.clear()
        del gymnasium.registry[env_id]
