"""Everything that a station exchanges with others: its bridges, and the streams that they put into."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from whorl.engines.contract import Plan, RoleId
from whorl.engines.local.fleet import Fleet
from whorl.engines.ray.boards import IncomingBoard, OutgoingBoard
from whorl.engines.ray.bridge import Bridge
from whorl.engines.ray.channels import IncomingChannel, OutgoingChannel
from whorl.engines.ray.groups import GroupBridge
from whorl.engines.ray.stream import Call, Stream


class Crossings:
    """The bridges of one station."""

    def __init__(
        self, plan: Plan, fleet: Fleet, unit: int, unit_of: Mapping[RoleId, int], board_units: Mapping[str, list[int]]
    ) -> None:
        """``unit_of`` says where everybody is that the plan names, ``board_units`` where each board is read."""
        self._plan, self._fleet, self._unit = plan, fleet, unit
        self._unit_of, self._board_units = unit_of, board_units
        self._loop = asyncio.get_running_loop()
        self._streams = {other: Stream() for other in {*unit_of.values()}}
        self._watched: list[int] = []
        self.carried: dict[tuple[str, int], tuple[int, int]] = {}
        """Of writers elsewhere: the newest incarnation and its env steps, as told with what it handed over."""
        self.build()

    def build(self) -> None:
        """A bridge for every endpoint that has an end elsewhere."""
        parts, unit_of = self._fleet.wiring.parts, self._unit_of
        self._outgoing: dict[str, OutgoingChannel] = {}
        self._incoming: dict[str, IncomingChannel] = {}
        self._outgoing_boards: dict[str, OutgoingBoard] = {}
        self._incoming_boards: dict[str, IncomingBoard] = {}
        self._groups: dict[str, GroupBridge] = {}
        for channel in self._plan.channels:
            writer_unit, reader_unit = unit_of[channel.writer], unit_of[channel.readers[0]]
            if writer_unit == reader_unit:
                continue
            if writer_unit == self._unit:
                self._outgoing[channel.name] = OutgoingChannel(channel, parts(channel.name), self, reader_unit)
            else:
                self._incoming[channel.name] = IncomingChannel(channel, parts(channel.name), self, writer_unit)
        for board in self._plan.boards:
            far = set(self._board_units[board.name]) - {self._unit}
            if unit_of[board.writer] != self._unit:
                self._incoming_boards[board.name] = IncomingBoard(board, parts(board.name))
            elif far:
                self._outgoing_boards[board.name] = OutgoingBoard(board, parts(board.name), self, far)
        for group in self._plan.groups:
            if {unit_of[member] for member in group.members} != {self._unit}:
                self._groups[group.name] = GroupBridge(group, parts(group.name), self, unit_of, self._unit)

    def begin_at(self, handed_over: Mapping[str, int]) -> None:
        """So often lost writers before those of this station handed something over."""
        for name, outgoing in self._outgoing.items():
            outgoing.begin_at(handed_over[name])

    @property
    def _bridges(self) -> list[Bridge]:
        channels: list[Bridge] = [*self._outgoing.values(), *self._incoming.values()]
        boards: list[Bridge] = [*self._outgoing_boards.values(), *self._incoming_boards.values()]
        return [*channels, *boards, *self._groups.values()]

    def drop(self) -> None:
        """Every bridge, before its endpoints are made afresh or closed."""
        for descriptor in self._watched:
            self._loop.remove_reader(descriptor)
        self._watched.clear()
        for bridge in self._bridges:
            bridge.close()

    # What bridges ask for

    def watch(self, descriptor: int, on_readable: Callable[[], None]) -> None:
        """Until the bridges are dropped."""
        self._watched.append(descriptor)
        self._loop.add_reader(descriptor, on_readable)

    def counted(self, role: RoleId) -> tuple[int, int]:
        """Incarnation and environment steps of a role of this station."""
        hosted = self._fleet.roles[role]
        return hosted.incarnation, hosted.page.counted

    def stream_to(self, unit: int) -> Stream:
        """What is put before the other station is known waits for it."""
        return self._streams[unit]

    # What other stations do

    def meet(self, unit: int, call: Call, replaced: bool) -> None:
        """Another station, perhaps in the place of a lost one; ``call`` reaches it."""
        if not replaced:
            self._streams[unit].connect(call)
            return
        self._streams[unit].end()
        self._streams[unit] = Stream(call)
        for bridge in self._bridges:
            bridge.on_peer(unit)

    def heed(self, header: Mapping[str, Any], payload: Any) -> None:
        """What another station has sent."""
        name = header["name"]
        match header["op"]:
            case "item":
                kind, index, incarnation, counted = header["writer"]
                self.carried[kind, index] = (incarnation, counted)
                self._incoming[name].on_item(payload)
            case "freed":
                self._outgoing[name].on_freed(header["count"])
            case "version":
                self._incoming_boards[name].on_version(header["version"], payload)
            case "arrival":
                self._groups[name].on_arrival(header, payload)

    @property
    def arrived(self) -> dict[str, int]:
        """How many items have come through each channel that is read here."""
        return {name: channel.arrived for name, channel in self._incoming.items()}

    async def settle(self, timeout_s: float) -> None:
        """Until everything that was handed over here is where it is to go, or the time over."""
        for outgoing in self._outgoing.values():
            outgoing.pump()
        for board in self._outgoing_boards.values():
            await board.flush()
        for stream in self._streams.values():
            await stream.flush(timeout_s)
