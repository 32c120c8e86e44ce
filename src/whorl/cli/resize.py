"""``whorl resize RUN_DIR N``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import positive_integer
from whorl.errors import EXIT_DONE, BadInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "In exact workflows the environments stay and are shared out over the actors anew, and the result is the same; "
        "in the others actors come and go with their environments. What was begun is handed over; nothing is lost."
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of a run that goes on.")
    parser.add_argument("actors", metavar="N", help="How many actors are to act.")


def run(arguments: argparse.Namespace) -> int:
    """Ask the run for it."""
    actors = positive_integer(arguments.actors, "N")
    from whorl.runs.directory import RunDirectory
    from whorl.runs.wishes import ask

    directory = RunDirectory.open(arguments.run_dir)
    if not directory.is_busy():
        raise BadInputError(f"{arguments.run_dir}: the run does not go on; `whorl resume` it with --actors {actors}")
    print(ask(directory.path, actors))
    return EXIT_DONE
