"""A bad network costs time and nothing else: no step is lost, and none is taken twice."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from whorl.config.schema import EnvConfig
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import plain_spec
from whorl.envs.registry import make_env
from whorl.envs.remote import connection
from whorl.envs.spaces import random_actions
from whorl.envs.vector import VectorLanes
from whorl.errors import EnvironmentFault
from whorl.types import EnvSpec

from .conftest import Serve, ServerProcess
from .proxies import ByteProxy, MessageProxy
from .served_envs import rows_of, started, step

LOOPBACK = "tcp://127.0.0.1:*"


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_ATTEMPT_S", 0.3)


def spec_of(env: str) -> EnvSpec:
    config = EnvConfig(id=env)
    made = make_env(env)
    spec = plain_spec(config, made)
    made.close()
    return spec


def actions_of(spec: EnvSpec, rows: int, lanes: int) -> np.ndarray:
    return np.stack([random_actions(spec.action, rows, lane) for lane in range(lanes)], 1)


def here(env: str, spec: EnvSpec, actions: np.ndarray) -> list[bytes]:
    return rows_of(ScalarLanes(EnvConfig(id=env), spec, range(actions.shape[1]), 3), actions)


def test_messages_lost_doubled_and_late_are_performed_once(serve: Serve) -> None:
    served, spec = serve("CartPole-v1", bind=LOOPBACK), spec_of("CartPole-v1")
    actions = actions_of(spec, 60, 3)
    with MessageProxy(served.address, seed=5, lost=0.05, doubled=0.3, late=0.3) as proxy:
        lanes = VectorLanes(EnvConfig(id=proxy.address), spec, range(3), 3)
        assert rows_of(lanes, actions) == here("CartPole-v1", spec, actions)
        assert min(proxy.counts.values()) > 0, proxy.counts
    assert lanes.fault_count == 0
    assert served.counts["performed"] == len(actions) + 1  # and the first reset
    assert served.counts["answered_again"] > 0


def test_bytes_trickled_cut_short_and_reset_are_no_matter(serve: Serve) -> None:
    served, spec = serve("CartPole-v1", bind=LOOPBACK), spec_of("CartPole-v1")
    actions, chance = actions_of(spec, 40, 3), random.Random(1)

    def spoil(chunk: bytes) -> list[bytes | float | None]:
        match chance.choices(["pass", "trickle", "delay", "truncate", "reset"], [70, 10, 10, 5, 5])[0]:
            case "trickle":
                return [piece for i in range(0, len(chunk), 7) for piece in (chunk[i : i + 7], 0.001)]
            case "delay":
                return [0.05, chunk]
            case "truncate":
                return [chunk[: len(chunk) // 2], None]
            case "reset":
                return [None]
            case _:
                return [chunk]

    with ByteProxy(served.address, spoil) as proxy:
        lanes = VectorLanes(EnvConfig(id=proxy.address), spec, range(3), 3)
        assert rows_of(lanes, actions) == here("CartPole-v1", spec, actions)
    assert lanes.fault_count == 0
    assert served.counts["performed"] == len(actions) + 1


@pytest.mark.parametrize("cut_s", [1.5, *(pytest.param(cut_s, marks=pytest.mark.verify) for cut_s in (5, 60))])
def test_cut_off_for_a_while_it_goes_on_where_it_was(serve: Serve, cut_s: float) -> None:
    served, spec = serve("CartPole-v1", bind=LOOPBACK), spec_of("CartPole-v1")
    actions = actions_of(spec, 20, 3)
    with ByteProxy(served.address) as proxy:
        lanes = VectorLanes(EnvConfig(id=proxy.address), spec, range(3), 3)
        try:
            rows, seen = started(lanes), []
            for number, action in enumerate(actions):
                if number == 10:
                    proxy.is_cut = True
                    threading.Timer(cut_s, lambda: setattr(proxy, "is_cut", False)).start()
                seen.append(step(lanes, rows, action))
        finally:
            lanes.close()
    assert seen == here("CartPole-v1", spec, actions)
    assert served.counts["performed"] == len(actions) + 1


def test_cut_off_for_ever_ends_with_one_line_that_says_where(serve: Serve) -> None:
    served, spec = serve("CartPole-v1", bind=LOOPBACK), spec_of("CartPole-v1")
    with ByteProxy(served.address) as proxy:
        config = EnvConfig(id=proxy.address, kwargs={"patience_s": 3})
        lanes = VectorLanes(config, spec, range(2), 3)
        try:
            started(lanes)
            proxy.is_cut = True
            lanes.send(actions_of(spec, 1, 2)[0])
            with pytest.raises(EnvironmentFault, match=f"{proxy.address}: no answer for 3 s"):
                lanes.receive()
        finally:
            proxy.is_cut = False
            lanes.close()


def test_asking_again_during_a_slow_step_does_not_take_it_twice(serve: Serve) -> None:
    served = serve("whorl/Slow-v0", kwargs={"env": "CartPole-v1", "step_time_s": 1.0})
    env = make_env(served.address)
    env.reset(seed=1)
    env.step(0)
    env.close()
    assert served.counts["performed"] == 2
    assert served.counts["answered_again"] > 0


def test_a_server_killed_and_restarted_amid_an_episode_loses_nothing(
    serve_process: Callable[..., ServerProcess], folder: Path
) -> None:
    address, spec = f"ipc://{folder / 'env.sock'}", spec_of("CartPole-v1")
    actions = actions_of(spec, 30, 3)
    server = serve_process("CartPole-v1", address)
    lanes = VectorLanes(EnvConfig(id=address), spec, range(3), 3)
    try:
        rows, seen = started(lanes), []
        for number, action in enumerate(actions):
            if number == 17:
                server.kill()
                serve_process("CartPole-v1", address)
            seen.append(step(lanes, rows, action))
    finally:
        lanes.close()
    assert seen == here("CartPole-v1", spec, actions)
    assert lanes.exact
    assert lanes.fault_count == 0


@pytest.mark.parametrize(
    ("env", "restore", "words"),
    [("CartPole-v1", "none", "restore is none"), ("remote.served_envs:Unseeded", "replay", "led elsewhere")],
)
def test_what_cannot_be_brought_back_is_a_fault_and_no_terminal(
    serve: Serve, env: str, restore: Literal["none", "replay"], words: str
) -> None:
    served, spec = serve(env, copies=2, idle_s=0.05), replace(spec_of(env), restore=restore)
    lanes = VectorLanes(EnvConfig(id=served.address), spec, range(2), 3)
    try:
        rows = started(lanes)
        for action in actions_of(spec, 3, 2):
            step(lanes, rows, action)
        time.sleep(0.1)
        make_env(served.address).close()  # takes a copy away from a client that has been silent
        assert served.counts["freed"] > 0
        lanes.send(actions_of(spec, 1, 2)[0])
        outcome = lanes.receive()
        assert outcome.fault.all()
        assert not (outcome.terminated | outcome.truncated).any()
        assert rows.first.all()
        assert lanes.episodes == [1, 1]
        assert words in lanes.faults[0]
    finally:
        lanes.close()


def test_a_session_that_was_given_away_is_brought_back(serve: Serve) -> None:
    served, spec = serve("CartPole-v1", copies=2, idle_s=0.05), spec_of("CartPole-v1")
    actions = actions_of(spec, 12, 2)
    lanes = VectorLanes(EnvConfig(id=served.address), spec, range(2), 3)
    try:
        rows, seen = started(lanes), []
        for number, action in enumerate(actions):
            if number in (5, 8):
                time.sleep(0.1)
                make_env(served.address).close()
            seen.append(step(lanes, rows, action))
    finally:
        lanes.close()
    assert seen == here("CartPole-v1", spec, actions)
    assert served.counts["lost"] == 2


def test_a_server_that_came_back_with_other_spaces_is_refused(
    serve_process: Callable[..., ServerProcess], folder: Path
) -> None:
    address, spec = f"ipc://{folder / 'env.sock'}", spec_of("CartPole-v1")
    server = serve_process("CartPole-v1", address)
    lanes = VectorLanes(EnvConfig(id=address), spec, range(2), 3)
    try:
        rows = started(lanes)
        step(lanes, rows, actions_of(spec, 1, 2)[0])
        server.kill()
        serve_process("Pendulum-v1", address)
        lanes.send(actions_of(spec, 1, 2)[0])
        with pytest.raises(EnvironmentFault, match=r"now serves Pendulum-v1, with other spaces than at the start"):
            lanes.receive()
    finally:
        lanes.close()


def test_sigterm_ends_a_server_cleanly(serve_process: Callable[..., ServerProcess], folder: Path) -> None:
    server = serve_process("CartPole-v1", f"ipc://{folder / 'env.sock'}")
    assert "you alone may connect" in server.announcement
    assert "torch" not in Path(f"/proc/{server.process.pid}/maps").read_text()  # a server is light
    started_s = time.monotonic()
    code, said = server.end()
    assert (code, time.monotonic() - started_s < 5) == (0, True)
    assert "performed 0" in said
    assert server.process.returncode != -signal.SIGTERM
