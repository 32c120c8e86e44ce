"""Small file habits that every part of a run shares: atomic writes, fsync, names that are safe on any file system."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from pathlib import Path


def write_atomic(path: Path, data: bytes, mode: int = 0o666) -> None:
    """Replace a file whole: readers see the old or the new one, even after a crash, never a part."""
    temporary = path.with_name(f".{path.name}-{secrets.token_hex(4)}")
    try:
        with open(temporary, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        fsync_directory(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def open_for_lines(path: Path) -> int:
    """Open to append at the end of the last whole line: a crash may have left a part of one, which is cut off."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
    end = os.fstat(descriptor).st_size
    while end:
        start = max(0, end - 65536)
        newline = os.pread(descriptor, end - start, start).rfind(b"\n")
        if newline >= 0:
            end = start + newline + 1
            break
        end = start
    os.ftruncate(descriptor, end)
    return descriptor


def fsync_directory(path: Path) -> None:
    """Make the directory's entries (new names, renames) durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def file_safe(name: str) -> str:
    """A name that is one plain path component: ``ALE/Pong-v5`` becomes ``ALE-Pong-v5``."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:100]
    return safe or "unnamed"


def os_reason(error: OSError | ValueError) -> str:
    """The operating system's reason in its own words: ``No space left on device``. (A path with a null byte does not
    even reach it: Python raises ValueError.)"""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def shown(path: Path) -> str:
    """A path as people want to read it: relative to the working directory where it lies below that."""
    with contextlib.suppress(ValueError, OSError):  # somewhere else, or the working directory was removed
        return str(path.relative_to(Path.cwd()))
    return str(path)
