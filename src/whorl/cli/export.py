"""``whorl export RUN_DIR --to onnx|torchscript``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Literal

from whorl.cli.parser import one_of
from whorl.errors import EXIT_DONE

FORMATS: tuple[Literal["onnx", "torchscript"], ...] = ("onnx", "torchscript")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of the run.")
    parser.add_argument("--to", metavar="|".join(FORMATS), required=True, help="The format.")
    parser.add_argument("-o", "--out", metavar="FILE", type=Path, help="Where to write. Default: in the run directory.")


def run(arguments: argparse.Namespace) -> int:
    """Write the policy, checked against the original, and print where it is and how to call it."""
    to = one_of(arguments.to, FORMATS, "--to")
    from whorl.export import export_run

    export = export_run(arguments.run_dir, to, arguments.out)
    print(export.path)
    if not arguments.quiet:
        for kind, tensors in (("inputs", export.inputs), ("outputs", export.outputs)):
            print(f"  {kind:<8}  {', '.join(f'{name} {described}' for name, described in tensors.items())}")
        print(f"  checked   against the policy: largest difference {export.difference:.2g}")
    return EXIT_DONE
