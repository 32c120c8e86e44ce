"""What a workflow may ask of an engine: five contracts, and roles as generators.

A *role* (a learner, an actor, an environment's own process) is a generator. It never blocks; it yields what it
waits for, and the engine's loop does the waiting:

    def run_actor(role: Role, weights: Board, out: Channel) -> RoleGenerator:
        start = yield from role.line.expect("start")
        while True:
            yield from weights.wait_for(version)
            trajectory = yield from out.reserve()
            ...fill the trajectory...
            out.commit()

So ``inline`` runs a whole workflow in one thread with a fixed schedule, ``local`` gives each role a process, and
deadlines, signals and time shares live in one place. A ``Plan`` says which roles there are and how they are wired;
an engine brings it to life. Nothing that moves is pickled: arrays travel in flat buffers of a known ``Layout``,
messages as msgpack.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from whorl.errors import BadInputError
from whorl.types import Array, Arrays, Layout

RoleGenerator = Generator["Wait", None, None]


@dataclass(frozen=True, order=True)
class RoleId:
    """Who: ``RoleId("actor", 3)``. Written ``actor-3`` in logs and messages."""

    kind: str
    index: int

    def __str__(self) -> str:
        return f"{self.kind}-{self.index}"


SUPERVISOR = RoleId("supervisor", 0)
FEWEST_ACTORS = "fewest_actors"
"""Key of a plan's job, where actors may be lost for good: with fewer the workflow cannot go on."""
JOINED = "joined"
"""The cause that is told of a role which was not lost, but parked."""


class Endpoint(Protocol):
    """Something that can be waited for."""

    def ready(self) -> bool:
        """True when a role waiting for this should go on. Cheap, never blocks."""
        ...


@dataclass(frozen=True)
class Wait:
    """Yielded by a role: go on when any endpoint is ready. On expiry ``StalledError`` is thrown into the role."""

    endpoints: tuple[Endpoint, ...]
    waiting_for: str
    """Who and what is waited for, for the message: ``"actor-3's trajectory"``."""
    peers: tuple[RoleId, ...] = ()
    """Whom the supervisor should look at when this takes long."""
    timeout_s: float | None = None
    """None: the engine's ``patience_s``."""


class Channel(Protocol):
    """A bounded FIFO of one layout with one writer. Blocks when full; data outlives its writer."""

    layout: Layout

    def reserve(self) -> Generator[Wait, None, Arrays]:
        """Writer: the next free slot as arrays to fill. Reserving again without a commit gives the same slot."""
        ...

    def commit(self) -> None:
        """Writer: hand the reserved slot over."""
        ...

    def try_claim(self) -> Arrays | None:
        """Reader: the oldest filled slot, or None. The arrays are valid until ``release``."""
        ...

    def claim(self) -> Generator[Wait, None, Arrays]:
        """Reader: as ``try_claim``, but waits."""
        ...

    def release(self, place: int = 0) -> None:
        """Reader: give a claimed slot back to the writer: the oldest (place 0), a later one, the newest (-1)."""
        ...

    @property
    def readable(self) -> Endpoint: ...

    @property
    def writable(self) -> Endpoint: ...

    @property
    def filled(self) -> int:
        """Slots committed and not yet released."""
        ...

    @property
    def handed_over(self) -> int:
        """How often a slot was committed so far, by lost incarnations of the writer too."""
        ...


class Board(Protocol):
    """One writer, the newest value and the one before; readers compare the version before they copy."""

    layout: Layout

    @property
    def version(self) -> int:
        """The newest version; -1 before the first."""
        ...

    def publish(self, version: int, buffer: Array) -> None:
        """Writer: make ``buffer`` (flat, of this layout) the newest value. Versions only grow."""
        ...

    def read(self, buffer: Array, version: int | None = None) -> int:
        """Copy a version (None: the newest) into ``buffer``; returns it. ``LookupError`` when it is gone. A buffer that
        is shorter than the layout gets the beginning."""
        ...

    def wait_for(self, version: int) -> Generator[Wait, None, None]:
        """Until ``self.version >= version``."""
        ...

    @property
    def changed(self) -> Endpoint:
        """Ready when a version newer than the last one read is there."""
        ...


class Group(Protocol):
    """Equal members (the learners) that sum flat buffers, always adding in member order."""

    rank: int
    size: int

    def sum(self, buffers: Sequence[Array]) -> Generator[Wait, None, Array]:
        """The total over all members' buffers: member 0's in order, then member 1's, and so on. Each buffer has the
        group's layout and each member brings equally many, so the result depends on the number of buffers alone.
        It is the caller's to read until its next ``sum``."""
        ...

    def bring(self, buffers: Sequence[Array]) -> None:
        """The first half of ``sum``, which waits for nobody: something else can be done until ``total``, but no other
        meeting of this group, and the buffers stay as they are."""
        ...

    def total(self) -> Generator[Wait, None, Array]:
        """The second half of ``sum``."""
        ...

    def broadcast(self, value: int) -> Generator[Wait, None, int]:
        """Member 0's integer, at every member. Nobody goes on before all have come, as at a barrier."""
        ...

    def union(self, flags: int) -> Generator[Wait, None, int]:
        """The bits that any member brings, at every member; at most 31 of them. A meeting, as ``broadcast``."""
        ...

    def barrier(self) -> Generator[Wait, None, None]: ...


class Team(Protocol):
    """Ranks that do one thing together, such as the steps of an environment that is itself an MPI program."""

    rank: int
    size: int
    comm: Any
    """An mpi4py communicator of exactly the members, for their own numerics; None where there is but one member and
    no MPI. ``comm.py2f()`` is what Fortran takes."""

    def call(self, order: int) -> None:
        """The first member: an order to every other one. Waits for nobody."""
        ...

    def try_take(self) -> int | None:
        """The others: the next order, or None."""
        ...

    def take(self) -> Generator[Wait, None, int]:
        """The others: wait for the next order, without burning a core."""
        ...

    @property
    def called(self) -> Endpoint:
        """Ready when there is an order."""
        ...


class Message(NamedTuple):
    """A small ordered message. ``body`` holds msgpack types and numpy arrays (as raw bytes with dtype and shape)."""

    sender: RoleId
    kind: str
    body: dict[str, Any]


class Line(Protocol):
    """A role's line to the supervisor, which also passes messages on between roles."""

    def send(self, kind: str, body: Mapping[str, Any] | None = None, to: RoleId = SUPERVISOR) -> None: ...

    def try_receive(self) -> Message | None: ...

    def expect(self, kind: str) -> Generator[Wait, None, Message]:
        """Wait for the next message, which must be of this kind."""
        ...

    @property
    def readable(self) -> Endpoint: ...


Phase = Literal["environment", "inference", "learning", "waiting", "transfer", "other"]
PHASES: tuple[Phase, ...] = ("environment", "inference", "learning", "waiting", "transfer", "other")


class Clock(Protocol):
    """Where a role's time goes, and the progress word by which the supervisor judges it."""

    def enter(self, phase: Phase, deadline_s: float = 0.0, where: int = 0) -> None:
        """From now on time counts as ``phase``. With ``deadline_s`` the supervisor declares the role lost when it is
        still in this very entry after that long. ``where`` (a lane) is remembered for the report of a death."""
        ...

    def at(self, where: int) -> None:
        """Say which lane is being stepped, and nothing else: a bare store, for steps of microseconds."""
        ...

    def count(self, env_steps: int) -> None:
        """Environment steps were taken. What a lost role took and never handed over is known from this."""
        ...

    def shares(self) -> dict[str, float]:
        """Seconds per phase so far."""
        ...


@dataclass
class Role:
    """What every role is given, besides its endpoints."""

    id: RoleId
    incarnation: int
    line: Line
    clock: Clock
    job: dict[str, Any]
    """The plan's job: plain values (the resolved config, the environment's spec), the same for every role."""
    deaths: Mapping[int, int] = field(default_factory=dict)
    """How often earlier incarnations died in the phase ``environment`` since the last new update, by ``where``."""


@dataclass(frozen=True)
class ChannelSpec:
    """A channel of the plan. ``slots`` bounds it."""

    name: str
    layout: Layout
    slots: int
    writer: RoleId
    readers: tuple[RoleId, ...]
    one_sided: bool = False
    """The workflow is a one-sided one: where messages travel, its writer is to put and its readers to get."""


@dataclass(frozen=True)
class BoardSpec:
    """A board of the plan."""

    name: str
    layout: Layout
    writer: RoleId
    readers: tuple[RoleId, ...]


@dataclass(frozen=True)
class GroupSpec:
    """Members sum buffers of ``layout``; each brings ``buffers`` of them."""

    name: str
    layout: Layout
    members: tuple[RoleId, ...]
    buffers: int = 1


@dataclass(frozen=True)
class TeamSpec:
    """Members share a communicator; the first one leads."""

    name: str
    members: tuple[RoleId, ...]


@dataclass(frozen=True)
class RoleSpec:
    """A role of the plan: which generator function runs, and which endpoints it gets as keyword arguments."""

    id: RoleId
    entry: str
    """``"module:function"``, called as ``function(role, **endpoints)``."""
    endpoints: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    """Argument name to the name of a channel, board, group or team, or a tuple of them (given as a list)."""
    on_loss: Literal["replace", "restart_all"] = "replace"
    """``replace``: start it again and tell ``notify``. ``restart_all``: start every role again, from the checkpoint."""
    notify: tuple[RoleId, ...] = ()
    """Roles that get the message ``lost`` after the replacement started, with ``kind``, ``index``, ``incarnation`` (of
    the replacement), ``lost_incarnation``, ``cause``, ``phase`` and ``where`` (as last told to the clock) and
    ``counted`` (by the lost one).
    A role that sees a lost one work again may tell the supervisor: ``recovered``, with ``kind`` and ``index``."""
    torch: bool = False
    """Imports torch: gets the learner's threads and is not judged by a light process's limits."""
    parked: bool = False
    """Not started with the others; see ``Cluster.start``."""
    beside: RoleId | None = None
    """Lives where that role lives, on whichever machine: they exchange something at every environment step."""


@dataclass(frozen=True)
class Plan:
    """A workflow's wiring. ``check()`` finds dangling names before any process starts."""

    roles: tuple[RoleSpec, ...]
    job: dict[str, Any]
    channels: tuple[ChannelSpec, ...] = ()
    boards: tuple[BoardSpec, ...] = ()
    groups: tuple[GroupSpec, ...] = ()
    teams: tuple[TeamSpec, ...] = ()

    @property
    def carriers(self) -> frozenset[RoleId]:
        """The roles without which nothing goes on: those whose loss restarts everybody, or else all."""
        carrying = frozenset(role.id for role in self.roles if role.on_loss == "restart_all")
        return carrying or frozenset(role.id for role in self.roles)

    def check_without_ranks(self) -> None:
        """Refuse what only MPI has."""
        if self.teams:
            members = self.teams[0].members
            raise BadInputError(
                f"{members[0]} works on {len(members)} ranks, which this engine does not have: use --engine mpi"
            )

    def check(self) -> None:
        """Every endpoint exists, every name is used once, and both ends of each wire name each other."""
        wired_to = [
            *((spec.name, (spec.writer, *spec.readers)) for spec in self.channels),
            *((spec.name, (spec.writer, *spec.readers)) for spec in self.boards),
            *((spec.name, spec.members) for spec in self.groups),
            *((spec.name, spec.members) for spec in self.teams),
        ]
        parties = dict(wired_to)
        if len(parties) != len(wired_to):
            raise ValueError(f"the plan names an endpoint twice: {sorted(name for name, _ in wired_to)}")
        ids = {role.id for role in self.roles}
        for role in self.roles:
            for wired in role.endpoints.values():
                for name in (wired,) if isinstance(wired, str) else wired:
                    if name not in parties:
                        raise ValueError(f"{role.id} is wired to {name!r}, which the plan does not have")
                    if role.id not in parties[name]:
                        raise ValueError(f"{role.id} is wired to {name} but is neither its writer, reader nor member")
        for name, whom in wired_to:
            for who in whom:
                if who not in ids:
                    raise ValueError(f"{name} is wired to {who}, which the plan does not have")


class Observer(Protocol):
    """What the supervisor tells the run: ``Trainer`` implements it. Called in the driver, must not block."""

    def on_message(self, message: Message) -> None:
        """A role's message to the supervisor (metrics, saved, finished, warning, ...)."""
        ...

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None: ...

    def on_placed(self, table: Sequence[str]) -> None:
        """Which role goes where, in lines for people: before any role starts, on engines that place them."""
        ...


class Engine(Protocol):
    """Brings a plan to life.

    with engine.launch(plan, observer) as cluster:
        cluster.run(until=lambda: observer.done)
    """

    name: str

    def check(self, plan: Plan) -> None:
        """Refuse what cannot run here (``BadInputError``), before anything is made or started."""
        ...

    def launch(self, plan: Plan, observer: Observer, instead_of: Cluster | None = None) -> Cluster:
        """Start the roles. ``instead_of`` is a cluster of this engine that is closed first; its processes may be used
        again."""
        ...


class Cluster(Protocol):
    """The running roles. A context manager: leaving it ends every process, in bounded time."""

    def send(self, to: RoleId, kind: str, body: Mapping[str, Any] | None = None) -> None: ...

    def run(self, until: Callable[[], bool], timeout_s: float | None = None) -> None:
        """Supervise (inline: also run the roles) until the condition holds, all roles that carry the plan ended, or
        the time is over. ``until`` is looked at after every message and at least every 0.2 s. Raises when a role
        failed for good."""
        ...

    def park(self, roles: Iterable[RoleId]) -> None:
        """Leave these as they are once they have ended, however they end; but as long as one of them goes on, those
        that it is told of the losses of are replaced. Asking them to end is the caller's part."""
        ...

    def start(self, roles: Iterable[RoleId]) -> None:
        """Start parked roles (again): each as a further incarnation, of which ``notify`` is told as after a loss, with
        the cause ``JOINED``. One that has not ended yet is started when it has."""
        ...

    @property
    def restarts(self) -> dict[str, int]:
        """Restarts per kind of role."""
        ...

    def resources(self) -> dict[str, dict[str, float]]:
        """Per role kind: ``cpu_share``, ``memory_bytes`` (proportional), ``bytes_sent``."""
        ...

    def time_shares(self) -> dict[str, dict[str, float]]:
        """Per role kind: seconds per phase, summed over its roles."""
        ...

    def counted(self, kind: str) -> int:
        """Environment steps counted by the roles of this kind, lost ones included."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> Cluster: ...

    def __exit__(self, *exc: object) -> None: ...
