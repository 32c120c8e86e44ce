"""Finding, verifying and loading checkpoints. Reading never writes, renames or removes anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whorl.errors import CheckpointError, last_line
from whorl.runs.checkpoint.format import (
    CHECKPOINT_NAME,
    MANIFEST,
    MAX_JSON_BYTES,
    MAX_MANIFEST_BYTES,
    Manifest,
    NewerFormatError,
    decode_json,
    decode_manifest,
)
from whorl.runs.checkpoint.tensors import hash_descriptor, read_arrays
from whorl.runs.files import os_reason
from whorl.runs.lock import read_holder
from whorl.runs.version import whorl_version
from whorl.types import Arrays


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint in memory."""

    path: Path
    manifest: Manifest
    arrays: dict[str, Arrays]
    """Per array file, without its suffix: ``arrays["learner"]["weights"]``."""
    values: dict[str, Any]
    """Per JSON file, without its suffix: ``values["state"]``."""
    warnings: list[str] = field(default_factory=list)
    """What the user should be told: damaged newer ones, another version."""

    @property
    def update(self) -> int:
        return self.manifest.update

    @property
    def env_steps(self) -> int:
        return self.manifest.env_steps


@dataclass(frozen=True)
class Candidate:
    """A directory named like a checkpoint. ``manifest`` is None when it cannot be read."""

    path: Path
    manifest: Manifest | None
    fault: str = ""

    @property
    def age_key(self) -> tuple[int, int, int]:
        """Sorts oldest first: by the manifest (by the name where there is none), then by who wrote it, then by repeat.
        Never by a time stamp."""
        match = CHECKPOINT_NAME.fullmatch(self.path.name)
        named, repeat = (int(match[1]), int(match[2] or 0)) if match else (0, 0)
        return (self.manifest.update, self.manifest.token, repeat) if self.manifest else (named, 0, repeat)


@contextmanager
def taking_over(path: Path) -> Iterator[None]:
    """What a verified checkpoint holds may still not be what is looked for: then ``CheckpointError`` says so."""
    try:
        yield
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"checkpoint {path}: whole, but not what this run needs; is it of another run or version? "
            f"({last_line(error)})"
        ) from error


def _everything(name: str) -> bool:
    del name
    return True


def load(path: Path, wanted: Callable[[str], bool] = _everything) -> Checkpoint:
    """Verify and load one checkpoint, or those of its files that are ``wanted`` (by their names). ``CheckpointError``
    names what is damaged, foreign or hostile."""
    try:
        with _opened(path) as directory:
            manifest = _read_manifest(directory)
            checkpoint = Checkpoint(path, manifest, arrays={}, values={})
            for name in _verified(directory, manifest, wanted):
                stem, _, suffix = name.partition(".")
                with _opened_file(directory, name) as descriptor:
                    if suffix == "safetensors":
                        checkpoint.arrays[stem] = read_arrays(name, descriptor)
                    else:
                        checkpoint.values[stem] = decode_json(name, _read_small(name, descriptor, MAX_JSON_BYTES))
    except CheckpointError as error:
        raise type(error)(f"checkpoint {path}: {error}") from error
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: cannot be read: {os_reason(error)}") from error
    if manifest.whorl != whorl_version():
        checkpoint.warnings.append(
            f"checkpoint {path} was written by whorl {manifest.whorl}, and this is {whorl_version()}: "
            "what follows may differ from a run by one version"
        )
    return checkpoint


def load_latest(directory: Path, wanted: Callable[[str], bool] = _everything) -> Checkpoint | None:
    """The newest checkpoint that verifies, by the update in its manifest; None when there has never been one.

    A damaged newer one is passed over, loudly: see ``Checkpoint.warnings``. When all are damaged nothing is
    started from scratch behind the user's back: ``CheckpointError`` names each. All of it is verified, and what is
    ``wanted`` is loaded.
    """
    faults: list[str] = []
    for candidate in reversed(find_checkpoints(directory)):
        try:
            if wanted is not _everything:
                _verify_named(candidate.path)
            checkpoint = load(candidate.path, wanted)
        except NewerFormatError:
            raise
        except CheckpointError as error:
            faults.append(str(error))
            continue
        passed_over = [f"PASSED OVER a damaged checkpoint, going on from {checkpoint.path}: {text}" for text in faults]
        checkpoint.warnings[:0] = passed_over
        return checkpoint
    if faults:
        raise CheckpointError(
            f"{directory}: no checkpoint can be loaded ({'; '.join(faults)}); restore one from a copy, "
            "or train anew in another --run-dir"
        )
    return None


def _verify_named(path: Path) -> None:
    try:
        verify(path)
    except CheckpointError as error:
        raise type(error)(f"checkpoint {path}: {error}") from error
    except OSError as error:
        raise CheckpointError(f"checkpoint {path}: cannot be read: {os_reason(error)}") from error


def verify(path: Path) -> Manifest:
    """Read every byte of a checkpoint again and compare it with its manifest."""
    with _opened(path) as directory:
        manifest = _read_manifest(directory)
        _verified(directory, manifest)
        return manifest


def find_checkpoints(directory: Path) -> list[Candidate]:
    """Everything named like a checkpoint, oldest first; only manifests are read."""
    try:
        paths = [entry for entry in directory.iterdir() if CHECKPOINT_NAME.fullmatch(entry.name)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CheckpointError(f"{directory}: cannot look for checkpoints: {os_reason(error)}") from error
    return sorted((_candidate(path) for path in paths), key=lambda candidate: (candidate.age_key, candidate.path.name))


def newest_token(directory: Path) -> int:
    """The newest fencing token seen in the run's lock file and in its checkpoints; 0 when there is none."""
    holder = read_holder(directory.parent / "lock")
    tokens = [candidate.manifest.token for candidate in find_checkpoints(directory) if candidate.manifest]
    return max([holder.token if holder else 0, *tokens])


def _candidate(path: Path) -> Candidate:
    try:
        with _opened(path) as directory:
            return Candidate(path, _read_manifest(directory))
    except (CheckpointError, OSError) as error:
        return Candidate(path, None, str(error))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    if path.is_symlink():
        raise CheckpointError("is a symbolic link, which is not followed")
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened_file(directory: int, name: str) -> Iterator[int]:
    try:
        # Non-blocking, so that a planted FIFO cannot hang us.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=directory)
    except FileNotFoundError:
        raise CheckpointError(f"{name} is missing") from None
    except OSError as error:
        raise CheckpointError(f"{name} cannot be opened: {os_reason(error)}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CheckpointError(f"{name} is not a plain file")
        yield descriptor
    finally:
        os.close(descriptor)


def _read_manifest(directory: int) -> Manifest:
    with _opened_file(directory, MANIFEST) as descriptor:
        return decode_manifest(_read_small(MANIFEST, descriptor, MAX_MANIFEST_BYTES))


def _read_small(name: str, descriptor: int, limit_bytes: int) -> bytes:
    if os.fstat(descriptor).st_size > limit_bytes:
        raise CheckpointError(f"{name} is larger than {limit_bytes} bytes")
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read(limit_bytes + 1)


def _verified(directory: int, manifest: Manifest, wanted: Callable[[str], bool] = _everything) -> list[str]:
    """The checkpoint's file names, after comparing those files with the manifest byte for byte."""
    strangers = sorted(set(os.listdir(directory)) - {MANIFEST, *manifest.files})
    if strangers:
        raise CheckpointError(f"holds {strangers[0][:100]!r}, which its manifest does not list")
    names = [name for name in manifest.files if wanted(name)]
    for name in names:
        part = manifest.files[name]
        with _opened_file(directory, name) as descriptor:
            size = os.fstat(descriptor).st_size
            if size != part.size_bytes:
                raise CheckpointError(f"{name} has {size} bytes instead of {part.size_bytes}")
            if hash_descriptor(descriptor) != (part.size_bytes, part.sha256):
                raise CheckpointError(f"{name} does not match its SHA-256")
    return names
