"""Small roles for the contract suite."""

from __future__ import annotations

import contextlib
import time
from itertools import pairwise
from pathlib import Path

import numpy as np

from whorl.engines.contract import SUPERVISOR, Board, Channel, Group, Role, RoleGenerator, RoleId, Wait
from whorl.errors import BadInputError, EnvironmentFault, StalledError
from whorl.types import Field, Layout

NUMBERS = Layout((Field("number", (), "int64"), Field("row", (1000,), "float32")))


def count(role: Role, out: Channel) -> RoleGenerator:
    """Hand over 0, 1, 2, ..."""
    for number in range(role.job["items"]):
        slot = yield from out.reserve()
        slot["number"][...] = number
        slot["row"][:] = number
        out.commit()
    role.line.send("done", {"filled": out.filled})


def returns(role: Role) -> None:
    """Forgets to yield."""


def collect(role: Role, inputs: list[Channel]) -> RoleGenerator:
    """Read everything and tell the numbers."""
    numbers: dict[int, list[int]] = {index: [] for index in range(len(inputs))}
    left = role.job["items"] * len(inputs)
    while left:
        for index, channel in enumerate(inputs):
            slot = channel.try_claim()
            if slot is not None:
                assert (slot["row"] == slot["number"]).all()
                numbers[index].append(int(slot["number"]))
                channel.release()
                left -= 1
                break
        else:
            yield Wait(tuple(channel.readable for channel in inputs), "anybody's numbers")
    role.line.send("numbers", {str(index): read for index, read in numbers.items()})


def share(role: Role, source: Channel) -> RoleGenerator:
    """One of several readers of a channel: takes until a negative number comes."""
    taken = []
    while True:
        slot = yield from source.claim()
        number = int(slot["number"])
        source.release()
        if number < 0:
            break
        taken.append(number)
    role.line.send("taken", {"numbers": taken})


def deal(role: Role, out: Channel) -> RoleGenerator:
    """Numbers for several readers, then one negative for each."""
    for number in [*range(role.job["items"]), *[-1] * role.job["readers"]]:
        slot = yield from out.reserve()
        slot["number"][...] = number
        out.commit()


def claim_and_count(role: Role, source: Channel) -> RoleGenerator:
    """Tell how often something was handed over, before and after some of it was taken."""
    while source.handed_over < role.job["items"]:
        yield Wait((source.readable,), "more numbers")
        if source.filled == role.job["slots"]:
            role.line.send("counted", {"handed_over": source.handed_over})
            yield from source.claim()
            source.release()
    role.line.send("counted", {"handed_over": source.handed_over})


def fill_and_tell(role: Role, out: Channel) -> RoleGenerator:
    """Fill every slot, then try one more with a short wait."""
    for number in range(role.job["slots"]):
        slot = yield from out.reserve()
        slot["number"][...] = number
        out.commit()
    blocked = not out.writable.ready()
    try:
        yield Wait((out.writable,), "a slot", timeout_s=0.2)
        expired = ""
    except StalledError as error:
        expired = str(error)
    role.line.send("full", {"filled": out.filled, "blocked": blocked, "expired": expired})
    role.line.send("go", to=RoleId("reader", 0))
    first = yield from out.reserve()
    first["number"][...] = 41
    again = yield from out.reserve()
    role.line.send("reserved", {"same": again is first or again["number"] == 41})
    again["number"][...] = 42
    out.commit()


def drain_when_told(role: Role, source: Channel) -> RoleGenerator:
    """Read nothing before ``go``; then hold two slots at once."""
    yield from role.line.expect("go")
    first = yield from source.claim()
    second = yield from source.claim()
    held = [int(first["number"]), int(second["number"])]
    source.release()
    source.release()
    third = yield from source.claim()
    role.line.send("read", {"numbers": [*held, int(third["number"])]})
    source.release()


def release_the_second(role: Role, source: Channel) -> RoleGenerator:
    """Hold all three slots of a channel, give one back, and look at the others when it has been filled again."""
    first = yield from source.claim()
    second = yield from source.claim()
    third = yield from source.claim()
    source.release(1)
    second = yield from source.claim()
    role.line.send("held", {"numbers": [int(slot["number"]) for slot in (first, second, third)]})
    source.release(-1)
    second = yield from source.claim()
    role.line.send("held", {"numbers": [int(slot["number"]) for slot in (first, second, third)]})


def publish(role: Role, board: Board) -> RoleGenerator:
    """Versions 0, 1 and 2, each when told."""
    buffer = board.layout.allocate()
    for version in range(3):
        yield from role.line.expect("next")
        board.layout.views(buffer)["row"][:] = version
        board.layout.views(buffer)["number"][...] = 1000 + version
        board.publish(version, buffer)
        role.line.send("published", to=RoleId("reader", 0))
    try:
        board.publish(2, buffer)
    except ValueError as error:
        role.line.send("refused", {"text": str(error)})


def follow(role: Role, board: Board) -> RoleGenerator:
    """Read a board at each version, and the one before."""
    buffer = board.layout.allocate()
    row = board.layout.views(buffer)["row"]
    seen = [board.version]
    try:
        board.read(buffer)
    except LookupError:
        seen.append(-100)
    for version in range(3):
        role.line.send("next", to=RoleId("writer", 0))
        yield from board.wait_for(version)
        changed = board.changed.ready()
        seen.append(board.read(buffer))
        seen.append(int(row[0]))
        assert changed
        assert not board.changed.ready()
        yield from role.line.expect("published")
    beginning = buffer[:8].copy()
    beginning[:] = 255
    assert board.read(beginning, version=1) == 1
    assert beginning.view(np.int64)[0] == 1001  # a shorter buffer gets the beginning
    seen.append(board.read(buffer, version=1))
    seen.append(int(row[0]))
    try:
        board.read(buffer, version=0)
    except LookupError:
        seen.append(-200)
    role.line.send("seen", {"versions": seen})


def write_fast(role: Role, board: Board, done: Channel) -> RoleGenerator:
    """As fast as it goes, until the reader has had enough."""
    buffer = board.layout.allocate()
    row = board.layout.views(buffer)["row"]
    version = 0
    while done.try_claim() is None:
        row[:] = version
        board.publish(version, buffer)
        version += 1
    role.line.send("wrote", {"versions": version})
    yield from ()


def read_fast(role: Role, board: Board, done: Channel) -> RoleGenerator:
    """Every value read must be whole and have the version it claims."""
    buffer = board.layout.allocate()
    row = board.layout.views(buffer)["row"]
    reads = torn = 0
    yield from board.wait_for(0)
    end = time.monotonic() + 1.0
    while time.monotonic() < end and reads < 20_000:
        version = board.read(buffer)
        torn += not (row == version).all()
        reads += 1
    yield from done.reserve()
    done.commit()
    role.line.send("checked", {"torn": torn, "reads": reads})


SUMS = Layout((Field("gradient", (33,), "float32"), Field("moment", (7,), "float64"), Field("count", (), "int64")))


def brought(number: int) -> np.ndarray:
    """The ``number``-th buffer: values whose sum depends on the order of adding."""
    generator = np.random.default_rng(number)
    buffer = SUMS.allocate()
    views = SUMS.views(buffer)
    views["gradient"][:] = generator.standard_normal(33) * 10.0 ** generator.integers(-6, 6, 33)
    views["moment"][:] = generator.standard_normal(7) * 10.0 ** generator.integers(-12, 12, 7)
    views["count"][...] = number + 1
    return buffer


def add(role: Role, group: Group) -> RoleGenerator:
    """Sum the same 12 buffers, however many members share them, again and again; then the other meetings."""
    per_member = 12 // group.size
    totals = []
    for number in range(5):
        mine = [brought(group.rank * per_member + offset) for offset in range(per_member)]
        if number % 2:
            group.bring(mine)
            totals.append((yield from group.total()).copy())
        else:
            totals.append((yield from group.sum(mine)).copy())
    yield from group.barrier()
    value = yield from group.broadcast(77 if group.rank == 0 else -1)
    flags = []
    for bits in (1, 0, 1):
        flags.append((yield from group.union(bits << group.rank)))  # noqa: PERF401
    same = all(np.array_equal(total, totals[0]) for total in totals)
    role.line.send("sum", {"rank": group.rank, "total": totals[0], "same": same, "value": value, "flags": flags})


def wait_alone(role: Role, group: Group) -> RoleGenerator:
    """A member that comes late or never."""
    if group.rank == 0:
        yield from group.barrier()
    else:
        yield from role.line.expect("never")


def answer(role: Role) -> RoleGenerator:
    """Send every message back to its sender, until told to stop."""
    while True:
        message = role.line.try_receive()
        if message is None:
            yield Wait((role.line.readable,), "a message")
        elif message.kind == "stop":
            return
        else:
            role.line.send(message.kind, message.body, to=message.sender)


def ask(role: Role) -> RoleGenerator:
    """Send a big array around and report what came back."""
    array = np.arange(role.job["size"], dtype=np.float32).reshape(2, -1)
    role.line.send("big", {"array": array, "text": "ü", "nested": [{"scalar": np.float32(1.5)}]}, to=RoleId("echo", 0))
    message = yield from role.line.expect("big")
    back = message.body
    refused = ""
    try:
        role.line.send("bad", {"array": np.array([object()])})
    except TypeError as error:
        refused = str(error)
    report = {
        "equal": bool(np.array_equal(back["array"], array)) and back["array"].dtype == np.float32,
        "writable": bool(back["array"].flags.writeable),
        "rest": [back["text"], back["nested"]],
        "sender": str(message.sender),
        "refused": refused,
    }
    role.line.send("report", report)
    role.line.send("stop", to=RoleId("echo", 0))


def expect_other(role: Role) -> RoleGenerator:
    yield from role.line.expect("apples")


def waits_for_ever(role: Role, source: Channel) -> RoleGenerator:
    yield from source.claim()


def counts_and_waits(role: Role) -> RoleGenerator:
    role.clock.count(7)
    yield from role.line.expect("never")


def expires(role: Role, source: Channel) -> RoleGenerator:
    try:
        yield Wait((source.readable,), "writer-0's numbers", timeout_s=0.3)
    except StalledError as error:
        role.line.send("expired", {"text": str(error)})


def idle(role: Role, **_: object) -> RoleGenerator:
    yield from role.line.expect("stop")


def take_time(role: Role) -> RoleGenerator:
    """Spend known times in phases: at least those asked for, and on a busy machine more."""
    role.line.send("ready", to=SUPERVISOR)
    role.clock.enter("environment", deadline_s=5.0, where=3)
    marks = [time.monotonic()]
    time.sleep(0.15)
    marks.append(time.monotonic())
    role.clock.enter("learning")
    time.sleep(0.1)
    marks.append(time.monotonic())
    try:
        yield Wait((role.line.readable,), "nothing", timeout_s=0.2)
    except StalledError:
        marks.append(time.monotonic())
        role.line.send("shares", role.clock.shares())
        spent = [after - before for before, after in pairwise(marks)]
        role.line.send("spent", dict(zip(("environment", "learning", "waiting"), spent, strict=True)))


def fail_as(role: Role) -> RoleGenerator:
    yield from role.line.expect("go")
    kind = role.job["error"]
    role.line.send("last words")
    if kind == "EnvironmentFault":
        raise EnvironmentFault("lane 3 returned NaN in 'obs' at env step 17")
    if kind == "BadInputError":
        raise BadInputError("no such thing")
    raise StalledError("waited for nobody")


def end_at_once(role: Role) -> RoleGenerator:
    return
    yield


def close_politely(role: Role) -> RoleGenerator:
    try:
        role.line.send("up")
        yield from role.line.expect("never")
    finally:
        role.line.send("closing")
        Path(role.job["witness"]).write_text("closed\n")


def until_told(role: Role) -> RoleGenerator:
    """Count a step, say so, and wait for leave to end."""
    role.clock.count(1)
    role.line.send("up", {"incarnation": role.incarnation})
    yield from role.line.expect("leave")


def watch(role: Role) -> RoleGenerator:
    """Pass on what is heard of others. Wakes up now and then: a thread in which nobody ever can is stalled."""
    while True:
        with contextlib.suppress(StalledError):
            yield Wait((role.line.readable,), "news", timeout_s=0.05)
        while (message := role.line.try_receive()) is not None:
            role.line.send("heard", message.body)
