"""The loop that drives a role's generator in its rank: the only place where a role waits.

MPI's own blocking calls spin, and more ranks than cores are normal: so nothing here blocks in MPI. A waiting rank
looks, sleeps, and sleeps longer each time (50 us to 5 ms).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Generator, Mapping
from typing import Any

from whorl.engines import waits
from whorl.engines.contract import SUPERVISOR, Endpoint, Message, RoleId, Wait
from whorl.engines.driving import Drive
from whorl.engines.inline.endpoints import When
from whorl.engines.mpi.pages import RankClock, RankPage
from whorl.engines.mpi.post import Post
from whorl.engines.wire import decode_body, encode_body, envelope

SHORTEST_S, LONGEST_S, GROWTH = 50e-6, 5e-3, 1.5


class BackOff:
    """Sleeps that grow."""

    def __init__(self) -> None:
        self._next_s = SHORTEST_S

    def sleep(self, at_most_s: float = LONGEST_S) -> None:
        """A little longer than the last time."""
        time.sleep(max(0.0, min(self._next_s, at_most_s)))
        self._next_s = min(self._next_s * GROWTH, LONGEST_S)


class RankLine:
    """A role's line. What is for other roles goes to their ranks directly."""

    def __init__(self, owner: RoleId, post: Post, clock: RankClock) -> None:
        self._owner = owner
        self._post = post
        self._clock = clock
        self._inbox: deque[Any] = post.inbox
        self._readable = When(self._has_message)

    def send(self, kind: str, body: Mapping[str, Any] | None = None, to: RoleId = SUPERVISOR) -> None:
        if to != SUPERVISOR and to not in self._post.places:
            raise ValueError(f"{self._owner} sent {kind!r} to {to}, which the plan does not have")
        self._clock.count_sent(self._post.send(envelope(self._owner, to, kind), encode_body(body)))

    def try_receive(self) -> Message | None:
        if not self._has_message():
            return None
        head, body = self._inbox.popleft()
        return Message(head.sender_id, head.kind, decode_body(body))

    def _has_message(self) -> bool:
        if not self._inbox:
            self._post.pump()
        return bool(self._inbox)

    def expect(self, kind: str) -> Generator[Wait, None, Message]:
        return waits.expect_message(self, self._owner, kind)

    @property
    def readable(self) -> Endpoint:
        return self._readable


class RankLoop(Drive):
    """Sleeps by looking again and again."""

    def __init__(
        self, role: RoleId, clock: RankClock, page: RankPage, patience_s: float, tend: Callable[[], bool]
    ) -> None:
        """``tend`` lets messages in and out; True when the driver wants this role to end."""
        super().__init__(role, clock, patience_s)
        self._page = page
        self._tend = tend

    def _sleep_paused(self, wait: Wait) -> bool:
        expiry = time.monotonic() + self._patience(wait)
        back_off = BackOff()
        while True:
            if self._tend():
                self.dismiss()
            for endpoint in wait.endpoints:
                if endpoint.ready():
                    return True
            self._page.beat()
            now = time.monotonic()
            if now >= expiry:
                if (extended := self._extended(wait)) is None:
                    return False
                expiry = extended
            back_off.sleep(expiry - now)
