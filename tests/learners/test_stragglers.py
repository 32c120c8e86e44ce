import time

from whorl.learners.stragglers import Stragglers


def said(took_s: dict[int, float], batches: int, each_s: float) -> list[tuple[int, str]]:
    stragglers, found = Stragglers(), []
    for _ in range(batches):
        if (slow := stragglers.saw(took_s)) is not None:
            found.append(slow)
        time.sleep(each_s)
    return found


def test_an_actor_that_everybody_waits_for_is_named_once() -> None:
    ((actor, how),) = said({0: 0.001, 1: 0.002, 2: 0.02}, batches=16, each_s=0.02)
    assert actor == 2
    assert how.startswith("takes 13 times as long as the others, which wait for it ")
    assert how.endswith(" % of the time")


def test_nobody_is_named_for_a_single_pause() -> None:
    stragglers = Stragglers()
    assert not any(stragglers.saw({0: 0.001, 1: 0.001, 2: 1.0 if batch == 3 else 0.001}) for batch in range(32))


def test_nobody_is_named_among_equals_or_where_it_costs_little() -> None:
    assert said({0: 0.01, 1: 0.012, 2: 0.02}, batches=16, each_s=0.0) == []
    assert said({0: 0.0001, 1: 0.0005}, batches=8, each_s=0.01) == []
    assert said({0: 5.0}, batches=8, each_s=0.0) == []
