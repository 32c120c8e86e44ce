"""From what a user asked for to a resolved ``Config``: looks up the agent and its preset, and merges all layers.

The command line and the Python interface both come through here, so that they mean the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from whorl.config.actors_schedule import parse_schedule
from whorl.config.layers import Layer, resolve
from whorl.config.parse import Given, build, given_by_keywords, given_by_text
from whorl.config.presets import Preset, find_preset
from whorl.config.schema import Config, EnvConfig
from whorl.config.suggest import did_you_mean, nearest
from whorl.config.toml import load_toml
from whorl.errors import ConfigError


class Alias(NamedTuple):
    """A known pair of an agent and a workflow."""

    agent: str
    workflow: str
    settings: Mapping[str, Any] = {}
    """What else is meant by the name; presets and users have the last word."""


_APEX = {"dueling": True, "n_step": 3, "epsilon_end": 0.4, "replay": {"prioritised": True}}
ALIASES = {
    "a3c": Alias("a2c", "gradients"),
    "apex": Alias("dqn", "replay", {"agent": _APEX}),
    "ddppo": Alias("ppo", "allreduce"),
}
"""By the name they are known under."""


def config_from(agent: str | None, env: str | None, given: Iterable[Given] = (), file: Layer | None = None) -> Config:
    """The config of an agent and an environment, or of a file that names both, with flags and ``--set`` on top."""
    from whorl.agents.registry import agent_names, get_agent

    given = [*([] if env is None else [Given("env.id", env, "ENV")]), *given]
    for item in given:
        if item.name == "agent.name":
            raise ConfigError(f"{item.where}: the agent is not a setting; name it first, as in: whorl train AGENT ENV")
    asked = _named_in(file, "agent", "name") if agent is None else agent
    _refuse_unknown("agent", asked, [*agent_names(), *ALIASES])
    alias = ALIASES.get(asked, Alias(asked, ""))
    agent_name = alias.agent
    found = get_agent(agent_name)
    env_id = _last_text(given, "env.id")
    preset_env = _named_in(file, "env", "id") if env_id is None else env_id
    preset = find_preset(asked, preset_env) or find_preset(agent_name, preset_env)
    config = resolve(
        agent_name,
        found.config,
        alias=Layer(f"the alias {asked}", alias.settings),
        preset=_layer_of(preset, _workflow_asked(given, file) or alias.workflow, found.workflow) if preset else None,
        file=file,
        given=given,
    )
    return _completed(config, alias.workflow or found.workflow)


def config_from_file(path: Path, given: Iterable[Given] = ()) -> Config:
    """The config of a TOML file, with flags and ``--set`` on top. A preset is such a file too."""
    values = load_toml(path)
    about = values.pop("preset", None)
    for section, key, named in (("agent", "name", "agent"), ("env", "id", "env")):
        if isinstance(about, Mapping) and named in about and isinstance(values.get(section, {}), Mapping):
            values[section] = {key: about[named], **values.get(section, {})}
    return config_from(None, None, given, Layer(str(path), values))


def config_from_keywords(agent: str, env: str, keywords: Mapping[str, Any]) -> Config:
    """The config of ``whorl.train(agent, env, **keywords)``."""
    return config_from(agent, env, given_by_keywords(keywords))


def env_config_from(env: str, assignments: Iterable[str] = ()) -> EnvConfig:
    """The settings of an environment alone, from its id and ``--set env...``."""
    given = [Given("env.id", env, "ENV"), *given_by_text(assignments)]
    return build("none", _NoAgent, given).env


@dataclass(frozen=True)
class _NoAgent:
    """Stands where an agent's settings would."""


def _completed(config: Config, default_workflow: str) -> Config:
    """Fill in what is left to us, so that the written config says what was run; refuse names that do not exist."""
    from whorl.engines.registry import engine_table
    from whorl.workflows.registry import get_workflow, workflow_table

    if not config.env.id:
        raise ConfigError("env.id: empty; name an environment, such as CartPole-v1")
    workflow = replace(config.workflow, name=config.workflow.name or default_workflow)
    _refuse_unknown("workflow", workflow.name, [name for name, _ in workflow_table()])
    if config.engine.name:
        _refuse_unknown("engine", config.engine.name, [name for name, _ in engine_table()])
    asked = config.resources
    most = max((change.actors for change in parse_schedule(asked.actors_schedule)), default=0)
    resources = replace(asked, shards=asked.shards or asked.learners, actors=max(asked.actors, most))
    return get_workflow(workflow.name).settle(replace(config, workflow=workflow, resources=resources))


def _named_in(file: Layer | None, section: str, key: str) -> str:
    named = file.text(section, key) if file is not None else None
    if named is None:
        where = f"{file.source}: " if file is not None else ""
        raise ConfigError(f"{where}names no {section}; write [{section}] and then {key} = ...")
    return named


def _last_text(given: Iterable[Given], name: str) -> str | None:
    texts = [item.value for item in given if item.name == name and isinstance(item.value, str)]
    return texts[-1] if texts else None


def _workflow_asked(given: Iterable[Given], file: Layer | None) -> str:
    """By its name; empty where none was named."""
    named = _last_text(given, "workflow.name")
    in_file = file.text("workflow", "name") if file is not None else None
    return (in_file if named is None else named) or ""


def _layer_of(preset: Preset, asked: str, default_workflow: str) -> Layer:
    """A preset's settings, without those of its workflow where another was asked for: they may mean nothing there."""
    layer = preset.layer
    meant = layer.text("workflow", "name") or ALIASES.get(preset.agent, Alias(preset.agent, "")).workflow
    if asked in ("", meant or default_workflow):
        return layer
    return replace(layer, values={name: table for name, table in layer.values.items() if name != "workflow"})


def _refuse_unknown(what: str, name: str, known: Iterable[str]) -> None:
    names = list(known)
    if not isinstance(name, str):
        raise ConfigError(f"{what}: expected text such as {names[0]!r}; got {name!r}")
    if name not in names and ":" not in name:  # module:NAME says itself what is wrong with it
        end = did_you_mean(nearest(name, names)) or f"; there are {', '.join(sorted(names))}"
        raise ConfigError(f"there is no {what} {name!r}{end}")
