"""What ``whorl slurm`` and ``whorl pbs`` share: their options, and the job that they ask for."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whorl.cli import resume, train, tune
from whorl.cli.parser import Parser, positive_integer
from whorl.cluster.orders import ALONE, HEAD_RESOURCE, MPI, NO_ULFM, RAY, WORKER_RESOURCE, JobOrder
from whorl.cluster.request import Part, Request, read_prologue
from whorl.cluster.timing import seconds_of
from whorl.config.schema import Config, EngineConfig
from whorl.errors import BadInputError
from whorl.runs.files import os_reason

_OF_NODES = {
    "nodes": ("N", "Nodes. Default: 1."),
    "cpus_per_node": ("C", "CPUs of each node. Default: 1; with --exclusive, all of them."),
    "gpus_per_node": ("G", "GPUs of each node. Default: none."),
    "mem": ("SIZE", "Memory of each node: 4000 (megabytes), 16G. Default: as the batch system has it."),
    "partition": ("NAME", "Partition (Slurm) or queue (PBS)."),
    "constraint": ("WORDS", "Features that the nodes must have."),
    "gres": ("WORDS", "Further generic resources, in the batch system's own words."),
}
_COMMANDS = {"train": train, "resume": resume, "tune": tune}
_COUNTS = {"nodes": 1, "cpus_per_node": 1, "gpus_per_node": 0}


@dataclass(frozen=True)
class Work:
    """What is to run in the job, a training or a search, as far as it is known before."""

    words: tuple[str, ...]
    name: str
    engine: EngineConfig
    """Of a search, where its trials run."""
    run_dir: Path | None
    """Of a search, the study's."""
    is_new: bool
    config: Config | None = None
    """Of a training."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    for name, (metavar, text) in _OF_NODES.items():
        parser.add_argument(_option(name), metavar=metavar, help=text)
    for kind, who in (("head", "learners, the first node with them"), ("worker", "actors")):
        for name, (metavar, text) in _OF_NODES.items():
            summary = f"The same for the nodes of {who}."
            parser.add_argument(_option(f"{kind}_{name}"), metavar=metavar, help=summary if name != "nodes" else text)
    parser.add_argument("--time", metavar="T", help="How long: 90 (minutes), 1:30:00, 2-12:00:00.")
    parser.add_argument("--account", metavar="NAME", help="Who pays.")
    parser.add_argument("--exclusive", action="store_true", help="Share the nodes with nobody.")
    parser.add_argument("--interface", metavar="NAME", help="The network interface that nodes use. Default: by route.")
    parser.add_argument("--prologue", metavar="FILE", type=Path, help="Lines of shell for every node: modules, conda.")
    parser.add_argument("--python", metavar="COMMAND", help="Starts Python on a node. Default: this very Python.")
    parser.add_argument("--join-timeout", metavar="S", default="180", help="Seconds for all nodes to come up.")
    parser.add_argument("--no-requeue", action="store_true", help="When preempted, end with 75 and do not come back.")
    parser.add_argument(
        "--restarts", metavar="N", default="3", help="Starts again without progress, at most. Default: 3."
    )
    parser.add_argument(
        "--start-within", metavar="S", help="Take the job back if it does not start in so many seconds. Default: never."
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--print", action="store_true", help="Show the script and do nothing else.")
    what.add_argument("--submit", action="store_true", help="Queue the job.")


def work_of(words: list[str]) -> Work:
    """Check what stands behind ``--`` as the command itself would."""
    if not words or words[0] not in _COMMANDS:
        raise BadInputError("what is to run in the job? Put it behind --: ... -- train ppo CartPole-v1 --engine ray")
    parser = Parser(f"whorl {words[0]}", "")
    _COMMANDS[words[0]].configure(parser)
    given = parser.parse_strictly(words[1:])
    if words[0] == "tune":
        return _search(given)
    if words[0] == "train":
        return _training(_without(words, "--run-dir"), train.config_of(given), given.run_dir, is_new=True)
    from whorl.runs.directory import RunDirectory
    from whorl.trainer import stored_config

    config = stored_config(RunDirectory.open(given.run_dir))
    if given.engine:
        config = replace(config, engine=replace(config.engine, name=given.engine))
    run_dir = given.run_dir.absolute()
    moved = [str(run_dir) if word == str(given.run_dir) else word for word in words]
    return _training(moved, config, run_dir, is_new=False)


def _training(words: list[str], config: Config, run_dir: Path | None, *, is_new: bool) -> Work:
    return Work(tuple(words), f"{config.agent_name}-{config.env.id}", config.engine, run_dir, is_new, config)


def _search(given: argparse.Namespace) -> Work:
    from whorl.tuning.directory import StudyDirectory
    from whorl.tuning.study import asked_for

    settings = tune.settings_of(given)
    search, path = asked_for(given.file, given.study_dir, given.resume, settings)
    path = path.absolute()
    StudyDirectory(path).check(search)
    what = ["--resume", path] if given.resume else [given.file.absolute(), "--study-dir", path]
    sizes = [word for name, value in settings.items() for word in (f"--{name}", value)]
    engine = EngineConfig(name=search.settings.engine, address=search.settings.address)
    return Work(tuple(map(str, ("tune", *what, *sizes))), path.name, engine, path, is_new=given.resume is None)


def parts_of(arguments: argparse.Namespace, *, whole_nodes: bool = False) -> tuple[Part, ...]:
    """The nodes that are asked for: all alike, or some for learners and others for actors. ``whole_nodes``: where no
    number of CPUs is said, those that the job comes to have."""
    everybody = _part(arguments, "", Part(cpus_per_node=0 if whole_nodes else 1))
    named = [f"{kind}_{name}" for kind in ("head", "worker") for name in _OF_NODES]
    if not any(getattr(arguments, name) for name in named):
        return (everybody,)
    head = _part(arguments, "head_", replace(everybody, nodes=1))
    rest = everybody.nodes - head.nodes
    worker = _part(arguments, "worker_", replace(everybody, nodes=max(rest, 0)))
    if worker.nodes < 1:
        raise BadInputError(f"--nodes counts all nodes, and {head.nodes} are for learners: say --worker-nodes")
    return head, worker


def _part(arguments: argparse.Namespace, prefix: str, default: Part) -> Part:
    changes: dict[str, int | str] = {}
    for name in _OF_NODES:
        text = getattr(arguments, prefix + name)
        if text is None:
            continue
        option = _option(prefix + name)
        if name in _COUNTS:
            changes[name] = 0 if text == "0" and not _COUNTS[name] else positive_integer(text, option)
        elif name == "mem":
            changes["memory_mb"] = _megabytes(text, option)
        else:
            changes[name] = text
    return replace(default, **changes)  # type: ignore[arg-type]


def launch_of(work: Work, nodes: int) -> str:
    """How the work is started on the nodes: its engine says it."""
    engine = work.engine.name
    if engine in (RAY, MPI):
        if work.engine.address:
            table = "engine" if work.config else "tune"
            raise BadInputError(f"{table}.address: the job has a Ray cluster of its own; leave it out")
        return engine
    if nodes > 1 and work.config is None:
        raise BadInputError(
            f'{nodes} nodes and tune.engine = "{engine}": say tune.engine = "ray" in the file, or one node'
        )
    if nodes > 1:
        has = f"engine {engine}" if engine else "no engine"
        raise BadInputError(f"{nodes} nodes and {has}: say --engine ray or --engine mpi behind --, or one node")
    return ALONE


def drafted(arguments: argparse.Namespace, system: str, work: Work, *, whole_nodes: bool = False) -> Request:
    """The job before it has a place: refused, if it is, before a directory is made."""
    parts = parts_of(arguments, whole_nodes=whole_nodes)
    draft = request_of(arguments, work, work.run_dir or Path("runs"), parts)
    order_of(arguments, system, work, draft)
    return draft


def reserved(arguments: argparse.Namespace, system: str, work: Work, draft: Request) -> tuple[Request, JobOrder]:
    """The job with its directory, which is made unless the script is only shown."""
    from whorl.runs.directory import RunDirectory, furnish

    run_dir = work.run_dir
    if work.config and work.is_new:
        place = RunDirectory.free_place if arguments.print else RunDirectory.reserve
        run_dir = place(run_dir, work.config.agent_name, work.config.env.id)
    assert run_dir is not None
    if not work.config and not arguments.print:
        try:
            furnish(run_dir)
        except OSError as error:
            raise BadInputError(f"{run_dir}: cannot make a study's directory: {os_reason(error)}") from error
    if not arguments.print:
        (run_dir / "job").mkdir(mode=0o700, exist_ok=True)
    request = replace(draft, run_dir=run_dir.absolute())
    return request, order_of(arguments, system, work, request)


def request_of(arguments: argparse.Namespace, work: Work, run_dir: Path, parts: tuple[Part, ...]) -> Request:
    """The job, apart from what runs in it."""
    return Request(
        name=re.sub(r"[^A-Za-z0-9._-]+", "-", f"whorl-{work.name}")[:60],
        run_dir=run_dir,
        parts=parts,
        time_s=seconds_of(arguments.time, "--time") if arguments.time else 0,
        account=arguments.account or "",
        exclusive=arguments.exclusive,
        requeue=not arguments.no_requeue,
        survives_nodes=launch_of(work, sum(part.nodes for part in parts)) == RAY,
        prologue=read_prologue(arguments.prologue) if arguments.prologue else "",
        python=arguments.python or shlex.quote(sys.executable),
        folder=Path.cwd(),
        python_path=os.environ.get("PYTHONPATH", ""),
    )


def order_of(arguments: argparse.Namespace, system: str, work: Work, request: Request) -> JobOrder:
    """What the script tells the batch process."""
    launch = launch_of(work, request.nodes)
    if work.config is None and len(request.parts) > 1:
        raise BadInputError("a search has no learners and actors of its own: leave out --head-... and --worker-...")
    if launch != RAY and len(request.parts) > 1:
        raise BadInputError(
            "--head-... and --worker-... need --engine ray: on mpi, Whorl shares ranks out over nodes of one kind only"
        )
    heads = request.parts[0].nodes if len(request.parts) > 1 else 0
    words = work.words
    if heads and not work.is_new and not work.engine.learner_resources.get(HEAD_RESOURCE):
        raise BadInputError(
            f"{work.run_dir}: was begun on nodes of one kind, and goes on so: leave out --head-... and --worker-..."
        )
    if heads and work.is_new:
        places = (f"engine.learner_resources.{HEAD_RESOURCE}=1", f"engine.actor_resources.{WORKER_RESOURCE}=1")
        words = (*words, *(word for place in places for word in ("--set", place)))
    return JobOrder(
        system=system,
        run_dir=request.run_dir,
        id=secrets.token_hex(8),
        launch=launch,
        node_script=request.run_dir / "job" / "node.sh",
        cpus_per_node=request.parts[0].cpus_per_node,
        heads=heads,
        interface=arguments.interface or "",
        join_timeout_s=float(positive_integer(arguments.join_timeout, "--join-timeout")),
        mpi=getattr(arguments, "mpi", None) or "",
        **_of_mpi(system, work, request) if launch == MPI else {},
        requeue=request.requeue,
        restarts=positive_integer(arguments.restarts, "--restarts"),
        words=words,
    )


def _of_mpi(system: str, work: Work, request: Request) -> dict[str, Any]:
    """What the launcher of the ranks must know of a training."""
    assert work.config is not None, "searches run on no mpi"
    if work.engine.ulfm and system == "slurm":
        raise BadInputError(NO_ULFM)
    if work.engine.ulfm and request.nodes > 1:
        raise BadInputError(
            f"engine.ulfm: the loss of ranks is survived on one node, not on {request.nodes}; leave it out"
        )
    resources = work.config.resources
    sizes = {"learners": resources.learners, "learner_threads": resources.learner_threads}
    return {"library": work.engine.mpi, "ulfm": work.engine.ulfm, **sizes}


def _megabytes(text: str, option: str) -> int:
    found = re.fullmatch(r"(\d+)([MGT]?)B?", text.upper())
    if found is None or not int(found[1]):
        raise BadInputError(f"{option}: expected megabytes or a size as 16G; got {text!r}")
    return int(found[1]) * {"": 1, "M": 1, "G": 1024, "T": 1024**2}[found[2]]


def _without(words: list[str], option: str) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
        elif word == option:
            skip = True
        elif not word.startswith(f"{option}="):
            kept.append(word)
    return kept


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
