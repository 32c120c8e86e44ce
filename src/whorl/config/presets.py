"""Presets: tuned settings for an (agent, environment), one TOML file each in ``whorl/presets``.

A file is named ``<agent>-<env>.toml`` (``/`` in an id becomes ``-``) and starts with a ``[preset]`` table: agent, env,
summary. The rest are settings as in any other file. One whose env is ``atari/*``, in ``<agent>-atari.toml``, is for
every environment below ``atari/`` that has none of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from whorl.config.layers import Layer
from whorl.config.toml import parse_toml
from whorl.errors import ConfigError


@dataclass(frozen=True)
class Preset:
    """What a preset is for, and its settings."""

    name: str
    agent: str
    env: str
    summary: str
    layer: Layer


def find_preset(agent: str, env: str) -> Preset | None:
    """The preset for an agent and an environment id (with or without ``module:`` before it)."""
    env = env.rpartition(":")[2]
    namespace, separator, _ = env.partition("/")
    for known in (env, f"{namespace}/*") if separator else (env,):
        name = f"{agent}-{known}".removesuffix("/*").replace("/", "-")
        text = _texts().get(name)
        preset = _read(name, text) if text is not None else None
        if preset is not None and (preset.agent, preset.env) == (agent, known):
            return preset
    return None


def list_presets() -> list[Preset]:
    """Every preset of the package, by name."""
    return [_read(name, text) for name, text in sorted(_texts().items())]


@cache
def _texts() -> dict[str, str]:
    from importlib.resources import files  # here, so that a command without presets does not pay for it

    folder = files("whorl").joinpath("presets")
    return {
        entry.name.removesuffix(".toml"): entry.read_text(encoding="utf-8")
        for entry in folder.iterdir()
        if entry.name.endswith(".toml")
    }


def _read(name: str, text: str) -> Preset:
    source = f"preset {name}"
    values: dict[str, Any] = parse_toml(text, source)
    about = values.pop("preset", {})
    if set(about) != {"agent", "env", "summary"}:
        raise ConfigError(f"{source}: [preset] must hold agent, env and summary")
    return Preset(name, about["agent"], about["env"], about["summary"], Layer(source, values))
