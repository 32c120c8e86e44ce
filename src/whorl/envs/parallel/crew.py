"""The ranks of one actor's environments: the first one says what is done, the others do it with it.

The first rank (the *leader*) lives with the actor, which knows nothing of the others (its *mates*). Whenever the leader
makes a ``ParallelEnv`` or calls a method of one, its mates do the same with their own halves of that environment:

    leader                                      mate
    env = make_env(...)      -> MAKE 0 ->       make_env(...)
    env.reset(seed=7)        -> 0 reset ->      env.reset(seed=7)
    env.step(action)         -> 0 step ->       env.step(action)

Commands are bytes (msgpack), broadcast. After each, all ranks agree on whether any of them raised. If one did, the call
raises at the leader, whichever rank it was: for the actor that is a fault like any other. If the others do not come
to this agreement, because they wait in MPI for the one that raised, nothing but the end of the job helps.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from whorl.envs.parallel.waiting import wait_for, wait_until
from whorl.errors import EnvironmentFault, last_line
from whorl.plain_bytes import decode_body, encode_body
from whorl.types import Array

RAISED_GRACE_S = 3.0
"""How long the other ranks may take to come back from a method in which one of them raised."""

_FIRST_BYTES = 1024
"""Room of a command's first message, 8 of them for the length; most commands need no second one."""
_TEXT_BYTES = 512
_MAKE, _END = "make", "end"

_current: Crew | None = None


def current_crew() -> Crew | None:
    """The crew that environments made in this process belong to; None: they have this one rank."""
    return _current


class RankRaised(RuntimeError):
    """A method of an environment raised on another rank than the first."""


class CrewBroken(EnvironmentFault):
    """The ranks of an environment cannot come together any more: the job must end."""


class Crew:
    """One rank's place in a crew. ``comm`` is an mpi4py communicator of its ranks; the first of them leads.

    with crew.present():
        if crew.leads:
            ...make and use environments...
            crew.dismiss()
        else:
            while crew.obey(make):
                pass
    """

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        """For the environments' own messages."""
        self.rank, self.size = int(comm.Get_rank()), int(comm.Get_size())
        self._private = comm.Dup()  # commands must not mix with what the environments send
        self._members: dict[int, Any] = {}
        self._made: list[Any] = []
        self._count = 0
        self._busy = False
        self._unsettled = False
        self._over = False
        self._first = np.zeros(_FIRST_BYTES, np.uint8)
        self._coming: Any = None

    @property
    def leads(self) -> bool:
        return self.rank == 0

    @property
    def busy(self) -> bool:
        """Within a command: whatever is called now, all ranks call."""
        return self._busy

    @contextlib.contextmanager
    def present(self) -> Iterator[None]:
        """Environments made meanwhile in this process belong to this crew."""
        global _current
        before, _current = _current, self
        try:
            yield
        finally:
            _current = before

    def enlist(self, env: Any) -> int:
        """An environment is being made: at the leader this has the mates make theirs. Returns its number."""
        if self.leads:
            self._command({"method": _MAKE, "env": self._count})
            self._unsettled = True  # whether all could make it is asked before the next command
            self._count += 1
            return self._count - 1
        self._made.append(env)
        return -1

    def admit(self, number: int, member: Any) -> None:
        """Something besides environments that ranks do together, known to all of them by a number below 0."""
        self._members[number] = member

    def share(self, data: Array | None, size_bytes: int) -> Array:
        """Within a command: the leader's bytes, at every rank."""
        data = np.empty(size_bytes, np.uint8) if data is None else data
        wait_for(self._private.Ibcast(data, 0))
        return data

    def collect(self, mine: Array) -> list[Array]:
        """Within a command: everybody's bytes at the leader, in the order of ranks; nothing at the others."""
        sizes = np.zeros(self.size, np.int64)
        wait_for(self._private.Iallgather(np.array([mine.nbytes]), sizes))
        everything = np.empty(int(sizes.sum()), np.uint8)
        wait_for(self._private.Igatherv(mine, [everything, sizes.tolist()] if self.leads else None, 0))
        return np.split(everything, np.cumsum(sizes)[:-1]) if self.leads else []

    def call(self, number: int, method: str, run: Callable[[], Any], arguments: dict[str, Any]) -> Any:
        """Leader: run a method here, as ``run``, and at every mate; here alone once the crew has gone."""
        if self._over:
            return run()
        self._command({"method": method, "env": number, **arguments})
        return self._together(method, run)

    def dismiss(self) -> None:
        """Leader: there will be no more commands."""
        if not self._over:
            self._command({"method": _END})
            self._leave()

    def ready(self) -> bool:
        """Mate: whether a command has come."""
        if self._coming is None:
            self._coming = self._private.Ibcast(self._first, 0)
        return bool(self._coming.Test())

    def obey(self, make: Callable[[], Any]) -> bool:
        """Mate: do the next command, waiting for it if need be. ``make`` makes an environment as the leader does.
        False when that was the end."""
        wait_until(self.ready)
        self._coming = None
        command = self._take_command()
        method, number = command["method"], int(command.get("env", -1))
        if method == _END:
            for env in self._members.values():
                env.close()
            self._members.clear()
            self._leave()
            return False
        with contextlib.suppress(RankRaised):
            if method == _MAKE:
                self._together(method, lambda: self._make(number, make))
            else:
                env = self._members[number]
                run = getattr(type(env), method)
                self._together(method, lambda: run(env, *command["args"], **command["kwargs"]))
                if method == "close":
                    del self._members[number]
        return True

    def _leave(self) -> None:
        self._over = True
        self._private.Free()

    def _make(self, number: int, make: Callable[[], Any]) -> None:
        self._made.clear()
        env = make()
        if len(self._made) != 1:
            raise TypeError(f"{env} has {len(self._made)} ParallelEnvs in it; ranks can share environments with one")
        self._members[number] = self._made.pop()

    def _command(self, command: dict[str, Any]) -> None:
        if self._unsettled:
            self._unsettled = False
            self._agree(_MAKE, None)
        data = np.frombuffer(encode_body(command), np.uint8)
        room = _FIRST_BYTES - 8
        self._first[:8].view(np.int64)[0] = len(data)
        self._first[8 : 8 + min(room, len(data))] = data[:room]
        wait_for(self._private.Ibcast(self._first, 0))
        if len(data) > room:
            wait_for(self._private.Ibcast(np.ascontiguousarray(data[room:]), 0))

    def _take_command(self) -> dict[str, Any]:
        length, room = int(self._first[:8].view(np.int64)[0]), _FIRST_BYTES - 8
        data = np.empty(length, np.uint8)
        data[:room] = self._first[8 : 8 + min(room, length)]
        if length > room:
            wait_for(self._private.Ibcast(data[room:], 0))
        return decode_body(data.data)

    def _together(self, method: str, run: Callable[[], Any]) -> Any:
        """Run this rank's part, then agree."""
        self._busy = True
        raised: BaseException | None = None
        result = None
        try:
            result = run()
        except BaseException as error:
            raised = error
        finally:
            self._busy = False
        self._agree(method, raised)
        return result

    def _agree(self, method: str, raised: BaseException | None) -> None:
        """All ranks come here after each command. Raises at the leader if any of them raised; a mate's part is
        over with having told."""
        mine, any_raised = np.array([raised is not None], np.int64), np.zeros(1, np.int64)
        meeting = self._private.Iallreduce(mine, any_raised, _maximum())
        text = "" if raised is None else last_line(raised)
        if not wait_until(meeting.Test, RAISED_GRACE_S if raised is not None else None):
            self._over = True
            raise CrewBroken(
                f"rank {self.rank} of an environment raised in {method} ({text}) and the others did not come back "
                f"within {RAISED_GRACE_S:g} s: they wait for it in MPI, which only the end of the job ends"
            ) from raised
        if not any_raised[0]:
            return
        told = self._gather_texts(text)
        if raised is not None:
            raise raised if self.leads else RankRaised(text) from raised
        if self.leads:
            rank = next(rank for rank, words in enumerate(told) if words)
            raise RankRaised(f"rank {rank} of the environment raised in {method}: {told[rank]}")

    def _gather_texts(self, text: str) -> list[str]:
        raw = text.encode()[:_TEXT_BYTES].ljust(_TEXT_BYTES, b"\0")
        mine: Array = np.frombuffer(raw, np.uint8)
        told = np.zeros((self.size, _TEXT_BYTES), np.uint8)
        wait_for(self._private.Igather(mine, told if self.leads else None, 0))
        return [row.tobytes().rstrip(b"\0").decode(errors="replace") for row in told]


def _maximum() -> Any:
    from mpi4py import MPI

    return MPI.MAX
