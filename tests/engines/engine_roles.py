"""Roles that die, hang and disobey."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

from whorl.engines.contract import SUPERVISOR, Channel, Group, Role, RoleGenerator, RoleId, Wait
from whorl.engines.faults import fault_hook
from whorl.types import Field, Layout

NUMBERS = Layout((Field("number", (), "int64"), Field("incarnation", (), "int64"), Field("row", (1000,), "int64")))


def serve(role: Role, **_: object) -> RoleGenerator:
    """Say that it is up, then hand on what it is told, until told to stop."""
    role.line.send("up", {"incarnation": role.incarnation, "pid": os.getpid(), "role": str(role.id)})
    while True:
        message = role.line.try_receive()
        if message is None:
            yield Wait((role.line.readable,), "a message")
        elif message.kind == "stop":
            return
        else:
            role.line.send(message.kind, message.body, to=SUPERVISOR)


def produce(role: Role, out: Channel) -> RoleGenerator:
    """Numbers for ever, each stamped with the incarnation."""
    role.line.send("up", {"incarnation": role.incarnation, "pid": os.getpid()})
    number = 0
    while True:
        slot = yield from out.reserve()
        slot["number"][...] = number
        slot["incarnation"][...] = role.incarnation
        slot["row"][:] = number
        out.commit()
        number += 1


def consume(role: Role, inputs: list[Channel]) -> RoleGenerator:
    """Read for ever, check that every slot is whole and in order, report now and then."""
    last = [(-1, -1)] * len(inputs)
    reads = 0
    while True:
        for index, channel in enumerate(inputs):
            slot = channel.try_claim()
            if slot is None:
                continue
            stamp = int(slot["incarnation"]), int(slot["number"])
            assert stamp > last[index], f"{stamp} came after {last[index]}"
            assert (slot["row"] == slot["number"]).all(), "a torn slot"
            last[index] = stamp
            channel.release()
            reads += 1
            if reads % 1000 == 0:
                role.line.send("metrics", {"update": reads, "reads": reads})
        if not any(channel.readable.ready() for channel in inputs):
            yield Wait(
                tuple(channel.readable for channel in inputs),
                "anybody's numbers",
                tuple(RoleId("actor", index) for index in range(len(inputs))),
            )


def hand_over_and_die(role: Role, out: Channel) -> RoleGenerator:
    """Two slots handed over, a third half written; only the first incarnation dies."""
    for number in range(2):
        slot = yield from out.reserve()
        slot["number"][...] = 10 * role.incarnation + number
        out.commit()
    slot = yield from out.reserve()
    slot["number"][...] = 999
    if role.incarnation == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    slot["number"][...] = 12
    out.commit()


def read_late(role: Role, source: Channel) -> RoleGenerator:
    """Read five numbers, once told that the writer was lost."""
    message = yield from role.line.expect("lost")
    role.line.send("told", message.body)
    numbers = []
    for _ in range(5):
        slot = yield from source.claim()
        numbers.append(int(slot["number"]))
        source.release()
    role.line.send("numbers", {"numbers": numbers})


def claim_and_die(role: Role, source: Channel) -> RoleGenerator:
    """The first incarnation dies holding a slot; the second reads on."""
    slot = yield from source.claim()
    first = int(slot["number"])
    if role.incarnation == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    source.release()
    slot = yield from source.claim()
    role.line.send("read", {"numbers": [first, int(slot["number"])]})
    source.release()


def write_three(role: Role, out: Channel) -> RoleGenerator:
    """Three numbers through two slots."""
    for number in range(3):
        slot = yield from out.reserve()
        slot["number"][...] = number
        out.commit()


def die(role: Role) -> RoleGenerator:
    """Die in the way the job says, at once or from the second incarnation on never again."""
    role.line.send("up", {"incarnation": role.incarnation})
    if role.job.get("once") and role.incarnation > 0:
        yield from role.line.expect("stop")
        return
    how = role.job["how"]
    if how == "exit0":
        os._exit(0)
    if how == "segfault":
        ctypes.string_at(0)
    if how == "exit":
        raise SystemExit(3)
    if how == "sigkill":
        os.kill(os.getpid(), signal.SIGKILL)
    raise RuntimeError("the simulator lost its licence")


def hang_in_a_step(role: Role) -> RoleGenerator:
    """Hang inside an environment step with a deadline; slow but within it is left alone."""
    role.line.send("up", {"incarnation": role.incarnation})
    if role.incarnation == 0:
        role.clock.enter("environment", deadline_s=0.5, where=3)
        time.sleep(3600)
    role.clock.enter("environment", deadline_s=30.0, where=4)
    time.sleep(2.5)
    role.clock.enter("other")
    role.line.send("slow but alive")
    yield from role.line.expect("stop")


def disobey(role: Role) -> RoleGenerator:
    """Ignore SIGTERM and never yield."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    role.line.send("up", {"pid": os.getpid()})
    while True:
        time.sleep(0.1)
    yield


def have_children(role: Role) -> RoleGenerator:
    """Start a process of its own, as a simulator does."""
    child = subprocess.Popen(["sleep", "600"])
    role.line.send("up", {"pid": os.getpid(), "child": child.pid})
    yield from role.line.expect("stop")


def faulty(role: Role) -> RoleGenerator:
    """Ten steps with a fault point at each."""
    strike = fault_hook(role.id, role.incarnation)
    for env_step in range(10):
        if strike is not None:
            strike("env_step", env_step)
    role.line.send("finished", {"incarnation": role.incarnation})
    yield from ()


def chatter(role: Role) -> RoleGenerator:
    """Say something on both outputs."""
    print("to the log")
    os.write(2, b"to the log, too\n")
    os.kill(os.getpid(), signal.SIGKILL) if role.incarnation == 0 else None
    yield from ()


def add_for_ever(role: Role, group: Group) -> RoleGenerator:
    """Learners that sum again and again; each total is what it must be."""
    buffer = group_layout().allocate()
    rounds = 0
    while True:
        group_layout().views(buffer)["row"][:] = rounds
        total = yield from group.sum([buffer])
        assert (group_layout().views(total)["row"] == rounds * group.size).all()
        rounds += 1
        if rounds % 200 == 0:
            role.line.send("metrics", {"update": rounds, "rounds": rounds, "incarnation": role.incarnation})


def group_layout() -> Layout:
    return Layout((Field("row", (1000,), "float32"),))


def use_torch(role: Role) -> RoleGenerator:
    """A role that imports torch, with the threads it was given."""
    import torch

    product = torch.ones(300, 300) @ torch.ones(300, 300)
    role.line.send("torch", {"threads": torch.get_num_threads(), "value": float(product[0, 0])})
    yield from ()


def tick(role: Role, out: Channel) -> RoleGenerator:
    """Hand over and say so, at each turn."""
    for _ in range(20):
        yield from out.reserve()
        out.commit()
        role.line.send("tick")


def tock(role: Role, source: Channel) -> RoleGenerator:
    """Take and say so, at each turn."""
    for _ in range(20):
        yield from source.claim()
        source.release()
        role.line.send("tock")


def say_memory(role: Role) -> RoleGenerator:
    """Touch a channel's worth of memory in a tiny /dev/shm."""
    role.line.send("up", {"modules": "torch" in __import__("sys").modules})
    yield from role.line.expect("stop")


def say_surroundings(role: Role) -> RoleGenerator:
    """What it finds of the driver's environment, as the operating system has it."""
    role.line.send("found", {"town": os.environb[b"TOWN"], "first_path": os.fsencode(sys.path[0])})
    yield from ()
