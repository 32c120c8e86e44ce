"""Finding agents by name."""

import re
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from whorl.agents import registry
from whorl.agents.registry import agent_names, get_agent
from whorl.config import plugins
from whorl.errors import BadInputError


def test_our_own_agents_are_there() -> None:
    assert {"a2c", "impala", "ppo"} <= set(agent_names())
    assert get_agent("ppo").name == "ppo"
    assert get_agent("a2c").workflow == "sync"


@pytest.mark.parametrize(("typo", "meant"), [("pppo", "ppo"), ("PPO", "ppo"), ("a2cc", "a2c"), ("tdd3", "td3")])
def test_a_typo_is_answered_with_the_nearest_name(typo: str, meant: str) -> None:
    with pytest.raises(BadInputError, match=rf"did you mean {meant}\?"):
        get_agent(typo)


def test_something_else_is_answered_with_the_list() -> None:
    with pytest.raises(BadInputError, match="there are a2c, "):
        get_agent("zzzz")


def test_an_installed_package_adds_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("theirs", "whorl.agents.ppo:AGENT", registry.GROUP),
        EntryPoint("broken", "whorl.agents.ppo:PPOConfig", registry.GROUP),
    ]
    monkeypatch.setattr(plugins, "entry_points", lambda group: points)
    assert {"a2c", "broken", "ppo", "theirs"} <= set(agent_names())
    assert get_agent("theirs") is get_agent("ppo")
    with pytest.raises(BadInputError, match="must be a whorl Agent"):
        get_agent("broken")


def test_an_agent_is_found_by_its_place() -> None:
    assert get_agent("whorl.agents.ppo:AGENT") is get_agent("ppo")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("no_such.module:AGENT", "no module 'no_such'; install it or set PYTHONPATH"),
        ("whorl.agents.ppo:AGENTS", "has no attribute 'AGENTS'"),
        ("whorl.agents.ppo:PPOConfig", "the agent 'whorl.agents.ppo:PPOConfig' must be a whorl Agent, and is type"),
        ("broken_agents:AGENT", "importing broken_agents failed: ZeroDivisionError: division by zero"),
        ("needy_agents:AGENT", "needy_agents needs the module 'no_such_physics'; install it"),
    ],
)
def test_a_place_without_an_agent_is_refused_in_one_line(
    name: str, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_agents.py").write_text("1 / 0")
    (tmp_path / "needy_agents.py").write_text("import no_such_physics")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInputError, match=re.escape(what)):
        get_agent(name)
