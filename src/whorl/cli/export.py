"""``whorl export RUN_DIR --to onnx|torchscript``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import one_of
from whorl.errors import EXIT_DONE

FORMATS = ("onnx", "torchscript")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of the run.")
    parser.add_argument("--to", metavar="|".join(FORMATS), required=True, help="The format.")
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, help="Where to write. Default: in the run directory.")


def run(arguments: argparse.Namespace) -> int:
    """Write the policy, checked against the original, and print where."""
    to = one_of(arguments.to, FORMATS, "--to")
    from whorl.export import export_run

    print(export_run(arguments.run_dir, to, arguments.out))
    return EXIT_DONE
