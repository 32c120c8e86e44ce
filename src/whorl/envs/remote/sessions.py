"""Who holds which copies of a served environment, and what was last answered to whom. No socket is touched here.

A session performs the request with the number after the last one, answers the last one again with the same bytes,
and refuses every other number: however often a message arrives, it is performed once.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from whorl.envs.door import RefusedValue
from whorl.envs.episode_metrics import read_metrics
from whorl.envs.remote.copies import Copy, CopyPool, CopyRaised
from whorl.envs.remote.layout import (
    DONE,
    FORBIDDEN,
    LEAVE,
    RAISED,
    RESET,
    STEP,
    answer_fields,
    pack,
    request_fields,
    spec_to_wire,
    unpack,
)
from whorl.envs.remote.messages import (
    MOST_LANES,
    VERSION,
    Advance,
    Advanced,
    Answer,
    Bye,
    Hello,
    Lost,
    Malformed,
    Refused,
    Welcome,
    brief,
    encode,
)
from whorl.errors import last_line
from whorl.types import Arrays

Parts = list[bytes]
"""A message: the header, then the frames."""


@dataclass
class Session:
    """One client's copies."""

    number: int
    client: bytes
    route: bytes
    """Where its last message came from."""
    copies: Sequence[Copy]
    arrays: Arrays
    """The answer's frames, written in place."""
    seen_s: float
    probed_s: float = 0.0
    """When it was last looked whether its connection is still there."""
    last: int = 0
    """Number of the last request performed."""
    answer: Parts = field(default_factory=list)
    """What was answered to it."""


class Sessions:
    """All sessions of a server process, which an ``epoch`` tells from every other one."""

    def __init__(self, pool: CopyPool) -> None:
        self.epoch = secrets.token_bytes(8)
        self.pool, self.wire_spec = pool, spec_to_wire(pool.spec)
        self.most_lanes = min(pool.most, MOST_LANES)
        self._sessions: dict[int, Session] = {}
        self.counts = dict.fromkeys(("performed", "answered_again", "refused", "lost", "dropped", "freed"), 0)

    def welcome(self, hello: Hello, route: bytes) -> Answer:
        """Lend copies to a client, or say why not. ``busy`` when there might be some later."""
        known = next((session for session in self._sessions.values() if session.client == hello.client), None)
        if known is not None:
            known.route, known.seen_s = route, time.monotonic()
            return self._welcome(known.client, known.number, len(known.copies))
        if hello.lanes > self.most_lanes:
            return self.refuse(0, f"{hello.lanes} lanes wanted, and {self.most_lanes} are the most here: serve it with "
                                  f"--copies {hello.lanes} or more")  # fmt: skip
        if hello.lanes > self.pool.free:
            free = f"{self.pool.free} of {self.pool.most} are free"
            return self.refuse(0, f"{hello.lanes} lanes wanted, and {free}: serve it with more --copies", busy=True)
        fields = answer_fields(self.wire_spec, hello.lanes)
        session = Session(
            number=secrets.randbits(63),  # not to be guessed: whoever knows it may step these copies
            client=hello.client,
            route=route,
            copies=self.pool.borrow(hello.lanes),
            arrays={item.name: np.zeros(item.shape, item.dtype) for item in fields},
            seen_s=time.monotonic(),
        )
        blocks = [session.arrays[f"obs/{leaf.name}"] for leaf in self.pool.spec.observation]
        for lane, copy in enumerate(session.copies):
            copy.bind([block[lane, ...] for block in blocks])
        self._sessions[session.number] = session
        return self._welcome(session.client, session.number, hello.lanes)

    def welcome_bytes(self) -> int:
        """How long the header of a welcome is at most: the bounds of all spaces are in it."""
        return len(encode(self._welcome(bytes(16), 2**63 - 1, self.most_lanes)))

    def advance(self, request: Advance, frames: Sequence[bytes], route: bytes) -> Parts:
        """Perform a request, or answer it again."""
        session = self._sessions.get(request.session) if request.epoch == self.epoch else None
        if session is None:
            self.counts["lost"] += 1
            return [encode(Lost(epoch=self.epoch, number=request.number))]
        session.route, session.seen_s = route, time.monotonic()
        if request.number == session.last:
            self.counts["answered_again"] += 1
            return session.answer
        if request.number != session.last + 1:
            return [encode(self.refuse(request.number, f"number {session.last + 1} is next"))]
        try:
            asked = unpack(request_fields(self.wire_spec, len(session.copies)), frames)
            self._check(asked)
        except Malformed as reason:
            return [encode(self.refuse(request.number, str(reason)))]
        faults = self._perform(session, asked)
        self.counts["performed"] += 1
        session.last = request.number
        answer = Advanced(epoch=self.epoch, session=session.number, number=request.number, faults=faults)
        fields = answer_fields(self.wire_spec, len(session.copies))
        session.answer = [encode(answer), *pack(fields, session.arrays)]
        session.seen_s = time.monotonic()
        return session.answer

    def bye(self, request: Bye) -> None:
        """A client goes."""
        if request.epoch == self.epoch and request.session in self._sessions:
            self.free(self._sessions[request.session])

    def idle(self) -> list[Session]:
        """All sessions, those not heard of for longest first."""
        return sorted(self._sessions.values(), key=lambda session: session.seen_s)

    def free(self, session: Session) -> None:
        """Take a session's copies back."""
        del self._sessions[session.number]
        self.pool.give_back(session.copies)
        self.counts["freed"] += 1

    def refuse(self, number: int, reason: str, busy: bool = False) -> Refused:
        """One clear line."""
        self.counts["refused"] += 1
        return Refused(number=number, reason=brief(reason), busy=busy)

    def refuse_version(self, claimed: int) -> Refused:
        """To a client of another version."""
        return self.refuse(0, f"this server speaks protocol {VERSION} and the message protocol {claimed}: install the "
                              "same version of Whorl on both sides")  # fmt: skip

    def close(self) -> None:
        """End every session and close every copy."""
        for session in self.idle():
            self.free(session)
        self.pool.close()

    def _welcome(self, client: bytes, number: int, lanes: int) -> Welcome:
        return Welcome(
            client=client,
            epoch=self.epoch,
            session=number,
            lanes=lanes,
            most_lanes=self.most_lanes,
            env=brief(self.pool.config.id),
            spec=self.wire_spec,
        )

    def _check(self, asked: Arrays) -> None:
        if int(asked["op"].max()) > RESET:
            raise Malformed(f"op {int(asked['op'].max())}, and {LEAVE}, {STEP} and {RESET} are all there are")
        forbidden = self.pool.forbids(asked["action"], asked["op"] == STEP)
        if forbidden:
            raise Malformed(forbidden)

    def _perform(self, session: Session, asked: Arrays) -> dict[int, str]:
        """Step and reset; the words of lanes where that failed."""
        status, reward, terminated, truncated = (
            session.arrays[name] for name in ("status", "reward", "terminated", "truncated")
        )
        for array in (status, reward, terminated, truncated):
            array.fill(0)  # of status: UNTOUCHED
        names = self.pool.spec.episode_metrics
        metrics = session.arrays["metrics"] if names else None
        if metrics is not None:
            metrics.fill(np.nan)
        actions = self.pool.actions_for_env(asked["action"])
        faults: dict[int, str] = {}
        for lane, copy in enumerate(session.copies):
            op = asked["op"][lane]
            if op == LEAVE:
                continue
            try:
                if op == RESET:
                    copy.reset(int(asked["seed"][lane]))
                else:
                    reward[lane], terminated[lane], truncated[lane], info = copy.step(actions[lane])
                    if metrics is not None and (terminated[lane] or truncated[lane]):
                        metrics[lane] = read_metrics(info, names)
                status[lane] = DONE
            except CopyRaised as error:
                status[lane], faults[lane] = RAISED, brief(error)
            except RefusedValue as error:
                status[lane], faults[lane] = FORBIDDEN, brief(error)
            except Exception as error:
                # Nobody foresaw it. Other lanes have taken their steps: without an answer they would take them again.
                copy.close()
                status[lane], faults[lane] = RAISED, brief(last_line(error))
                reward[lane] = terminated[lane] = truncated[lane] = 0
        return faults
