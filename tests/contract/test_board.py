from __future__ import annotations

import pytest
from contract_roles import NUMBERS

from whorl.engines.contract import BoardSpec, ChannelSpec, Plan, RoleId, RoleSpec

WRITER, READER = RoleId("writer", 0), RoleId("reader", 0)


def test_the_newest_version_and_the_one_before_can_be_read(run):
    plan = Plan(
        roles=(
            RoleSpec(WRITER, "contract_roles:publish", {"board": "weights"}),
            RoleSpec(READER, "contract_roles:follow", {"board": "weights"}),
        ),
        job={},
        boards=(BoardSpec("weights", NUMBERS, WRITER, (READER,)),),
    )
    recorder = run(plan)
    assert recorder.bodies("seen") == [{"versions": [-1, -100, 0, 0, 1, 1, 2, 2, 1, 1, -200]}]
    assert recorder.bodies("refused") == [{"text": "weights is at version 2; 2 is not newer"}]


@pytest.mark.parametrize("engine", ["local", "mpi"], indirect=True)  # one thread cannot write and read at once
def test_a_fast_writer_never_shows_a_torn_value(run):
    plan = Plan(
        roles=(
            RoleSpec(WRITER, "contract_roles:write_fast", {"board": "weights", "done": "done"}),
            RoleSpec(READER, "contract_roles:read_fast", {"board": "weights", "done": "done"}),
        ),
        job={},
        boards=(BoardSpec("weights", NUMBERS, WRITER, (READER,)),),
        channels=(ChannelSpec("done", NUMBERS, 1, READER, (WRITER,)),),
    )
    recorder = run(plan)
    (checked,), (wrote,) = recorder.bodies("checked"), recorder.bodies("wrote")
    assert checked["torn"] == 0
    assert checked["reads"] > 1000
    assert wrote["versions"] > 1000
