"""Shapes checked at the door, so that a wrong one fails where it enters and not where it broadcasts."""

from __future__ import annotations

from typing import Any


def same_shape(**arrays: Any) -> tuple[int, ...]:
    """The shape that all of the named arrays (or tensors) have.

    >>> same_shape(r_t=np.zeros((3, 2)), v_t=np.zeros((3, 2)))
    (3, 2)
    """
    shape, *others = [array.shape for array in arrays.values()]
    if any(other != shape for other in others):
        raise ValueError(f"these must have one shape: { {name: tuple(array.shape) for name, array in arrays.items()} }")
    return tuple(shape)


def has_shape(name: str, array: Any, *shape: int) -> None:
    """Refuse an array of another shape."""
    if tuple(array.shape) != shape:
        raise ValueError(f"{name} must be of shape {shape}, got {tuple(array.shape)}")
