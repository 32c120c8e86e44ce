"""A measuring function as a command: calls it and writes the numbers it returns.

    python -m whorl.studies.probe MODULE:FUNCTION FOUND.json NAME=VALUE ...

Values are JSON where they can be read as such, else text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from whorl.runs.files import write_atomic


def main(arguments: Sequence[str]) -> None:
    """See the top of this module."""
    where, out, *assignments = arguments
    module, _, name = where.partition(":")
    found = getattr(import_module(module), name)(**dict(map(_given, assignments)))
    Path(out).parent.mkdir(parents=True, exist_ok=True)
    write_atomic(Path(out), json.dumps(found, indent=1).encode() + b"\n")


def _given(assignment: str) -> tuple[str, Any]:
    name, _, text = assignment.partition("=")
    try:
        return name, json.loads(text)
    except ValueError:
        return name, text


if __name__ == "__main__":
    main(sys.argv[1:])
