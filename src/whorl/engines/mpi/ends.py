"""What the ends of a channel have in common, whether it goes by messages or by a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator

from whorl.engines import waits
from whorl.engines.contract import Endpoint, RoleId, Wait
from whorl.engines.inline.endpoints import When
from whorl.types import Arrays, Layout


class WriterEnd:
    """The writer's end: ``_free_slot`` and ``_hand_over`` are what differs."""

    def __init__(self, name: str, layout: Layout, readers: tuple[RoleId, ...]) -> None:
        self.name = name
        self.layout = layout
        self._reserved: Arrays | None = None
        self._writable = When(self._can_write)
        self._until_free = waits.free_slot(self._writable, name, readers)

    def _next_slot(self) -> Arrays | None:
        """The arrays of a free slot, or None."""
        raise NotImplementedError

    def _hand_over(self) -> None:
        """The slot given out last is filled."""
        raise NotImplementedError

    def _can_write(self) -> bool:
        if self._reserved is None:
            self._reserved = self._next_slot()
        return self._reserved is not None

    def reserve(self) -> Generator[Wait, None, Arrays]:
        while not self._can_write():
            yield self._until_free
        assert self._reserved is not None
        return self._reserved

    def commit(self) -> None:
        if self._reserved is None:
            raise RuntimeError(f"nothing of {self.name} is reserved, so nothing can be committed")
        self._reserved = None
        self._hand_over()

    @property
    def writable(self) -> Endpoint:
        return self._writable

    def try_claim(self) -> Arrays | None:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    def claim(self) -> Generator[Wait, None, Arrays]:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    def release(self, place: int = 0) -> None:
        del place
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    @property
    def readable(self) -> Endpoint:
        raise RuntimeError(f"this role writes {self.name} and cannot read it")

    def renew(self) -> None:
        """The role begins again: a slot it had reserved counts as never asked for."""


class ReaderEnd:
    """A reader's end: ``_next_filled`` and ``_give_back`` are what differs."""

    def __init__(self, name: str, layout: Layout, writer: RoleId) -> None:
        self.name = name
        self.layout = layout
        self._claimed: deque[int] = deque()
        self._readable = When(self._can_read)
        self._until_filled = waits.filled_slot(self._readable, name, writer)

    def _can_read(self) -> bool:
        raise NotImplementedError

    def _next_filled(self) -> tuple[int, Arrays] | None:
        """Claim the oldest filled slot."""
        raise NotImplementedError

    def _give_back(self, slot: int) -> None:
        raise NotImplementedError

    def try_claim(self) -> Arrays | None:
        found = self._next_filled()
        if found is None:
            return None
        self._claimed.append(found[0])
        return found[1]

    def claim(self) -> Generator[Wait, None, Arrays]:
        while (arrays := self.try_claim()) is None:
            yield self._until_filled
        return arrays

    def release(self, place: int = 0) -> None:
        if not self._claimed:
            raise RuntimeError(f"nothing of {self.name} is claimed, so nothing can be released")
        slot = self._claimed[place]
        del self._claimed[place]
        self._give_back(slot)

    @property
    def readable(self) -> Endpoint:
        return self._readable

    def reserve(self) -> Generator[Wait, None, Arrays]:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    def commit(self) -> None:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    @property
    def writable(self) -> Endpoint:
        raise RuntimeError(f"this role reads {self.name} and cannot write it")

    def renew(self) -> None:
        """The role begins again: what it had claimed goes back to the writer."""
        while self._claimed:
            self.release()
