"""Lanes that go at their own pace and share a trajectory."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np

from made_up_rows import AGENT, ENV
from whorl.actors.apart import ApartCollector
from whorl.agents.contract import Acted
from whorl.engines.inline.clock import InlineClock
from whorl.envs.contract import LaneState, Rows
from whorl.envs.row_block import RowBlock
from whorl.trajectory.layout import trajectory_layout

LANES = 2


class TheFirstIsQuicker:
    """Lane 0 answers at once, lane 1 when lane 0 has nothing more to do."""

    lanes, episodes, exact = range(LANES), [0] * LANES, True

    def __init__(self) -> None:
        self._block = RowBlock(ENV, LANES)
        self.outcome = self._block.outcome
        self._asked: set[int] = set()

    def start(self, states: list[LaneState]) -> Generator[Any, None, Rows]:
        yield from ()
        return self._block.rows

    def send_to(self, index: int, action: object) -> None:
        self._asked.add(index)

    def arrived(self) -> list[int]:
        first = min(self._asked)
        self._asked.remove(first)
        return [first]

    def snapshot_of(self, index: int) -> None:
        return None


class Policy:
    def act(self, views: Any, observation: Any, state: Any, first: Any, noise: Any) -> Acted:
        return Acted(np.zeros(len(first), np.int64), {"log_prob": np.zeros(len(first), np.float32)}, state)


def run(generator: Generator[Any, None, Any]) -> Any:
    try:
        next(generator)
    except StopIteration as done:
        return done.value
    raise AssertionError("nothing here is waited for")


def test_a_row_is_as_stale_as_the_oldest_weights_that_any_of_its_lanes_acted_with() -> None:
    collector = ApartCollector(AGENT, Policy(), TheFirstIsQuicker(), 1, InlineClock())  # type: ignore[arg-type]
    run(collector.begin([LaneState(lane) for lane in range(LANES)], {"h": np.zeros((LANES, 3), np.float32)}))
    layout = trajectory_layout(
        ENV, rows=AGENT.rows, lanes=LANES, fields=AGENT.fields, state=AGENT.state, discounted_return=False
    )
    trajectory = layout.views(layout.allocate())  # all zero, as if older weights had filled it before
    versions: Iterator[int] = iter(range(100, 200))
    collector.open(range(LANES), trajectory, 0)
    run(collector.advance(lambda: ({}, next(versions))))
    assert trajectory["version"].tolist() == [100, 101, 102, 103, 104, 105]  # lane 1 acted with 100, 106, 107, ...
