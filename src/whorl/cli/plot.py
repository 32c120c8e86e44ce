"""``whorl plot RUN_DIR...``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.errors import EXIT_DONE


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_dirs", metavar="RUN_DIR", nargs="+", type=Path, help="Directories of runs.")
    parser.add_argument(
        "-o", "--out", metavar="FILE.png", type=Path, help="Where to draw. Default: curve.png in the first run."
    )


def run(arguments: argparse.Namespace) -> int:
    """Draw, and print where."""
    from whorl.runs.plot import plot_runs

    print(plot_runs(arguments.run_dirs, arguments.out or arguments.run_dirs[0] / "curve.png"))
    return EXIT_DONE
