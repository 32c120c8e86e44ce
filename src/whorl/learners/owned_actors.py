"""The actors that a learner answers for where any learner may read their trajectories.

Nobody has followed such an actor, so no ledger knows its lanes' actions. But each writes down where its lanes stand, in
memory that outlives it: on a board that holds a trajectory, or the part of one that ``whereabouts_layout`` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from whorl.engines.contract import JOINED, Board, Line, RoleId
from whorl.job import Job
from whorl.learners.ledger import Ledger, join_orders
from whorl.trajectory.layout import env_steps_of
from whorl.types import Arrays, Field, Layout

HEAD = ("env_steps", "handed_over")
"""What the beginning of a board tells of the newest trajectory, at the least."""


def whereabouts_layout(job: Job, trajectory: Layout) -> Layout:
    """The part of a trajectory that tells where its lanes stand after it, and how many its actor has then handed over,
    this one included."""
    lanes = job.lane_map.envs_per_strand
    stamps = ("strand", "number", "incarnation", *HEAD)
    return Layout(
        (
            *(field for field in trajectory.fields if field.name in stamps or field.name.startswith("end/")),
            Field("hand_overs", (1,), "int64"),
            Field("valid", (1, lanes), "bool"),
            *job.env.observation_fields("obs/", 1, lanes),
        )
    )


class OwnedActors:
    """Starts actors, knows where they stand, and has those that replace lost ones go on from there."""

    def __init__(
        self, line: Line, strands: Mapping[int, range], ledgers: Mapping[int, Ledger], boards: Mapping[int, Board]
    ) -> None:
        """``strands`` are those of each actor; on the boards it writes down where each of them stands."""
        self._line = line
        self._strands = strands
        self._ledgers = ledgers
        self._boards = boards
        self._begun_at: Counter[int] = Counter()
        """What each actor was told that had been handed over before it began."""
        self._losses: Counter[tuple[int, int]] = Counter()
        """By strand and number of the trajectory that was due."""

    def start(self) -> int:
        """Have all begin where the ledgers say. Returns how many episodes cannot be gone on with."""
        abandoned = sum(ledger.leave_unfinished(losses=0) for ledger in self._ledgers.values())
        for actor in self._strands:
            self._send_order(actor)
        return abandoned

    def look(self) -> None:
        """Bring the ledgers to where the actors stand."""
        for strand in self._ledgers:
            self._whereabouts(strand)

    def _whereabouts(self, strand: int) -> Arrays | None:
        """What was written down last of a strand, which its ledger is then brought to; None: nothing yet."""
        board = self._boards[strand]
        if board.version < 0:
            return None
        buffer = board.layout.allocate()
        version = board.read(buffer)
        found = board.layout.views(buffer)
        if version >= self._ledgers[strand].number:  # else it stands there, and may have left the episodes of its lanes
            self._ledgers[strand].stand_at(found)
        return found

    def lost(self, body: Mapping[str, Any], hand_overs: int | None = None) -> int:
        """An actor died, or had left, and a new one is up: count what died with it, and have the new one begin.
        ``hand_overs`` is how many trajectories were really handed over, where that is not the same as writing them
        down. Returns how many episodes cannot be gone on with."""
        actor = int(body["index"])
        strands = self._strands[actor]
        found = [written for strand in strands if (written := self._whereabouts(strand)) is not None]
        lost = int(body["counted"])
        if found:
            newest = max(found, key=_when)
            if int(newest["incarnation"][0]) >= int(body["incarnation"]):
                return 0  # it had been started before this was heard, and has begun
            handed_over = int(newest["handed_over"][0])
            its_own = handed_over - self._begun_at[actor]
            lost -= its_own
            self._begun_at[actor] = handed_over
            if its_own and hand_overs is not None and int(newest["hand_overs"][0]) > hand_overs:
                lost += env_steps_of(newest)  # written down, and then it died
        self._line.send("lost_env_steps", {"env_steps": lost})
        abandoned = 0
        for strand in strands:
            ledger = self._ledgers[strand]
            place = strand, ledger.number
            self._losses[place] += body["cause"] != JOINED
            abandoned += ledger.leave_unfinished(self._losses[place])
        self._send_order(actor)
        return abandoned

    def _send_order(self, actor: int) -> None:
        order = join_orders([self._ledgers[strand] for strand in self._strands[actor]])
        body = {**order, "handed_over": self._begun_at[actor]}
        self._line.send("start", body, to=RoleId("actor", actor))


def _when(written: Arrays) -> tuple[int, ...]:
    """Of two that the same actor wrote down the later one is greater."""
    return tuple(int(written[name][0]) for name in ("handed_over", "hand_overs") if name in written)
