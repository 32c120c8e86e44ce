"""Other people's packages, each in an environment of its own, so that Whorl's dependencies never bend to theirs."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from whorl.errors import WhorlError

INSTALL_TIMEOUT_S = 1800


def peer_python(
    directory: Path,
    name: str,
    requirements: tuple[str, ...],
    shared: tuple[str, ...] = ("torch", "numpy", "gymnasium"),
) -> Path:
    """The interpreter of the peer's environment, which is made at the first call.

    What is ``shared`` is of the same version as here, so that packages are compared and not their dependencies.
    """
    place = directory.resolve() / name
    python, stamp = place / "bin" / "python", place / "installed.txt"
    wanted = (*requirements, *(f"{package}=={_public(version(package))}" for package in shared))
    if stamp.exists() and stamp.read_text().split() == list(wanted):
        return python
    print(f"installing {', '.join(requirements)} into {place} (once) ...", file=sys.stderr)
    _run([sys.executable, "-m", "venv", "--clear", str(place)])
    _run([str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *wanted])
    stamp.write_text("\n".join(wanted) + "\n")
    return python


def _public(number: str) -> str:
    """A version without its local part: 2.13.0+cpu is published as 2.13.0."""
    return number.partition("+")[0]


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise WhorlError(f"the peer cannot be installed: {' '.join(command[:5])} ...: {reason}")
