"""What was drawn, as named arrays of a flat buffer and back: draws travel like everything else."""

from __future__ import annotations

from typing import Any

from whorl.types import Arrays, Field, leaves_of


def packed(item: Any) -> Arrays:
    """A named tuple of arrays and of dicts of arrays as named arrays, ``observation/obs`` among them."""
    arrays: Arrays = {}
    for name, value in item._asdict().items():
        arrays |= (
            {f"{name}/{leaf}": array for leaf, array in value.items()} if isinstance(value, dict) else {name: value}
        )
    return arrays


def unpacked(kind: Any, arrays: Arrays) -> Any:
    """The inverse of ``packed``, for a kind of named tuple; the arrays are shared."""
    return kind(*(arrays[name] if name in arrays else leaves_of(arrays, f"{name}/") for name in kind._fields))


def fields_of(arrays: Arrays, prefix: str = "") -> tuple[Field, ...]:
    """The fields of arrays like these."""
    return tuple(Field(prefix + name, array.shape, array.dtype.str) for name, array in arrays.items())
