"""What the driver can see of a rank without asking it: its status page, with a few words more than a local role's.

The pages of all ranks lie in one memfd of the driver, which ranks of the same node open through ``/proc``: nothing
has a name, so nothing is left behind. A rank on another node writes a page of its own and sends copies of it now and
then.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

import msgspec

from whorl.engines.contract import Phase
from whorl.engines.local.memory import words_of
from whorl.engines.local.status import PAGE_BYTES, StatusClock, StatusPage
from whorl.engines.wire import decode_body, encode_body

_PID, _BEAT, _DISMISSED, _LAST_WORDS_BYTES, _WORDS = 16, 17, 18, 19, 20
_LAST_WORDS = 512
_TEXT_BYTES = 1000
"""What is kept of a long message, and of a traceback: both have to fit, with the rest of the failure."""
_TEND_EVERY_NS = 1_000_000


class RankClock(StatusClock):
    """A clock that lets MPI make progress between two phases, so that a rank with long steps keeps nobody waiting for
    longer than one of them."""

    __slots__ = ("_tended_ns", "tend")

    def __init__(self, page: memoryview) -> None:
        self.tend: Callable[[], None] = _nothing
        self._tended_ns = monotonic_ns()
        super().__init__(page)

    def enter(self, phase: Phase, deadline_s: float = 0.0, where: int = 0) -> None:
        super().enter(phase, deadline_s, where)
        if self._since_ns - self._tended_ns > _TEND_EVERY_NS:
            self._tended_ns = self._since_ns
            self.tend()


def _nothing() -> None:
    """Before there is anything to tend."""


class RankPage(StatusPage):
    """A rank's page, for the driver and for what the rank itself says beside its clock."""

    def __init__(self, page: memoryview) -> None:
        super().__init__(page)
        self._page = page
        self._more = words_of(page, _WORDS)

    @property
    def pid(self) -> int:
        """The rank's process where the driver is on the same node; 0 elsewhere."""
        return self._more[_PID]

    def beat(self) -> None:
        """The rank's own loop is alive: what an answer to a ping would say."""
        self._more[_BEAT] += 1

    @property
    def beats(self) -> int:
        return self._more[_BEAT]

    @property
    def dismissed(self) -> bool:
        """The driver wants the role to end, whatever it is in the middle of."""
        return bool(self._more[_DISMISSED])

    @dismissed.setter
    def dismissed(self, wanted: bool) -> None:
        self._more[_DISMISSED] = int(wanted)

    def introduce(self) -> None:
        """Say which process this is."""
        self._more[_PID] = os.getpid()

    def say_last(self, failure: Mapping[str, Any]) -> None:
        """Why the role failed, where the driver finds it even if no message gets through any more."""
        message, trace = failure["message"].encode(), failure["traceback"].encode()
        short = {"message": message[:_TEXT_BYTES], "traceback": trace[-_TEXT_BYTES:]}
        words = encode_body({**failure, **{name: text.decode(errors="ignore") for name, text in short.items()}})
        words = words[: PAGE_BYTES - _LAST_WORDS]
        self._page[_LAST_WORDS : _LAST_WORDS + len(words)] = words
        self._more[_LAST_WORDS_BYTES] = len(words)

    @property
    def last_words(self) -> dict[str, Any]:
        """The failure, its texts cut short; nothing before there is one, or while it is half written."""
        words = bytes(self._page[_LAST_WORDS : _LAST_WORDS + self._more[_LAST_WORDS_BYTES]])
        try:
            return decode_body(words) if words else {}
        except (ValueError, msgspec.MsgspecError):
            return {}

    def copy(self) -> bytes:
        """The page's words, to be sent."""
        return bytes(self._page[:_LAST_WORDS])

    def paste(self, words: bytes) -> None:
        """What a rank on another node has sent. Its clock is another one, so that no deadline is taken over."""
        self._page[: len(words)] = words
        self._words[2] = self._more[_PID] = 0

    def keep_a_copy(self) -> None:
        super().keep_a_copy()
        self._page = memoryview(bytearray(self._page))
        self._more = words_of(self._page, _WORDS)


def create_pages(count: int) -> tuple[int, memoryview]:
    """A memfd with so many pages, and its memory."""
    descriptor = os.memfd_create("whorl-ranks", os.MFD_CLOEXEC)
    os.ftruncate(descriptor, count * PAGE_BYTES)
    return descriptor, memoryview(mmap.mmap(descriptor, count * PAGE_BYTES))


def open_page(path: str, rank: int, count: int) -> memoryview:
    """One page of the driver's."""
    descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        whole = mmap.mmap(descriptor, count * PAGE_BYTES)
    finally:
        os.close(descriptor)
    return page_of(memoryview(whole), rank)


def page_of(pages: memoryview, rank: int) -> memoryview:
    """A rank's part of all pages."""
    return pages[rank * PAGE_BYTES : (rank + 1) * PAGE_BYTES]


def private_page() -> memoryview:
    """For a rank that is not on the driver's node."""
    return memoryview(bytearray(PAGE_BYTES))
