"""Hosted lanes over channels in memory: the same rows, and hosts that die on the way."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from env_helpers import MemoryChannel, drain, fresh, row_of, spec_of, trace
from test_env_restore import walk_with_ledger

from whorl.config.schema import EnvConfig
from whorl.envs.contract import LaneState
from whorl.envs.hosted import host_layouts, run_host, share_of_a_step
from whorl.envs.hosted_lanes import HostedLanes
from whorl.envs.lane import Lane
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import probe_env
from whorl.envs.spaces import random_actions
from whorl.errors import EnvironmentFault


class Hosts:
    """Hosts as generators in this process; a wait runs each of them once. Any can be killed and replaced."""

    def __init__(self, config: EnvConfig, lanes: range, seed: int = 1, spec: Any = None) -> None:
        self.config, self.lanes, self.seed = config, lanes, seed
        self.spec = spec or probe_env(config).spec
        layouts = host_layouts(self.spec)
        self.channels = [(MemoryChannel(layouts[0]), MemoryChannel(layouts[1])) for _ in lanes]
        self.incarnations = dict.fromkeys(lanes, -1)
        self.roles: dict[int, Any] = {}
        self.turns = 0
        self.before_turn: Callable[[int], None] = lambda turn: None
        self.lost: list[tuple[int, int]] = []
        for lane in lanes:
            self.replace(lane)
        self.client = self.connect()

    def connect(self, session: int = 0) -> HostedLanes:
        return HostedLanes(self.spec, self.lanes, self.channels, self.run_once, self.listen, session=session)

    def replace(self, lane: int) -> None:
        """As after a kill: the environment is gone, the channels are not."""
        self.incarnations[lane] += 1
        env = Lane(self.config, self.spec, self.seed, lane)
        commands, answers = self.channels[lane - self.lanes[0]]
        self.roles[lane] = run_host(env, commands, answers, self.incarnations[lane])

    def kill(self, lane: int) -> None:
        self.replace(lane)
        self.lost.append((lane, self.incarnations[lane]))

    def listen(self) -> None:
        while self.lost:
            self.client.host_lost(*self.lost.pop(0))

    def run_once(self, endpoints: tuple[Any, ...], waiting_for: str, lanes: list[int]) -> str:
        self.turns += 1
        assert self.turns < 20_000, f"still waiting for {waiting_for}"
        self.before_turn(self.turns)
        for role in list(self.roles.values()):
            next(role, None)
        return waiting_for


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1", "whorl/Dict-v0", "env_helpers:Walk"])
def test_hosted_lanes_give_the_rows_of_lanes_inside(env_id: str) -> None:
    config = EnvConfig(id=env_id, max_episode_steps=25)
    hosts = Hosts(config, range(2, 5))
    actions = random_actions(hosts.spec.action, 80 * 3, 0).reshape(80, 3, *hosts.spec.action.shape)
    assert trace(hosts.client, actions) == trace(ScalarLanes(config, hosts.spec, range(2, 5), 1), actions)
    assert hosts.client.exact
    hosts.client.close()
    hosts.run_once((), "the end", [])
    assert all(next(role, "ended") == "ended" for role in hosts.roles.values())


@pytest.mark.parametrize("env_id", ["CartPole-v1", "env_helpers:Walk"])
@pytest.mark.parametrize("seed", range(4))
def test_hosts_killed_at_random_change_nothing(env_id: str, seed: int) -> None:
    config = EnvConfig(id=env_id)
    hosts = Hosts(config, range(3))
    generator = np.random.default_rng(seed)

    def maybe_kill(turn: int) -> None:
        if generator.random() < 0.03:
            hosts.kill(int(generator.integers(3)))

    hosts.before_turn = maybe_kill
    actions = np.random.default_rng(1).integers(0, 2, (70, 3))
    got = trace(hosts.client, actions)
    assert got == trace(ScalarLanes(config, hosts.spec, range(3), 1), actions)
    assert hosts.client.exact
    assert max(hosts.incarnations.values()) > 0


def test_a_host_that_dies_between_rows_is_rebuilt_by_the_next() -> None:
    hosts = Hosts(EnvConfig(), range(1))
    inside = ScalarLanes(hosts.config, hosts.spec, range(1), 1)
    rows, wanted = drain(hosts.client.start(fresh(range(1)))), drain(inside.start(fresh(range(1))))
    for number in range(12):
        for lanes in (hosts.client, inside):
            lanes.send(np.array([number % 2]))
            drain(lanes.arrival())
        assert row_of(rows, hosts.client.receive(), 0) == row_of(wanted, inside.receive(), 0)
        if number == 7:
            hosts.kill(0)
            hosts.listen()
    assert hosts.client.exact


def test_three_deaths_at_the_same_step_give_the_episode_up() -> None:
    hosts = Hosts(EnvConfig(), range(2))
    rows = drain(hosts.client.start(fresh(range(2))))
    deaths = 0

    def die_at_step_4(turn: int) -> None:
        nonlocal deaths
        queue = hosts.channels[0][0].queue
        line = hosts.client._lines[0].lane
        if queue and int(queue[-1]["kind"]) == 1 and line._position == 3 and line.episode == 0:
            deaths += 1
            hosts.kill(0)

    hosts.before_turn = die_at_step_4
    outcomes = []
    for _ in range(6):
        hosts.client.send(np.array([0, 1]))
        drain(hosts.client.arrival())
        outcome = hosts.client.receive()
        outcomes.append((outcome.fault.tolist(), rows.first.tolist()))
    assert deaths == 3
    assert outcomes[3] == ([True, False], [True, False])
    assert [fault for fault, _ in outcomes if any(fault)] == [[True, False]]
    assert hosts.client.episodes == [1, 0]
    assert not hosts.client.exact
    assert "episode 0, env step 4: its process died there 3 times" in hosts.client.faults[0]


def test_without_restoring_a_death_is_a_fault_at_once() -> None:
    config = EnvConfig(restore="none")
    hosts = Hosts(config, range(1))
    rows = drain(hosts.client.start(fresh(range(1))))
    for number in range(5):
        if number == 3:
            hosts.before_turn = lambda turn: hosts.kill(0) if hosts.incarnations[0] == 0 else None
        hosts.client.send(np.array([1]))
        drain(hosts.client.arrival())
        outcome = hosts.client.receive()
        assert bool(outcome.fault[0]) == (number == 3)
        assert bool(rows.first[0]) == (number == 3)
    assert not hosts.client.exact


def test_an_actor_that_is_replaced_takes_the_living_hosts_over() -> None:
    config = EnvConfig()
    hosts = Hosts(config, range(2))
    actions = np.random.default_rng(1).integers(0, 2, (60, 2))
    undisturbed = trace(ScalarLanes(config, hosts.spec, range(2), 1), actions)
    states = walk_with_ledger(ScalarLanes(config, hosts.spec, range(2), 1), actions[:30])
    drain(hosts.client.start(fresh(range(2))))
    hosts.kill(1)
    hosts.listen()
    hosts.client.send(actions[0])  # asked, and the actor dies before the answers are read
    hosts.run_once((), "", [])
    hosts.client = hosts.connect(session=1)
    assert trace(hosts.client, actions[30:], states) == undisturbed[30:]
    assert hosts.client.exact


def test_ledger_states_come_back_in_hosts() -> None:
    config = EnvConfig(id="env_helpers:Walk")
    hosts = Hosts(config, range(3))
    actions = np.random.default_rng(1).integers(0, 2, (90, 3))
    undisturbed = trace(ScalarLanes(config, hosts.spec, range(3), 1), actions)
    for rows in (0, 5, 30, 31, 44):
        states = walk_with_ledger(ScalarLanes(config, hosts.spec, range(3), 1), actions[:rows])
        again = Hosts(config, range(3))
        assert trace(again.client, actions[rows:], states) == undisturbed[rows:]
    skipped = Hosts(config, range(3))
    states[1].skip = True
    rows = drain(skipped.client.start(states))
    assert skipped.client.episodes[1] == states[1].episode + 1
    assert rows.first.tolist() == [False, True, False]
    assert not skipped.client.exact


def test_faults_and_refusals_cross_the_channel() -> None:
    config = EnvConfig(id="whorl/Crash-v0", kwargs={"how": "raise", "at": 6})
    actions = np.ones((30, 2), np.int64)
    hosts = Hosts(config, range(2), spec=spec_of(config))
    assert trace(hosts.client, actions) == trace(ScalarLanes(config, hosts.spec, range(2), 1), actions)
    assert hosts.client.fault_count > 4
    assert "env step 6: step raised RuntimeError" in hosts.client.faults[0]
    for field in ("obs", "reward"):
        broken = EnvConfig(id="whorl/NaN-v0", kwargs={"field": field})
        hosts = Hosts(broken, range(1), spec=spec_of(broken))
        with pytest.raises(EnvironmentFault, match=rf"lane 0, episode 0, env step 5: {field}.*got nan"):
            trace(hosts.client, actions[:, :1])


def test_a_quarantined_state_in_the_ledger_is_skipped_inside_too() -> None:
    config = EnvConfig()
    spec = probe_env(config).spec
    (state,) = walk_with_ledger(ScalarLanes(config, spec, range(1), 1), np.ones((4, 1), np.int64))
    lanes = ScalarLanes(config, spec, range(1), 1)
    drain(lanes.start([LaneState(**{**state.__dict__, "skip": 3})]))
    assert lanes.episodes == [state.episode + 3]


def test_hosts_that_begin_together_do_not_end_their_steps_together() -> None:
    delays = sorted(share_of_a_step(lane, 0.1) for lane in range(32))
    gaps = np.diff([*delays, 0.1])
    assert delays[0] == 0
    assert min(gaps) > 0.1 / 64
    assert max(gaps) < 0.1 / 16
    assert max(share_of_a_step(lane, 1200.0) for lane in range(256)) < 0.25  # a long step is not made much longer


def test_the_time_by_which_the_first_step_is_drawn_out_is_not_the_environments(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        phase = ""

        def enter(self, phase: str, deadline_s: float = 0.0, where: int = 0) -> None:
            self.phase = phase

    clock, slept_in = Clock(), []
    monkeypatch.setattr("whorl.envs.hosted.time.sleep", lambda _duration_s: slept_in.append(clock.phase))
    hosts = Hosts(EnvConfig(), range(1, 2))
    hosts.roles[1] = run_host(Lane(hosts.config, hosts.spec, hosts.seed, 1), *hosts.channels[0], 0, clock)
    trace(hosts.client, np.ones((3, 1), np.int64))
    assert slept_in == ["other"]
