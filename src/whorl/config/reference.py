"""The reference of all settings, as Markdown, from the docstrings of the fields."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, get_type_hints

from whorl.config.fields import Setting, settings_of
from whorl.config.parse import FLAGS
from whorl.config.schema import Config
from whorl.config.toml import write_toml

_INTRODUCTION = """# Settings

Every setting of a run. Each can be given in a TOML file, as `[section]` and `name = value`; with
`--set section.name=value`; and, where a flag is shown, with that flag. Later over earlier: defaults, what an alias
means, the preset for (agent, environment), the file, flags, `--set`. An optional setting takes `none`. This page is
generated from the code."""


def render_reference(agents: Iterable[tuple[str, type]], others: Mapping[str, type] | None = None) -> str:
    """The page, with a section for each agent's own settings. ``others`` are tables that only some commands read."""
    parts = [_INTRODUCTION]
    hints = get_type_hints(Config)
    for section in fields(Config):
        cls = hints[section.name]
        if isinstance(cls, type) and is_dataclass(cls):
            parts += _section(f"`[{section.name}]`", section.name, cls)
    for name, cls in (others or {}).items():
        parts += _section(f"`[{name}]`", name, cls)
    for name, cls in agents:
        parts += _section(f"`[agent]` of {name}", "agent", cls)
    return "\n\n".join(parts) + "\n"


def _section(title: str, prefix: str, cls: type) -> Iterator[str]:
    yield f"## {title}"
    yield inspect.cleandoc(cls.__doc__ or "")
    for setting in settings_of(cls, prefix):
        yield _entry(setting)


def _entry(setting: Setting) -> str:
    flag = next((flag for flag, name in FLAGS.items() if name == setting.name), None)
    facts = [str(setting.kind), f"default `{_shown(setting.default)}`"]
    if setting.default is MISSING:
        facts[1] = "must be given"
    if flag is not None:
        facts.append(f"flag `--{flag.replace('_', '-')}`")
    return f"### `{setting.name}`\n\n*{'; '.join(facts)}.*\n\n{setting.help.replace('``', '`')}".rstrip()


def _shown(default: Any) -> str:
    if default is None:
        return "none"
    if isinstance(default, dict) and not default:
        return "{}"
    return write_toml({"x": default}).removeprefix("x = ").strip()
