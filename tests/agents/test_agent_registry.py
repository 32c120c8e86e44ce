"""Finding agents by name."""

from importlib.metadata import EntryPoint

import pytest

from whorl.agents import registry
from whorl.agents.registry import agent_names, get_agent
from whorl.errors import BadInputError


def test_our_own_agents_are_there() -> None:
    assert {"a2c", "impala", "ppo"} <= set(agent_names())
    assert get_agent("ppo").name == "ppo"
    assert get_agent("a2c").workflow == "sync"


@pytest.mark.parametrize(("typo", "meant"), [("pppo", "ppo"), ("PPO", "ppo"), ("a2cc", "a2c"), ("tdd3", "td3")])
def test_a_typo_is_answered_with_the_nearest_name(typo: str, meant: str) -> None:
    with pytest.raises(BadInputError, match=f"did you mean '{meant}'"):
        get_agent(typo)


def test_something_else_is_answered_with_the_list() -> None:
    with pytest.raises(BadInputError, match="choose one of a2c, "):
        get_agent("zzzz")


def test_an_installed_package_adds_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("theirs", "whorl.agents.ppo:AGENT", registry.GROUP),
        EntryPoint("broken", "whorl.agents.ppo:PPOConfig", registry.GROUP),
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    assert {"a2c", "broken", "ppo", "theirs"} <= set(agent_names())
    assert get_agent("theirs") is get_agent("ppo")
    with pytest.raises(BadInputError, match="must be a whorl Agent"):
        get_agent("broken")
