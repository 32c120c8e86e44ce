"""From a plan to the endpoints of one rank. Every rank goes through the whole plan in the same order, so that all of
them know where everything lies without a word."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mpi4py import MPI

from whorl.engines.contract import BoardSpec, ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec, TeamSpec
from whorl.engines.mpi.board import Copy, MpiBoard, copy_bytes
from whorl.engines.mpi.group import MpiGroup
from whorl.engines.mpi.messages import MessageReader, MessageWriter, NoReader
from whorl.engines.mpi.nodes import Nodes
from whorl.engines.mpi.pages import RankClock
from whorl.engines.mpi.ring import RingReader, RingWriter, ring_bytes
from whorl.engines.mpi.team import MpiTeam
from whorl.engines.mpi.window import NodeWindow, Shares

EndPoint = MessageWriter | MessageReader | NoReader | RingWriter | RingReader | MpiBoard | MpiGroup | MpiTeam


@dataclass(frozen=True)
class Comms:
    """A communicator for each sort of message, so that tags never meet."""

    channels: MPI.Intracomm
    boards: MPI.Intracomm
    groups: MPI.Intracomm


class Wiring:
    """The endpoints of the role at this rank."""

    def __init__(self, plan: Plan, role: RoleSpec, comms: Comms, nodes: Nodes, clock: RankClock) -> None:
        self._plan, self._role, self._comms, self._nodes, self._clock = plan, role, comms, nodes, clock
        self._places = {spec.id: rank for rank, spec in enumerate(plan.roles)}
        self._shares = Shares()
        self._rings = {spec.name: self._place_ring(spec) for spec in plan.channels if self.is_ring(spec)}
        self._copies = {spec.name: self._place_copies(spec) for spec in plan.boards}
        self._window = NodeWindow(nodes.comm, self._shares.sizes.get(nodes.rank, 0))
        teams = {
            spec.name: self._make_team(spec, tag) for tag, spec in enumerate(plan.teams) if role.id in spec.members
        }
        self._ends: dict[str, EndPoint] = {**teams}
        wanted = {name for wired in role.endpoints.values() for name in ((wired,) if isinstance(wired, str) else wired)}
        for tag, channel in enumerate(plan.channels):
            if channel.name in wanted:
                self._ends[channel.name] = self._make_channel(channel, 2 * tag)
        for tag, board in enumerate(plan.boards):
            if board.name in wanted or role.id in self._keepers_and_writer(board):
                self._ends[board.name] = self._make_board(board, tag)
        for tag, group in enumerate(plan.groups):
            if group.name in wanted:
                self._ends[group.name] = self._make_group(group, tag)

    def arguments(self) -> dict[str, Any]:
        """What the role's function is called with."""
        return {
            argument: self._ends[wired] if isinstance(wired, str) else [self._ends[name] for name in wired]
            for argument, wired in self._role.endpoints.items()
        }

    def tend(self) -> None:
        """Let everything that is under way go on."""
        for end in self._ends.values():
            end.tend()

    def renew(self) -> None:
        """The role begins again."""
        for end in self._ends.values():
            end.renew()

    def close(self) -> None:
        """Together with all other ranks."""
        for end in self._ends.values():
            end.close()
        self._window.free()

    # Where things lie

    def is_ring(self, spec: ChannelSpec) -> bool:
        """By window where the workflow is one-sided or several may read, and all of them are on one node."""
        ranks = [self._places[role] for role in (spec.writer, *spec.readers)]
        return (spec.one_sided or len(spec.readers) > 1) and len({self._nodes.of[rank] for rank in ranks}) == 1

    def _place_ring(self, spec: ChannelSpec) -> tuple[int, int]:
        """The rank of its host and the offset there."""
        host = self._places[spec.readers[0]]
        return host, self._shares.place(host, ring_bytes(spec.layout, spec.slots))

    def _place_copies(self, spec: BoardSpec) -> dict[int, tuple[int, int]]:
        """By node: the rank that hosts the copy, and the offset there. On its own node that is the writer."""
        hosts: dict[int, int] = {}
        for role in (spec.writer, *spec.readers):
            hosts.setdefault(self._nodes.of[self._places[role]], self._places[role])
        return {node: (host, self._shares.place(host, copy_bytes(spec.layout))) for node, host in sorted(hosts.items())}

    def _keepers_and_writer(self, spec: BoardSpec) -> set[RoleId]:
        return {self._plan.roles[host].id for host, _ in self._copies[spec.name].values()}

    # Ends

    def _make_channel(self, spec: ChannelSpec, tag: int) -> EndPoint:
        mine = self._role.id
        if spec.name in self._rings:
            host, offset = self._rings[spec.name]
            here = self._nodes.local[host]
            if mine == spec.writer:
                return RingWriter(
                    spec.name, spec.layout, spec.slots, self._window, here, offset, spec.readers, self._clock
                )
            place = spec.readers.index(mine)
            alone = len(spec.readers) == 1
            return RingReader(spec.name, spec.layout, spec.slots, self._window, here, offset, spec.writer, place, alone)
        comm, writer, reader = self._comms.channels, self._places[spec.writer], self._places[spec.readers[0]]
        if mine == spec.writer:
            return MessageWriter(spec.name, spec.layout, spec.slots, comm, reader, tag, spec.readers, self._clock)
        if mine == spec.readers[0]:
            return MessageReader(spec.name, spec.layout, spec.slots, comm, writer, tag, spec.writer)
        return NoReader(spec.name, spec.layout, spec.writer)

    def _make_board(self, spec: BoardSpec, tag: int) -> MpiBoard:
        copies, me = self._copies[spec.name], self._places[self._role.id]
        node, writer = self._nodes.of[me], self._places[spec.writer]
        host, offset = copies[node]
        copy = Copy(self._window, self._nodes.local[host], offset, spec.layout)
        others = tuple(host for where, (host, _) in copies.items() if where != self._nodes.of[writer])
        keeps = me == host and me != writer
        return MpiBoard(
            spec.name,
            spec.layout,
            copy,
            spec.writer,
            self._clock,
            self._comms.boards,
            tag,
            keepers=others if me == writer else (),
            deliverer=writer if keeps else None,
        )

    def _make_group(self, spec: GroupSpec, tag: int) -> MpiGroup:
        return MpiGroup(
            spec.name,
            spec.layout,
            spec.members,
            spec.members.index(self._role.id),
            spec.buffers,
            self._comms.groups,
            tuple(self._places[member] for member in spec.members),
            tag,
            self._clock,
        )

    def _make_team(self, spec: TeamSpec, tag: int) -> MpiTeam:
        world = self._comms.groups
        ranks = [self._places[member] for member in spec.members]
        group = world.Get_group().Incl(ranks)
        return MpiTeam(spec.name, spec.members, world.Create_group(group, tag))
