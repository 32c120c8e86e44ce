"""What a benchmark reports: measures with every value, medians and ratios, and the machine they were taken on."""

from __future__ import annotations

import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal


@dataclass
class Measure:
    """One quantity of several subjects (Whorl, a peer): every value in the order it was taken."""

    name: str
    unit: str
    better: Literal["higher", "lower"]
    how: str
    """How it was measured, in a sentence."""
    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, subject: str, value: float) -> None:
        self.values.setdefault(subject, []).append(value)

    def median(self, subject: str) -> float:
        return statistics.median(self.values[subject])

    def advantage(self, subject: str, over: str) -> float:
        """How many times better the subject's median is."""
        ours, theirs = self.median(subject), self.median(over)
        return ours / theirs if self.better == "higher" else theirs / ours


@dataclass
class Report:
    """All measures of one benchmark."""

    title: str
    measures: list[Measure]
    reference: str = ""
    """The subject that others are compared with; empty: no comparison."""
    notes: list[str] = field(default_factory=list)
    machine: dict[str, Any] = field(default_factory=lambda: machine_facts())

    def as_markdown(self) -> str:
        """A section of a page: the machine, a table for each measure, the notes."""
        facts = self.machine
        lines = [f"## {self.title}", ""]
        lines += [f"{facts['date'][:10]}, {facts['cpu']}, {facts['cpus']} CPUs, load {facts['load_average_1_min']}; "]
        lines[-1] += f"Python {facts['python']}, torch {facts['torch']}, numpy {facts['numpy']}."
        for measure in self.measures:
            lines += ["", f"**{measure.name}** ({measure.unit}; {measure.better} is better): {measure.how}.", ""]
            lines += ["| | median | times better | every value |", "|---|---:|---:|---|"]
            for subject, values in measure.values.items():
                cells = (subject, shown(measure.median(subject)), self.ratio(measure, subject))
                lines.append(f"| {' | '.join(cells)} | {', '.join(map(shown, values))} |")
        lines += [f"\nNote: {note}." for note in self.notes]
        return "\n".join(lines) + "\n"

    def ratio(self, measure: Measure, subject: str) -> str:
        """How many times better than the reference, or nothing where there is none."""
        compared = self.reference and subject != self.reference and self.reference in measure.values
        return f"{measure.advantage(subject, self.reference):.2f}" if compared else ""

    def as_json(self) -> dict[str, Any]:
        """Plain values, medians included."""
        plain = asdict(self)
        for measure, entry in zip(self.measures, plain["measures"], strict=True):
            entry["medians"] = {subject: measure.median(subject) for subject in measure.values}
        return plain


def shown(value: float) -> str:
    """Four digits, and never an exponent."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def machine_facts() -> dict[str, Any]:
    """What the figures depend on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0].partition(":")[2].strip() if names else model
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "cpu": model,
        "cpus": os.cpu_count(),
        "load_average_1_min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        **{name: installed_version(name) for name in ("whorl", "torch", "numpy", "gymnasium")},
    }


def installed_version(name: str) -> str:
    """Of a package; ``not installed`` where there is none."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def print_report(report: Report) -> None:
    """The table for people."""
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    facts = report.machine
    console.print(f"\n{report.title}", style="bold")
    console.print(
        f"{facts['cpu']}, {facts['cpus']} CPUs, load {facts['load_average_1_min']} at the start; "
        f"Python {facts['python']}, torch {facts['torch']}"
    )
    for measure in report.measures:
        table = Table(title=f"{measure.name} ({measure.unit}; {measure.better} is better)", title_justify="left")
        for column in ("", "median", "times better", "every value"):
            table.add_column(column, justify="left" if column in ("", "every value") else "right")
        for subject, values in measure.values.items():
            ratio = report.ratio(measure, subject)
            table.add_row(subject, shown(measure.median(subject)), ratio, "  ".join(map(shown, values)))
        console.print(table)
        console.print(f"  {measure.how}", style="dim")
    for note in report.notes:
        console.print(f"note: {note}")
