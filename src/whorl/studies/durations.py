"""How long studies take on two cores, so that one can say so before it starts. Paper scale is anybody's guess."""

from __future__ import annotations

from collections.abc import Sequence

from whorl.runs.status import duration
from whorl.studies.contract import Scale, Study

CORES = 2
"""Of the machine these times are for: a virtual one with two cores of an AMD EPYC, otherwise quiet."""
MINUTES: dict[str, tuple[float, float]] = {
    "vtrace": (0.5, 4.0),
}
"""At smoke and at small scale."""
_PLACES: dict[Scale, int] = {"smoke": 0, "small": 1}


def expected_s(study: Study, scale: Scale, slots: int) -> float | None:
    """Of a whole study with so many cells at a time; None where nobody knows."""
    if scale not in _PLACES or study.name not in MINUTES:
        return None
    seconds = 60 * MINUTES[study.name][_PLACES[scale]]
    return seconds if study.timed else seconds * CORES / slots


def roughly(names: Sequence[str], scale: Scale) -> str:
    """``about 12 min on 2 quiet cores``, for all of them together; empty where nobody knows."""
    if scale not in _PLACES:
        return ""
    minutes = sum(MINUTES[name][_PLACES[scale]] for name in names)
    return f"about {duration(60 * max(1, round(minutes)))} on {CORES} quiet cores".replace(" 00 s", "")
