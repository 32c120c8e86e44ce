"""How long studies take on two cores, so that one can say so before it starts. Paper scale is anybody's guess."""

from __future__ import annotations

from collections.abc import Sequence

from whorl.runs.status import duration
from whorl.studies.contract import Scale, Study

CORES = 2
"""Of the machine these times are for: a virtual one with two cores of an AMD EPYC, otherwise quiet."""
MINUTES: dict[str, tuple[float, float]] = {
    "vtrace": (0.1, 2.0),
    "priorities": (0.2, 2.1),
    "windows": (0.2, 7.0),
    "workflows": (0.9, 8.8),
    "learners": (0.7, 10.8),
    "data-generation": (0.1, 0.2),
    "elastic": (0.6, 6.5),
    "seed-inference": (0.3, 2.1),
    "resources": (0.3, 1.9),
    "agents": (0.3, 10.0),
    "tasks": (0.3, 5.7),
    "data-parallel": (0.2, 1.3),
    "node-shape": (0.3, 3.0),
    "scaling": (0.8, 10.7),
    "atari-throughput": (0.9, 3.7),
    "platforms": (0.7, 6.1),
    "tune": (0.2, 1.2),
    "tetris": (0.3, 5.0),
}
"""At smoke and at small scale, as measured there."""
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
