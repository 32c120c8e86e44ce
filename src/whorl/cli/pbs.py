"""``whorl pbs ... -- train|tune|resume ...``."""

from __future__ import annotations

import argparse

from whorl.cli.batch import configure as configure_batch
from whorl.cli.batch import drafted, reserved, work_of
from whorl.errors import EXIT_DONE, BadInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whorl pbs [options] (--print | --submit) -- train|tune|resume ..."
    parser.epilog = "A job that was preempted ends with 75; submit its script (RUN_DIR/job/job.sh) again to go on."
    configure_batch(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or submit."""
    from whorl.cluster.pbs import script_of, submit
    from whorl.runs.directory import give_back

    if not (arguments.print or arguments.submit):
        raise BadInputError("--submit queues a job, --print shows its script")
    work = work_of(arguments.words)
    draft = drafted(arguments, "pbs", work)
    request, order = reserved(arguments, "pbs", work, draft)
    script = script_of(request, order)
    if arguments.print:
        print(script, end="")
        return EXIT_DONE
    path = request.run_dir / "job" / "job.sh"
    path.write_text(script)
    try:
        job = submit(path)
    except BaseException:
        give_back(request.run_dir)
        raise
    print(f"job {job}: {request.run_dir}", flush=True)
    return EXIT_DONE
