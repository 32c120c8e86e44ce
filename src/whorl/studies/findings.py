"""Findings: the effect that was expected beforehand, the interval that was measured, and the verdict.

"Yes" takes the whole interval on the expected side, and at least three seeds. Where a theory gives the very number, it
takes an interval that holds it and tells it from what would be if the theory were wrong. Everything else is "no", and
the explanation says which: the contrary was found, nothing could be told, or nothing was measured.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from whorl.runs.files import write_atomic
from whorl.runs.status import counted
from whorl.studies.contract import Scale
from whorl.studies.stats import Estimate, estimate

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
    """With 95 % confidence; None of a single seed."""
    unit: str
    seeds: int
    verdict: Literal["yes", "no"]
    state: Literal["as expected", "the contrary", "undecided", "not measured"]
    """What stands behind the verdict."""
    explanation: str
    emulated: str = ""
    """What of it is not real, in a few words."""

    @property
    def shown(self) -> str:
        """``1.31 [1.25, 1.38] times``, or ``1.31 times (1 seed)``."""
        if self.measured is None:
            return "not measured"
        return with_interval(self.measured, self.interval, self.unit)


@dataclass(frozen=True)
class Expectation:
    """What was expected beforehand: values above a border, below it, at most it, between two, or a number that a theory
    gives."""

    kind: Literal["above", "below", "at most", "between", "equal to"]
    border: float
    other: float = 0.0
    """With ``between`` the upper border; with ``equal to`` how far off an interval may reach and still tell it."""

    def text(self, unit: str, since: str) -> str:
        """For people."""
        upper = f" and {plain_number(self.other)}" if self.kind == "between" else ""
        margin = f", give or take {plain_number(self.other)}" if self.kind == "equal to" else ""
        reason = f" ({since})" if since else ""
        return f"{self.kind} {plain_number(self.border)}{upper} {unit}".strip() + margin + reason

    @property
    def borders(self) -> str:
        """What an interval that tells nothing holds."""
        if self.kind == "equal to":
            return f"{plain_number(self.border)} and more than {plain_number(self.other)} around it"
        return plain_number(self.border) + (f" or {plain_number(self.other)}" if self.kind == "between" else "")

    def state(self, found: Estimate) -> Literal["as expected", "the contrary", "undecided"]:
        """Of an interval that rests on enough seeds."""
        low, high, border = found.low, found.high, self.border
        if self.kind == "equal to":
            if not low <= border <= high:
                return "the contrary"
            return "as expected" if max(border - low, high - border) <= self.other else "undecided"
        if self.kind == "between":
            if border <= low and high <= self.other:
                return "as expected"
            return "the contrary" if high < border or low > self.other else "undecided"
        fits = {"above": low > border, "below": high < border, "at most": high <= border}
        fails = {"above": high < border, "below": low > border, "at most": low > border}
        return "as expected" if fits[self.kind] else "the contrary" if fails[self.kind] else "undecided"

    def leans(self, found: Estimate) -> bool:
        """Whether the value itself is on the expected side."""
        if self.kind == "equal to":
            return abs(found.value - self.border) <= self.other
        if self.kind == "between":
            return self.border <= found.value <= self.other
        sides = {"above": found.value > self.border, "below": found.value < self.border}
        return sides.get(self.kind, found.value <= self.border)


def judge(
    name: str,
    claim: str,
    found: Estimate | None,
    *,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    between: tuple[float, float] | None = None,
    equals: float | None = None,
    within: float = 0.0,
    since: str = "",
    unit: str = "",
    published: str = "",
    seen: str = "",
    because: str = "",
    otherwise: str = "",
    emulated: str = "",
) -> Finding:
    """Set what was measured beside what was expected: ``above`` or ``below`` a number, ``at_most`` one, ``between`` two
    (what is called alike), or a number that a theory gives (``equals``, by an interval that reaches no farther than
    ``within`` from it). ``since`` says where the border is from. ``seen`` is told of every outcome: what stands behind
    the number. ``because`` explains a yes and ``otherwise`` the contrary; what is undecided has nothing to explain."""
    expectation = _expectation(above, below, at_most, between, equals, within)
    expected = expectation.text(unit, since)
    if found is None or not all(map(math.isfinite, (found.value, found.low, found.high))):
        text = "Nothing was measured: cells failed, or did not come far enough."
        return Finding(name, claim, expected, published, None, None, unit, 0, "no", "not measured", text, emulated)
    state = expectation.state(found) if found.seeds >= FEWEST_SEEDS else "undecided"
    if found.seeds < FEWEST_SEEDS:
        side = "on the expected side" if expectation.leans(found) else "on the other side"
        few = counted(found.seeds, "seed")
        told = f"Undecided: {few}, and a verdict takes {FEWEST_SEEDS}. What there is lies {side}."
    elif state == "as expected":
        told = because or ("" if seen else "As expected.")
    elif state == "the contrary":
        told = f"The contrary was found. {otherwise}"
    else:
        told = f"Undecided: the interval holds {expectation.borders}. More seeds might decide it."
    text = f"{seen} {told}".strip()
    verdict: Literal["yes", "no"] = "yes" if state == "as expected" else "no"
    return Finding(
        name, claim, expected, published, found.value, found.interval, unit, found.seeds, verdict, state, text, emulated
    )


def _expectation(
    above: float | None,
    below: float | None,
    at_most: float | None,
    between: tuple[float, float] | None,
    equals: float | None,
    within: float,
) -> Expectation:
    if above is not None:
        return Expectation("above", above)
    if below is not None:
        return Expectation("below", below)
    if at_most is not None:
        return Expectation("at most", at_most)
    if between is not None:
        return Expectation("between", *between)
    assert equals is not None
    return Expectation("equal to", equals, within)


def side_by_side(groups: Mapping[str, Sequence[float]]) -> str:
    """``queue 93.2; seed 96``: what each group came to (interquartile means), for captions."""
    known = (f"{name} {plain_number(estimate(values).value)}" for name, values in groups.items() if values)
    return "; ".join(known) or "nothing was measured"


def write_findings(
    path: Path,
    study: str,
    scale: Scale,
    engine: str,
    findings: Sequence[Finding],
    took_s: float = 0.0,
    origins: Sequence[str] = (),
    failed: Sequence[str] = (),
) -> None:
    """``findings.json``. ``origins``: with what, where and when the cells were run; ``failed``: those that left
    nothing."""
    note = "Smoke scale shows that everything runs; its findings carry no weight." if scale == "smoke" else ""
    plain = {
        "study": study,
        "scale": scale,
        "engine": engine,
        "note": note,
        "took_s": round(took_s, 1),
        "from": list(origins),
        "failed": list(failed),
        "findings": [asdict(finding) for finding in findings],
    }
    write_atomic(path, json.dumps(plain, indent=1).encode() + b"\n")


def finding_of(plain: Mapping[str, Any]) -> Finding:
    """As it stands in ``findings.json``."""
    interval = plain["interval"]
    return Finding(**{**plain, "interval": None if interval is None else (interval[0], interval[1])})


def plain_number(value: float) -> str:
    """Three digits, or all of them before the point."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def with_interval(
    value: float,
    interval: tuple[float, float] | None,
    unit: str = "",
    number: Callable[[float], str] = plain_number,
) -> str:
    """``1.31 [1.25, 1.38] times``; of a single seed, which has none, ``1.31 times (1 seed)``."""
    if interval is None:
        return " ".join(filter(None, (number(value), unit, "(1 seed)")))
    return f"{number(value)} [{number(interval[0])}, {number(interval[1])}] {unit}".strip()
