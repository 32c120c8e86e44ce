"""The C++ server takes each step once and stands whatever comes to its socket; the same for the Fortran one."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from remote.proxies import ByteProxy, MessageProxy
from remote.raw_client import RawClient, frames_of
from remote.test_hostile_clients import HEADERS, fuzz, send_all_that_is_none
from whorl.cli.main import main
from whorl.envs.registry import make_env
from whorl.envs.remote import connection
from whorl.errors import EnvironmentFault

from .conftest import Program, build

Start = Callable[..., Program]
LOOPBACK = "tcp://127.0.0.1:*"


@pytest.fixture
def glider(programs: Path, start: Start, folder: Path) -> Program:
    return start(programs / "glider", f"ipc://{folder / 'g.sock'}", 4)


def walk(env: Any, seed: int, actions: list[int]) -> list[Any]:
    """Everything an environment shows on the way, over the ends of episodes."""
    shown: list[Any] = [env.reset(seed=seed)[0].tolist()]
    for number, action in enumerate(actions):
        observation, reward, terminated, truncated, info = env.step(action)
        shown.append((observation.tolist(), reward, terminated, truncated, info))
        if terminated or truncated:
            shown.append(env.reset(seed=seed + number)[0].tolist())
    return shown


def test_a_simulator_in_cpp_is_an_environment(glider: Program) -> None:
    env = make_env(glider.address)
    first, _ = env.reset(seed=1)
    place = round(float(first[0]) * 6)
    assert 1 <= abs(place) <= 6
    towards = 2 if place < 0 else 0
    (x, v), reward, terminated, truncated, info = env.step(towards)
    assert (round(x * 6), round(v * 3)) == (place + towards - 1, towards - 1)
    assert (reward, terminated, truncated, info) == (-1.0, False, False, {})
    for _ in range(39):
        *_, truncated, info = env.step(1)
    assert truncated
    assert info["excess"] == 40 - math.ceil(2 * math.sqrt(abs(place)))
    env.close()


def test_each_step_is_taken_once_over_a_bad_network(
    programs: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_FIRST_ATTEMPT_S", 0.3)
    program = start(programs / "glider", LOOPBACK, 4)
    actions = [0, 2, 1] * 10
    direct = make_env(program.address)
    expected = walk(direct, 5, actions)
    direct.close()
    with MessageProxy(program.address, seed=3, lost=0.05, doubled=0.3, late=0.3) as proxy:
        env = make_env(proxy.address)
        assert walk(env, 5, actions) == expected
        env.close()
        assert min(proxy.counts.values()) > 0, proxy.counts
    with RawClient(program.address) as raw:
        counts = raw.pong().counts
    assert counts["performed"] == 2 * len(expected)
    assert counts["answered_again"] > 0


def test_cut_off_for_a_while_it_goes_on(programs: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_FIRST_ATTEMPT_S", 0.3)
    program = start(programs / "glider", LOOPBACK, 4)
    with ByteProxy(program.address) as proxy:
        env = make_env(proxy.address)
        env.reset(seed=1)
        for number in range(10):
            if number == 5:
                proxy.reset_all()
            env.step(1)
        env.close()
    with RawClient(program.address) as raw:
        assert raw.pong().counts["performed"] == 11


def test_numbers_answers_and_faults(glider: Program) -> None:
    with RawClient(glider.address) as raw, RawClient(glider.address) as again:
        session = raw.hello(lanes=2)
        assert raw.hello(lanes=2) == session, "the same client is welcomed to the same session"
        raw.say(*frames_of([2, 1], [7, 0]), number=1, **session)
        heard = raw.hear()
        assert heard is not None
        answer, frames = heard
        assert answer.faults == {1: "step without a reset before it"}
        assert list(frames[0]) == [1, 2]
        again.say(*frames_of([1, 1]), number=1, **session)
        assert again.hear() == (answer, frames), "over another connection, with other frames: the same answer"
        for number in (3, 2**63 - 1):
            assert raw.answer(*frames_of([1, 1]), number=number, **session).reason == "number 2 is next"
        for bad in (frames_of([3, 0]), frames_of([1, 0], action=[3, 0]), frames_of([1, 0], action=[-1, 0])):
            assert "above 2" in (words := raw.answer(*bad, number=2, **session).reason) or "outside" in words
        assert raw.answer(*frames_of([1]), number=2, **session).reason.startswith("not the frames")
        assert raw.answer(*frames_of([1, 0], action=[2, 9]), number=2, **session).number == 2, "of a lane left alone"
        lost: Any = raw.answer(*frames_of([1, 1]), number=3, **{**session, "epoch": bytes(8)})
        assert (type(lost).__name__, lost.epoch) == ("Lost", session["epoch"])
        busy: Any = raw.answer(kind="hello", client=bytes(16), lanes=3)
        assert (busy.busy, busy.reason) == (True, "3 lanes wanted, and 2 are free: serve more copies")
        raw.say(kind="bye", epoch=session["epoch"], session=session["session"])
        assert raw.hello(lanes=4, client=bytes(16))["session"] != session["session"]
        older = msgspec.msgpack.encode({"whorl": 2, "kind": "hello", "more": [{"a": 1}]})
        raw.send(older)
        heard = raw.hear()
        assert heard is not None
        assert "speaks protocol 1 and the message protocol 2" in heard[0].reason


def test_hostile_messages_are_dropped_and_counted(glider: Program) -> None:
    with RawClient(glider.address) as raw:
        sent = send_all_that_is_none(raw)
        assert raw.pong().counts["dropped"] == sent
    fuzz(glider.address, 30)
    env = make_env(glider.address, {"patience_s": 20})
    env.reset(seed=1)
    env.close()
    code, said, complaints = glider.end()
    assert (code, complaints) == (0, "")
    assert "performed" in said


@pytest.mark.verify
def test_anything_at_all_under_the_sanitisers(shared_folder: Path, start: Start) -> None:
    flags = "-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all"
    where = build(shared_folder / "sanitised", targets=("glider",), flags=flags)
    program = start(where / "glider", LOOPBACK, 4)
    for _ in range(20):
        with RawClient(program.address) as raw:
            for header in HEADERS.values():
                raw.send(header)
            for _ in range(500):
                raw.send(os.urandom(int(os.urandom(1)[0])), os.urandom(3))
            raw.pong()
    fuzz(program.address, 2000)
    code, _, complaints = program.end()
    assert (code, complaints) == (0, "")


@pytest.mark.verify
def test_copies_of_a_client_that_is_gone_come_free(glider: Program) -> None:
    with RawClient(glider.address) as raw:
        raw.hello(lanes=4)
    began_s = time.monotonic()
    env = make_env(glider.address, {"patience_s": 30})
    assert 4 < time.monotonic() - began_s < 15
    env.close()


def test_who_may_connect(programs: Path, start: Start, folder: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    main(["env", "keys", str(keys)])
    program = start(programs / "glider", LOOPBACK, 2, keys)
    env = make_env(program.address, {"keys": str(keys)})
    env.reset(seed=1)
    env.close()
    with pytest.raises(EnvironmentFault, match=r"no answer for 1 s"):
        make_env(program.address, {"patience_s": 1})
    stranger = tmp_path / "stranger"
    main(["env", "keys", str(stranger)])
    (stranger / "server.public").write_bytes((keys / "server.public").read_bytes())
    with pytest.raises(EnvironmentFault, match=r"no answer for 1 s"):
        make_env(program.address, {"keys": str(stranger), "patience_s": 1})
    refused = {
        "tcp://0.0.0.0:5555": "can be reached from other machines",
        f"ipc://{folder}/no/g.sock": "there is no",
        "ipc:///tmp/g.sock": "must be yours",
        "udp://127.0.0.1:1": "expected tcp://HOST:PORT or ipc://PATH",
    }
    for address, words in refused.items():
        code, _, complaints = start(programs / "glider", address, 2).end()
        assert (code, complaints.count("\n")) == (1, 1)
        assert words in complaints
    first = start(programs / "glider", f"ipc://{folder}/g.sock", 2)
    code, _, complaints = start(programs / "glider", f"ipc://{folder}/g.sock", 2).end()
    assert "a server is running there already" in complaints
    assert first.end()[0] == 0


def test_a_simulator_in_fortran_is_an_environment(programs: Path, start: Start, folder: Path) -> None:
    program = start(programs / "tank", f"ipc://{folder / 't.sock'}", 2)
    env = make_env(program.address)
    observation, _ = env.reset(seed=3)
    level = float(observation[0]) + 1
    assert 0 <= level < 2
    total = 0.0
    for number in range(30):
        valve = np.clip((1 - level + 0.1 * level) / 0.4, 0, 1).astype(np.float32)
        observation, reward, terminated, truncated, info = env.step([valve])
        level, total = float(observation[0]) + 1, total + float(reward)
        assert (terminated, truncated) == (False, number == 29)
    assert total <= 0
    assert info["regret"] == pytest.approx(0, abs=1e-5)
    assert env.reset(seed=4)[0].tolist() != env.reset(seed=3)[0].tolist()
    env.close()
    code, _, complaints = program.end()
    assert (code, complaints) == (0, "")
    code, _, complaints = start(programs / "tank", "tcp://0.0.0.0:5555", 2).end()
    assert code == 1
    assert complaints.startswith("whorl: tcp://0.0.0.0:5555 can be reached from other machines")
