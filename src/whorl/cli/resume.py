"""``whorl resume RUN_DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import positive_integer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of the run.")
    parser.add_argument("--steps", metavar="N", help="Environment steps to train for in all. Default: as the run had.")


def run(arguments: argparse.Namespace) -> int:
    """Go on with the run."""
    steps = None if arguments.steps is None else positive_integer(arguments.steps, "--steps")
    from whorl.trainer import resume_training

    return resume_training(arguments.run_dir, steps=steps, console=not arguments.quiet)
