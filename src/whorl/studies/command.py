"""``whorl study``: lists studies, prints what they would run, runs them, or goes on with them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from whorl.cluster.timing import TimeLimit
from whorl.config.schema import RunConfig
from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED, MissingExtraError
from whorl.runs.files import shown
from whorl.runs.status import counted, duration
from whorl.signals import StopSignals
from whorl.studies.contract import Cell, Scale, Study
from whorl.studies.directory import Directory
from whorl.studies.durations import expected_s, roughly
from whorl.studies.machine import facts, origin_of
from whorl.studies.overview import write_overview
from whorl.studies.progress import make_progress
from whorl.studies.registry import NAMES, check_engine, check_extras, get_study
from whorl.studies.report import write_report
from whorl.studies.results import Results
from whorl.studies.running import END_S, Runner, through
from whorl.studies.script import script_of

ROOT = Path("studies")


def study_table() -> list[tuple[str, str]]:
    """Name, and a line with its source, of each."""
    return [(study.name, f"{study.title} ({study.source})") for study in map(get_study, NAMES)]


def run_study(name: str, scale: Scale, engine: str | None, study_dir: Path | None, quiet: bool = False) -> int:
    """One study, or all; returns the exit code."""
    if name != "all":
        study = get_study(name)
        engine = engine or study.engine_for(scale)
        check_engine(study, engine)
        check_extras(study, engine, scale)
        return _run(study, scale, engine, study_dir or default_path(study, scale, engine), quiet)
    codes, left_out, paths = [], [], {}
    for number, study in enumerate(map(get_study, NAMES)):
        chosen = engine if engine in study.engines else study.engine_for(scale)
        try:
            check_extras(study, chosen, scale)
        except MissingExtraError as error:
            left_out.append(str(error))
            continue
        if not quiet:
            time = roughly(NAMES[number:], scale)
            other = f"; {study.name} cannot use {engine} and runs on {chosen}" if engine not in (None, chosen) else ""
            print(f"study {number + 1} of {len(NAMES)}{time and f', {time} for the rest'}{other}", file=sys.stderr)
        path = study_dir / study.name if study_dir else default_path(study, scale, chosen)
        paths[study.title] = path
        codes.append(_run(study, scale, chosen, path, quiet))
        if codes[-1] == EXIT_PREEMPTED:
            return EXIT_PREEMPTED
    if paths:
        print(shown(write_overview(study_dir or ROOT, scale, paths, left_out)), flush=True)
    if left_out:
        print(f"left out: {'; '.join(left_out)}", file=sys.stderr)
    return EXIT_FAILED if EXIT_FAILED in codes or not codes else EXIT_DONE


def default_path(study: Study, scale: Scale, engine: str) -> Path:
    """``studies/NAME-SCALE``, with the engine where it is not the usual one."""
    other = "" if engine == study.engine_for(scale) else f"-{engine}"
    return ROOT / f"{study.name}-{scale}{other}"


def print_commands(name: str, scale: Scale, engine: str | None, study_dir: Path | None) -> None:
    """Every command of every cell, as a script."""
    studies = []
    for study in [get_study(name)] if name != "all" else map(get_study, NAMES):
        chosen = engine or study.engine_for(scale)
        if name != "all":
            check_engine(study, chosen)
        elif chosen not in study.engines:
            chosen = study.engine_for(scale)
        below = study_dir / study.name if study_dir and name == "all" else study_dir
        studies.append((study, chosen, below or default_path(study, scale, chosen)))
    print("\n".join(script_of(name, scale, studies, study_dir, engine)))


def check_cells(cells: Sequence[Cell]) -> None:
    """Two cells of one name would overwrite each other."""
    names = [cell.name for cell in cells]
    assert len(set(names)) == len(names), "cells of one study differ by their labels or seeds"


def _run(study: Study, scale: Scale, engine: str, path: Path, quiet: bool) -> int:
    cells = study.cells(scale, engine)
    check_cells(cells)
    directory = Directory(path)
    slots = 1 if study.timed else len(os.sched_getaffinity(0))
    with StopSignals() as signals, directory.claim(study, scale, engine):
        # Before the cells, which look at the clock themselves: they are to be ended, and not to have failed.
        signals.hold(TimeLimit(RunConfig.stop_before_s + END_S))
        known = facts()
        progress = make_progress(f"{study.name}, {scale}", len(cells), quiet)
        time_s, origin = expected_s(study, scale, slots), origin_of(known)
        words = through(scale)
        runner = Runner(directory, scale, slots, progress, signals, time_s, words, origin)
        try:
            runner.run(cells)
        finally:
            progress.close()
        if signals.received is not None:
            done = f"{len(runner.done)} of {len(cells)} cells are done"
            print(f"{study.name}: stopped by {signals.received}, {done}; the same command goes on", file=sys.stderr)
            return EXIT_PREEMPTED
        order = {cell.name: place for place, cell in enumerate(cells)}
        done_cells = sorted(runner.done, key=lambda one: order[one.cell.name])
        if not done_cells:
            first = runner.failures[0]
            print(f"whorl: {path}: every cell failed; {first.cell.name}: {first.reason}", file=sys.stderr)
            return EXIT_FAILED
        made = study.report(Results(scale, engine, done_cells))
        took_s = sum(sum(one.seconds) for one in done_cells) / slots
        write_report(path, study, scale, engine, made, done_cells, runner.failures, known, took_s, words)
    if not quiet:
        for finding in made.findings:
            print(f"{finding.verdict:<3}  {finding.claim}: {finding.shown}")
        print(f"{study.name}: {counted(len(done_cells), 'cell')}, {duration(took_s)}")
    print(shown(path / "report.html"))
    for failure in runner.failures:
        print(f"whorl: {failure.cell.name} failed: {failure.reason}", file=sys.stderr)
    return EXIT_FAILED if runner.failures else EXIT_DONE
