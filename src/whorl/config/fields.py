"""Every setting of nested frozen dataclasses by its dotted name, with type, default and docstring.

    schema = schema_of(PPOConfig)
    schema.settings["resources.actors"].help

Help, the reference and all checks read this and nothing else.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, get_type_hints

from whorl.config.kinds import Kind, kind_of
from whorl.config.schema import Config


@dataclass(frozen=True)
class Setting:
    """One setting: a leaf of the nested dataclasses."""

    name: str
    """Dotted: ``resources.actors``."""
    kind: Kind
    default: Any
    """``dataclasses.MISSING`` where a value must be given."""
    help: str
    """The docstring under the field, as one paragraph."""


@dataclass(frozen=True)
class Schema:
    """All settings of a run of one agent."""

    settings: dict[str, Setting]
    sections: dict[str, type]
    """Dotted names of the tables, ``agent.network``, with the dataclass of each."""

    def find(self, name: str) -> tuple[Setting, tuple[str, ...]] | None:
        """The setting of a dotted name, and the path inside it: ``env.kwargs.gravity`` is inside ``env.kwargs``."""
        parts = name.split(".")
        for count in range(len(parts), 0, -1):
            setting = self.settings.get(".".join(parts[:count]))
            inside = tuple(parts[count:])
            if setting is not None and (not inside or (setting.kind.base == "table" and all(inside))):
                return setting, inside
        return None


@cache
def schema_of(agent_class: type) -> Schema:
    """The settings of a run whose agent has settings of this class."""
    settings: dict[str, Setting] = {}
    sections: dict[str, type] = {}
    hints = get_type_hints(Config)
    for section in fields(Config):
        cls = agent_class if section.name == "agent" else hints[section.name]
        if is_dataclass(cls):
            _collect(section.name, cls, settings, sections)
    return Schema(settings, sections)


def settings_of(cls: type, prefix: str) -> list[Setting]:
    """The settings of one dataclass and those nested in it, in order."""
    settings: dict[str, Setting] = {}
    _collect(prefix, cls, settings, {})
    return list(settings.values())


def _collect(
    prefix: str, cls: type, settings: dict[str, Setting], sections: dict[str, type], given: Any = MISSING
) -> None:
    """``given`` is the default of the field that a nested class stands in; its values go before those of the class."""
    sections[prefix] = cls
    docstrings = attribute_docstrings(cls)
    hints = get_type_hints(cls, include_extras=True)
    for field in fields(cls):
        name, hint = f"{prefix}.{field.name}", hints[field.name]
        default = _default(field) if given is MISSING else getattr(given, field.name)
        if is_dataclass(hint):
            assert isinstance(hint, type)
            _collect(name, hint, settings, sections, default)
        else:
            settings[name] = Setting(name, _kind(cls, field, hint), default, docstrings.get(field.name, ""))


def _kind(cls: type, field: Field[Any], hint: Any) -> Kind:
    try:
        return kind_of(hint)
    except TypeError as error:
        raise TypeError(f"{cls.__name__}.{field.name}: {error}") from None


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def attribute_docstrings(cls: type) -> dict[str, str]:
    """The string under each field, inherited ones included; empty where the source cannot be read."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        body = _class_bodies(base.__module__).get(base.__qualname__, [])
        for statement, following in pairwise(body):
            match statement, following:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(text))),
                ):
                    found[name] = " ".join(inspect.cleandoc(text).split())
    return found


@cache
def _class_bodies(module_name: str) -> dict[str, list[ast.stmt]]:
    module = sys.modules.get(module_name)
    path = getattr(module, "__file__", None)
    if path is None or not path.endswith(".py"):
        return {}
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError):
        return {}
    return dict(_classes("", tree.body))


def _classes(prefix: str, body: list[ast.stmt]) -> Iterator[tuple[str, list[ast.stmt]]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield prefix + statement.name, statement.body
            yield from _classes(f"{prefix}{statement.name}.", statement.body)
        elif isinstance(statement, ast.FunctionDef):
            yield from _classes(f"{prefix}{statement.name}.<locals>.", statement.body)
