"""``whorl study NAME``, ``whorl study list`` and ``whorl study all``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import one_of
from whorl.cli.table import print_table
from whorl.errors import EXIT_DONE


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "Writes report.html, findings.json and a CSV for each figure into the study's folder. A study that was stopped "
        "or killed goes on when the same command is given again."
    )
    parser.add_argument("name", metavar="NAME|list|all", help="The study to run; list shows them, all runs them all.")
    parser.add_argument(
        "--scale", metavar="smoke|small|paper", default="smoke",
        help="smoke: minutes, shows that it runs. small: hours, carries findings. paper: as published, for a cluster. "
        "Default: smoke.",
    )  # fmt: skip
    parser.add_argument("--engine", metavar="NAME", help="Where its runs live. Default: what the study is made for.")
    parser.add_argument("--dry-run", action="store_true", help="Print the commands of every cell, and run none.")
    parser.add_argument(
        "--study-dir", metavar="DIR", type=Path,
        help="Where the study is kept (all: a folder for each below it). Default: studies/<name>-<scale>.",
    )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """List, print or run."""
    from whorl.studies.contract import SCALES

    scale = one_of(arguments.scale, SCALES, "--scale")
    if arguments.engine is not None:
        from whorl.engines.registry import engine_table

        one_of(arguments.engine, [name for name, _ in engine_table()], "--engine")
    from whorl.studies.command import print_commands, run_study, study_table

    if arguments.name == "list":
        print_table(study_table())
        return EXIT_DONE
    if arguments.dry_run:
        print_commands(arguments.name, scale, arguments.engine, arguments.study_dir)
        return EXIT_DONE
    return run_study(arguments.name, scale, arguments.engine, arguments.study_dir, arguments.quiet)
