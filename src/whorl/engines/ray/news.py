"""What a station has to say: kept until the envoy, which asks for it, has said that it arrived."""

from __future__ import annotations

import asyncio

NEWS_S = 5.0
"""An answer takes no longer, news or not."""


class News:
    """Frames for the supervisor, in order."""

    def __init__(self) -> None:
        self._outbox = bytearray()
        self._sent: tuple[int, bytes] = (0, b"")
        """The last batch that was given, and its number."""
        self._some = asyncio.Event()

    def post(self, frame: bytes) -> None:
        """To be given with the next batch."""
        self._outbox += frame
        self._some.set()

    async def after(self, acknowledged: int) -> tuple[int, bytes]:
        """What is new since the batch of this number, which has arrived. Waits a while for something."""
        number, frames = self._sent
        if acknowledged < number:
            return number, frames
        if not self._outbox:
            self._some.clear()
            try:
                await asyncio.wait_for(self._some.wait(), NEWS_S)
            except TimeoutError:
                return number, b""
        self._sent = (number + 1, bytes(self._outbox))
        self._outbox.clear()
        return self._sent
