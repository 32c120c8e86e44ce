"""What a hand-off through a channel of the local engine costs, beside copying memory.

    whorl bench handoff

One process copies a payload into a slot and commits; another claims it, copies it out and answers. The time from before
the first copy to after the second, less the same two copies (into the slot and out of it) made by one process, is the
price of the hand-off.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

import numpy as np

from whorl.bench.report import Measure, Report
from whorl.config.schema import EngineConfig
from whorl.engines.contract import Channel, ChannelSpec, Message, Plan, Role, RoleGenerator, RoleId, RoleSpec
from whorl.engines.local.engine import LocalEngine
from whorl.types import Field, Layout

_WRITER, _READER = RoleId("writer", 0), RoleId("reader", 0)
_WARM_UP = 50
SIZES_BYTES = (1024, 65_536, 1_048_576, 16_777_216)


def write_payloads(role: Role, out: Channel, back: Channel) -> RoleGenerator:
    """Copy a payload into a slot, hand it over, wait for the answer, again."""
    payload = np.random.default_rng(0).integers(0, 255, role.job["size_bytes"], dtype=np.uint8)
    for _ in range(role.job["repeats"]):
        slot = yield from out.reserve()
        started_ns = time.monotonic_ns()
        np.copyto(slot["payload"], payload)
        slot["started_ns"][...] = started_ns
        out.commit()
        yield from back.claim()
        back.release()


def read_payloads(role: Role, source: Channel, back: Channel) -> RoleGenerator:
    """Claim a slot, copy it out, note the time, answer."""
    target = np.zeros(role.job["size_bytes"], dtype=np.uint8)
    other = np.zeros_like(target)
    took_ns, copies_ns = [], []
    for _ in range(role.job["repeats"]):
        slot = yield from source.claim()
        np.copyto(target, slot["payload"])
        took_ns.append(time.monotonic_ns() - int(slot["started_ns"]))
        started_ns = time.monotonic_ns()
        np.copyto(slot["payload"], other)
        np.copyto(target, slot["payload"])
        copies_ns.append(time.monotonic_ns() - started_ns)
        source.release()
        yield from back.reserve()
        back.commit()
    role.line.send("measured", {"took_us": median(took_ns[_WARM_UP:]) / 1e3, "copies_us": median(copies_ns) / 1e3})


class _Result:
    def __init__(self) -> None:
        self.body: dict[str, float] = {}

    def on_message(self, message: Message) -> None:
        self.body = message.body

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        raise RuntimeError(f"{role} was lost, now incarnation {incarnation}: {cause}")


def measure_handoff(size_bytes: int, repeats: int = 500) -> dict[str, float]:
    """Medians in microseconds: ``took_us`` in all, ``copies_us`` of two copies by one process, ``overhead_us``
    beyond them."""
    payload = Layout((Field("started_ns", (), "int64"), Field("payload", (size_bytes,), "uint8")))
    answer = Layout((Field("nothing", (1,), "uint8"),))
    plan = Plan(
        roles=(
            RoleSpec(_WRITER, f"{__name__}:write_payloads", {"out": "payloads", "back": "answers"}),
            RoleSpec(_READER, f"{__name__}:read_payloads", {"source": "payloads", "back": "answers"}),
        ),
        job={"size_bytes": size_bytes, "repeats": repeats + _WARM_UP},
        channels=(
            ChannelSpec("payloads", payload, 2, _WRITER, (_READER,)),
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
    overhead = Measure("hand-off beyond two copies", "us", "lower", "from before the copy in to after the copy out")
    copies = Measure("two copies by one process", "us", "lower", "into the slot and out of it")
    for _ in range(repeats):
        for size_bytes in SIZES_BYTES:
            row = measure_handoff(size_bytes)
            name = f"{size_bytes // 1024:,} KiB"
            overhead.add(name, row["overhead_us"])
            copies.add(name, row["copies_us"])
    return Report(f"Hand-off through a channel of the local engine, {repeats} times each", [overhead, copies])
