"""A plan's endpoints as descriptors: made by the driver, granted to roles, attached in their processes."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from whorl.engines.contract import BoardSpec, ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec
from whorl.engines.local import board, channel, group
from whorl.engines.local.board import LocalBoard
from whorl.engines.local.channel import ChannelReader, ChannelWriter
from whorl.engines.local.group import LocalGroup
from whorl.engines.local.memory import close_all, create_segment
from whorl.engines.local.polling import create_doorbell
from whorl.engines.local.status import StatusClock
from whorl.types import Field, Layout


@dataclass
class Wiring:
    """All endpoints of a plan. The driver keeps every descriptor, so that what was sent outlives its sender."""

    plan: Plan
    _parts: dict[str, list[int]] = field(default_factory=dict)
    """Per endpoint its segment, then its sockets (writer's, readers') or doorbells."""

    def build(self) -> None:
        """Make every segment, socket and doorbell; leaves nothing behind when one cannot be made."""
        try:
            for spec in self.plan.channels:
                parts = self._parts.setdefault(spec.name, [])
                parts.append(create_segment(spec.name, channel.segment_bytes(spec.layout, spec.slots)))
                for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK):
                    parts.append(end.detach())
            for board_spec in self.plan.boards:
                parts = self._parts.setdefault(board_spec.name, [])
                parts.append(create_segment(board_spec.name, board.segment_bytes(board_spec.layout)))
                parts.extend(create_doorbell() for _ in board_spec.readers)
            for group_spec in self.plan.groups:
                parts = self._parts.setdefault(group_spec.name, [])
                size = group.segment_bytes(group_spec.layout, len(group_spec.members), group_spec.buffers)
                parts.append(create_segment(group_spec.name, size))
                parts.extend(create_doorbell() for _ in range(len(group_spec.members) + 1))
        except BaseException:
            self.close()
            raise

    def parts(self, name: str) -> list[int]:
        """An endpoint's descriptors: its segment, then its sockets (writer's, readers') or doorbells."""
        return self._parts[name]

    def close(self) -> None:
        for parts in self._parts.values():
            close_all(parts)
        self._parts.clear()

    def grant(self, role: RoleSpec) -> tuple[dict[str, Any], list[int]]:
        """What a role's process needs to attach: descriptions, and descriptors, by their place in the list."""
        descriptors: list[int] = []

        def describe(name: str) -> dict[str, Any]:
            description, granted = self._describe(name, role.id)
            start = len(descriptors)
            descriptors.extend(granted)
            return {**description, "name": name, "descriptors": list(range(start, start + len(granted)))}

        endpoints = {
            argument: describe(wired) if isinstance(wired, str) else [describe(name) for name in wired]
            for argument, wired in role.endpoints.items()
        }
        return endpoints, descriptors

    def _describe(self, name: str, role: RoleId) -> tuple[dict[str, Any], list[int]]:
        spec, parts = self._specs[name], self._parts[name]
        if isinstance(spec, ChannelSpec):
            return _describe_channel(spec, role, parts)
        if isinstance(spec, BoardSpec):
            return _describe_board(spec, role, parts)
        return _describe_group(spec, role, parts)

    @cached_property
    def _specs(self) -> dict[str, ChannelSpec | BoardSpec | GroupSpec]:
        every: list[ChannelSpec | BoardSpec | GroupSpec] = [*self.plan.channels, *self.plan.boards, *self.plan.groups]
        return {spec.name: spec for spec in every}


def needed_bytes(plan: Plan) -> int:
    """The shared memory of a plan's endpoints."""
    return (
        sum(channel.segment_bytes(spec.layout, spec.slots) for spec in plan.channels)
        + sum(board.segment_bytes(spec.layout) for spec in plan.boards)
        + sum(group.segment_bytes(spec.layout, len(spec.members), spec.buffers) for spec in plan.groups)
    )


def needed_descriptors(plan: Plan) -> int:
    """The descriptors the driver holds while the plan runs."""
    per_role = 5  # line (both ends while starting), status page and its mapping, pidfd
    return (
        3 * len(plan.channels)
        + sum(1 + len(spec.readers) for spec in plan.boards)
        + sum(2 + len(spec.members) for spec in plan.groups)
        + per_role * len(plan.roles)
    )


def check_slots(plan: Plan) -> None:
    """What ``Plan.check`` does not see: slots in bounds."""
    for spec in plan.channels:
        if not 1 <= spec.slots <= channel.MAX_SLOTS:
            raise ValueError(f"{spec.name} has {spec.slots} slots; a channel has 1 to {channel.MAX_SLOTS}")


def _plain(layout: Layout) -> list[Any]:
    return [[each.name, list(each.shape), each.dtype] for each in layout.fields]


def _describe_channel(spec: ChannelSpec, role: RoleId, parts: list[int]) -> tuple[dict[str, Any], list[int]]:
    segment, writer_end, reader_end = parts
    description = {"type": "channel", "layout": _plain(spec.layout), "slots": spec.slots}
    if role == spec.writer:
        return description | {"readers": [[each.kind, each.index] for each in spec.readers]}, [segment, writer_end]
    description |= {"writer": [spec.writer.kind, spec.writer.index], "rank": spec.readers.index(role)}
    return description | {"alone": len(spec.readers) == 1}, [segment, reader_end]


def _describe_board(spec: BoardSpec, role: RoleId, parts: list[int]) -> tuple[dict[str, Any], list[int]]:
    segment, *doorbells = parts
    writes = role == spec.writer
    description = {"type": "board", "layout": _plain(spec.layout), "writes": writes}
    description |= {"writer": [spec.writer.kind, spec.writer.index]}
    return description, [segment, *(doorbells if writes else [doorbells[spec.readers.index(role)]])]


def _describe_group(spec: GroupSpec, role: RoleId, parts: list[int]) -> tuple[dict[str, Any], list[int]]:
    description = {"type": "group", "layout": _plain(spec.layout), "buffers": spec.buffers}
    description |= {"members": [[each.kind, each.index] for each in spec.members], "rank": spec.members.index(role)}
    return description, parts


@dataclass
class Attaching:
    """In the role's process: endpoints from descriptions and descriptors."""

    descriptors: list[int]
    clock: StatusClock
    incarnation: int

    def endpoint(self, granted: dict[str, Any]) -> ChannelWriter | ChannelReader | LocalBoard | LocalGroup:
        name = granted["name"]
        layout = Layout(tuple(Field(each[0], tuple(each[1]), each[2]) for each in granted["layout"]))
        segment, *others = (self.descriptors[index] for index in granted["descriptors"])
        if granted["type"] == "channel":
            tickets = socket.socket(fileno=others[0])
            if "readers" in granted:
                readers = tuple(RoleId(*each) for each in granted["readers"])
                made: ChannelWriter | ChannelReader | LocalBoard | LocalGroup = ChannelWriter(
                    name, layout, granted["slots"], segment, tickets, readers, self.clock
                )
            else:
                writer = RoleId(*granted["writer"])
                made = ChannelReader(
                    name,
                    layout,
                    granted["slots"],
                    segment,
                    tickets,
                    writer,
                    granted["rank"],
                    granted["alone"],
                    self.incarnation,
                )
                if not granted["alone"]:
                    return made  # it locks by its segment's descriptor
        elif granted["type"] == "board":
            made = LocalBoard(name, layout, segment, others, RoleId(*granted["writer"]), granted["writes"], self.clock)
        else:
            members = tuple(RoleId(*each) for each in granted["members"])
            made = LocalGroup(name, layout, segment, others, members, granted["rank"], granted["buffers"], self.clock)
        os.close(segment)  # the mapping holds the memory
        return made
