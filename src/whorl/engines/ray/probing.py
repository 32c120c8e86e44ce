"""A worker that is measured with, and measures: see ``measure``."""

from __future__ import annotations

import os
import statistics
import time
from typing import Any


class Probe:
    """A Ray actor, on whichever node it is put."""

    def __init__(self, task_s: float) -> None:
        self._task_s = task_s

    def where(self) -> tuple[str, str, int]:
        """Its node, that node's address, its process."""
        import ray
        from ray.util import get_node_ip_address

        return ray.get_runtime_context().get_node_id(), get_node_ip_address(), os.getpid()

    def task(self) -> None:
        """Takes its time. It has no arguments: to pack one costs Ray as much as a fifth of such a call."""
        time.sleep(self._task_s)

    def answer(self) -> None:
        """Takes no time."""

    def call_latency_s(self, other: Any, calls: int) -> float:
        """The median of a call to another worker and its answer, after some that do not count."""
        import ray

        taken = []
        for _ in range(calls + 5):
            begun = time.perf_counter()
            ray.get(other.answer.remote())
            taken.append(time.perf_counter() - begun)
        return statistics.median(taken[5:])

    def make(self, size_bytes: int) -> list[Any]:
        """An object on this node; wrapped, so that only the reference travels."""
        import numpy as np
        import ray

        return [ray.put(np.zeros(size_bytes, np.uint8))]

    def fetch_s(self, wrapped: list[Any]) -> float:
        """How long it takes to have an object here, to be read."""
        import ray

        begun = time.perf_counter()
        ray.get(wrapped[0])
        return time.perf_counter() - begun
