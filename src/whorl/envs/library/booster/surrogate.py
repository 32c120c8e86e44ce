"""A stand-in learnt from records: an LSTM that foretells a tick from those before it.

The network is the published one. It reads the five variables one after the other, as a sequence of five, each with its
last ``look_back`` ticks as the features; its last output gives VIMIN, IMINER and LINFRQ of the next tick. The set
point runs one tick ahead of the rest: it is chosen before the tick that it acts on.

    NAME.safetensors   weights, and the records that episodes are taken from
    NAME.json          what it is made of, how well it foretells, and the hash of the other file

It is fitted by ``whorl.fitting``, and computes in numpy here, so that actors need no torch.
"""

from __future__ import annotations

import functools
import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from whorl.envs.library.booster.records import VARIABLES, Records
from whorl.errors import BadInputError, CheckpointError
from whorl.models.numpy_forward import BLOCK
from whorl.runs.checkpoint.format import decode_json
from whorl.runs.checkpoint.tensors import array_chunks, hash_descriptor, read_arrays
from whorl.runs.files import os_reason, write_atomic
from whorl.types import Array, Arrays

FORMAT = "whorl booster surrogate 1"
FORETOLD = VARIABLES[:3]
_MOST_JSON_BYTES = 1 << 20
_MOST_LAYERS = 16


@dataclass(frozen=True)
class Surrogate:
    """Weights, scales and records."""

    look_back: int
    hidden: tuple[int, ...]
    means: Array
    """[5]: what is taken from the variables, and ``scales`` what they are then divided by."""
    scales: Array
    weights: Arrays
    records: Records
    about: Mapping[str, Any]
    """How it was fitted, for people."""

    @property
    def parameters(self) -> int:
        """Numbers that were learnt."""
        return sum(weight.size for weight in self.weights.values())

    def scaled(self, values: Array) -> Array:
        """The five variables [..., 5] as the network sees them, float32."""
        return np.asarray(((values - self.means) / self.scales).astype(np.float32))

    def foretell(self, windows: Array) -> Array:
        """VIMIN, IMINER and LINFRQ [lanes, 3] of the next tick from scaled ``windows`` [lanes, 5, look_back]. A lane's
        result has the same bits in whatever company: every product is one of ``BLOCK`` rows."""
        lanes = len(windows)
        blocks = -(-lanes // BLOCK)
        padded = np.zeros((blocks * BLOCK, *windows.shape[1:]), np.float32)
        padded[:lanes] = windows
        sequence = padded.reshape(blocks, BLOCK, len(VARIABLES), -1).transpose(0, 2, 1, 3).copy()
        for layer in range(len(self.hidden)):
            sequence = _unroll(sequence, *(self.weights[f"lstm/{layer}/{part}"] for part in _PARTS))
        out = sequence[:, -1].copy() @ self.weights["dense/weight"] + self.weights["dense/bias"]
        out = out.reshape(blocks * BLOCK, -1)[:lanes].astype(np.float64)
        return np.asarray(out * self.scales[: len(FORETOLD)] + self.means[: len(FORETOLD)])

    def save(self, path: Path) -> Path:
        """Write both files. One of them alone is refused by its hash."""
        arrays = {**self.weights, "records": self.records.values, "stretches": self.records.stretches}
        data = b"".join(map(bytes, array_chunks(arrays)))
        head = {
            "format": FORMAT, "look_back": self.look_back, "hidden": list(self.hidden), "means": self.means.tolist(),
            "scales": self.scales.tolist(), "sha256": hashlib.sha256(data).hexdigest(), "about": dict(self.about),
        }  # fmt: skip
        try:
            write_atomic(path, data)
            write_atomic(_head_of(path), json.dumps(head, indent=1).encode() + b"\n")
        except OSError as error:
            raise BadInputError(f"{path}: cannot be written: {os_reason(error)}") from error
        return path


_PARTS = ("input", "recurrent", "bias")


def shapes_of(look_back: int, hidden: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    """The weights' names and shapes. Gates lie in the order input, forget, cell, output."""
    shapes: dict[str, tuple[int, ...]] = {}
    width = look_back
    for layer, size in enumerate(hidden):
        shapes |= {f"lstm/{layer}/input": (width, 4 * size), f"lstm/{layer}/recurrent": (size, 4 * size)}
        shapes[f"lstm/{layer}/bias"] = (4 * size,)
        width = size
    return shapes | {"dense/weight": (width, len(FORETOLD)), "dense/bias": (len(FORETOLD),)}


def load_surrogate(name: str) -> Surrogate:
    """A surrogate from its ``.safetensors`` file; ``BadInputError`` says what is wrong with another file."""
    path = Path(name).absolute()
    try:
        stamp = path.stat().st_mtime_ns
    except OSError as error:
        raise BadInputError(f"surrogate {name}: {error.strerror or error}; `whorl booster fit` makes one") from error
    return _load(path, stamp)


@functools.lru_cache(maxsize=2)  # both environments of a test, say, and each lane's own one, share the weights
def _load(path: Path, _stamp: int) -> Surrogate:
    try:
        head = _read_head(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            if hash_descriptor(descriptor)[1] != head["sha256"]:
                raise BadInputError(f"surrogate {path}: is not the file that {_head_of(path).name} is about")
            arrays = read_arrays(path.name, descriptor)
        finally:
            os.close(descriptor)
        return _assemble(head, arrays)
    except OSError as error:
        raise BadInputError(f"surrogate {path}: {error.filename or ''}: {error.strerror or error}") from error
    except (KeyError, TypeError, ValueError, CheckpointError) as error:
        raise BadInputError(f"surrogate {path}: is none of `whorl booster fit`: {error}") from error


def _read_head(path: Path) -> dict[str, Any]:
    with _head_of(path).open("rb") as file:
        head = decode_json(_head_of(path).name, file.read(_MOST_JSON_BYTES))
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise ValueError(f"{_head_of(path).name} does not say {FORMAT!r}")
    return head


def _assemble(head: Mapping[str, Any], arrays: Arrays) -> Surrogate:
    hidden, look_back = tuple(head["hidden"]), head["look_back"]
    if not 1 <= len(hidden) <= _MOST_LAYERS or not all(isinstance(size, int) for size in (look_back, *hidden)):
        raise ValueError("look_back and hidden must be whole numbers")
    values, stretches = arrays.pop("records"), arrays.pop("stretches")
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes != shapes_of(look_back, hidden) or any(array.dtype != np.float32 for array in arrays.values()):
        raise ValueError("its weights have other shapes than look_back and hidden say")
    means, scales = (np.array(head[name], np.float64) for name in ("means", "scales"))
    numbers = (means, scales, values, *arrays.values())
    if means.shape != scales.shape or means.shape != (len(VARIABLES),) or not (scales > 0).all():
        raise ValueError("means and scales must be five numbers each")
    if values.shape != (len(values), len(VARIABLES) + 1) or values.dtype != np.float64:
        raise ValueError("its records are not six variables for each tick")
    inside = stretches.size and 0 <= stretches.min() <= stretches.max() <= len(values)
    if stretches.shape != (len(stretches), 2) or stretches.dtype != np.int64 or not inside:
        raise ValueError("its stretches are not within its records")
    if not all(math.isfinite(float(array.sum())) for array in numbers):
        raise ValueError("it holds numbers that are not finite")
    return Surrogate(look_back, hidden, means, scales, arrays, Records(values, stretches), head.get("about", {}))


def _head_of(path: Path) -> Path:
    return path.with_suffix(".json")


def _unroll(sequence: Array, weight: Array, recurrent: Array, bias: Array) -> Array:
    """One LSTM layer over ``sequence`` [blocks, steps, BLOCK, width]: its outputs [blocks, steps, BLOCK, size]."""
    size = len(recurrent)
    gates_x = sequence @ weight + bias
    outputs = np.empty((*sequence.shape[:3], size), np.float32)
    h = np.zeros((len(sequence), sequence.shape[2], size), np.float32)
    c = np.zeros_like(h)
    for step in range(sequence.shape[1]):
        gates = gates_x[:, step] + h @ recurrent
        i, f, g, o = (gates[..., part * size : (part + 1) * size] for part in range(4))
        c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
        h = _sigmoid(o) * np.tanh(c)
        outputs[:, step] = h
    return outputs


def _sigmoid(x: Array) -> Array:
    return np.asarray(np.float32(0.5) * (np.tanh(np.float32(0.5) * x) + np.float32(1)))
