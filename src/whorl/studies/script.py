"""What ``--dry-run`` prints: every command of every cell; at paper scale as a batch script that ``sbatch`` takes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

from whorl.runs.files import shown
from whorl.runs.status import counted
from whorl.studies.contract import Machine, Scale, Study, engine_words
from whorl.studies.directory import Directory
from whorl.studies.durations import roughly
from whorl.studies.running import THREADS, over_nodes

Chosen = Sequence[tuple[Study, str, Path]]
"""Studies, each with its engine and its folder."""


def script_of(name: str, scale: Scale, studies: Chosen, study_dir: Path | None, engine: str | None) -> Iterator[str]:
    """Lines. Of smoke and small scale the commands themselves; of paper scale the one that runs them all, in a job."""
    if scale == "paper":
        again = ["whorl", "study", name, "--scale", scale]
        again += ["--engine", engine] if engine else []
        again += ["--study-dir", str(study_dir)] if study_dir else []
        machine = _largest([study.machine for study, _, _ in studies])
        yield from _job(name, machine, shlex.join(again))
        through = over_nodes(machine.nodes, machine.cpus)
    else:
        yield "#!/bin/sh"
        if len(studies) > 1:
            yield f"# {len(studies)} studies{_for(scale, [study for study, _, _ in studies])}"
        through = ()
    mark = "# " if scale == "paper" else ""
    for study, chosen, path in studies:
        cells = study.cells(scale, chosen)
        made_for = f", made for {study.machine.shown}" if scale == "paper" else ""
        about = f"{counted(len(cells), 'cell')}{_for(scale, [study])}{made_for}"
        yield f"# {study.name}, scale {scale}, {engine_words(chosen)}: {about}"
        if scale == "paper":
            yield from (f"# Note: {note}" for note in study.paper_notes)
        yield f"{mark}{THREADS}"
        directory = Directory(path)
        for cell in cells:
            emulated = f" (emulated: {cell.emulated})" if cell.emulated else ""
            yield f"# {cell.name}{emulated}"
            yield from (f"{mark}{command}" for command in cell.shown(shown(directory.folder(cell)), through))


def _for(scale: Scale, studies: Sequence[Study]) -> str:
    time = roughly([study.name for study in studies], scale)
    return f", {time}" if time else ""


def _largest(machines: Sequence[Machine]) -> Machine:
    return Machine(*(max(getattr(one, name) for one in machines) for name in ("nodes", "cpus", "gpus")))


def _job(name: str, machine: Machine, command: str) -> Iterator[str]:
    """A job that goes on with the study when it comes back. Time, account and partition are the site's to say."""
    yield "#!/bin/bash"
    yield f"#SBATCH --job-name=whorl-study-{name}"
    yield f"#SBATCH --nodes={machine.nodes}"
    yield "#SBATCH --ntasks-per-node=1"
    yield f"#SBATCH --cpus-per-task={machine.cpus}"
    if machine.gpus:
        yield f"#SBATCH --gpus-per-node={machine.gpus}"
    yield "#SBATCH --requeue"
    yield "#SBATCH --signal=B:TERM@120"
    yield "# Runs every cell below that has no result yet, each over all nodes where its engine can, then the report."
    yield f"exec {command}"
