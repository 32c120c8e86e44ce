"""Reading TOML with clear refusals, and writing the little TOML that configurations need."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from whorl.errors import ConfigError

MAX_FILE_BYTES = 1_000_000
_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def load_toml(path: Path) -> dict[str, Any]:
    """The tables of a file, or ``ConfigError`` in one line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError:
        raise ConfigError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{path}: a directory, not a file{_config_inside(path)}") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigError(f"{path}: larger than {MAX_FILE_BYTES:,} bytes; is it a configuration?")
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not a text file (byte {error.start} is not UTF-8)") from None
    if not text.strip():
        raise ConfigError(f'{path}: the file is empty; it needs at least [agent] name = "ppo" and [env] id = "..."')
    return parse_toml(text, str(path))


def parse_toml(text: str, source: str) -> dict[str, Any]:
    """The tables of a text, or ``ConfigError`` naming the source and the line."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None
    except RecursionError:
        raise ConfigError(f"{source}: not valid TOML: nested too deeply") from None
    except ValueError as error:
        raise ConfigError(f"{source}: not valid TOML: {error}") from None


def _config_inside(path: Path) -> str:
    return f"; did you mean {path / 'config.toml'}?" if (path / "config.toml").is_file() else ""


def write_toml(tables: Mapping[str, Any]) -> str:
    """Nested mappings as TOML text that reads back equal. Values: text, integers, finite floats, booleans, lists and
    mappings of those."""
    return "\n".join(_tables((), tables)).lstrip("\n") + "\n"


def _tables(path: tuple[str, ...], table: Mapping[str, Any]) -> Iterator[str]:
    """A header and its plain values, then the tables below."""
    below = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (len(below) < len(table) or not below):
        yield f"\n[{'.'.join(_key(part) for part in path)}]"
    for key, value in table.items():
        if key not in below:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in below.items():
        yield from _tables((*path, key), value)


def _key(key: str) -> str:
    return key if key and set(key) <= _BARE else _text(key)


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            return repr(value)
        case str():
            return _text(value)
        case list() | tuple():
            return f"[{', '.join(_value(item) for item in value)}]"
        case Mapping():
            return "{" + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + "}"
    raise TypeError(f"TOML cannot hold {value!r}")


def _text(text: str) -> str:
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    is_control = ord(character) < 0x20 or ord(character) == 0x7F
    return f"\\u{ord(character):04x}" if is_control else character
