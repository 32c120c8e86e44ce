from __future__ import annotations

import pytest

from whorl.config.layers import Layer
from whorl.config.presets import list_presets
from whorl.config.schema import WorkflowConfig
from whorl.errors import ConfigError
from whorl.resolve import ALIASES, config_from, config_from_keywords, env_config_from


def test_python_and_the_command_line_mean_the_same(whorl, calls):
    whorl("train", "ppo", "CartPole-v1", "--steps", "500", "--actors", "4", "--set", "agent.clip=0.1")
    from_flags = calls[-1][1][0][0]
    keywords = {"steps": 500, "actors": 4, "agent.clip": 0.3, "set": {"agent.clip": 0.1}}
    assert config_from_keywords("ppo", "CartPole-v1", keywords) == from_flags


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"actor": 4}, "actor=: there is no such setting; did you mean resources.actors?"),
        ({"learning_rate": 1e-3}, "did you mean agent.learning_rate?"),
        ({"steps": float("nan")}, "steps=: expected an integer"),
        ({"agent.name": "a2c"}, "the agent is not a setting"),
        ({"workflow": "snyc"}, "there is no workflow 'snyc'; did you mean sync?"),
    ],
)
def test_bad_keywords_are_refused(calls, keywords, expected):
    with pytest.raises(ConfigError) as caught:
        config_from_keywords("ppo", "CartPole-v1", keywords)
    assert expected in str(caught.value)


def test_an_environment_alone():
    env = env_config_from("mine:Env-v0", ["env.kwargs.size=3", "env.hosting=process"])
    assert (env.id, env.kwargs, env.hosting) == ("mine:Env-v0", {"size": 3}, "process")


def test_every_preset_resolves_with_its_agent():
    registry = pytest.importorskip("whorl.agents.registry")
    for preset in list_presets():
        assert preset.agent in {*registry.agent_names(), *ALIASES}
        assert config_from(preset.agent, preset.env).env.id == preset.env


@pytest.mark.parametrize(
    ("agent", "setting", "value"), [("impala", "trajectories_per_update", 2), ("apex", "samples_per_insert", 4.0)]
)
def test_a_presets_workflow_settings_are_for_its_own_workflow(agent: str, setting: str, value: float) -> None:
    own = config_from_keywords(agent, "atari/Breakout-v0", {})
    assert getattr(own.workflow, setting) == value
    assert config_from_keywords(agent, "atari/Breakout-v0", {"workflow": own.workflow.name}) == own
    other = config_from_keywords(agent, "atari/Breakout-v0", {"workflow": "sync"})
    assert other.workflow == WorkflowConfig("sync")
    assert (other.agent, other.run) == (own.agent, own.run)
    file = Layer("run.toml", {"workflow": {"name": "sync"}})
    assert config_from(agent, "atari/Breakout-v0", file=file) == other
    given = config_from_keywords(agent, "atari/Breakout-v0", {"workflow": "sync", f"workflow.{setting}": value})
    assert getattr(given.workflow, setting) == value
