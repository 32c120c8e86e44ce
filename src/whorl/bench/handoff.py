"""What a hand-off through a channel of the local engine costs, beside copying memory.

    whorl bench handoff

One process copies a payload into a slot and commits; another claims it, copies it out and answers. The time from before
the first copy to after the second, less that of two such copies made by one process (into memory like a slot's, and out
of it), is the price of the hand-off.

That is the dearest way to hand something over. Actors write the rows of a trajectory straight into its slot while they
act, and only the learner copies it, into its batch. So the time from the commit to the end of that one copy is taken as
well: what a trajectory waits for on its way from actor to learner.

Both are equally cold. What was written on another core is in no cache of the reader's own, so the one process must not
find what it copies in its caches either: both rotate payloads, slots and targets, as many of each, over 64 MiB in all
(at least two of each, and at most 64 of small ones). The two are timed in turn, and the first round is left out.

A core with nothing to do falls asleep, and the longer it has slept the longer the machine takes to wake it up, all the
more in a virtual machine. During a run the cores have work. So the hand-off is measured twice: with cores kept awake by
processes that run whenever nobody else wants to, and with cores that may sleep; beside the latter stands what the
machine takes by itself to wake a process up that waits for a byte in a pipe, asleep for as long as the writer's copy
takes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from whorl.bench.report import Measure, Report
from whorl.config.schema import EngineConfig
from whorl.engines.contract import Channel, ChannelSpec, Message, Plan, Role, RoleGenerator, RoleId, RoleSpec
from whorl.engines.local.engine import LocalEngine
from whorl.engines.local.memory import create_segment, map_segment
from whorl.types import Array, Field, Layout

_WRITER, _READER = RoleId("writer", 0), RoleId("reader", 0)
SIZES_BYTES = (1024, 65_536, 1_048_576, 16_777_216)
_ROTATED_BYTES = 64 * 1024 * 1024
_MAX_ROTATED = 64


def rotated_buffers(size_bytes: int) -> int:
    """How many payloads, slots and targets there are of each."""
    return max(2, min(_MAX_ROTATED, _ROTATED_BYTES // (3 * size_bytes)))


def write_payloads(role: Role, out: Channel, back: Channel) -> RoleGenerator:
    """Copy a payload into a slot, hand it over, wait for the answer, again."""
    payloads = _payloads(role.job["buffers"], role.job["size_bytes"])
    for turn in range(role.job["turns"]):
        slot = yield from out.reserve()
        started_ns = time.monotonic_ns()
        np.copyto(slot["payload"], payloads[turn % len(payloads)])
        slot["started_ns"][...] = started_ns
        slot["written_ns"][...] = time.monotonic_ns()
        out.commit()
        yield from back.claim()
        back.release()


def read_payloads(role: Role, source: Channel, back: Channel) -> RoleGenerator:
    """Claim a slot, copy it out, note the time, time two copies of one process, answer."""
    buffers, size_bytes = role.job["buffers"], role.job["size_bytes"]
    targets = np.zeros((buffers, size_bytes), np.uint8)
    alone = OneProcess(buffers, size_bytes)
    took_ns, in_place_ns, copies_ns = [], [], []
    for turn in range(role.job["turns"]):
        slot = yield from source.claim()
        np.copyto(targets[turn % buffers], slot["payload"])
        now_ns = time.monotonic_ns()
        took_ns.append(now_ns - int(slot["started_ns"]))
        in_place_ns.append(now_ns - int(slot["written_ns"]))
        source.release()
        copies_ns.append(alone.copy_twice_ns(turn))
        yield from back.reserve()
        back.commit()
    warm_up = role.job["warm_up"]
    measured = {"took_us": took_ns, "in_place_us": in_place_ns, "copies_us": copies_ns}
    role.line.send("measured", {name: median(times_ns[warm_up:]) / 1e3 for name, times_ns in measured.items()})


class OneProcess:
    """The two copies without a hand-off. What lies between them is shared memory, mapped as a channel's slots are."""

    def __init__(self, buffers: int, size_bytes: int) -> None:
        self._payloads = _payloads(buffers, size_bytes)
        segment = create_segment("bench", buffers * size_bytes)
        self._slots = np.frombuffer(map_segment(segment), np.uint8).reshape(buffers, size_bytes)
        os.close(segment)
        self._targets = np.zeros((buffers, size_bytes), np.uint8)

    def copy_twice_ns(self, turn: int) -> int:
        """How long it takes, with the buffers whose turn it is."""
        at = turn % len(self._slots)
        started_ns = time.monotonic_ns()
        np.copyto(self._slots[at], self._payloads[at])
        np.copyto(self._targets[at], self._slots[at])
        return time.monotonic_ns() - started_ns


@contextlib.contextmanager
def cores_kept_awake() -> Iterator[None]:
    """On each core a process of the idle class turns in place: any other that wants the core gets it at once."""
    parent, spinners = os.getpid(), []
    try:
        for core in os.sched_getaffinity(0):
            child = os.fork()
            if not child:
                try:
                    os.sched_setaffinity(0, {core})
                    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
                    while os.getppid() == parent:
                        for _ in range(1_000_000):
                            pass
                finally:
                    os._exit(0)
            spinners.append(child)
        yield
    finally:
        for child in spinners:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def pipe_wake_up_us(size_bytes: int, repeats: int = 200) -> float:
    """Median time from writing a byte into a pipe, after a copy, to another process having read it."""
    times, pipe, back = create_segment("bench", 8), os.pipe(), os.pipe()
    written_ns = np.frombuffer(map_segment(times), np.int64)
    os.close(times)
    child = os.fork()
    if not child:
        try:
            took_ns = []
            for _ in range(repeats):
                os.read(pipe[0], 1)
                took_ns.append(time.monotonic_ns() - int(written_ns[0]))
                os.write(back[1], b".")
            os.write(back[1], str(median(took_ns) / 1e3).encode())
        finally:
            os._exit(0)
    payload = _payloads(2, size_bytes)
    for _ in range(repeats):
        np.copyto(payload[0], payload[1])
        written_ns[0] = time.monotonic_ns()
        os.write(pipe[1], b".")
        os.read(back[0], 1)
    os.waitpid(child, 0)
    found = float(os.read(back[0], 100))
    for descriptor in (*pipe, *back):
        os.close(descriptor)
    return found


def _stamp(name: str) -> Field:
    return Field(name, (), "int64")


def _payloads(buffers: int, size_bytes: int) -> Array:
    return np.random.default_rng(0).integers(0, 255, (buffers, size_bytes), dtype=np.uint8)


class _Result:
    def __init__(self) -> None:
        self.body: dict[str, float] = {}

    def on_message(self, message: Message) -> None:
        self.body = message.body

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        raise RuntimeError(f"{role} was lost, now incarnation {incarnation}: {cause}")

    def on_placed(self, table: Sequence[str]) -> None:
        """Nobody asks."""


def measure_handoff(size_bytes: int, repeats: int = 500) -> dict[str, float]:
    """Medians in microseconds: ``took_us`` in all, ``in_place_us`` where the slot was written before, ``copies_us`` of
    two copies by one process, ``overhead_us`` beyond them."""
    buffers = rotated_buffers(size_bytes)
    payload = Layout((_stamp("started_ns"), _stamp("written_ns"), Field("payload", (size_bytes,), "uint8")))
    answer = Layout((Field("nothing", (1,), "uint8"),))
    plan = Plan(
        roles=(
            RoleSpec(_WRITER, f"{__name__}:write_payloads", {"out": "payloads", "back": "answers"}),
            RoleSpec(_READER, f"{__name__}:read_payloads", {"source": "payloads", "back": "answers"}),
        ),
        job={"size_bytes": size_bytes, "buffers": buffers, "turns": repeats + buffers, "warm_up": buffers},
        channels=(
            ChannelSpec("payloads", payload, buffers, _WRITER, (_READER,)),
            ChannelSpec("answers", answer, 2, _READER, (_WRITER,)),
        ),
    )
    result = _Result()
    with LocalEngine(EngineConfig(name="local")).launch(plan, result) as cluster:
        cluster.run(until=lambda: bool(result.body), timeout_s=120.0)
    measured = result.body
    overhead_us = measured["took_us"] - measured["copies_us"]
    return {"size_bytes": float(size_bytes), **measured, "overhead_us": overhead_us}


def run(repeats: int, directory: Path) -> Report:
    """Every size ``repeats`` times; the directory is not needed."""
    del directory
    overhead = Measure("hand-off beyond two copies, cores awake", "us", "lower", "as in a run: the cores have work")
    sleepy = Measure(
        "hand-off beyond two copies, cores asleep", "us", "lower", "with the time to wake the reader's core"
    )
    in_place = Measure(
        "hand-off of a trajectory, as actors make it",
        "us",
        "lower",
        "written in place; to the end of the learner's copy",
    )
    how = "into memory like a slot's and out of it, as cold as in the hand-off"
    copies = Measure("two copies by one process", "us", "lower", how)
    waking = Measure("waking a process by a pipe", "us", "lower", "after it slept for as long as the copy in takes")
    for _ in range(repeats):
        for size_bytes in SIZES_BYTES:
            name = f"{size_bytes // 1024:,} KiB"
            with cores_kept_awake():
                row = measure_handoff(size_bytes)
            overhead.add(name, row["overhead_us"])
            in_place.add(name, row["in_place_us"])
            copies.add(name, row["copies_us"])
            sleepy.add(name, measure_handoff(size_bytes)["overhead_us"])
            waking.add(name, pipe_wake_up_us(size_bytes))
    title = f"Hand-off through a channel of the local engine, {repeats} times each"
    return Report(title, [in_place, overhead, sleepy, copies, waking])
