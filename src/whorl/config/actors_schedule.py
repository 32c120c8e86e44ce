"""How many actors act from when on: ``"0:8,50000:4,100000:2"``, environment steps and actors."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from whorl.config.schema import Resources
from whorl.errors import ConfigError

_MOST_DIGITS = 18
"""Python does not read integers of very many, and no run counts so far."""


class Change(NamedTuple):
    """From so many environment steps on, so many actors."""

    env_steps: int
    actors: int


def parse_schedule(text: str) -> list[Change]:
    """The changes, in order; none for an empty text. ``ConfigError`` where it makes no sense."""
    if not text:
        return []
    changes = []
    for part in text.split(","):
        steps, colon, actors = part.partition(":")
        if not (colon and _is_number(steps) and _is_number(actors)):
            raise _refused(text, f"{part.strip()!r} is not ENV_STEPS:ACTORS")
        changes.append(Change(int(steps), int(actors)))
    if changes[0].env_steps != 0:
        raise _refused(text, "it must begin with 0:ACTORS")
    if any(later.env_steps <= earlier.env_steps for earlier, later in itertools.pairwise(changes)):
        raise _refused(text, "its environment steps must grow")
    if min(change.actors for change in changes) < 1:
        raise _refused(text, "at least one actor must stay")
    return changes


def _is_number(text: str) -> bool:
    return text.strip().isdecimal() and len(text) <= _MOST_DIGITS


def actors_at(resources: Resources, env_steps: int) -> int:
    """How many actors act once so many environment steps were taken."""
    acting = resources.actors
    for change in parse_schedule(resources.actors_schedule):
        if change.env_steps <= env_steps:
            acting = change.actors
    return acting


def fewest_actors(resources: Resources) -> int:
    """That the schedule comes to."""
    return min((change.actors for change in parse_schedule(resources.actors_schedule)), default=resources.actors)


def _refused(text: str, why: str) -> ConfigError:
    return ConfigError(f'resources.actors_schedule = "{text}": {why}; such as "0:8,50000:4"')
