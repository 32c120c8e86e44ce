"""How long studies take on two cores, so that one can say so before it starts. Paper scale is anybody's guess."""

from __future__ import annotations

from collections.abc import Sequence

from whorl.runs.status import duration
from whorl.studies.contract import Scale, Study

CORES = 2
"""Of the machine these times are for: a virtual one with two cores of an AMD EPYC, otherwise quiet."""
MINUTES: dict[str, tuple[float, float]] = {
    "vtrace": (0.3, 1.5),
    "priorities": (0.3, 2.0),
    "windows": (0.2, 5.0),
    "workflows": (1.0, 9.0),
    "learners": (1.0, 13.0),
    "data-generation": (0.3, 1.5),
    "elastic": (0.8, 7.0),
    "seed-inference": (0.8, 6.0),
    "resources": (1.0, 8.0),
    "agents": (1.0, 8.0),
    "tasks": (0.5, 6.0),
    "data-parallel": (0.5, 5.0),
    "node-shape": (0.6, 6.0),
    "scaling": (1.0, 11.0),
    "atari-throughput": (1.8, 9.0),
    "platforms": (0.8, 6.0),
    "tune": (0.5, 4.0),
    "tetris": (0.8, 6.0),
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
