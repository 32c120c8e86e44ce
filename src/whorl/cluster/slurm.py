"""Jobs of Slurm: the lines that ask for nodes, and ``sbatch``."""

from __future__ import annotations

import re
import shlex
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


def script_of(request: Request, order: JobOrder) -> str:
    """The script that sbatch takes."""
    first, *others = request.parts
    options = [f"--job-name={request.name}", *_of_part(first)]
    options += [f"--time={clock(request.time_s)}"] * bool(request.time_s)
    options += [f"--account={request.account}"] * bool(request.account)
    options += ["--exclusive"] * request.exclusive
    options += [f"--output={_log_of(request.run_dir)}", "--open-mode=append"]
    options += ["--requeue" if request.requeue else "--no-requeue", f"--signal=B:USR1@{request.warn_s}"]
    options += ["--no-kill"] * request.survives_nodes
    header = [f"#SBATCH {_word(option)}" for option in options]
    for part in others:
        more = [*_of_part(part), *(["--exclusive"] * request.exclusive), *(["--no-kill"] * request.survives_nodes)]
        header += ["#SBATCH hetjob", *(f"#SBATCH {_word(option)}" for option in more)]
    header.append(f"# Slurm opens the log before this runs: mkdir -p {shlex.quote(str(request.run_dir / 'logs'))}")
    return job_script(header, request, order)


def _of_part(part: Part) -> list[str]:
    options = [f"--nodes={part.nodes}", "--ntasks-per-node=1"]
    options += [f"--cpus-per-task={part.cpus_per_node}"] * bool(part.cpus_per_node)
    gres = [*([f"gpu:{part.gpus_per_node}"] if part.gpus_per_node else []), *([part.gres] if part.gres else [])]
    options += [f"--gres={','.join(gres)}"] * bool(gres)
    options += [f"--mem={part.memory_mb}M"] * bool(part.memory_mb)
    options += [f"--partition={part.partition}"] * bool(part.partition)
    options += [f"--constraint={part.constraint}"] * bool(part.constraint)
    return options


def _word(option: str) -> str:
    """As sbatch reads its lines: much as a shell, but nothing is expanded between double quotes."""
    name, _, value = option.partition("=")
    if not re.search(r"[^\w@%+=:,./-]", value, re.ASCII):
        return option
    escaped = re.sub(r'(["\\])', r"\\\1", value)
    return f'{name}="{escaped}"'


def _log_of(run_dir: Path) -> str:
    """As Slurm reads names of files: %j is the job's number, %% a per cent sign."""
    if "\\" in str(run_dir):
        raise BadInputError(f"--run-dir: Slurm cannot write a log to a path with a backslash; got {run_dir}")
    return f"{str(run_dir).replace('%', '%%')}/logs/job-%j.log"


def submit(script: Path, *options: str) -> str:
    """Queue it; returns the job's number. ``BadInputError`` where Slurm refuses, in its own words."""
    if shutil.which("sbatch") is None:
        raise BadInputError("sbatch is not here: go to a machine where jobs are submitted, or use --print")
    try:
        done = subprocess.run(
            ["sbatch", "--parsable", *options, str(script)],
            capture_output=True,
            text=True,
            timeout=_ANSWER_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise WhorlError(f"sbatch did not answer within {_ANSWER_S:g} s: is Slurm up?") from None
    if done.returncode:
        said = " ".join(done.stderr.replace("sbatch: error:", "").split())
        raise BadInputError(f"sbatch refused the job: {said or 'no reason given'}")
    return done.stdout.strip().partition(";")[0]


def _why_waiting(said: str) -> str:
    state, _, reason = said.strip().partition("\n")[0].partition(" ")
    return (reason or state) if state in ("PENDING", "CONFIGURING") else ""


QUEUE = Queue(
    ask=("squeue", "--noheader", "--format", "%T %r", "--jobs"),
    is_over=lambda done: "Invalid job id" in done.stderr,  # it has ended a while ago
    why_waiting=_why_waiting,
    cancel="scancel",
)
