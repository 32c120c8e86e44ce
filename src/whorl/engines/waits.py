"""The sentences of waits and their expiry, the same on every engine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

from whorl.engines.contract import Endpoint, Message, RoleId, Wait
from whorl.errors import StalledError, WhorlError


class _Always:
    def ready(self) -> bool:
        return True


TURN = Wait((_Always(),), "its next turn")
"""Waits for nothing: lets the others have their turn, where there is but one thread."""
BREATH = Wait((_Always(),), "its next breath")
"""Waits for nothing. Yielded now and then, by the clock, in the middle of long work, so that whoever supervises one
thread can see to other things. The others have a turn only if something was sent to them meanwhile: what runs when must
not depend on the clock."""
BREATH_EVERY_S = 0.05


def names_of(roles: Sequence[RoleId]) -> str:
    """``actor-0, actor-1 and 6 more``."""
    shown = ", ".join(str(role) for role in roles[:4])
    return shown if len(roles) <= 4 else f"{shown} and {len(roles) - 4} more"


def filled_slot(endpoint: Endpoint, channel: str, writer: RoleId) -> Wait:
    """A reader waits for its writer."""
    return Wait((endpoint,), f"{writer}'s {channel}", (writer,))


def free_slot(endpoint: Endpoint, channel: str, readers: tuple[RoleId, ...]) -> Wait:
    """A writer waits for its readers."""
    return Wait((endpoint,), f"a free slot of {channel}, read by {names_of(readers)}", readers)


def new_version(endpoint: Endpoint, board: str, version: int, writer: RoleId) -> Wait:
    """A reader waits for a version."""
    return Wait((endpoint,), f"version {version} of {board} from {writer}", (writer,))


def all_members(endpoint: Endpoint, group: str, missing: tuple[RoleId, ...]) -> Wait:
    """A member waits for the others."""
    return Wait((endpoint,), f"{names_of(missing)} in {group}", missing)


def expired(who: RoleId, wait: Wait, waited_s: float) -> StalledError:
    """What is thrown into a role whose wait is over."""
    return StalledError(f"{who} waited {waited_s:.1f} s for {wait.waiting_for} and gave up")


class Receiving(Protocol):
    """The receiving half of a line."""

    def try_receive(self) -> Message | None: ...

    @property
    def readable(self) -> Endpoint: ...


def expect_message(line: Receiving, owner: RoleId, kind: str) -> Generator[Wait, None, Message]:
    """Wait for the next message, which must be of this kind."""
    while (message := line.try_receive()) is None:
        yield Wait((line.readable,), f"a message {kind!r}")
    if message.kind != kind:
        raise WhorlError(f"{owner} expected a message {kind!r} and got {message.kind!r} from {message.sender}")
    return message
