"""What kinds of value a setting can hold, read from its type.

``Annotated[int, AtLeast(1)]`` becomes ``Kind("integer", bounds=(AtLeast(1),))``. The rest of the configuration knows
only kinds, so that checking, help and the reference can never disagree on what a type means.
"""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from whorl.config.bounds import AtLeast, AtMost, MoreThan

Bound = AtLeast | AtMost | MoreThan
Base = Literal["integer", "number", "boolean", "text", "choice", "list", "table"]

_PLAIN: dict[type, Base] = {int: "integer", float: "number", bool: "boolean", str: "text"}
_WORDS: dict[str, str] = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "text": "text",
    "table": "a table",
}
_PLURALS: dict[str, str] = {"integer": "integers", "number": "numbers", "boolean": "booleans", "text": "texts"}


@dataclass(frozen=True)
class Kind:
    """One kind of value, with what limits it."""

    base: Base
    optional: bool = False
    """``none`` is a value too."""
    bounds: tuple[Bound, ...] = ()
    choices: tuple[str | int, ...] = ()
    item: Kind | None = None
    """What a list holds."""

    def __str__(self) -> str:
        """As the middle of a sentence: ``an integer, at least 1``."""
        if self.base == "choice":
            words = "one of " + ", ".join(str(choice) for choice in self.choices)
        elif self.item is not None:
            words = f"a list of {_PLURALS.get(self.item.base, 'values')}"
            words += "".join(f", each {bound}" for bound in self.item.bounds)
        else:
            words = _WORDS[self.base]
        words += "".join(f", {bound}" for bound in self.bounds)
        return f"{words}, or none" if self.optional else words


def kind_of(hint: Any) -> Kind:
    """The kind that a type hint asks for. Raises ``TypeError`` for one that settings do not support."""
    if hint in _PLAIN:
        return Kind(_PLAIN[hint])
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return replace(kind_of(arguments[0]), bounds=tuple(arguments[1:]))
    if origin is Literal:
        return Kind("choice", choices=arguments)
    if origin in (Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        if len(others) == 1 and len(arguments) == 2:
            return replace(kind_of(others[0]), optional=True)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Kind("list", item=kind_of(arguments[0]))
    if origin is dict and arguments[0] is str:
        return Kind("table")
    raise TypeError(f"settings cannot have the type {hint!r}")
