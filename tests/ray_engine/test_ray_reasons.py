"""What is said of a loss on a Ray cluster: why, in one line. And what a loss is at all."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest

from ray_nodes import require_ray
from whorl.engines.contract import SUPERVISOR, RoleId, RoleSpec
from whorl.engines.local.hosted import Hosted
from whorl.engines.ray.private import in_one_line
from whorl.engines.wire import FrameReader, decode_body, encode_body, encode_frame, envelope
from whorl.errors import BadInputError, RoleLostError

ACTOR = RoleId("actor", 0)


def died(reason: str) -> Exception:
    """As Ray tells it of an actor."""
    from ray.core.generated.common_pb2 import ActorDiedErrorContext
    from ray.exceptions import ActorDiedError

    context = ActorDiedErrorContext(
        error_message=reason,
        class_name="Station",
        actor_id=bytes(range(16)),
        pid=4711,
        ray_namespace="whorl-1",
        node_ip_address="10.0.0.2",
    )
    return ActorDiedError(context)


def raised(cause: Exception, function: str = "Station.open") -> Any:
    """As Ray tells it of an error in a task."""
    from ray.exceptions import RayTaskError

    trace = (
        "Traceback (most recent call last):\n"
        '  File "station.py", line 79, in open\n'
        "    check_descriptors(needed)\n"
        f"{type(cause).__name__}: {cause}\n"
    )
    return RayTaskError(function, trace, cause, proctitle=f"ray::{function}", pid=4711, ip="10.0.0.2")


NODE = (
    "The actor died because its node has died. Node Id: 0123abcd \n"
    "\tthe actor's node was terminated unexpectedly: health check failed due to missing too many heartbeats"
)
MEMORY = (
    "Task was killed due to the node running low on memory.\n"
    "Memory on the node (IP: 10.0.0.2, ID: 0123abcd) where the task (actor ID: 0001, name=Station, pid=4711) was "
    "running was 21.91GB / 23.00GB (0.952609), which exceeds the memory usage threshold of 0.95.\n"
)


def test_the_reason_of_a_loss_is_named_and_nothing_else() -> None:
    require_ray()
    from ray.exceptions import ActorDiedError, OutOfMemoryError

    node = in_one_line(died(NODE))
    assert node.startswith("The actor died because its node has died. Node Id: 0123abcd the actor's node was")
    assert node.endswith("health check failed due to missing too many heartbeats")
    worker = "The actor is dead because its worker process has died. Worker exit type: USER_ERROR Worker exit detail: "
    assert in_one_line(died(worker + MEMORY)) == worker + "Task was killed due to the node running low on memory."
    assert in_one_line(OutOfMemoryError(MEMORY)) == "Task was killed due to the node running low on memory."
    assert in_one_line(ActorDiedError()) == "The actor died unexpectedly before finishing this task."
    assert len(in_one_line(died("It is long. " * 100))) == 300


def test_an_error_in_a_task_is_named_without_its_traceback() -> None:
    require_ray()
    from ray.exceptions import ActorDiedError

    wrong = raised(FileNotFoundError(2, "No such file or directory", "logs/7"))
    assert "\x1b[" in str(wrong)
    said = "FileNotFoundError: [Errno 2] No such file or directory: 'logs/7'"
    assert in_one_line(wrong) == said
    assert in_one_line(wrong.as_instanceof_cause()) == said
    assert in_one_line(raised(KeyError())) == "KeyError"
    ours = BadInputError("too few descriptors: ulimit -n 4096")
    assert in_one_line(ours) == "too few descriptors: ulimit -n 4096"
    assert in_one_line(raised(ours).as_instanceof_cause()) == f"BadInputError: {ours}"
    assert in_one_line(ActorDiedError(wrong)) == said, "one that failed as it was made"


def test_an_actor_that_was_killed_for_its_memory_is_not_called_again() -> None:
    """Ray has an error of its own for that."""
    require_ray()
    from ray.exceptions import ActorUnavailableError, OutOfMemoryError

    from whorl.engines.ray.stream import Stream

    errors = [ActorUnavailableError("it is busy", None), OutOfMemoryError(MEMORY)]

    async def call(_number: int, _headers: bytes, _arrays: list[Any]) -> None:
        raise errors.pop(0)

    async def send() -> bool:
        stream = Stream(call)
        await asyncio.wait_for(stream.send({}), 10)
        return stream.dead

    assert asyncio.run(send())
    assert not errors


class Page:
    """A status page whose role has counted."""

    counted = 40

    def start_afresh(self) -> None:
        self.counted = 0

    def supervise(self, at_work: bool) -> None:
        raise AssertionError("nobody is there")

    def shares(self, running: bool) -> dict[str, float]:
        return {}


@pytest.mark.parametrize(
    "error",
    [
        RoleLostError("no further process can be started: Resource temporarily unavailable"),
        OSError(errno.EMFILE, "Too many open files"),
    ],
    ids=["processes", "descriptors"],
)
def test_a_role_that_cannot_be_started_has_departed(error: Exception) -> None:
    """The order does not come a second time: who says nothing of it is waited for in vain."""
    require_ray()
    from whorl.engines.ray.station import Station

    page: Any = Page()
    hosted = Hosted(RoleSpec(ACTOR, "m:f"), "", page, -1)
    order = {"role": ["actor", 0], "incarnation": 3, "deaths": []}
    frame = encode_frame(envelope(SUPERVISOR, RoleId("station", 0), "start", control=True), encode_body(order))

    def start(_hosted: Hosted) -> None:
        raise error

    async def settle(_timeout_s: float) -> None:
        pass

    async def tell() -> list[tuple[str, dict[str, Any]]]:
        station: Any = Station(encode_body({"unit": 0, "generation": 2, "epoch": 0}))
        station._loop = asyncio.get_running_loop()
        station._fleet = SimpleNamespace(start=start, roles={ACTOR: hosted})
        station._crossings = SimpleNamespace(settle=settle, carried={}, arrived={})
        await station.tell(1, frame)
        await asyncio.gather(*station._tasks)
        _, frames = await station.news(0)
        return [(head.kind, decode_body(body)) for head, body in FrameReader().feed(frames)]

    (_, report), (kind, departed) = asyncio.run(tell())
    assert kind == "departed"
    assert departed["role"] == ["actor", 0]
    assert (departed["incarnation"], departed["generation"], departed["ended"]) == (3, 2, False)
    assert departed["cause"] == f"its process could not be started: {error}"
    assert departed["counted"] == report["roles"][0]["counted"] == 0, "what its predecessor counted counts once"
