"""Groups whose members live in different stations."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from whorl.engines.contract import GroupSpec, RoleId
from whorl.engines.local.group import BROUGHT_ROWS, GroupSegment
from whorl.engines.local.memory import fence
from whorl.engines.local.polling import ring, silence
from whorl.engines.ray.bridge import Surroundings, for_several
from whorl.types import Array


class GroupBridge:
    """Some members are here and some elsewhere: what the ones bring is written into the others' segments."""

    def __init__(
        self,
        spec: GroupSpec,
        parts: list[int],
        station: Surroundings,
        unit_of: Mapping[RoleId, int],
        unit: int,
    ) -> None:
        segment, *doorbells = parts
        self._name = spec.name
        self._buffers = spec.buffers
        self._station = station
        self._shared = GroupSegment(segment, spec.layout, len(spec.members), spec.buffers)
        self._here = [rank for rank, member in enumerate(spec.members) if unit_of[member] == unit]
        self._elsewhere = {unit_of[member] for member in spec.members} - {unit}
        self._doorbells = [doorbells[rank] for rank in self._here]
        self._witness = os.dup(doorbells[-1])
        self._sent = dict.fromkeys(self._here, 0)
        self._shared.watched[0] = 1
        station.watch(self._witness, self.pump)

    def pump(self) -> None:
        """Tell the others of arrivals here."""
        silence(self._witness)
        fence()
        for rank in self._here:
            # Each round by itself: a member whose partners had come before it may be in its next one already. It is at
            # most one ahead of what they know, so that what it brought to the last is still there.
            while self._sent[rank] < self._shared.rounds[rank]:
                self._sent[rank] += 1
                self._tell(rank, self._sent[rank])

    def _tell(self, rank: int, round_: int) -> None:
        parity = round_ & 1
        flags = self._shared.flags[parity][rank]
        header = {"op": "arrival", "name": self._name, "rank": rank, "round": round_, "flags": flags}
        header["value"] = self._shared.values[parity] if rank == 0 else 0
        arrays: list[Any] = []
        if flags == BROUGHT_ROWS:
            rows = np.stack(self._shared.rows[parity][rank * self._buffers : (rank + 1) * self._buffers])
            arrays = [for_several(rows, len(self._elsewhere))]
        for unit in self._elsewhere:
            self._station.stream_to(unit).put(header, arrays)

    def on_arrival(self, header: Mapping[str, Any], rows: Array | None) -> None:
        """A member elsewhere has come."""
        rank, round_ = header["rank"], header["round"]
        parity = round_ & 1
        if rows is not None:
            for offset in range(self._buffers):
                np.copyto(self._shared.rows[parity][rank * self._buffers + offset], rows[offset])
        self._shared.flags[parity][rank] = header["flags"]
        if rank == 0:
            self._shared.values[parity] = header["value"]
        fence()
        self._shared.rounds[rank] = round_
        fence()
        ring(self._doorbells)

    def on_peer(self, unit: int) -> None:
        """Nothing: with a member lost, everybody begins anew."""

    def close(self) -> None:
        os.close(self._witness)
