"""Jobs of PBS: the lines that ask for nodes, and ``qsub``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from whorl.cluster.orders import JobOrder
from whorl.cluster.request import Part, Request
from whorl.cluster.script import job_script
from whorl.cluster.starting import Queue
from whorl.cluster.timing import clock
from whorl.errors import BadInputError, WhorlError

_ANSWER_S = 60.0
_LONGEST_NAME = 15
_WAITING = "QHWT"
"""Queued, held, waiting for a time, on its way to another server."""
_OVER = (35, 153)
"""How qstat ends for a job that has finished, and for one that it does not know (any more)."""


def script_of(request: Request, order: JobOrder) -> str:
    """The script that qsub takes."""
    options = [f"-N {request.name[:_LONGEST_NAME]}", f"-l select={'+'.join(map(_chunk, request.parts))}"]
    options += [f"-l walltime={clock(request.time_s)}"] * bool(request.time_s)
    places = [*["scatter"] * (request.nodes > 1), *["excl"] * request.exclusive]
    options += [f"-l place={':'.join(places)}"] * bool(places)
    options += [f"-q {request.parts[0].partition}"] * bool(request.parts[0].partition)
    options += [f"-A {request.account}"] * bool(request.account)
    options += ["-S /bin/bash", f"-r {'y' if request.requeue else 'n'}", "-j oe", "-V"]
    header = [f"#PBS {option}" for option in options]
    return job_script(header, request, order, redirect=f"{request.run_dir}/logs/job.log")


def _chunk(part: Part) -> str:
    pieces = [str(part.nodes), f"ncpus={part.cpus_per_node}"]
    pieces += [f"ngpus={part.gpus_per_node}"] * bool(part.gpus_per_node)
    pieces += [f"mem={part.memory_mb}mb"] * bool(part.memory_mb)
    pieces += [f"{part.constraint}"] * bool(part.constraint)
    pieces += [f"{part.gres}"] * bool(part.gres)
    return ":".join(pieces)


def submit(script: Path) -> str:
    """Queue it; returns the job's number. ``BadInputError`` where PBS refuses, in its own words."""
    if shutil.which("qsub") is None:
        raise BadInputError("qsub is not here: go to a machine where jobs are submitted, or use --print")
    try:
        done = subprocess.run(["qsub", str(script)], capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        raise WhorlError(f"qsub did not answer within {_ANSWER_S:g} s: is PBS up?") from None
    said = done.stdout.strip().splitlines()
    if done.returncode or not said:
        raise BadInputError(f"qsub refused the job: {' '.join(done.stderr.split()) or 'no reason given'}")
    return said[-1]


def _why_waiting(said: str) -> str:
    """In PBS's own words where it has some (``comment``)."""
    state = re.search(r"job_state = (\w)", said)
    if state is None or state[1] not in _WAITING:
        return ""
    comment = re.search(r"comment = (.+)", said)
    return comment[1].strip() if comment else f"its state is {state[1]}"


QUEUE = Queue(
    ask=("qstat", "-f"),
    is_over=lambda done: done.returncode in _OVER,
    why_waiting=_why_waiting,
    cancel="qdel",
)
