"""The layers of a configuration, and its forms outside Python.

Later over earlier: defaults, alias, preset, file, flags, ``--set``. A file or preset replaces a whole free table such
as ``env.kwargs``; ``--set env.kwargs.gravity=9.8`` changes one place in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple

from whorl.config.fields import schema_of
from whorl.config.parse import Given, build, given_by_table
from whorl.config.schema import Config
from whorl.config.toml import write_toml
from whorl.errors import ConfigError


@dataclass(frozen=True)
class Layer:
    """Nested tables from one source."""

    source: str
    """How messages name it: a path, ``preset ppo-CartPole-v1``."""
    values: Mapping[str, Any]

    def text(self, section: str, key: str) -> str | None:
        """A text in a section, before the layers are merged: the agent's name, the environment's id."""
        table = self.values.get(section)
        if table is None:
            return None
        if not isinstance(table, Mapping):
            raise ConfigError(f'{section} in {self.source}: expected a table; write [{section}] and then {key} = "..."')
        value = table.get(key)
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{section}.{key} in {self.source}: expected text; got {value!r}")
        return value


def resolve(
    agent_name: str,
    agent_class: type,
    *,
    alias: Layer | None = None,
    preset: Layer | None = None,
    file: Layer | None = None,
    given: Iterable[Given] = (),
) -> Config:
    """Merge and check every layer. ``given`` are flags and then ``--set``, in order."""
    return build(agent_name, agent_class, _all_given(agent_class, [alias, preset, file], given))


def _all_given(agent_class: type, layers: Iterable[Layer | None], given: Iterable[Given]) -> Iterator[Given]:
    schema = schema_of(agent_class)
    for layer in layers:
        if layer is not None:
            yield from given_by_table(schema, _without_agent_name(layer), layer.source)
    yield from given


def _without_agent_name(layer: Layer) -> dict[str, Any]:
    values = dict(layer.values)
    if isinstance(values.get("agent"), Mapping):
        values["agent"] = {key: value for key, value in values["agent"].items() if key != "name"}
    return values


def to_plain(config: Config) -> dict[str, Any]:
    """Nested dicts, lists and plain values that travel as JSON; ``from_plain`` gives the same config back."""
    return {
        section.name: {"name": config.agent_name, **_plain(config.agent)}
        if section.name == "agent"
        else _plain(getattr(config, section.name))
        for section in fields(config)
        if section.name != "agent_name"
    }


def from_plain(agent_class: type, plain: Mapping[str, Any], source: str = "the given configuration") -> Config:
    """The config that ``to_plain`` or a written file came from, checked as strictly as any file."""
    layer = Layer(source, plain)
    agent_name = layer.text("agent", "name")
    if agent_name is None:
        raise ConfigError(f'{source}: names no agent; write [agent] and name = "ppo"')
    return resolve(agent_name, agent_class, file=layer)


def dump_toml(config: Config) -> str:
    """The fully resolved config as TOML; loading it gives an equal config, whatever the presets say by then."""
    return write_toml(_none_as_text(to_plain(config)))


class Change(NamedTuple):
    """One setting that differs between two configs."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.name}: {self.before} -> {self.after}"


def difference(before: Config, after: Config) -> list[Change]:
    """Every setting that differs, by dotted name; None where one side has no such setting."""
    old, new = dict(flat("", to_plain(before))), dict(flat("", to_plain(after)))
    names = [*old, *(name for name in new if name not in old)]
    return [Change(name, old.get(name), new.get(name)) for name in names if old.get(name) != new.get(name)]


def flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Nested tables as dotted names and values."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from flat(f"{prefix}.{key}" if prefix else key, item)
    else:
        yield prefix, value


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return value


def _none_as_text(value: Any) -> Any:
    """TOML has no null: an optional setting reads ``"none"`` as None. (Free tables cannot hold None.)"""
    if isinstance(value, dict):
        return {key: _none_as_text(item) for key, item in value.items()}
    return "none" if value is None else value
