"""``whorl bench``."""

from __future__ import annotations

import argparse
from pathlib import Path


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("names", metavar="NAME", nargs="*", help="Benchmarks to run. Default: all.")
    parser.add_argument("-o", "--out", metavar="FILE.json", type=Path, help="Also write the figures to a file.")


def run(arguments: argparse.Namespace) -> int:
    """Measure, and print a table."""
    from whorl.bench import run_bench

    return run_bench(arguments.names, arguments.out)
