"""``whorl pbs ... -- train|tune|resume ...``."""

from __future__ import annotations

import argparse

from whorl.cli.batch import configure as configure_batch
from whorl.cli.batch import drafted, reserved, work_of
from whorl.cli.submitting import start_within_s_of, submit_script
from whorl.errors import EXIT_DONE, BadInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whorl pbs [options] (--print | --submit) -- train|tune|resume ..."
    parser.epilog = "A job that was preempted ends with 75; submit its script (RUN_DIR/job/job.sh) again to go on."
    configure_batch(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print or submit."""
    from whorl.cluster.pbs import QUEUE, script_of, submit

    start_within_s = start_within_s_of(arguments)
    if not (arguments.print or arguments.submit):
        raise BadInputError("--submit queues a job, --print shows its script")
    work = work_of(arguments.words)
    draft = drafted(arguments, "pbs", work)
    request, order = reserved(arguments, "pbs", work, draft)
    script = script_of(request, order)
    if arguments.print:
        print(script, end="")
        return EXIT_DONE
    return submit_script(script, request.run_dir, submit, QUEUE, start_within_s)
