"""The actors that a learner answers for where any learner may read their trajectories.

Nobody has followed such an actor, so no ledger knows its lanes' actions. But each writes down where its lanes stand, in
memory that outlives it: on a board that holds a trajectory, or the part of one that ``whereabouts_layout`` names.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from whorl.engines.contract import Board, Line, RoleId
from whorl.job import Job
from whorl.learners.ledger import Ledger
from whorl.trajectory.layout import env_steps_of
from whorl.types import Arrays, Field, Layout

HEAD = ("env_steps", "handed_over")
"""What the beginning of a board tells of the newest trajectory, at the least."""


def whereabouts_layout(job: Job, trajectory: Layout) -> Layout:
    """The part of a trajectory that tells where its lanes stand after it, and how many its actor has then handed over,
    this one included."""
    lanes = job.lane_map.envs_per_actor
    stamps = ("number", "incarnation", *HEAD)
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

    def __init__(self, line: Line, ledgers: Mapping[int, Ledger], boards: Mapping[int, Board]) -> None:
        """``boards`` are where each actor writes down where it stands."""
        self._line = line
        self._ledgers = ledgers
        self._boards = {actor: boards[actor] for actor in ledgers}
        self._begun_at = dict.fromkeys(ledgers, 0)
        """What each had been told that had been handed over before it began."""
        self._losses: Counter[tuple[int, int]] = Counter()
        """By actor and number of the trajectory that was due."""

    def start(self) -> int:
        """Have all begin where the ledgers say. Returns how many episodes cannot be gone on with."""
        abandoned = 0
        for actor, ledger in self._ledgers.items():
            abandoned += ledger.leave_unfinished(losses=0)
            self._send_order(actor, ledger)
        return abandoned

    def look(self) -> None:
        """Bring the ledgers to where the actors stand."""
        for actor in self._ledgers:
            self.whereabouts(actor)

    def whereabouts(self, actor: int) -> Arrays | None:
        """What an actor has written down last, which its ledger is then brought to; None: nothing yet."""
        board = self._boards[actor]
        if board.version < 0:
            return None
        buffer = board.layout.allocate()
        board.read(buffer)
        found = board.layout.views(buffer)
        self._ledgers[actor].stand_at(found)
        return found

    def lost(self, body: Mapping[str, Any], hand_overs: int | None = None) -> int:
        """An actor died and a new one is up: count what died with it, and have the new one begin. ``hand_overs`` is how
        many trajectories were really handed over, where that is not the same as writing them down. Returns how many
        episodes cannot be gone on with."""
        actor, incarnation = int(body["index"]), int(body["incarnation"])
        found, handed_over = self.whereabouts(actor), self._begun_at[actor]
        lost = int(body["counted"])
        if found is not None:
            if int(found["incarnation"][0]) >= incarnation:
                return 0  # it had been started before this was heard, and has begun
            handed_over = int(found["handed_over"][0])
            lost -= handed_over - self._begun_at[actor]
            if hand_overs is not None and int(found["hand_overs"][0]) > hand_overs:
                lost += env_steps_of(found)  # written down, and then it died
        self._line.send("lost_env_steps", {"env_steps": lost})
        ledger = self._ledgers[actor]
        self._losses[actor, ledger.number] += 1
        abandoned = ledger.leave_unfinished(self._losses[actor, ledger.number])
        self._begun_at[actor] = handed_over
        self._send_order(actor, ledger)
        return abandoned

    def _send_order(self, actor: int, ledger: Ledger) -> None:
        order = {**ledger.order(), "order": 0, "handed_over": self._begun_at[actor]}
        self._line.send("start", order, to=RoleId("actor", actor))
