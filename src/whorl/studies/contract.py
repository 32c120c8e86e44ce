"""What a study is: cells that are run, each a few commands with a seed, and a function from their results to a report.

Everything about a cell is plain data, known before anything runs: a dry run prints it, and a study that goes on knows
which of its cells it has.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whorl.runs.files import file_safe

if TYPE_CHECKING:
    from whorl.studies.figures import Figure
    from whorl.studies.findings import Finding
    from whorl.studies.results import Results

Scale = Literal["smoke", "small", "paper"]
SCALES: tuple[Scale, ...] = ("smoke", "small", "paper")
FOLDER = "{folder}"
"""Stands in commands for the cell's own folder."""
RUN = f"{FOLDER}/run"
"""The run directory of a cell that trains."""
FOUND = f"{FOLDER}/found.json"
"""Where a cell that measures writes what it found."""

EVERY_ENGINE = "every-engine"
"""What a study that compares engines is run on where none is asked for."""

SPREADING = ("mpi", "ray")
"""Engines that can use several nodes."""

_PROGRAMS = {"whorl": ("-m", "whorl.cli.main"), "python": ()}


@dataclass(frozen=True)
class Cell:
    """One setting with one seed."""

    labels: Mapping[str, Any]
    """What sets it apart from others of its study: ``{"workflow": "queue", "actors": 4}``."""
    seed: int
    commands: tuple[tuple[str, ...], ...]
    """Run one after the other. The first word is ``whorl`` or ``python``."""
    emulated: str = ""
    """What of it is not real, in a few words."""

    @property
    def name(self) -> str:
        """As a file may be called."""
        words = [f"{key}-{_short(value)}" for key, value in self.labels.items()]
        return file_safe("_".join([*words, f"seed-{self.seed}"]))

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        commands = [list(command) for command in self.commands]
        return {"labels": dict(self.labels), "seed": self.seed, "commands": commands, "emulated": self.emulated}

    def shown(self, folder: Path | str, through: Sequence[str] = ()) -> list[str]:
        """Its commands as people type them."""
        return [shlex.join(command) for command in self._filled(folder, through)]

    def executable(self, folder: Path, through: Sequence[str] = ()) -> list[list[str]]:
        """Its commands with this interpreter. ``through`` stands before trainings that may use several nodes, such as
        ``slurm --nodes 4 --``."""
        return [[sys.executable, *_PROGRAMS[program], *words] for program, *words in self._filled(folder, through)]

    def _filled(self, folder: Path | str, through: Sequence[str]) -> list[list[str]]:
        filled = [[word.replace(FOLDER, str(folder)) for word in command] for command in self.commands]
        spread = any(word in SPREADING for command in self.commands for word in command)
        return [[program, *(through if spread and program == "whorl" else ()), *words] for program, *words in filled]


@dataclass(frozen=True)
class Table:
    """Rows for people."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Report:
    """What is made of a study's results."""

    findings: Sequence[Finding]
    figures: Sequence[Figure]
    tables: Sequence[Table] = ()
    remarks: Sequence[str] = ()
    """Paragraphs: what differs from what was published, and why."""


@dataclass(frozen=True)
class Machine:
    """What a study at ``paper`` scale asks a cluster for."""

    nodes: int = 1
    cpus: int = 36
    """Of each node."""
    gpus: int = 0
    """Of each node."""

    @property
    def shown(self) -> str:
        """For people."""
        gpus = f" and {self.gpus} GPU{'s' * (self.gpus > 1)} each" if self.gpus else ""
        return f"{self.nodes} node{'s' * (self.nodes > 1)} of {self.cpus} CPUs{gpus}"


@dataclass(frozen=True)
class Study:
    """An experiment."""

    name: str
    title: str
    """One line."""
    source: str
    """Which document reports it, and where."""
    engines: tuple[str, ...]
    """Those it can be run on; the first is the default."""
    cells: Callable[[Scale, str], list[Cell]]
    """All that is run at a scale on an engine."""
    report: Callable[[Results], Report]
    needs: tuple[str, ...] = ()
    """Extras without which it cannot be run, such as ``atari``."""
    timed: bool = True
    """It measures time: one cell at a time. Otherwise as many as there are cores."""
    machine: Machine = Machine()
    """What ``paper`` scale is made for."""
    compares_engines: bool = False
    """Without another word it is run on all its engines."""
    paper_engine: str = ""
    """The engine of ``paper`` scale, where it is another than the default."""
    paper_needs: tuple[str, ...] = ()
    """Further extras that ``paper`` scale needs."""
    paper_notes: tuple[str, ...] = ()
    """What of the published configuration no command says; the dry run does."""

    def engine_for(self, scale: Scale) -> str:
        """Where no other is asked for."""
        if self.compares_engines:
            return EVERY_ENGINE
        return self.paper_engine if scale == "paper" and self.paper_engine else self.engines[0]


@dataclass(frozen=True)
class Training:
    """A ``whorl train`` in parts, from which cells are made."""

    agent: str
    env: str
    steps: int
    options: Mapping[str, Any] = field(default_factory=dict)
    """Flags by name, without dashes: ``{"workflow": "queue", "envs-per-actor": 4}``."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What ``--set`` gives."""

    def command(self, seed: int, run_dir: str = RUN, steps: int | None = None) -> tuple[str, ...]:
        """The words."""
        flags = {"steps": self.steps if steps is None else steps, "seed": seed, **self.options}
        return (
            *("whorl", "train", self.agent, self.env, "--quiet", "--run-dir", run_dir),
            *(word for name, value in flags.items() for word in (f"--{name}", str(value))),
            *(word for name, value in self.settings.items() for word in ("--set", f"{name}={_text(value)}")),
        )

    def cell(self, labels: Mapping[str, Any], seed: int, emulated: str = "") -> Cell:
        """Of this training alone."""
        return Cell(labels, seed, (self.command(seed),), emulated)


def engine_words(engine: str) -> str:
    """For people: ``engine ray``, or ``every engine``."""
    return "every engine" if engine == EVERY_ENGINE else f"engine {engine}"


def probe(function: str, labels: Mapping[str, Any], seed: int, emulated: str = "", /, **arguments: Any) -> Cell:
    """A cell that calls ``module:function(**arguments)`` in a process of its own and keeps the numbers it returns."""
    given = {name: value if isinstance(value, str) else json.dumps(value) for name, value in arguments.items()}
    words = (f"{name}={text}" for name, text in given.items())
    return Cell(labels, seed, (("python", "-m", "whorl.studies.probe", function, FOUND, *words),), emulated)


def _text(value: Any) -> str:
    """As ``--set`` reads it."""
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, tuple | list) else str(value)


def _short(value: Any) -> str:
    return _text(value).replace("_", "-")
