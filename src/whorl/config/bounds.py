"""Bounds of settings, written in their types: ``Annotated[int, AtLeast(1)]``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AtLeast:
    """The value must be at least this."""

    bound: float

    def accepts(self, value: float) -> bool:
        return value >= self.bound

    def __str__(self) -> str:
        return f"at least {self.bound:g}"


@dataclass(frozen=True)
class MoreThan:
    """The value must be greater than this."""

    bound: float

    def accepts(self, value: float) -> bool:
        return value > self.bound

    def __str__(self) -> str:
        return f"more than {self.bound:g}"


@dataclass(frozen=True)
class AtMost:
    """The value must be at most this."""

    bound: float

    def accepts(self, value: float) -> bool:
        return value <= self.bound

    def __str__(self) -> str:
        return f"at most {self.bound:g}"
