"""From layers of given values to a checked ``Config``.

Every value is a ``Given``: its dotted name, the value, and where it came from, so that a message can say so. A later
one takes the place of an earlier one; all are checked, also those that are overridden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from whorl.config.fields import Schema, schema_of
from whorl.config.schema import Config
from whorl.config.suggest import did_you_mean, nearest_setting
from whorl.config.values import check, check_inside_table, parse, parse_inside_table
from whorl.errors import ConfigError

FLAGS: dict[str, str] = {
    "workflow": "workflow.name",
    "engine": "engine.name",
    "actors": "resources.actors",
    "actors_schedule": "resources.actors_schedule",
    "envs_per_actor": "resources.envs_per_actor",
    "ranks_per_env": "resources.ranks_per_env",
    "learners": "resources.learners",
    "cpus_per_actor": "resources.cpus_per_actor",
    "gpus_per_actor": "resources.gpus_per_actor",
    "learner_threads": "resources.learner_threads",
    "device": "resources.device",
    "steps": "run.steps",
    "seed": "run.seed",
    "stop_return": "run.stop_return",
    "record_schedule": "run.record_schedule",
}
"""Short names: flags of the command line (``--envs-per-actor``) and keywords in Python, with the setting of each."""


@dataclass(frozen=True)
class Given:
    """One value that somebody gave."""

    name: str
    """Dotted name of the setting, or of a place inside a table: ``env.kwargs.gravity``."""
    value: Any
    where: str
    """How a message names it: ``--actors``, ``--set agent.clip``, ``agent.clip in run.toml``."""
    is_text: bool = False
    """The value is command-line text, still to be read as the setting's type."""


def given_by_text(assignments: Iterable[str]) -> Iterator[Given]:
    """``--set a.b=c`` as given values."""
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        name = name.strip()
        if not equals or not name:
            raise ConfigError(f"--set {assignment}: expected NAME=VALUE, such as --set agent.learning_rate=0.001")
        yield Given(name, text, f"--set {name}", is_text=True)


def given_by_flags(flags: Mapping[str, str]) -> Iterator[Given]:
    """Command-line flags (``{"envs_per_actor": "4"}``) as given values."""
    for flag, text in flags.items():
        yield Given(FLAGS[flag], text, "--" + flag.replace("_", "-"), is_text=True)


def given_by_keywords(keywords: Mapping[str, Any]) -> Iterator[Given]:
    """Python keywords as given values: flag names, dotted names, and ``set={"agent.clip": 0.1}`` last."""
    for key, value in keywords.items():
        if key != "set":
            yield Given(FLAGS.get(key, key), _without_numpy(value), f"{key}=")
    settings = keywords.get("set", {})
    if not isinstance(settings, Mapping):
        raise ConfigError(f'set=: expected a dict such as {{"agent.clip": 0.1}}; got {settings!r}')
    for name, value in settings.items():
        yield Given(str(name), _without_numpy(value), f"set= {name}")


def _without_numpy(value: Any) -> Any:
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def given_by_table(schema: Schema, values: Mapping[str, Any], source: str, prefix: str = "") -> Iterator[Given]:
    """Nested tables of a file or preset as given values. A table setting such as ``env.kwargs`` is given whole."""
    for key, value in values.items():
        name = f"{prefix}{key}"
        if name in schema.settings:
            yield Given(name, value, f"{name} in {source}")
        elif name not in schema.sections:
            raise unknown_setting(schema, name, f"{name} in {source}")
        elif isinstance(value, Mapping):
            yield from given_by_table(schema, value, source, f"{name}.")
        else:
            raise ConfigError(f"{name} in {source}: expected a table; write [{name}] and settings below it")


def unknown_setting(schema: Schema, name: str, where: str) -> ConfigError:
    """The refusal of a name that no setting has, with the nearest one that exists."""
    names = [*schema.settings, *schema.sections]
    suggestion = nearest_setting(name, names)
    end = did_you_mean(suggestion) or "; docs/reference/settings.md lists them all"
    if not suggestion and "." not in name:
        end += f" (a keyword argument of the environment is env.kwargs.{name})"
    return ConfigError(f"{where}: there is no such setting{end}")


def build(agent_name: str, agent_class: type, given: Iterable[Given]) -> Config:
    """Check every given value and put the last of each name over the defaults."""
    schema = schema_of(agent_class)
    values = {name: _own(setting.default) for name, setting in schema.settings.items()}
    for item in given:
        _place(schema, values, item)
    for name, value in values.items():
        if value is MISSING:
            raise ConfigError(f"{name} must be given: --set {name}=VALUE")
    sections = {
        section.name: _construct(schema, section.name, values)
        for section in fields(Config)
        if section.name != "agent_name"
    }
    return Config(agent_name=agent_name, **sections)


def _own(default: Any) -> Any:
    """Schemas are cached: a default table must not be shared by two configs."""
    return dict(default) if isinstance(default, dict) else default


def _place(schema: Schema, values: dict[str, Any], item: Given) -> None:
    found = schema.find(item.name)
    if found is None:
        if item.name in schema.sections:
            raise ConfigError(f"{item.where}: a table, not a setting; name one of its settings, as in {item.name}.NAME")
        raise unknown_setting(schema, item.name, item.where)
    setting, inside = found
    if inside:
        value = (parse_inside_table if item.is_text else check_inside_table)(item.value, item.where)
        values[setting.name] = _with_inside(values[setting.name], inside, value, item.where)
    else:
        values[setting.name] = (parse if item.is_text else check)(setting.kind, item.value, item.where)


def _with_inside(table: Mapping[str, Any], path: tuple[str, ...], value: Any, where: str) -> dict[str, Any]:
    """A copy of the table with one place in it changed."""
    first, *rest = path
    if not rest:
        return {**table, first: value}
    below = table.get(first, {})
    if not isinstance(below, Mapping):
        raise ConfigError(f"{where}: {first} is a value already, not a table")
    return {**table, first: _with_inside(below, tuple(rest), value, where)}


def _construct(schema: Schema, section: str, values: Mapping[str, Any]) -> Any:
    """The dataclass of one section; its own checks of settings against each other run here."""
    cls = schema.sections[section]
    arguments = {}
    for field in fields(cls):
        name = f"{section}.{field.name}"
        arguments[field.name] = _construct(schema, name, values) if name in schema.sections else values[name]
    try:
        return cls(**arguments)
    except ValueError as error:
        raise ConfigError(f"{section}: {error}") from error
