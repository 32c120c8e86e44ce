"""Roles that `whorl bench mpi` measures with: each tells what it found in one message, ``found``."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise
from statistics import median

import numpy as np

from whorl.engines.contract import Board, Channel, Role, RoleGenerator, RoleId
from whorl.types import Array, Field, Layout

ROWS, WIDTH, ACTIONS = 2048, 4, 2
HIDDEN = (64, 128)
DISCOUNT = 0.99
EXPERIENCES = Layout((Field("rewards", (ROWS,), "float32"), Field("observations", (ROWS, WIDTH), "float32")))


def took_us(work: Callable[[], object], repeats: int) -> float:
    """The median, in microseconds."""
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        times.append(1e6 * (time.perf_counter() - started))
    return median(times)


def push(role: Role, out: Channel, weights: Board) -> RoleGenerator:
    """Hand trajectories over one-sided and check for new weights, beside the raw operations on the same window."""
    ring, copy = out.ring, weights.copy  # type: ignore[attr-defined]  # of the mpi engine alone
    handle, payload = ring.window.handle, out.layout.allocate()
    word = np.zeros(8, dtype=np.uint8)
    pushes, raw = [], []

    def put() -> None:
        handle.Put(payload, ring.host, ring.data(0))
        handle.Flush(ring.host)

    def get() -> None:
        handle.Get(word, copy.host, 0)
        handle.Flush(copy.host)

    yield from weights.wait_for(0)
    for _ in range(role.job["repeats"]):
        yield from out.reserve()
        raw.append(took_us(put, 1))
        pushes.append(took_us(out.commit, 1))
    checks = took_us(lambda: weights.version, role.job["repeats"])
    gets = took_us(get, role.job["repeats"])
    role.line.send("found", {"push": median(pushes), "put": median(raw), "check": checks, "get": gets})
    role.line.send("stop", to=RoleId("learner", 0))


def take(role: Role, source: Channel, weights: Board) -> RoleGenerator:
    """Take what comes, at once."""
    weights.publish(0, weights.layout.allocate())
    while (message := role.line.try_receive()) is None:
        yield from source.claim()
        source.release()
        if source.handed_over >= role.job["repeats"]:
            message = yield from role.line.expect("stop")
            return
    del message


def step_long(role: Role, window: Board) -> RoleGenerator:
    """An actor deep in a step: in no MPI call for a long time."""
    window.publish(0, window.layout.allocate())
    role.line.send("deep", to=RoleId("learner", 0))
    role.clock.enter("environment", deadline_s=60.0)
    time.sleep(role.job["step_s"])
    role.clock.enter("other")
    yield from role.line.expect("stop")


def read_meanwhile(role: Role, windows: list[Board]) -> RoleGenerator:
    """A learner that reads the windows of actors which are all in a long step."""
    for _ in windows:
        yield from role.line.expect("deep")
    buffer = windows[0].layout.allocate()
    slowest, end = 0.0, time.monotonic() + role.job["step_s"] / 2
    while time.monotonic() < end:
        for window in windows:
            slowest = max(slowest, took_us(lambda window=window: window.read(buffer), 1))  # type: ignore[misc]
        time.sleep(0.01)
    role.line.send("found", {"slowest_ms": slowest / 1e3})
    for index in range(len(windows)):
        role.line.send("stop", to=RoleId("actor", index))


def wait_long(role: Role) -> RoleGenerator:
    """Wait for a message that comes late."""
    yield from role.line.expect("stop")


class Values:
    """A value network in numpy: enough to be timed."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        sizes = (WIDTH, *HIDDEN, ACTIONS)
        self._layers = [
            generator.standard_normal((inputs, outputs)).astype(np.float32) for inputs, outputs in pairwise(sizes)
        ]

    def targets(self, rewards: Array, observations: Array) -> Array:
        """``r + discount * max over actions of Q``."""
        hidden = observations
        for layer in self._layers[:-1]:
            hidden = np.maximum(hidden @ layer, 0.0)
        best: Array = (hidden @ self._layers[-1]).max(axis=-1)
        return np.asarray(rewards + DISCOUNT * best, dtype=np.float32)


def ask_for_targets(role: Role, out: list[Channel], back: list[Channel]) -> RoleGenerator:
    """Bellman targets one experience at a time, all at once, and shared out over other ranks."""
    values, generator = Values(), np.random.default_rng(1)
    rewards = generator.standard_normal(ROWS).astype(np.float32)
    observations = generator.standard_normal((ROWS, WIDTH)).astype(np.float32)

    def one_by_one() -> None:
        for row in range(ROWS):
            values.targets(rewards[row : row + 1], observations[row : row + 1])

    spread = []
    share = ROWS // len(out)
    for _ in range(role.job["repeats"]):
        started = time.perf_counter()
        for place, channel in enumerate(out):
            slot = yield from channel.reserve()
            part = slice(place * share, (place + 1) * share)
            slot["rewards"][:share], slot["observations"][:share] = rewards[part], observations[part]
            channel.commit()
        for channel in back:
            yield from channel.claim()
            channel.release()
        spread.append(1e6 * (time.perf_counter() - started))
    found = {
        "one_by_one": took_us(one_by_one, 3),
        "batched": took_us(lambda: values.targets(rewards, observations), 20),
    }
    role.line.send("found", {**found, "spread": median(spread)})


def make_targets(role: Role, source: Channel, out: Channel) -> RoleGenerator:
    """A rank that computes targets for somebody else: all at once, or one experience at a time."""
    values, share = Values(), ROWS // role.job["ranks"]
    parts = [slice(row, row + 1) for row in range(share)] if role.job["singly"] else [slice(0, share)]
    while True:
        given = yield from source.claim()
        slot = yield from out.reserve()
        for part in parts:
            slot["rewards"][part] = values.targets(given["rewards"][part], given["observations"][part])
        source.release()
        out.commit()
