"""The script of a job. Below the batch system's own lines it is the same for all of them:

it writes a second, short script into the run directory, which every node runs: prologue, then Python. The first thing
to run like that is the batch process, on the first node; it starts the others.
"""

from __future__ import annotations

import shlex
from pathlib import Path

from whorl import __version__
from whorl.cluster.allocation import ASKED_CPUS, ASKED_GPUS, ASKED_MEMORY
from whorl.cluster.orders import JobOrder
from whorl.cluster.request import Part, Request, quoted
from whorl.cluster.timing import ASKED_S
from whorl.errors import BadInputError

_END = "END-OF-WHORL-NODE-SCRIPT"


def node_script(request: Request) -> str:
    """What every node runs; its arguments are Python's."""
    lines = ["#!/bin/bash", "# Runs on every node of the job: the prologue, then Python with the given arguments."]
    lines += [f"cd {shlex.quote(str(request.folder))} || exit 2", "export PYTHONUNBUFFERED=1"]
    if request.python_path:
        lines.append(f"export PYTHONPATH={shlex.quote(request.python_path)}")
    lines += [*_asked_of_node(request), *([f"export {ASKED_S}={request.time_s}"] if request.time_s else [])]
    if request.prologue:
        lines += ["# prologue", request.prologue.rstrip("\n"), "# end of the prologue"]
    lines.append(f'exec {request.python} "$@"')
    return "\n".join(lines) + "\n"


def _asked_of_node(request: Request) -> list[str]:
    """What was asked for on the node that runs this. One script is for all: of two kinds, each finds its own numbers by
    its index, and forgets those of the batch process, which launchers may pass on."""
    first, *others = request.parts
    if not others:
        return _exports(first)
    index = "${SLURM_PROCID:-${PBS_NODENUM:-0}}"
    head, worker = (["  " + line for line in _exports(part)] or ["  :"] for part in request.parts)
    forget = f"unset {ASKED_CPUS} {ASKED_GPUS} {ASKED_MEMORY}"
    return [forget, f'if [ "{index}" -lt {first.nodes} ]; then', *head, "else", *worker, "fi"]


def _exports(part: Part) -> list[str]:
    told = {ASKED_CPUS: part.cpus_per_node, ASKED_GPUS: part.gpus_per_node, ASKED_MEMORY: part.memory_mb}
    return [f"export {name}={value}" for name, value in told.items() if value]


def job_script(header: list[str], request: Request, order: JobOrder, *, redirect: str = "") -> str:
    """The whole script. ``redirect``: a file that all output goes to, where the batch system does not see to it."""
    node = node_script(request)
    if _END in node:
        raise BadInputError(f"--prologue: must not hold the words {_END}")
    job, logs = request.run_dir / "job", request.run_dir / "logs"
    lines = ["#!/bin/bash", *header, f"# Written by whorl {__version__}."]
    lines.append(f"mkdir -p {_quote(logs)} && mkdir -p -m 700 {_quote(job)} || exit 2")
    if redirect:
        lines.append(f"exec >> {shlex.quote(redirect)} 2>&1")
    lines += [f"cat > {_quote(order.node_script)} <<'{_END}' || exit 2", node.rstrip("\n"), _END]
    words = ["bash", str(order.node_script), "-m", "whorl.cluster", "job", *order.to_words()]
    lines.append(f"exec {quoted(words)}")
    return "\n".join(lines) + "\n"


def _quote(path: Path) -> str:
    return shlex.quote(str(path))
