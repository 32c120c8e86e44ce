"""What the supervisor asks of a learner, read between waits: limits, saves, stops, lost actors."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from whorl.engines.contract import Line, Message, RoleId


@dataclass
class Inbox:
    """Messages turned into wishes. The learner fulfils them at the next update boundary."""

    limit: int | None = None
    """Updates the run may reach; the first learner waits there for a higher one. None: nothing was said yet."""
    stop: bool = False
    save: bool = False
    wants_weights: bool = False
    lost: list[Message] = field(default_factory=list)
    draft: dict[str, Any] | None = None
    """The first learner has begun a checkpoint: where."""
    ledgers: dict[RoleId, Message] = field(default_factory=dict)
    """What others have contributed to a checkpoint."""

    def read(self, line: Line) -> None:
        """Take in everything that has arrived."""
        while (message := line.try_receive()) is not None:
            match message.kind:
                case "limit":
                    self.limit = int(message.body["updates"])
                case "stop":
                    self.stop = True
                case "save":
                    self.save = True
                case "weights":
                    self.wants_weights = True
                case "lost":
                    self.lost.append(message)
                case "draft":
                    self.draft = message.body
                case "ledger":
                    self.ledgers[message.sender] = message
                case kind:
                    raise ValueError(f"a learner was sent {kind!r}, which it does not know")
