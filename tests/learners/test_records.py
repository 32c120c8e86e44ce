"""What a learner tells of itself."""

from whorl.engines.inline.clock import InlineClock
from whorl.learners.learner import Learner
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords


def test_an_agents_metric_does_not_take_the_place_of_a_count() -> None:
    learner = Learner(prepare(config_from_keywords("a2c", "CartPole-v1", {})), 0, InlineClock())
    learner.measured({"update": 7.0, "staleness": 3.0, "loss": 0.5})
    record = learner.record()
    assert (record["update"], record["staleness"], record["loss"]) == (0, [], 0.5)
