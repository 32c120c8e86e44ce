"""Checking one value: typed values as TOML or Python gives them, and text as the command line gives it.

Nothing is converted silently: a boolean is no integer, 2.5 is no integer, NaN and infinity are no numbers.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from typing import Any

from whorl.config.kinds import Kind
from whorl.config.suggest import did_you_mean, nearest
from whorl.errors import ConfigError

_INTEGER_LIMIT = 2**63
_EXACT_FLOAT_LIMIT = 2**53
_MAX_DEPTH = 16


def check(kind: Kind, value: Any, where: str) -> Any:
    """The value as the setting holds it, or ``ConfigError`` saying what was expected at ``where``."""
    if kind.optional and (value is None or value == "none"):
        return None
    match kind.base:
        case "integer" if isinstance(value, int) and not isinstance(value, bool):
            checked: Any = int(value)
        case "number" if isinstance(value, (int, float)) and not isinstance(value, bool):
            checked = _as_float(value, where)
        case "boolean" if isinstance(value, bool):
            checked = value
        case "text" if isinstance(value, str):
            checked = value
        case "choice" if not isinstance(value, (bool, float)) and value in kind.choices:
            checked = value
        case "list" if isinstance(value, (list, tuple)) and kind.item is not None:
            checked = tuple(check(kind.item, item, f"item {index} of {where}") for index, item in enumerate(value))
        case "table" if isinstance(value, Mapping):
            checked = {key: _free_value(item, f"{key} of {where}", 1) for key, item in value.items()}
        case _:
            raise ConfigError(f"{where}: expected {kind}; got {_shown(value)}{_hint(kind, value)}")
    _check_range(kind, checked, where)
    return checked


def check_inside_table(value: Any, where: str) -> Any:
    """A value below a free table such as ``env.kwargs``: anything that TOML can hold."""
    return _free_value(value, where, 1)


def parse(kind: Kind, text: str, where: str) -> Any:
    """The value that a command-line text means for this kind of setting."""
    return check(kind, _typed(kind, text.strip()), where)


def parse_inside_table(text: str, where: str) -> Any:
    """A value below a free table, in TOML's syntax (``3``, ``true``, ``[1, 2]``), else the text itself."""
    value = _toml_value(text.strip())
    return check_inside_table(text if value is None else value, where)


def _typed(kind: Kind, text: str) -> Any:
    """The text as the type it was meant as; left as text where it is none, so that ``check`` refuses it."""
    if kind.optional and text.lower() in ("none", "null"):
        return None
    match kind.base:
        case "integer":
            return _integer(text)
        case "number":
            return _number(text)
        case "boolean":
            return {"true": True, "false": False}.get(text.lower(), text)
        case "list" if kind.item is not None:
            inner = text[1:-1] if text.startswith("[") and text.endswith("]") else text
            if not inner.strip():
                return [] if inner != text else text
            return [_typed(kind.item, part.strip()) for part in inner.rstrip(", ").split(",")]
        case "choice":
            return next((choice for choice in kind.choices if str(choice) == _unquoted(text)), text)
        case "table":
            return _toml_value(text)
    return _unquoted(text)


def _integer(text: str) -> int | str:
    try:
        if len(text) <= 40:
            return int(text)
    except ValueError:
        # People write a million as 1e6: taken where it is exactly that.
        number = _number(text)
        if isinstance(number, float) and number.is_integer() and abs(number) <= _EXACT_FLOAT_LIMIT:
            return int(number)
    return text


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        value = _toml_value(text)
        if isinstance(value, str):
            return value
    return text


def _toml_value(text: str) -> Any:
    try:
        document = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):  # not TOML, or a number of more digits than Python reads
        return None
    # A text with newlines could smuggle in further keys.
    return document["value"] if set(document) == {"value"} else None


def _as_float(value: float, where: str) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError(f"{where}: expected a finite number; got {_shown(value)}")
    return number


def _free_value(value: Any, where: str, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{where}: nested more than {_MAX_DEPTH} deep")
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise ConfigError(f"{where}: keys must be text")
        return {key: _free_value(item, f"{key} of {where}", depth + 1) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_free_value(item, f"item {index} of {where}", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, bool):
        return value
    if isinstance(value, float):
        return _as_float(value, where)
    if isinstance(value, (int, str)):
        _check_range(Kind("table"), value, where)
        return value
    raise ConfigError(
        f"{where}: expected text, a number, true, false, a list or a table, so that the run can be written to a file; "
        f"got {_shown(value)}"
    )


def _check_range(kind: Kind, value: Any, where: str) -> None:
    for bound in kind.bounds:
        if not bound.accepts(value):
            raise ConfigError(f"{where}: expected {kind}; got {_shown(value)}")
    if isinstance(value, int) and not -_INTEGER_LIMIT <= value < _INTEGER_LIMIT:
        raise ConfigError(f"{where}: an integer of more than 64 bits")
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ConfigError(f"{where}: expected UTF-8 text; got {_shown(value)}") from None


def _hint(kind: Kind, value: Any) -> str:
    if kind.base == "choice":
        return did_you_mean(nearest(str(value), map(str, kind.choices)))
    if kind.base == "integer" and isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOAT_LIMIT:
        return f"; write {int(value)}"
    return ""


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a very long integer"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
