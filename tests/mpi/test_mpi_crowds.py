"""More ranks on a node than MPICH has room for messages of one of them."""

from __future__ import annotations

import pytest
from tests.mpi.conftest import require

from whorl.bench.tasks import measure_tasks

RANKS, TASK_S = 70, 2.0


@pytest.mark.verify
def test_what_the_driver_says_does_not_wait_for_the_role_that_passes_it_on() -> None:
    """That one sleeps first; who has not heard by then would begin when it wakes."""
    require("mpich")
    (took_s,) = measure_tasks("mpi", RANKS, TASK_S, 1)
    assert took_s < 1.7 * TASK_S
