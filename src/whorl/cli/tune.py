"""``whorl tune FILE`` and ``whorl tune --resume STUDY_DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import natural_number, positive_integer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whorl tune FILE.toml [options]\n       whorl tune --resume STUDY_DIR [options]"
    parser.epilog = (
        "A file as for whorl train, with spaces in the place of some values and a table [tune]. Each trial is a run "
        "of its own. A study that was stopped or killed goes on when the same command is given again."
    )
    parser.add_argument("file", metavar="FILE.toml", nargs="?", type=Path, help="What to search over.")
    parser.add_argument(
        "--study-dir", metavar="DIR", type=Path, help="Where the study is kept. Default: studies/<name of the file>."
    )
    parser.add_argument("--resume", metavar="STUDY_DIR", type=Path, help="Go on with the study kept there.")
    parser.add_argument("--trials", metavar="N", help="How many trials in all. Default: tune.trials of the file.")
    parser.add_argument("--parallel", metavar="N", help="Trials at a time. Default: tune.parallel of the file.")


def run(arguments: argparse.Namespace) -> int:
    """Search, or go on."""
    from whorl.tuning.study import run_command

    settings = settings_of(arguments)
    return run_command(arguments.file, arguments.study_dir, arguments.resume, arguments.quiet, **settings)


def settings_of(arguments: argparse.Namespace) -> dict[str, int]:
    """Of ``[tune]``, those that the command line changes."""
    settings = {}
    if arguments.trials is not None:
        settings["trials"] = positive_integer(arguments.trials, "--trials")
    if arguments.parallel is not None:
        settings["parallel"] = natural_number(arguments.parallel, "--parallel")
    return settings
