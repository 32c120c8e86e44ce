"""Boards whose writer lives in another station than some of its readers."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from whorl.engines.contract import BoardSpec
from whorl.engines.local.board import LocalBoard
from whorl.engines.local.polling import silence
from whorl.engines.ray.bridge import Surroundings, for_several, no_clock
from whorl.types import Array


class OutgoingBoard:
    """The writer is here; some readers are elsewhere."""

    def __init__(self, spec: BoardSpec, parts: list[int], station: Surroundings, units: set[int]) -> None:
        segment, *doorbells = parts
        self._spec = spec
        self._station = station
        self._doorbell = os.dup(doorbells[-1])
        self._board = LocalBoard(
            spec.name, spec.layout, segment, [self._doorbell], spec.writer, writes=False, clock=no_clock()
        )
        self._sent = dict.fromkeys(units, -1)
        self._sending: set[int] = set()
        self._put: dict[int, Any] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        station.watch(self._doorbell, self.pump)

    def pump(self) -> None:
        """Show the newest versions to whoever has not seen them; one at a time to each."""
        silence(self._doorbell)
        for unit in self._sent:
            if unit not in self._sending and self._board.version > self._sent[unit]:
                self._sending.add(unit)
                task = asyncio.get_running_loop().create_task(self._follow(unit))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _follow(self, unit: int) -> None:
        try:
            while self._board.version > self._sent[unit]:
                version = next(kept for kept in self._board.kept if kept > self._sent[unit])
                parcel = self._parcel(version)
                if parcel is not None:
                    self._sent[unit] = version
                    header = {"op": "version", "name": self._spec.name, "version": version}
                    stream = self._station.stream_to(unit)
                    await stream.send(header, [parcel])
                    if stream.dead:
                        return
        finally:
            self._sending.discard(unit)

    def _parcel(self, version: int) -> Any:
        """A version's bytes, put into the object store at most once; None when it was overwritten meanwhile."""
        if version not in self._put:
            buffer = self._spec.layout.allocate()
            try:
                self._board.read(buffer, version)
            except LookupError:
                return None
            self._put = {kept: put for kept, put in self._put.items() if kept in self._board.kept}
            self._put[version] = for_several(buffer, len(self._sent))
        return self._put[version]

    async def flush(self) -> None:
        """Until everybody elsewhere has seen what was written."""
        self.pump()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def on_peer(self, unit: int) -> None:
        """A reader's station was replaced, and knows nothing."""
        if unit in self._sent:
            self._sent[unit] = -1
            self.pump()

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        os.close(self._doorbell)


class IncomingBoard:
    """The writer is elsewhere."""

    def __init__(self, spec: BoardSpec, parts: list[int]) -> None:
        segment, *doorbells = parts
        self._board = LocalBoard(spec.name, spec.layout, segment, doorbells, spec.writer, writes=True, clock=no_clock())

    def on_version(self, version: int, raw: Array) -> None:
        """A version of the far writer."""
        if version > self._board.version:
            self._board.publish(version, raw)

    def on_peer(self, unit: int) -> None:
        """The new station of the writer shows what is newest of itself."""

    def close(self) -> None:
        """The board is its station's."""
