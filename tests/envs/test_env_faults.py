"""Environments that raise, return nonsense, or reach out of their box."""

import os
import re
import signal
import threading
from collections import namedtuple

import gymnasium
import numpy as np
import pytest
from env_helpers import drain, fresh, spec_of
from gymnasium import spaces

from whorl.config.schema import EnvConfig
from whorl.envs import containment
from whorl.envs.containment import SideEffectsUndone, close_quietly, current_directory
from whorl.envs.deadline import StepDeadline
from whorl.envs.lane import MAX_CONSECUTIVE_FAULTS
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import check_reward_is_finite, probe_env, probe_lane
from whorl.errors import EnvironmentFault, last_line


def lanes_of(env_id: str, count: int = 2, **kwargs: object) -> ScalarLanes:
    config = EnvConfig(id=env_id, kwargs=kwargs)
    return ScalarLanes(config, spec_of(config), range(count), 1)


def step(lanes: ScalarLanes, rows: int, actions: int = 0):
    """Start and step; yields rows and outcome after each."""
    shown = drain(lanes.start(fresh(lanes.lanes)))
    for _ in range(rows):
        lanes.send(np.full(len(lanes.lanes), actions))
        yield shown, lanes.receive()


@pytest.mark.parametrize("how", ["raise", "exit"])
def test_raising_is_a_fault_and_never_a_terminal(how: str) -> None:
    lanes = lanes_of("whorl/Crash-v0", how=how, at=4)
    outcomes = [(rows.first.tolist(), out.fault.tolist(), out.terminated.any()) for rows, out in step(lanes, 9)]
    assert [fault for _, fault, _ in outcomes] == [[row in (3, 7)] * 2 for row in range(9)]
    assert [first for first, _, _ in outcomes] == [[row in (3, 7)] * 2 for row in range(9)]
    assert not any(terminated for *_, terminated in outcomes)
    assert lanes.episodes == [2, 2]
    assert lanes.fault_count == 4
    assert re.search(r"lane 0, episode 0, env step 4: step raised (RuntimeError|SystemExit)", lanes.faults[0])


def test_resets_that_raise_are_tried_again_and_cost_no_episode_number() -> None:
    lanes = lanes_of("whorl/Crash-v0", how="raise_reset", p=0.3)
    began = [int(rows.first.sum()) for rows, _ in step(lanes, 300)]
    assert lanes.fault_count > 5
    assert sum(began) == sum(lanes.episodes)


def test_a_lane_with_nothing_but_faults_ends_the_run() -> None:
    lanes = lanes_of("whorl/Crash-v0", how="raise", at=1)
    with pytest.raises(EnvironmentFault, match=r"env step 1: step raised RuntimeError: .*fault 11 without a good step"):
        for _ in step(lanes, 20):
            pass
    assert max(len(lane.faults) for lane in lanes._envs) == MAX_CONSECUTIVE_FAULTS + 1


def test_a_raising_close_is_ignored() -> None:
    lanes = lanes_of("whorl/Crash-v0", how="raise_close")
    list(step(lanes, 3))
    lanes.close()


def test_a_close_that_hangs_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containment, "CLOSE_TIMEOUT_S", 0.05)
    release = threading.Event()

    class Stuck:
        def close(self) -> None:
            release.wait(30)

    close_quietly(Stuck())
    release.set()


@pytest.mark.parametrize("value", ["nan", "inf"])
@pytest.mark.parametrize(("field", "name"), [("obs", r"obs\[3\]"), ("reward", "reward")])
def test_numbers_that_are_not_finite_are_refused_by_name(field: str, name: str, value: str) -> None:
    lanes = lanes_of("whorl/NaN-v0", field=field, value=value, at=5)
    message = (
        rf"^whorl/NaN-v0: lane 0, episode 0, env step 5: {name}: expected a? ?finite .*, got {value}; `whorl check"
    )
    walk = step(lanes, 9)
    for _ in range(4):
        next(walk)
    with pytest.raises(EnvironmentFault, match=message):
        next(walk)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("shape", r"env step 5: position: expected float of shape \(4,\), got float32 of shape \(5,\)"),
        ("dtype", r"env step 5: position: expected float of shape \(4,\), got int64 of shape \(4,\)"),
        ("range", r"env step 5: mode: expected an integer in 0\.\.2, got 7"),
        ("missing_key", r"env step 5: obs: expected a dict with keys \['mode', 'position'\], got no 'mode'"),
        (
            "space_changed",
            r"episode 1, env step 0: position: expected float of shape \(4,\), got float32 of shape \(6,\)",
        ),
        ("huge", r"env step 5: position: expected at most 67108864 bytes .*, got 500000000 bytes"),
    ],
)
def test_values_the_spaces_forbid_are_refused(how: str, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=message) as refused:
        for _ in step(lanes_of("whorl/WrongShape-v0", how=how), 20):
            pass
    assert "\n" not in str(refused.value)


class OldApi(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,))
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, {}


def test_the_old_step_api_is_refused() -> None:
    with pytest.raises(
        EnvironmentFault, match=r"step: expected \(observation, reward, terminated, .* got a tuple of 4"
    ):
        list(step(lanes_of("test_env_faults:OldApi"), 1))


def test_another_space_after_rebuilding_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lanes = lanes_of("whorl/Crash-v0", how="raise", at=3)
    from whorl.envs import lane

    made = lane.make_env
    walk = step(lanes, 5)
    next(walk), next(walk)
    monkeypatch.setattr(lane, "make_env", lambda *_: made("Pendulum-v1"))
    with pytest.raises(EnvironmentFault, match="spaces: expected those probed at the start"):
        next(walk)


def test_the_directory_and_signal_handlers_are_put_back() -> None:
    directory, handlers = current_directory(), [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
    for how in ("chdir", "signals"):
        lanes = lanes_of("whorl/Leak-v0", how=how)
        list(step(lanes, 3))
        assert current_directory() == directory
        assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)] == handlers
        lanes.close()


def test_side_effects_are_undone_after_an_exception_too() -> None:
    directory = current_directory()

    def wander() -> None:
        with SideEffectsUndone(directory):
            os.chdir("/")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        wander()
    assert current_directory() == directory


def test_an_ever_growing_info_is_not_kept() -> None:
    import tracemalloc

    lanes = lanes_of("whorl/Leak-v0", how="memory", bytes=10)
    infos = lanes_of("whorl/Leak-v0", how="info")
    list(step(lanes, 5))
    walk = step(infos, 400)
    for _ in range(200):
        next(walk)
    tracemalloc.start()
    for _ in range(100):
        next(walk)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 100 * 2 * 3000  # its own list grows by 1 kB per env step; a kept info would hold the whole list
    lanes.close()
    infos.close()


def test_an_interrupt_raised_by_the_environment_is_contained_but_the_users_is_not() -> None:
    class Interrupting(OldApi):
        def step(self, action):
            raise KeyboardInterrupt

    import sys

    sys.modules[__name__].Interrupting = Interrupting  # type: ignore[attr-defined]
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        lanes = lanes_of("test_env_faults:Interrupting")
        for _, outcome in step(lanes, 1):
            assert outcome.fault.all()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with pytest.raises(KeyboardInterrupt):
            list(step(lanes_of("test_env_faults:Interrupting"), 1))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("length", [0, 1])
def test_a_thousand_empty_episodes_go_on(length: int) -> None:
    lanes = lanes_of("whorl/Empty-v0", length=length)
    ended = sum(int(out.terminated.sum()) for _, out in step(lanes, 1200, actions=1))
    assert ended == 1200
    assert lanes.episodes == [600, 600]


def test_endless_episodes_are_cut() -> None:
    config = EnvConfig(id="whorl/Endless-v0", max_episode_steps=7)
    lanes = ScalarLanes(config, spec_of(config), range(1), 1)
    cut = [bool(out.truncated[0]) for _, out in step(lanes, 16)]
    assert [row for row, was_cut in enumerate(cut) if was_cut] == [6, 14]


def test_an_environment_that_only_raises_is_refused_by_the_probe() -> None:
    with pytest.raises(EnvironmentFault, match="env step 1: step raised"):
        probe_env(EnvConfig(id="whorl/Crash-v0", kwargs={"at": 1}))


def test_step_deadlines_are_learnt() -> None:
    deadline = StepDeadline()
    for _ in range(19):
        deadline.saw(0.001)
    assert deadline.seconds == 300.0
    deadline.saw(0.001)
    assert deadline.seconds == 10.0
    deadline.saw(2.0)
    assert deadline.seconds == 40.0
    fixed = StepDeadline(3.0)
    fixed.saw(100.0, steps=50)
    assert fixed.seconds == 3.0


def test_the_clock_knows_the_lane_of_a_slow_step() -> None:
    entered: list[tuple[str, float, int]] = []

    class Clock:
        def enter(self, phase: str, deadline_s: float = 0.0, where: int = 0) -> None:
            entered.append((phase, deadline_s, where))

    class WordClock(Clock):
        def at(self, where: int) -> None:
            marked.append(where)

    marked: list[int] = []
    config = EnvConfig(id="whorl/Slow-v0", kwargs={"step_time_s": 0.001}, step_timeout_s=7.0)
    lanes = ScalarLanes(config, spec_of(config), range(4, 6), 1, Clock())
    list(step(lanes, 2))
    assert {where for _, _, where in entered} == {4, 5}
    assert {deadline_s for _, deadline_s, _ in entered} == {7.0}
    list(step(ScalarLanes(config, spec_of(config), range(4, 6), 1, WordClock()), 2))
    assert marked == [4, 5, 4, 5]


class NamedStep(gymnasium.Env):
    """Returns named tuples, as some wrappers do."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return namedtuple("Step", "observation reward terminated truncated info")(1, 0.5, False, False, {})


def test_a_named_tuple_is_a_tuple() -> None:
    config = EnvConfig(f"{__name__}:NamedStep")
    lane, _ = probe_lane(config, spec_of(config))
    lane.begin(0)
    assert lane.step(0) == (0.5, False, False)


def test_the_probe_refuses_a_reward_that_float32_cannot_hold() -> None:
    config = EnvConfig(f"{__name__}:NamedStep")
    lane, _ = probe_lane(config, spec_of(config))
    with pytest.raises(EnvironmentFault, match="a finite float32"):
        check_reward_is_finite(lane, 1e300)


class _Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (_Mute(), "_Mute: (its message cannot be read: RuntimeError)"),
        (ValueError("name \udcff.csv"), "ValueError: name ?.csv"),
        (ValueError("x\n" * 10**6), "ValueError: " + " ".join("x" * 150)),
    ],
)
def test_any_exception_becomes_one_line_that_can_be_written(error: Exception, line: str) -> None:
    found = last_line(error)
    assert found.startswith(line)
    assert len(found) < 350
    found.encode()
