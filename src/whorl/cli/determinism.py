"""Does this processor keep the promise that exact runs stand on? A row's result must not depend on its batch.

Inference batches are padded to a multiple of 8 rows; numpy multiplies each block of 8 on its own. Then each row of a
small network must come out bit for bit the same, whatever the batch's size and wherever in its block the row stands.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from whorl.types import Array

_WIDTHS = (7, 64, 64, 3)
_ROWS = 64
_SIZES = (1, 2, 3, 5, 8, 13, 16, 31, 40, 64)


def numpy_rows_agree() -> bool:
    """A small network in numpy, in blocks of 8 rows as ``models.numpy_forward`` does it: every split of the rows."""
    layers, rows = _network()

    def infer(batch: Array) -> Array:
        blocks = _padded(batch).reshape(-1, 8, batch.shape[1])
        for weight in layers:
            blocks = np.tanh(blocks @ weight)
        return blocks.reshape(-1, blocks.shape[2])[: len(batch)]

    whole = infer(rows)
    splits = [(infer(rows[:size]), infer(rows[size:])) for size in _SIZES]
    return all(np.concatenate(parts).tobytes() == whole.tobytes() for parts in splits)


def torch_rows_agree() -> bool:
    """The same network in torch, with one thread as actors have."""
    import torch

    layers, rows = _network()
    tensors = [torch.from_numpy(weight) for weight in layers]

    def infer(batch: Array) -> Array:
        hidden = torch.from_numpy(batch)
        for weight in tensors:
            hidden = torch.tanh(hidden @ weight)
        result: Array = hidden.numpy()
        return result

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        whole = infer(rows)
        return all(infer(_padded(rows[:size]))[:size].tobytes() == whole[:size].tobytes() for size in _SIZES)
    finally:
        torch.set_num_threads(threads)


def _network() -> tuple[list[Array], Array]:
    generator = np.random.default_rng(1)
    layers: list[Array] = [
        generator.normal(size=(inputs, outputs)).astype(np.float32) / np.float32(inputs**0.5)
        for inputs, outputs in pairwise(_WIDTHS)
    ]
    return layers, generator.normal(size=(_ROWS, _WIDTHS[0])).astype(np.float32)


def _padded(rows: Array) -> Array:
    missing = -len(rows) % 8
    return np.concatenate([rows, np.zeros((missing, rows.shape[1]), rows.dtype)])
