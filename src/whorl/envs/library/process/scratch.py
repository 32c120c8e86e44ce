"""The folder of an episode: made for it, watched while it runs, then removed, kept or archived."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tarfile
import tempfile
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whorl.envs.library.process.program import ProgramFailed

LOOK_EVERY_S = 1.0
KEEP = ("never", "failed", "always", "archive")


class Scratch:
    """Makes folders below one place, and holds to the policy when they are done with.

    keep:       never, failed (episodes that ended by a fault), always, or archive (always, as a .tar.gz)
    keep_most:  so many are kept; the oldest makes room
    """

    def __init__(self, place: str, keep: str, keep_most: int, files: Sequence[str], limit_bytes: int) -> None:
        self._place, self._keep, self._files, self._limit_bytes = place, keep, files, limit_bytes
        self._keep_most = keep_most
        self._look_at_s = 0.0
        self._kept: deque[Path] = deque()
        self.folder: Path | None = None

    def begin(self, episode: int, seed: int) -> Path:
        """A new folder with a copy of each file in it."""
        if self._place:
            Path(self._place).mkdir(parents=True, exist_ok=True)
        name = tempfile.mkdtemp(prefix=f"whorl-{episode}-{seed}-", dir=self._place or None)
        self.folder = Path(name).resolve()
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        for source in map(Path, self._files):
            target = self.folder / source.name
            if source.is_dir():
                shutil.copytree(source, target)
            else:
                shutil.copy(source, target)
        return self.folder

    def look(self) -> None:
        """``ProgramFailed`` once the folder holds more than it may. Looks once a second, however often it is called."""
        if time.monotonic() < self._look_at_s:
            return
        self._look_at_s = time.monotonic() + LOOK_EVERY_S
        if self.folder is not None and (size := size_of(self.folder)) > self._limit_bytes:
            raise ProgramFailed(
                f"the program filled its scratch folder with {size / 1e6:.0f} MB, "
                f"more than scratch_mb = {self._limit_bytes / 1e6:g}"
            )

    def finish(self, about: dict[str, Any], last_words: str) -> None:
        """The episode is over: remove the folder, or keep it with a note of what happened (``whorl.json``)."""
        folder, self.folder = self.folder, None
        if folder is None:
            return
        keeps = self._keep in ("always", "archive") or (self._keep == "failed" and "fault" in about)
        if keeps and self._keep_most > 0:
            with contextlib.suppress(OSError):  # a full disk must not hide what happened
                (folder / "whorl.json").write_text(json.dumps(about, indent=1) + "\n")
                (folder / "whorl-stderr.txt").write_text(last_words)
                self._kept.append(archive(folder) if self._keep == "archive" else folder)
                while len(self._kept) > self._keep_most:
                    remove(self._kept.popleft())
        if folder not in self._kept:
            remove(folder)


def size_of(folder: Path) -> int:
    """Bytes on the disk below a folder; what vanishes meanwhile counts for nothing."""
    total = 0
    for place, _, names in os.walk(folder, onerror=None):
        for name in names:
            with contextlib.suppress(OSError):
                total += 512 * os.lstat(Path(place, name)).st_blocks
    return total


def archive(folder: Path) -> Path:
    """The folder as ``NAME.tar.gz`` beside it, written under another name until it is whole."""
    target = folder.with_name(f"{folder.name}.tar.gz")
    unfinished = folder.with_name(f".{folder.name}.unfinished")
    try:
        with tarfile.open(unfinished, "w:gz", compresslevel=1) as tar:
            for member in sorted(folder.rglob("*")):
                if member.is_symlink() or member.is_file() or member.is_dir():  # a pipe would wait for its writer
                    tar.add(member, f"{folder.name}/{member.relative_to(folder)}", recursive=False)
        unfinished.rename(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise
    return target


def remove(path: Path) -> None:
    """Remove a folder or a file, also one that the program made unwritable."""
    if path.is_dir():
        with contextlib.suppress(OSError):
            path.chmod(stat.S_IRWXU)
            for place, folders, _ in os.walk(path):
                for name in folders:
                    inside = Path(place, name)
                    if not inside.is_symlink() and inside.stat().st_mode & stat.S_IRWXU != stat.S_IRWXU:
                        inside.chmod(stat.S_IRWXU)
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
