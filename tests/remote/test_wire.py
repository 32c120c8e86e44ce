"""The wire protocol as its page tells it, message by message."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from whorl.envs.remote import server as server_module
from whorl.envs.remote.layout import answer_fields, spec_from_wire, unpack
from whorl.envs.remote.messages import Action, Leaf, Malformed, Spec

from .conftest import Serve
from .raw_client import RawClient, frames_of

RESET_BOTH = frames_of([2, 2], seed=[1, 2])


@pytest.fixture
def client(serve: Serve) -> Any:
    served = serve("CartPole-v1", copies=4)
    with RawClient(served.address) as raw:
        raw.server = served
        yield raw


def test_the_same_number_is_performed_once_and_answered_with_the_same_bytes(client: Any) -> None:
    session = client.hello()
    client.say(*RESET_BOTH, number=1, **session)
    first = client.hear()
    for frames in (RESET_BOTH, frames_of([1, 1], action=[1, 1])):  # whatever a repetition carries
        client.say(*frames, number=1, **session)
        assert client.hear() == first
    client.say(*frames_of([1, 0]), number=2, **session)
    advanced, frames = client.hear()
    assert advanced.number == 2
    arrays = unpack(answer_fields(welcome_spec(client), 2), frames)
    assert arrays["status"].tolist() == [1, 0]
    assert arrays["reward"].tolist() == [1.0, 0.0]
    assert client.server.counts["performed"] == 2
    assert client.server.counts["answered_again"] == 2


def welcome_spec(client: Any) -> Spec:
    return client.answer(kind="hello", client=b"0123456789abcdef", lanes=2).spec


def test_any_other_number_is_refused_and_nothing_is_done(client: Any) -> None:
    session = client.hello()
    client.say(*RESET_BOTH, number=1, **session)
    client.hear()
    for number in (3, 2**40):
        refused = client.answer(*RESET_BOTH, number=number, **session)
        assert (refused.number, refused.reason) == (number, "number 2 is next")
    assert client.server.counts["performed"] == 1


def test_a_hello_repeated_takes_no_more_copies(client: Any) -> None:
    assert client.hello(lanes=4) == client.hello(lanes=4)
    refused = client.answer(kind="hello", client=b"x" * 16, lanes=1)
    assert refused.busy
    assert "0 of 4 are free" in refused.reason
    too_many = client.answer(kind="hello", client=b"y" * 16, lanes=5)
    assert not too_many.busy
    assert "--copies 5" in too_many.reason


def test_bye_frees_the_copies(client: Any) -> None:
    session = client.hello(lanes=4)
    client.say(kind="bye", epoch=session["epoch"], session=session["session"])
    assert client.hello(lanes=4, client=b"x" * 16)["session"] != session["session"]
    lost = client.answer(*RESET_BOTH, number=1, **session)
    assert (type(lost).__name__, lost.number) == ("Lost", 1)


@pytest.mark.parametrize("change", [{"epoch": b"another!"}, {"session": 5}])
def test_another_epoch_or_an_unknown_session_is_lost(client: Any, change: dict[str, Any]) -> None:
    session = client.hello()
    lost = client.answer(*RESET_BOTH, number=1, **{**session, **change})
    assert (type(lost).__name__, lost.epoch) == ("Lost", session["epoch"])


def test_another_version_is_told_which_one_this_is(client: Any) -> None:
    refused = client.answer(kind="hello", client=b"x" * 16, lanes=1, whorl=2)
    assert "speaks protocol 1 and the message protocol 2" in refused.reason
    assert "protocol 1 and the message protocol -7" in client.answer(whorl=-7).reason


FITTING = frames_of([1, 1])


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([], "0 frames, and 3 are expected"),
        (FITTING[:2], "2 frames, and 3 are expected"),
        ([*FITTING, b""], "4 frames, and 3 are expected"),
        ([FITTING[0] + b"\1", *FITTING[1:]], "frame 'op' has 3 bytes, and 2 are expected"),
        ([FITTING[0], FITTING[1][:-1], FITTING[2]], "frame 'seed' has 15 bytes, and 16 are expected"),
        (frames_of([1, 1, 1]), "frame 'op' has 3 bytes"),
        (frames_of([1, 3]), "op 3"),
        (frames_of([1, 1], action=[0, 2]), "an action outside 0..1"),
        (frames_of([1, 1], action=[0, -(2**63)]), "an action outside 0..1"),
    ],
)
def test_frames_that_do_not_fit_are_refused_and_nothing_is_done(client: Any, frames: list[bytes], words: str) -> None:
    session = client.hello()
    refused = client.answer(*frames, number=1, **session)
    assert refused.number == 1
    assert words in refused.reason
    assert client.server.counts["performed"] == 0
    client.say(*RESET_BOTH, number=1, **session)
    assert type(client.hear()[0]).__name__ == "Advanced"


def test_an_action_is_looked_at_only_where_it_is_taken(client: Any) -> None:
    session = client.hello()
    client.say(*frames_of([2, 0], seed=[2**64 - 1, 0], action=[99, 99]), number=1, **session)
    advanced, frames = client.hear()
    assert frames[0] == b"\1\0"
    assert not advanced.faults


def test_a_step_before_a_reset_and_after_an_end_is_a_fault_of_that_lane(client: Any) -> None:
    session = client.hello()
    client.say(*frames_of([1, 2]), number=1, **session)
    advanced, frames = client.hear()
    assert frames[0] == b"\2\1"
    assert advanced.faults == {0: "step without a reset before it"}
    for number in range(2, 40):
        client.say(*frames_of([0, 1], action=[0, 1]), number=number, **session)
        advanced, frames = client.hear()
        if frames[0] == b"\0\2":
            break
    assert advanced.faults == {1: "step without a reset before it"}


def test_an_exception_that_nobody_foresaw_is_a_fault_of_its_lane_and_no_step_is_taken_twice(serve: Serve) -> None:
    served = serve("remote.served_envs:Torn")
    with RawClient(served.address) as client:
        session = client.hello()
        client.say(*RESET_BOTH, number=1, **session)
        client.hear()
        client.say(*frames_of([1, 1], action=[0, 1]), number=2, **session)
        first = client.hear()
        client.say(*frames_of([1, 1], action=[0, 1]), number=2, **session)
        assert client.hear() == first
        advanced, frames = first
        arrays = unpack(answer_fields(welcome_spec(client), 2), frames)
        assert (arrays["status"].tolist(), arrays["reward"].tolist()) == ([1, 2], [1.0, 0.0])
        assert "LookupError: a page is missing" in advanced.faults[1]
        client.say(*frames_of([1, 2]), number=3, **session)
        _, frames = client.hear()
        arrays = unpack(answer_fields(welcome_spec(client), 2), frames)
        assert arrays["status"].tolist() == [1, 1]
        assert arrays["obs/obs"].tolist() == [[2.0], [0.0]]
        assert served.counts["dropped"] == 0


def test_a_client_that_is_gone_gives_way_sooner_than_one_that_is_silent(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "GONE_S", 0.0)
    served = serve("CartPole-v1", copies=2)
    with RawClient(served.address) as silent:
        silent.hello(lanes=1)
        with RawClient(served.address) as gone:
            gone.hello(lanes=1, client=b"g" * 16)
        with RawClient(served.address) as third:
            for _ in range(100):
                answer = third.answer(kind="hello", client=b"t" * 16, lanes=1)
                if type(answer).__name__ == "Welcome":
                    break
                time.sleep(0.02)
            assert third.answer(kind="hello", client=b"u" * 16, lanes=1).busy
    assert served.counts["freed"] == 1


def spec(**changes: Any) -> Spec:
    leaf = {"name": "obs", "kind": "vector", "shape": [4], "dtype": "float32", "low": -1.0, "high": 1.0, "n": 0}
    action = {"kind": "discrete", "shape": [], "dtype": "int64", "nvec": [2], "low": [], "high": []}
    for name, value in changes.items():
        part, _, key = name.partition("_")
        (leaf if part == "leaf" else action)[key] = value
    return Spec([Leaf(**leaf)], Action(**action), 100, "replay")


@pytest.mark.parametrize(
    "changes",
    [
        {"leaf_kind": "image"},
        {"leaf_kind": "discrete", "leaf_dtype": "int64", "leaf_shape": []},
        {"leaf_dtype": "int64"},
        {"leaf_low": 2.0},
        {"leaf_low": float("nan")},
        {"action_nvec": []},
        {"action_shape": [2], "action_nvec": [2, 2]},
        {"action_kind": "box", "action_shape": [2], "action_dtype": "float32"},
        {"action_kind": "box", "action_dtype": "float32", "action_nvec": [], "action_low": [2.0], "action_high": [1.0]},
        {"action_kind": "box", "action_nvec": [], "action_low": [0.0], "action_high": [1.0]},
    ],
)
def test_spaces_that_make_no_sense_are_refused_by_the_client(changes: dict[str, Any]) -> None:
    spec_from_wire(spec(), "here")
    with pytest.raises(Malformed):
        spec_from_wire(spec(**changes), "here")


def test_frames_are_little_endian_and_in_the_order_of_the_page(client: Any) -> None:
    session = client.hello()
    client.say(*RESET_BOTH, number=1, **session)
    _, frames = client.hear()
    assert [len(frame) for frame in frames] == [2, 16, 2, 2, 2 * 4 * 4]
    import gymnasium

    env = gymnasium.make("CartPole-v1")
    for lane, seed in enumerate((1, 2)):
        observation, _ = env.reset(seed=seed)
        assert np.frombuffer(frames[4], "<f4").reshape(2, 4)[lane].tobytes() == observation.tobytes()
    env.close()
