"""``whorl slurm ... -- train|tune|resume ...`` and ``whorl slurm join RUN_DIR --nodes K``."""

from __future__ import annotations

import argparse
import secrets
from dataclasses import replace
from pathlib import Path

from whorl.cli.batch import configure as configure_batch
from whorl.cli.batch import drafted, parts_of, request_of, reserved, work_of
from whorl.cli.parser import positive_integer
from whorl.cli.submitting import start_within_s_of, submit_script
from whorl.errors import EXIT_DONE, BadInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = (
        "whorl slurm [options] [--print | --submit] -- train|tune|resume ...\n       whorl slurm join RUN_DIR [options]"
    )
    parser.epilog = (
        "Without --print and --submit, inside an allocation (salloc), it runs there at once. `-- resume RUN_DIR` goes "
        "on with a run, `-- tune --resume STUDY_DIR` with a search. `join` has further nodes join a run on engine ray."
    )
    parser.add_argument("what", nargs="*", metavar="join RUN_DIR", help="Join the job of a run with further nodes.")
    configure_batch(parser)
    parser.add_argument("--mpi", metavar="TYPE", help="What srun is told for engine mpi: pmi2, pmix, ...")


def run(arguments: argparse.Namespace) -> int:
    """Print, submit, or run here."""
    match arguments.what:
        case []:
            return _train(arguments)
        case ["join", run_dir]:
            return _join(arguments, Path(run_dir))
        case ["roles"]:
            return _count_roles(arguments.words)
    raise BadInputError(f"unexpected argument {arguments.what[0]!r}; see whorl slurm --help")


def _train(arguments: argparse.Namespace) -> int:
    from whorl.cluster.allocation import find_allocation
    from whorl.cluster.slurm import QUEUE, script_of, submit

    start_within_s = start_within_s_of(arguments)
    work = work_of(arguments.words)
    allocation = None if arguments.print or arguments.submit else find_allocation(system="slurm")
    draft = drafted(arguments, "slurm", work, whole_nodes=arguments.exclusive or allocation is not None)
    if not (arguments.print or arguments.submit or allocation):
        raise BadInputError("not inside an allocation of Slurm: --submit queues a job, --print shows its script")
    request, order = reserved(arguments, "slurm", work, draft)
    script = script_of(request, order)
    if arguments.print:
        print(script, end="")
        return EXIT_DONE
    if allocation is not None:
        from whorl.cluster.job import BatchJob
        from whorl.cluster.script import node_script

        order.node_script.write_text(node_script(request))
        return BatchJob(replace(order, requeue=False)).run()
    return submit_script(script, request.run_dir, submit, QUEUE, start_within_s)


def _join(arguments: argparse.Namespace, run_dir: Path) -> int:
    from whorl.cluster.meeting import current_meeting
    from whorl.cluster.orders import HEAD_RESOURCE, RAY, JobOrder
    from whorl.cluster.slurm import script_of
    from whorl.runs.directory import RunDirectory
    from whorl.trainer import stored_config

    if arguments.words:
        raise BadInputError("join takes no command: the run is there already")
    start_within_s = start_within_s_of(arguments)
    directory = RunDirectory.open(run_dir)
    config = stored_config(directory)
    if config.engine.name != RAY:
        raise BadInputError(f"{run_dir}: runs on engine {config.engine.name}, which no node can join; engine ray can")
    current_meeting(directory.path)
    work = work_of(["resume", str(run_dir)])
    parts = parts_of(arguments, whole_nodes=arguments.exclusive)
    if len(parts) > 1:
        raise BadInputError("nodes that join are for actors: leave out --head-... and --worker-...")
    request = replace(request_of(arguments, work, directory.path.absolute(), parts), requeue=False)
    request = replace(request, name=f"join-{request.name}"[:60])
    heads = int(bool(config.engine.learner_resources.get(HEAD_RESOURCE)))
    key = secrets.token_hex(4)
    order = JobOrder(
        system="slurm",
        run_dir=request.run_dir,
        id=key,
        launch=RAY,
        node_script=request.run_dir / "job" / f"join-{key}.sh",  # others may be joining too
        cpus_per_node=parts[0].cpus_per_node,
        heads=heads,
        interface=arguments.interface or "",
        join_timeout_s=float(positive_integer(arguments.join_timeout, "--join-timeout")),
        requeue=False,
        guest=True,
        words=("none",),
    )
    script = script_of(request, order)
    if arguments.print:
        print(script, end="")
        return EXIT_DONE
    from whorl.cluster.slurm import QUEUE, submit

    path = request.run_dir / "job" / f"join-{key}-job.sh"
    path.write_text(script)
    job = submit(path)
    print(f"job {job} joins {run_dir}; `whorl resize {run_dir} N` uses its nodes, `scancel {job}` has them leave")
    if start_within_s is not None:
        QUEUE.await_start(job, start_within_s)
    return EXIT_DONE


def _count_roles(words: list[str]) -> int:
    """For the batch process: how many ranks the plan of a training needs."""
    from whorl.prepare import prepare
    from whorl.session import plan_of

    config = work_of(words).config
    assert config is not None, "only trainings have roles"
    print(len(plan_of(prepare(config))[0].roles))
    return EXIT_DONE
