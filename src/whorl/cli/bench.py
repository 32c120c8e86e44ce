"""``whorl bench NAME...``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import positive_integer


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="Benchmarks to run. Without a name: list them.")
    parser.add_argument("--repeats", metavar="N", default="3", help="Runs of each side. Default: 3.")
    parser.add_argument(
        "-o",
        "--out",
        metavar="FILE",
        type=Path,
        help="A .json or .md file for the figures. Default: below .bench/.",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print a table."""
    repeats = positive_integer(arguments.repeats, "--repeats")
    from whorl.bench import main

    return main(arguments.names, repeats, arguments.out)
