"""Weights on their way to stations elsewhere."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ray_nodes import require_ray


@pytest.mark.parametrize(("far", "expected"), [(3, 2), (1, 0)])
def test_a_version_is_put_into_the_object_store_once_however_many_read_it(
    monkeypatch: pytest.MonkeyPatch, far: int, expected: int
) -> None:
    """And not at all for one alone, who is sent it."""
    require_ray()
    from whorl.engines.ray import bridge
    from whorl.engines.ray.boards import OutgoingBoard

    puts: list[Any] = []

    def put(array: Any) -> object:
        puts.append(array)
        return object()

    monkeypatch.setattr(bridge.ray, "put", put)
    weights = np.zeros(bridge.PUT_FROM_BYTES, np.uint8)
    board: Any = object.__new__(OutgoingBoard)
    board._spec = SimpleNamespace(name="weights", layout=SimpleNamespace(allocate=lambda: weights))
    board._board = SimpleNamespace(version=2, kept=[1, 2], read=lambda _buffer, _version: None)
    board._sent, board._put = dict.fromkeys(range(far), -1), {}
    for version in (1, 2):
        parcels = [board._parcel(version) for _ in range(far)]
        assert all(parcel is parcels[0] for parcel in parcels)
    assert len(puts) == expected
