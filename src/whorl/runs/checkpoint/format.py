"""What a checkpoint looks like on disk, and what of it is believed.

    checkpoints/
        update-000000123/
            manifest.json            format, versions, update, env_steps, fencing token; size and SHA-256 of each file
            state.json               plain values
            learner.safetensors      named arrays, never a pickle
            ledger-0.safetensors
        .tmp-7-9f2c.../              a save under way; the name can never match ``update-...``

A manifest carries a checksum of itself, so that any flipped bit is noticed. Everything read is treated as hostile:
limits on sizes and counts, plain file names only, no links.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import msgspec

from whorl.errors import CheckpointError

FORMAT = 1
"""Version of this layout. A newer one is refused."""

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 20
MAX_JSON_BYTES = 64 << 20
MAX_HEADER_BYTES = 16 << 20
MAX_FILES = 4096
MAX_JSON_DEPTH = 64

CHECKPOINT_NAME = re.compile(r"update-(\d{9,18})(?:\.(\d{1,4}))?")
"""``update-000000123``; ``update-000000123.1`` when the same update is saved again beside the first."""
TEMPORARY_NAME = re.compile(r"\.tmp-(\d{1,18})-[0-9a-f]+")
PART_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}\.(?:safetensors|json)")

# Possessive, and an unclosed string runs to the end: linear in time whatever the text.
_STRING_OR_BRACKET = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{\]}]', re.DOTALL)

DTYPES: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
}
"""Safetensors' names of the dtypes a checkpoint may hold."""


class NewerFormatError(CheckpointError):
    """Not damaged: written by a later whorl. Never passed over for an older one."""


class SpoiltPieceError(CheckpointError):
    """A file that was taken over is not what its checkpoint's manifest says. The next save must write it anew."""


@dataclass(frozen=True)
class Part:
    """One file of a checkpoint."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """The page that makes a directory a checkpoint."""

    format: int
    whorl: str
    """The version that wrote it."""
    update: int
    env_steps: int
    token: int
    """Fencing token of the writer."""
    files: dict[str, Part]
    labels: dict[str, str] = field(default_factory=dict)
    """Free words about the run (agent, environment, engine), for messages."""


def encode_manifest(manifest: Manifest) -> bytes:
    """The manifest with its own checksum, readable by people."""
    body = asdict(manifest)
    return json.dumps({**body, "sha256": _checksum(body)}, indent=1, sort_keys=True).encode()


def decode_manifest(raw: bytes) -> Manifest:
    """Read and check a manifest. ``CheckpointError`` says what is wrong with it."""
    if len(raw) > MAX_MANIFEST_BYTES:
        raise CheckpointError(f"{MANIFEST} is larger than {MAX_MANIFEST_BYTES} bytes")
    body = decode_json(MANIFEST, raw)
    if not isinstance(body, dict):
        raise CheckpointError(f"{MANIFEST} is not a table")
    version = body.get("format")
    if type(version) is int and version > FORMAT:
        raise NewerFormatError(
            f"written in checkpoint format {version} by whorl {str(body.get('whorl'))[:40]}, and this whorl reads up "
            f"to format {FORMAT}: install that version to go on"
        )
    if body.pop("sha256", None) != _checksum(body):
        raise CheckpointError(f"{MANIFEST} does not match its own checksum")
    try:
        manifest = msgspec.convert(body, type=Manifest)
    except msgspec.ValidationError as error:
        raise CheckpointError(f"{MANIFEST} is not one: {error}") from error
    if version != FORMAT or min(manifest.update, manifest.env_steps, manifest.token) < 0:
        raise CheckpointError(f"{MANIFEST} holds numbers that cannot be")
    if len(manifest.files) > MAX_FILES:
        raise CheckpointError(f"{MANIFEST} lists {len(manifest.files)} files; at most {MAX_FILES}")
    for name in manifest.files:
        check_part_name(name)
    return manifest


def check_part_name(name: str) -> None:
    """Only plain ``name.safetensors`` and ``name.json``: no paths, no links elsewhere, no pickles."""
    if not PART_NAME.fullmatch(name) or name == MANIFEST:
        raise CheckpointError(f"{name[:100]!r} is not the name of a checkpoint's file")


def decode_json(name: str, raw: bytes) -> Any:
    """JSON with a limit on its nesting."""
    try:
        text = raw.decode()
        _check_depth(name, text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{name} is not JSON: {str(error)[:100]}") from error


def _check_depth(name: str, text: str) -> None:
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(text):
        depth += (match[0] in "[{") - (match[0] in "]}")
        if depth > MAX_JSON_DEPTH:
            raise CheckpointError(f"{name} is nested deeper than {MAX_JSON_DEPTH}")


def _checksum(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
