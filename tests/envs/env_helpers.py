"""Environments and small tools shared by the tests of the environments layer."""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Generator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.config.schema import EnvConfig
from whorl.envs.containment import close_quietly
from whorl.envs.contract import LaneState
from whorl.envs.probe import plain_spec
from whorl.envs.registry import make_env
from whorl.types import EnvSpec, Layout


def drain(generator: Generator[Any, None, Any]) -> Any:
    """Run a generator that has nothing to wait for."""
    try:
        while True:
            next(generator)
    except StopIteration as done:
        return done.value


def fresh(lanes: range) -> list[LaneState]:
    return [LaneState(lane) for lane in lanes]


def spec_of(config: EnvConfig) -> EnvSpec:
    env = make_env(config.id, config.kwargs)
    spec = plain_spec(config, env)
    close_quietly(env)
    return spec


def row_of(rows: Any, outcome: Any, lane: int) -> tuple[Any, ...]:
    """Everything one lane shows of a row, as comparable values."""
    return (
        tuple(block[lane].tobytes() for block in rows.observation.values()),
        bool(rows.valid[lane]),
        bool(rows.first[lane]),
        float(outcome.reward[lane]),
        bool(outcome.terminated[lane]),
        bool(outcome.truncated[lane]),
        bool(outcome.fault[lane]),
    )


def trace(lanes: Any, actions: np.ndarray, states: list[LaneState] | None = None) -> list[list[tuple[Any, ...]]]:
    """Start and step; for each row, what each lane shows. ``actions`` [rows, lanes, *shape]."""
    rows = drain(lanes.start(states or fresh(lanes.lanes)))
    seen = []
    for action in actions:
        lanes.send(action)
        drain(lanes.arrival())
        outcome = lanes.receive()
        seen.append([row_of(rows, outcome, lane) for lane in range(len(lanes.lanes))])
    return seen


class Scripted(gymnasium.Env):
    """Episodes whose lengths and endings follow a script; the observation tells episode, step and seed."""

    def __init__(self, script: list[list[Any]]) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.script = script

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.length, self.ending = self.script[(seed or 0) % len(self.script)]
        self.count, self.seed = 0, seed
        return np.array([self.seed % 1000, 0, 0], np.float64), {}

    def step(self, action):
        self.count += 1
        over = self.count >= self.length
        if over and self.ending == "raise":
            raise RuntimeError("scripted")
        observation = np.array([self.seed % 1000, self.count, action], np.float64)
        return (
            observation,
            float(self.count),
            over and self.ending == "terminated",
            over and self.ending == "truncated",
            {},
        )


class Walk(gymnasium.Env):
    """A seeded random walk that can save its state; ``kind`` says whether it keeps its promises."""

    def __init__(self, kind: str = "good", length: int = 30) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
        self.action_space = spaces.Discrete(2)
        self.kind, self.length = kind, length
        if kind != "stateless":
            self.get_state, self.set_state = self._get_state, self._set_state

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.count = float(self.np_random.normal()), 0
        return np.array([self.place], np.float32), {}

    def step(self, action):
        noise = np.random.default_rng().normal() if self.kind == "random" else self.np_random.normal()
        self.place += float(noise) + action
        self.count += 1
        return np.array([self.place], np.float32), self.place, self.count >= self.length, False, {}

    def _get_state(self) -> bytes:
        state = self.np_random.bit_generator.state["state"]
        words = state["state"].to_bytes(16, "little") + state["inc"].to_bytes(16, "little")
        return struct.pack("<dq", self.place, self.count) + words

    def _set_state(self, saved: bytes) -> None:
        self.place, self.count = struct.unpack_from("<dq", saved)
        if self.kind == "forgetful":
            return
        state = self.np_random.bit_generator.state
        state["state"] = {
            "state": int.from_bytes(saved[16:32], "little"),
            "inc": int.from_bytes(saved[32:48], "little"),
        }
        self.np_random.bit_generator.state = state


class MemoryChannel:
    """A channel in this process: a bounded queue of copies, as an engine's would behave."""

    def __init__(self, layout: Layout, slots: int = 2) -> None:
        self.layout, self.slots = layout, slots
        self.queue: deque[dict[str, np.ndarray]] = deque()
        self.slot = layout.views(layout.allocate())

    def reserve(self):
        while len(self.queue) >= self.slots:
            yield "room"
        return self.slot

    def commit(self) -> None:
        self.queue.append({name: array.copy() for name, array in self.slot.items()})

    def try_claim(self):
        return self.queue[0] if self.queue else None

    def claim(self):
        while not self.queue:
            yield "a message"
        return self.queue[0]

    def release(self) -> None:
        self.queue.popleft()

    @property
    def readable(self):
        return self

    @property
    def writable(self):
        return self
