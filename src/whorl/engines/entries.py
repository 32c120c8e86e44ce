"""Finding a role's generator function by its import path, so that no code ever travels, and calling it."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Generator
from typing import Any

from whorl.engines.contract import Role, RoleGenerator
from whorl.errors import BadInputError

Entry = Callable[..., RoleGenerator]


def module_of(entry: str) -> str:
    """The module of ``"module:function"``."""
    return entry.partition(":")[0]


def load_entry(entry: str) -> Entry:
    """The function named by ``"module:function"``."""
    module_name, colon, function_name = entry.partition(":")
    if not colon or module_name == "__main__":
        raise BadInputError(f"a role's entry must be an importable 'module:function', got {entry!r}")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except ModuleNotFoundError as error:
        raise BadInputError(f"a role's entry {entry!r} cannot be imported: {error}") from error
    except AttributeError as error:
        raise BadInputError(f"a role's entry {entry!r} does not exist: {error}") from error
    loaded: Entry = function
    return loaded


def begin_role(function: Entry, role: Role, endpoints: dict[str, Any]) -> RoleGenerator:
    """The generator of a role. A function that does not fit its place in the plan is refused: it will not fit it when
    it is started again either."""
    called = f"{function.__module__}:{function.__name__}"
    try:
        inspect.signature(function).bind(role, **endpoints)
    except TypeError as error:
        wired = ", ".join(["role", *endpoints])
        raise BadInputError(f"the plan of {role.id} calls {called} with ({wired}): {error}") from error
    generator = function(role, **endpoints)
    if not isinstance(generator, Generator):
        raise BadInputError(f"{called} of {role.id} is not a generator function: a role yields what it waits for")
    return generator
