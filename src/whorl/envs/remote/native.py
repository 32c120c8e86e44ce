"""The C++ and Fortran sides of served environments, which come with the package as source files.

whorl.hpp            server and client in C++17, one file
whorl.h, whorl_c.cpp a C interface to the server
whorl.f90            the same for Fortran
examples/            complete simulators and clients; CMakeLists.txt builds them
"""

from __future__ import annotations

import shutil
from pathlib import Path

from whorl.errors import BadInputError

SOURCES = Path(__file__).parents[2] / "native"


def copy_sources(folder: Path) -> list[Path]:
    """Copy them all into a folder; nothing there is ever overwritten."""
    names = [path.relative_to(SOURCES) for path in sorted(SOURCES.rglob("*")) if path.is_file()]
    for name in names:
        if (folder / name).exists():
            raise BadInputError(f"{folder / name} is there already; use another folder, or remove that file")
    try:
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SOURCES / name, folder / name)
    except OSError as error:
        raise BadInputError(f"{folder}: cannot copy the sources: {error.strerror or error}") from None
    return [folder / name for name in names]
