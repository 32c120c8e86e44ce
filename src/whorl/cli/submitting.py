"""Queueing a job, in whichever batch system."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from whorl.cli.parser import positive_integer
from whorl.cluster.starting import Queue
from whorl.errors import EXIT_DONE


def start_within_s_of(arguments: argparse.Namespace) -> float | None:
    """None: however long it takes."""
    if arguments.start_within is None:
        return None
    return float(positive_integer(arguments.start_within, "--start-within"))


def submit_script(
    script: str, run_dir: Path, submit: Callable[[Path], str], queue: Queue, start_within_s: float | None
) -> int:
    """Queue the job and say its number; unless a time was said by which it is to start, it waits for its turn alone."""
    from whorl.runs.directory import give_back

    path = run_dir / "job" / "job.sh"
    path.write_text(script)
    try:
        job = submit(path)
    except BaseException:
        give_back(run_dir)
        raise
    print(f"job {job} is queued: {run_dir}", flush=True)
    if start_within_s is not None:
        queue.await_start(job, start_within_s)
    return EXIT_DONE
