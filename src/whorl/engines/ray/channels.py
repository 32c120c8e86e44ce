"""Channels whose writer and readers live in different stations."""

from __future__ import annotations

import os
import socket
from collections import deque

from whorl.engines.contract import ChannelSpec
from whorl.engines.local.channel import ChannelReader, ChannelWriter
from whorl.engines.ray.bridge import Surroundings, no_clock
from whorl.types import Array


class OutgoingChannel:
    """The writer is here, its only reader elsewhere."""

    def __init__(self, spec: ChannelSpec, parts: list[int], station: Surroundings, reader_unit: int) -> None:
        segment, _, reader_end = parts
        self._spec = spec
        self._station = station
        self._unit = reader_unit
        tickets = socket.socket(fileno=os.dup(reader_end))
        tickets.setblocking(False)
        self._reader = ChannelReader(spec.name, spec.layout, spec.slots, segment, tickets, spec.writer, 0, True, 0)
        self._freed = 0
        station.watch(tickets.fileno(), self.pump)
        self._tickets = tickets

    def begin_at(self, handed_over: int) -> None:
        """So often the lost writers before handed something over."""
        self._reader.begin_at(handed_over)

    def pump(self) -> None:
        """Send on what was handed over."""
        while self._reader.try_claim() is not None:
            self._send(self._reader.claimed[-1])

    def _send(self, raw: Array) -> None:
        incarnation, counted = self._station.counted(self._spec.writer)
        writer = [self._spec.writer.kind, self._spec.writer.index, incarnation, counted]
        header = {"op": "item", "name": self._spec.name, "writer": writer}
        self._station.stream_to(self._unit).put(header, [raw])

    def on_freed(self, freed: int) -> None:
        """The far reader has given back so many in all."""
        while self._freed < freed:
            self._freed += 1
            self._reader.release()

    def on_peer(self, unit: int) -> None:
        """The far station was replaced: what it had and did not give back goes to its successor."""
        if unit == self._unit:
            self._freed = 0
            for raw in self._reader.claimed:
                self._send(raw)

    def close(self) -> None:
        self._tickets.close()


class IncomingChannel:
    """The readers are here, the writer elsewhere."""

    def __init__(self, spec: ChannelSpec, parts: list[int], station: Surroundings, writer_unit: int) -> None:
        segment, writer_end, _ = parts
        self._spec = spec
        self._station = station
        self._unit = writer_unit
        tickets = socket.socket(fileno=os.dup(writer_end))
        tickets.setblocking(False)
        self._writer = ChannelWriter(spec.name, spec.layout, spec.slots, segment, tickets, spec.readers, no_clock())
        self._waiting: deque[Array] = deque()
        self._arrived = self._told = self._before = 0
        station.watch(tickets.fileno(), self.pump)
        self._tickets = tickets

    @property
    def arrived(self) -> int:
        """Items so far, of all incarnations of the writer's station."""
        return self._arrived

    def on_item(self, raw: Array) -> None:
        """From the far writer. There is room, unless a lost writer's items are still here."""
        self._arrived += 1
        self._waiting.append(raw)
        self.pump()

    def pump(self) -> None:
        """Take in what has come, and tell the writer's station how many of its own were given back."""
        self._writer.ask_to_be_woken()
        while self._waiting and self._writer.filled < self._spec.slots:
            self._writer.put(self._waiting.popleft())
            self._writer.ask_to_be_woken()
        freed = self._arrived - len(self._waiting) - self._writer.filled - self._before
        if freed > self._told:
            self._told = freed
            header = {"op": "freed", "name": self._spec.name, "count": freed}
            self._station.stream_to(self._unit).put(header)

    def on_peer(self, unit: int) -> None:
        """The writer's station was replaced: the new one has sent nothing yet."""
        if unit == self._unit:
            self._before, self._told = self._arrived, 0

    def close(self) -> None:
        self._tickets.close()
