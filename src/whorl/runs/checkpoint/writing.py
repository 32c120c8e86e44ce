"""Writing a checkpoint so that a kill at any instant leaves a valid one.

    writer = CheckpointWriter(run.checkpoints, keep=3, token=lock.token)
    draft = writer.begin(update)                      # .tmp-<token>-<random>/, never taken for a checkpoint
    draft.write_arrays("learner", arrays)             # learner.safetensors, synced
    draft.write_json("state", {...})                  # state.json, synced
    draft.commit(CheckpointMeta(env_steps))           # manifest, sync, rename, sync, verify; only then prune

Other processes add their parts through ``attach_draft(path)`` before the commit, which names them.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.errors import CheckpointError
from whorl.runs.checkpoint.faults import FaultPoints, Stage
from whorl.runs.checkpoint.format import (
    FORMAT,
    MANIFEST,
    MAX_JSON_BYTES,
    TEMPORARY_NAME,
    Manifest,
    Part,
    SpoiltPieceError,
    check_part_name,
    encode_manifest,
)
from whorl.runs.checkpoint.reading import find_checkpoints, newest_token, verify
from whorl.runs.checkpoint.tensors import array_chunks, hash_descriptor
from whorl.runs.files import fsync_directory, os_reason
from whorl.runs.version import whorl_version
from whorl.types import Array


@dataclass(frozen=True)
class CheckpointMeta:
    """What a commit adds to the manifest."""

    env_steps: int
    parts: tuple[str, ...] = ()
    """Files that other processes wrote into the draft: ``("ledger-1.safetensors",)``. One that is missing stops it."""
    labels: Mapping[str, str] = field(default_factory=dict)


class DraftParts:
    """The files of a draft that one process writes. Each appears under its name only when it is whole and synced."""

    def __init__(self, path: Path, faults: FaultPoints) -> None:
        self.path = path
        self._faults = faults

    def write_arrays(self, name: str, arrays: Mapping[str, Array]) -> Part:
        """Named arrays as ``<name>.safetensors``."""
        with _failures_of(self.path):
            return self._write(f"{name}.safetensors", array_chunks(arrays), "arrays")

    def write_json(self, name: str, value: Any) -> Part:
        """Plain values as ``<name>.json``."""
        data = json.dumps(value).encode()
        if len(data) > MAX_JSON_BYTES:
            raise CheckpointError(f"{name}.json would have {len(data)} bytes; at most {MAX_JSON_BYTES}: use arrays")
        with _failures_of(self.path):
            return self._write(f"{name}.json", _halves(data), "json")

    def take_over(self, name: str, checkpoint: Path) -> bool:
        """Use ``<name>.safetensors`` of an older checkpoint again, without writing it. False when that cannot be done
        (it is gone, or the file system has no links): write it then."""
        try:
            os.link(checkpoint / f"{name}.safetensors", self.path / f"{name}.safetensors", follow_symlinks=False)
        except OSError:
            return False
        return True

    def _write(self, name: str, chunks: Iterable[bytes | memoryview], stage: Stage) -> Part:
        if stage != "manifest":
            check_part_name(name)
        digest, size = hashlib.sha256(), 0
        unfinished = self.path / f".{name}"
        with unfinished.open("xb", buffering=0) as file:
            for number, chunk in enumerate(chunks):
                _write_all(file.fileno(), chunk)
                digest.update(chunk)
                size += len(chunk)
                if number == 0:
                    self._faults.reach(stage)
            os.fsync(file.fileno())
        unfinished.rename(self.path / name)
        return Part(size, digest.hexdigest())


def attach_draft(path: Path) -> DraftParts:
    """In another process: add parts to a draft begun elsewhere. Its owner commits."""
    return DraftParts(path, FaultPoints.from_environment())


class Draft(DraftParts):
    """A save under way, owned by the process that began it."""

    def __init__(self, writer: CheckpointWriter, update: int, path: Path) -> None:
        super().__init__(path, writer.faults)
        self.update = update
        self._writer = writer
        self._files: dict[str, Part] = {}
        self._taken_over: list[str] = []

    def _write(self, name: str, chunks: Iterable[bytes | memoryview], stage: Stage) -> Part:
        part = super()._write(name, chunks, stage)
        self._files[name] = part
        return part

    def take_over(self, name: str, checkpoint: Path) -> bool:
        if not super().take_over(name, checkpoint):
            return False
        self._taken_over.append(f"{name}.safetensors")
        return True

    def write_arrays(self, name: str, arrays: Mapping[str, Array]) -> Part:
        with self._discarded_on_failure():
            return super().write_arrays(name, arrays)

    def write_json(self, name: str, value: Any) -> Part:
        with self._discarded_on_failure():
            return super().write_json(name, value)

    def commit(self, meta: CheckpointMeta) -> Path:
        """Make it a checkpoint; returns its path. On ``CheckpointError`` the older ones are all still there."""
        with self._discarded_on_failure(), _failures_of(self.path):
            self._take_in((*self._taken_over, *meta.parts))
            manifest = Manifest(
                format=FORMAT,
                whorl=whorl_version(),
                update=self.update,
                env_steps=meta.env_steps,
                token=self._writer.token,
                files=dict(self._files),
                labels=dict(meta.labels),
            )
            super()._write(MANIFEST, _halves(encode_manifest(manifest)), "manifest")
            self._faults.reach("fsync")
            fsync_directory(self.path)
            self._faults.reach("rename")
            self._writer.check_token()
            final = self._writer.publish(self.path, self.update)
        self._writer.prune(final)  # outside: a failure here no longer harms the new checkpoint
        return final

    def discard(self) -> None:
        """Give the save up. What cannot be removed now, the next save removes."""
        shutil.rmtree(self.path, ignore_errors=True)

    def _take_in(self, parts: tuple[str, ...]) -> None:
        """Add what was not written here to the manifest, and see that nothing else lies about. What was taken over is
        compared with the manifest it comes from: a new checksum of damaged bytes would declare them sound."""
        older = [found.manifest for found in find_checkpoints(self._writer.directory) if found.manifest]
        for name in parts:
            check_part_name(name)
            try:
                descriptor = os.open(self.path / name, os.O_RDONLY | os.O_NOFOLLOW)
            except FileNotFoundError:
                raise CheckpointError(f"{self.path}: {name} was never written into the draft") from None
            try:
                part = self._files[name] = Part(*hash_descriptor(descriptor))
                is_taken_over = os.fstat(descriptor).st_nlink > 1
            finally:
                os.close(descriptor)
            if is_taken_over and all(manifest.files.get(name) != part for manifest in older):
                raise SpoiltPieceError(
                    f"{self.path.parent}: checkpoint not saved: {name} is no longer what the checkpoint before wrote "
                    "(look after the disk); the next save writes it anew"
                )
        strangers = sorted({entry.name for entry in self.path.iterdir()} - set(self._files))
        if strangers:
            raise CheckpointError(f"{self.path}: the draft holds {strangers[0]}, which nobody announced")

    @contextmanager
    def _discarded_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.discard()
            raise


class CheckpointWriter:
    """The one writer of a run's checkpoints."""

    def __init__(self, directory: Path, keep: int, token: int, faults: FaultPoints | None = None) -> None:
        self.directory = directory
        self.keep = max(1, keep)
        self.token = token
        self.faults = FaultPoints.from_environment() if faults is None else faults
        self.warnings: list[str] = []
        """Old checkpoints that could not be removed; nothing is lost by it."""

    def begin(self, update: int) -> Draft:
        """Start a save, after clearing away what dead writers left half done."""
        path = self.directory / f".tmp-{self.token}-{secrets.token_hex(8)}"
        with _failures_of(path):
            self.check_token()
            self.directory.mkdir(exist_ok=True)  # somebody may have tidied it away
            self._clear_left_overs()
            path.mkdir()
            draft = Draft(self, update, path)
            with draft._discarded_on_failure():
                self.faults.reach("begin")
            return draft

    def check_token(self) -> None:
        """Refuse when somebody else has taken the run since."""
        newest = newest_token(self.directory)
        if newest > self.token:
            raise CheckpointError(
                f"{self.directory}: not saved, because another run has taken this directory "
                f"(its token is {newest}, ours {self.token}); this process should end"
            )

    def publish(self, draft: Path, update: int) -> Path:
        """Rename a complete draft to its final name and read it back. A failure takes the name away again."""
        final = self._free_name(update)
        draft.rename(final)
        try:
            self.faults.reach("rename_done")
            fsync_directory(self.directory)
            self.faults.reach("verify")
            verify(final)
        except CheckpointError as error:
            final.rename(draft)
            raise CheckpointError(
                f"{self.directory}: checkpoint not saved: read back, {error}; the older ones are kept"
            ) from error
        except BaseException:
            final.rename(draft)
            raise
        return final

    def prune(self, newest: Path) -> None:
        """Remove what the verified ``newest`` makes superfluous: all but the last ``keep``, and those an earlier run
        wrote at the same or later updates (this run went back behind them, because they were damaged)."""
        try:
            candidates = find_checkpoints(self.directory)
        except CheckpointError as error:
            self.warnings.append(f"older checkpoints could not be removed: {error}")
            return
        (new,) = (candidate for candidate in candidates if candidate.path == newest)
        line = [candidate for candidate in candidates if candidate.age_key <= new.age_key]
        superseded = {candidate.path for candidate in line[:-1] if candidate.age_key[0] == new.age_key[0]}
        left_behind = {
            candidate.path
            for candidate in candidates
            if candidate.age_key > new.age_key and (candidate.manifest is None or candidate.manifest.token < self.token)
        }
        sound = [candidate for candidate in line if candidate.manifest and candidate.path not in superseded]
        kept = sound[-self.keep :]
        for candidate in candidates:
            if candidate in kept or (candidate not in line and candidate.path not in left_behind):
                continue
            self._remove(candidate.path)

    def _remove(self, path: Path) -> None:
        doomed = self.directory / f".tmp-{self.token}-{secrets.token_hex(8)}"
        try:
            # Out of sight first: a kill half-way through removing must not leave a damaged checkpoint.
            path.rename(doomed)
            self.faults.reach("prune")
            shutil.rmtree(doomed)
        except OSError as error:
            self.warnings.append(f"checkpoint {path}: could not be removed: {os_reason(error)}")

    def _free_name(self, update: int) -> Path:
        name = f"update-{update:09d}"
        taken = {entry.name for entry in self.directory.iterdir()}
        repeat = 1
        # Beside and not over an existing one, so that at no instant there is none.
        final = name
        while final in taken:
            final, repeat = f"{name}.{repeat}", repeat + 1
        return self.directory / final

    def _clear_left_overs(self) -> None:
        for entry in list(self.directory.iterdir()):
            match = TEMPORARY_NAME.fullmatch(entry.name)
            if match and int(match[1]) <= self.token and not entry.is_symlink():
                shutil.rmtree(entry, ignore_errors=True)


@contextmanager
def _failures_of(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(
            f"{path.parent}: checkpoint not saved: {os_reason(error)}; the older ones are kept"
        ) from error


def _write_all(descriptor: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _halves(data: bytes) -> Iterator[bytes]:
    yield data[: len(data) // 2]
    yield data[len(data) // 2 :]
