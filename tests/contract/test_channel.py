from __future__ import annotations

import pytest
from contract_roles import NUMBERS

from whorl.engines.contract import ChannelSpec, Plan, RoleId, RoleSpec

READER = RoleId("reader", 0)


def writer_id(index: int) -> RoleId:
    return RoleId("writer", index)


@pytest.mark.parametrize("writers", [1, 3])
def test_numbers_arrive_in_order_whole_and_once(run, writers):
    plan = Plan(
        roles=(
            *(RoleSpec(writer_id(i), "contract_roles:count", {"out": f"numbers-{i}"}) for i in range(writers)),
            RoleSpec(READER, "contract_roles:collect", {"inputs": tuple(f"numbers-{i}" for i in range(writers))}),
        ),
        job={"items": 200},
        channels=tuple(ChannelSpec(f"numbers-{i}", NUMBERS, 2, writer_id(i), (READER,)) for i in range(writers)),
    )
    recorder = run(plan)
    assert recorder.bodies("numbers") == [{str(i): list(range(200)) for i in range(writers)}]
    assert len(recorder.bodies("done")) == writers


def test_several_readers_share_a_channel_without_doubles(run, shares_queues):
    readers = tuple(RoleId("reader", index) for index in range(3))
    plan = Plan(
        roles=(
            RoleSpec(writer_id(0), "contract_roles:deal", {"out": "numbers"}),
            *(RoleSpec(reader, "contract_roles:share", {"source": "numbers"}) for reader in readers),
        ),
        job={"items": 300, "readers": 3},
        channels=(ChannelSpec("numbers", NUMBERS, 4, writer_id(0), readers),),
    )
    taken = [body["numbers"] for body in run(plan).bodies("taken")]
    assert len(taken) == 3
    assert sorted(number for numbers in taken for number in numbers) == list(range(300))
    assert all(numbers == sorted(numbers) for numbers in taken)


def test_every_hand_over_is_counted_whoever_takes_it(run, shares_queues):
    readers = tuple(RoleId("reader", index) for index in range(2))
    plan = Plan(
        roles=(
            RoleSpec(writer_id(0), "contract_roles:count", {"out": "numbers"}),
            *(RoleSpec(reader, "contract_roles:claim_and_count", {"source": "numbers"}) for reader in readers),
        ),
        job={"items": 5, "slots": 2},
        channels=(ChannelSpec("numbers", NUMBERS, 2, writer_id(0), readers),),
    )
    counted = [body["handed_over"] for body in run(plan).bodies("counted")]
    assert counted.count(5) >= 2
    assert set(counted) <= set(range(2, 6))


def test_slots_are_given_back_in_any_order(run):
    plan = Plan(
        roles=(
            RoleSpec(writer_id(0), "contract_roles:count", {"out": "numbers"}),
            RoleSpec(READER, "contract_roles:release_the_second", {"source": "numbers"}),
        ),
        job={"items": 5},
        channels=(ChannelSpec("numbers", NUMBERS, 3, writer_id(0), (READER,)),),
    )
    assert [body["numbers"] for body in run(plan).bodies("held")] == [[0, 3, 2], [0, 4, 2]]


def test_a_full_channel_blocks_its_writer_and_a_reserved_slot_stays_reserved(run):
    plan = Plan(
        roles=(
            RoleSpec(writer_id(0), "contract_roles:fill_and_tell", {"out": "numbers"}),
            RoleSpec(READER, "contract_roles:drain_when_told", {"source": "numbers"}),
        ),
        job={"slots": 2},
        channels=(ChannelSpec("numbers", NUMBERS, 2, writer_id(0), (READER,)),),
    )
    recorder = run(plan)
    (full,) = recorder.bodies("full")
    assert full["filled"] == 2
    assert full["blocked"]
    assert full["expired"].startswith("writer-0 waited 0.2 s for a slot")
    assert recorder.bodies("reserved") == [{"same": True}]
    assert recorder.bodies("read") == [{"numbers": [0, 1, 42]}]
