"""Adding flat buffers in a fixed order: ``((b0 + b1) + b2) + ...``, the same on every engine.

A library's all-reduce adds in an order of its own, so its last bits change with the number of members. Here each
member adds all buffers itself, in order, field by field in each field's dtype; neighbouring fields of one dtype are
added in one go, which changes nothing because padding belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from whorl.types import Array, Layout


class OrderedSum:
    """The sum of buffers of one layout."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._runs: list[tuple[np.dtype[np.generic], int, int]] = []
        ends = (*layout.offsets[1:], layout.size_bytes)
        for field, start, end in zip(layout.fields, layout.offsets, ends, strict=True):
            dtype = np.dtype(field.dtype)
            if self._runs and self._runs[-1][0] == dtype:
                self._runs[-1] = (dtype, self._runs[-1][1], end)
            else:
                self._runs.append((dtype, start, end))
        self._result = layout.allocate()
        self._result_runs = self.runs(self._result)

    def raw(self, buffer: Array) -> Array:
        """A buffer as its bytes, without a copy; refuses one of another size."""
        flat = buffer if buffer.ndim == 1 and buffer.dtype == np.uint8 else buffer.reshape(-1).view(np.uint8)
        if flat.nbytes != self.layout.size_bytes:
            raise ValueError(f"a buffer of {flat.nbytes} bytes does not have this layout of {self.layout.size_bytes}")
        return flat

    def runs(self, buffer: Array) -> list[Array]:
        """A buffer as one array per run of fields of the same dtype."""
        raw = self.raw(buffer)
        return [raw[start:end].view(dtype) for dtype, start, end in self._runs]

    def total(self, rows: Sequence[list[Array]]) -> Array:
        """The sum of rows (each from ``runs``), in a flat buffer that the next call overwrites."""
        with np.errstate(all="ignore"):  # an overflow is the agent's to find, with its own words
            for index, run in enumerate(self._result_runs):
                np.copyto(run, rows[0][index])
                for row in rows[1:]:
                    np.add(run, row[index], out=run)
        return self._result
