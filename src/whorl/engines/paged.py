"""Supervision of roles whose status pages the driver can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from whorl.engines.local.status import StatusPage
from whorl.engines.members import Member
from whorl.engines.supervision import Supervision


@dataclass
class PagedMember(Member):
    """A role with a status page."""

    page: StatusPage

    @property
    def counted_lately(self) -> int:
        return self.page.counted

    def shares(self) -> dict[str, float]:
        """Seconds per phase, of all incarnations."""
        return self.page.shares(self.running)

    def start_afresh(self) -> None:
        self.page.start_afresh()


P = TypeVar("P", bound=PagedMember)


class PagedSupervision(Supervision[P]):
    """Decides as ``Supervision`` does, and tells roles on their pages whether the driver looks after them."""

    def _say_at_work(self, at_work: bool) -> None:
        for member in self._roles.values():
            member.page.supervise(at_work)
