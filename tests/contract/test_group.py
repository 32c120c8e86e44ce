from __future__ import annotations

import numpy as np
import pytest
from contract_roles import SUMS, brought

from whorl.engines.contract import GroupSpec, Plan, RoleId, RoleSpec


def in_order() -> np.ndarray:
    """``((b0 + b1) + b2) + ...`` written out."""
    total = SUMS.allocate()
    views = SUMS.views(total)
    for name, array in SUMS.views(brought(0)).items():
        views[name][...] = array
    for number in range(1, 12):
        for name, array in SUMS.views(brought(number)).items():
            views[name][...] = views[name] + array
    return total


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_sums_are_bit_for_bit_those_of_adding_in_order(run, size):
    members = tuple(RoleId("learner", rank) for rank in range(size))
    plan = Plan(
        roles=tuple(RoleSpec(member, "contract_roles:add", {"group": "learners"}) for member in members),
        job={},
        groups=(GroupSpec("learners", SUMS, members, buffers=12 // size),),
    )
    sums = run(plan).bodies("sum")
    assert sorted(body["rank"] for body in sums) == list(range(size))
    for body in sums:
        assert body["total"].tobytes() == in_order().tobytes()
        assert body["same"]
        assert body["value"] == 77
        everybody = (1 << size) - 1
        assert body["flags"] == [everybody, 0, everybody]
    assert SUMS.views(sums[0]["total"])["count"] == 78
