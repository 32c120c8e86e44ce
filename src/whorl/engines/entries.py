"""Finding a role's generator function by its import path, so that no code ever travels."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from whorl.engines.contract import RoleGenerator
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
