"""Findings: the effect that was expected beforehand, the interval that was measured, and the verdict.

"Yes" takes the whole interval on the expected side, and at least three seeds. Everything else is "no", and the
explanation says which: the contrary was found, nothing could be told, or nothing was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from whorl.runs.files import write_atomic
from whorl.runs.status import counted
from whorl.studies.contract import Scale
from whorl.studies.stats import Estimate

FEWEST_SEEDS = 3


@dataclass(frozen=True)
class Finding:
    """One thing that a study was to find out."""

    name: str
    claim: str
    """In a sentence."""
    expected: str
    """What was expected beforehand, as a number with its direction."""
    published: str
    """What the documents report; empty where they give no figure."""
    measured: float | None
    interval: tuple[float, float] | None
    """With 95 % confidence."""
    unit: str
    seeds: int
    verdict: Literal["yes", "no"]
    state: Literal["as expected", "the contrary", "undecided", "not measured"]
    """What stands behind the verdict."""
    explanation: str

    @property
    def shown(self) -> str:
        """``1.31 [1.25, 1.38] times``."""
        if self.measured is None or self.interval is None:
            return "not measured"
        low, high = self.interval
        return f"{_number(self.measured)} [{_number(low)}, {_number(high)}] {self.unit}".strip()


def judge(
    name: str,
    claim: str,
    found: Estimate | None,
    *,
    above: float | None = None,
    below: float | None = None,
    unit: str = "",
    published: str = "",
    because: str = "",
    otherwise: str = "",
) -> Finding:
    """Set what was measured beside what was expected: ``above`` or ``below`` a number. ``because`` explains a yes,
    ``otherwise`` a no."""
    assert (above is None) != (below is None)
    border = above if above is not None else below
    assert border is not None
    expected = f"{'above' if above is not None else 'below'} {_number(border)} {unit}".strip()
    if found is None or not all(map(math.isfinite, (found.value, found.low, found.high))):
        text = "Nothing was measured: cells failed, or did not come far enough."
        return Finding(name, claim, expected, published, None, None, unit, 0, "no", "not measured", text)
    enough = found.seeds >= FEWEST_SEEDS
    is_so = enough and (found.low > border if above is not None else found.high < border)
    is_contrary = enough and (found.high < border if above is not None else found.low > border)
    if not enough:
        side = "on the expected side" if (found.value > border) == (above is not None) else "on the other side"
        few = counted(found.seeds, "seed")
        text = f"Undecided: {few}, and a verdict takes {FEWEST_SEEDS}. What there is lies {side}."
    elif is_so:
        text = because or "As expected."
    elif is_contrary:
        text = f"The contrary was found. {otherwise}".strip()
    else:
        text = f"Undecided: the interval holds {_number(border)}. {otherwise}".strip()
    interval = (found.low, found.high)
    verdict, state = _verdict(is_so, is_contrary)
    return Finding(name, claim, expected, published, found.value, interval, unit, found.seeds, verdict, state, text)


def _verdict(
    is_so: bool, is_contrary: bool
) -> tuple[Literal["yes", "no"], Literal["as expected", "the contrary", "undecided"]]:
    if is_so:
        return "yes", "as expected"
    return "no", "the contrary" if is_contrary else "undecided"


def write_findings(path: Path, study: str, scale: Scale, engine: str, findings: Sequence[Finding]) -> None:
    """``findings.json``."""
    note = "Smoke scale shows that everything runs; its findings carry no weight." if scale == "smoke" else ""
    plain = {
        "study": study,
        "scale": scale,
        "engine": engine,
        "note": note,
        "findings": [asdict(finding) for finding in findings],
    }
    write_atomic(path, json.dumps(plain, indent=1).encode() + b"\n")


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
