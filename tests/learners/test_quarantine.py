from whorl.learners.quarantine import Quarantine


def test_the_third_death_at_one_place_gives_the_lane_up_and_other_places_count_apart():
    quarantine = Quarantine()
    assert [quarantine.died(3, number=7, at=40) for _ in range(2)] == [0, 0]
    assert quarantine.died(3, number=7, at=41) == 0
    assert quarantine.died(2, number=7, at=40) == 0
    assert quarantine.given_up(7) == {}
    assert quarantine.died(3, number=7, at=40) == 1
    assert quarantine.given_up(7) == {3: 1}
    assert [quarantine.died(3, number=7, at=90) for _ in range(3)] == [0, 0, 2]
    assert quarantine.given_up(7) == {3: 2}
    assert quarantine.given_up(8) == {}


def test_what_is_given_up_holds_for_one_trajectory():
    quarantine = Quarantine()
    for number in (7, 8):
        for _ in range(3):
            quarantine.died(3, number, at=40)
    quarantine.forget_before(8)
    assert quarantine.given_up(7) == {}
    assert quarantine.given_up(8) == {3: 1}
