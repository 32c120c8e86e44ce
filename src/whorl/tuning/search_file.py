"""A file to search over: settings, spaces in the place of some, and ``[tune]``. Refused here, or it can be run.

[agent]
name = "ppo"
learning_rate = { low = 1e-4, high = 1e-2, log = true }
[env]
id = "CartPole-v1"
[tune]
method = "tpe"
"""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from whorl.config.fields import schema_of
from whorl.config.layers import Layer, to_plain
from whorl.config.schema import Config
from whorl.config.toml import load_toml
from whorl.envs.probe import EnvProbe
from whorl.errors import BadInputError, ConfigError, last_line
from whorl.job import Job
from whorl.prepare import check_machine, look_at, prepare
from whorl.resolve import ALIASES, config_from
from whorl.tuning.settings import DEFAULT_MEMBERS, DEFAULT_TRIALS, MAY_CHANGE, TuneConfig, read_settings
from whorl.tuning.spaces import Choices, Range, Space, is_space, read_space

MOST_TRIED = 200
"""Combinations of a grid that are looked at before the first is run; of larger ones each setting alone."""
Labels = Mapping[str, Any]
"""By the dotted name of each setting that is searched over: what the journal holds for its value."""


@dataclass(frozen=True)
class SearchFile:
    """A checked file."""

    source: str
    tables: dict[str, Any]
    """As it was written, ``[tune]`` included."""
    settings: TuneConfig
    spaces: dict[str, Space]

    @property
    def trials(self) -> int:
        """How many there are to be; the members of a population."""
        asked = self.settings.trials
        if self.settings.method == "grid":
            count = self.combination_count
            return count if asked is None else min(count, asked)
        return asked or (DEFAULT_MEMBERS if self.settings.method == "pbt" else DEFAULT_TRIALS)

    @property
    def combination_count(self) -> int:
        """Of a grid."""
        count = 1
        for space in self.spaces.values():
            count *= len(space.all_labels())
        return count

    def combinations(self) -> Iterator[dict[str, Any]]:
        """All of a grid; the setting that is written last changes quickest."""
        for labels in itertools.product(*(space.all_labels() for space in self.spaces.values())):
            yield dict(zip(self.spaces, labels, strict=True))

    def first_labels(self) -> dict[str, Any]:
        """Something to begin with: the first of each space."""
        return {name: space.ends()[0] for name, space in self.spaces.items()}

    def layer(self, labels: Labels) -> dict[str, Any]:
        """The file of one trial: values in the place of spaces, and no ``[tune]``."""
        tables = {name: copy.deepcopy(value) for name, value in self.tables.items() if name != "tune"}
        for name, space in self.spaces.items():
            *sections, last = name.split(".")
            table = tables
            for section in sections:
                table = table[section]
            table[last] = space.value_of(labels[name])
        return tables

    def config(self, labels: Labels) -> Config:
        """The resolved config of one trial."""
        return config_from(None, None, file=Layer(self.source, self.layer(labels)))

    def group_of(self, labels: Labels) -> str:
        """Trials of one environment can be compared; those of different ones cannot."""
        return str(labels.get("env.id", self.tables["env"]["id"]))

    @property
    def searches_environments(self) -> bool:
        return "env.id" in self.spaces


def load_search(path: Path) -> SearchFile:
    """A file that can be run, or a refusal in one line."""
    return read_search(load_toml(path), str(path))


def read_search(tables: Mapping[str, Any], source: str) -> SearchFile:
    """The same from tables."""
    settings = read_settings(tables.get("tune", {}), source)
    raw = dict(_raw_spaces({name: value for name, value in tables.items() if name != "tune"}))
    if not raw:
        raise ConfigError(
            f"{source}: nothing to search over; write a space in the place of a value, such as "
            "learning_rate = { low = 1e-4, high = 1e-2, log = true }"
        )
    spaces = {name: read_space(table, f"{name} in {source}", "") for name, table in raw.items()}
    search = SearchFile(source, dict(tables), settings, spaces)
    config = search.config(search.first_labels())  # unknown agents and settings are refused here
    spaces = {name: read_space(table, f"{name} in {source}", _kind(search, name)) for name, table in raw.items()}
    search = replace(search, spaces=spaces)
    _check_method(search, config)
    _check_function(settings.function, source)
    _try_out(search)
    return search


def same_search(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether a study of the one may go on as the other: all but how many and how many at a time is equal."""
    return _lasting(one) == _lasting(other)


def _lasting(tables: Mapping[str, Any]) -> str:
    tune = {name: value for name, value in tables.get("tune", {}).items() if name not in MAY_CHANGE}
    return json.dumps({**tables, "tune": tune}, sort_keys=True, default=str)


def _raw_spaces(tables: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    for key, value in tables.items():
        name = f"{prefix}{key}"
        # The arguments of an environment may themselves be called low and high.
        if prefix and name != "env.kwargs" and is_space(value):
            yield name, value
        elif isinstance(value, Mapping):
            yield from _raw_spaces(value, f"{name}.")


def _kind(search: SearchFile, name: str) -> str:
    """Of the setting, as far as spaces care; empty inside a free table."""
    from whorl.agents.registry import get_agent

    if name == "agent.name":
        return "text"
    asked = search.layer(search.first_labels())["agent"]["name"]
    found = schema_of(get_agent(ALIASES[asked].agent if asked in ALIASES else asked).config).find(name)
    return found[0].kind.base if found is not None and not found[1] else ""


def _check_method(search: SearchFile, config: Config) -> None:
    settings, source = search.settings, search.source
    method, steps = settings.method, config.run.steps
    if method == "grid":
        for name, space in search.spaces.items():
            if isinstance(space, Range) and not space.step and (space.log or not space.whole):
                raise ConfigError(
                    f"{name} in {source}: a grid cannot go over a continuous range; give choices or a step, or use "
                    'method = "random"'
                )
    if search.searches_environments and (method in ("tpe", "pbt") or settings.pruning != "none"):
        what = f'method = "{method}"' if method in ("tpe", "pbt") else f'pruning = "{settings.pruning}"'
        raise ConfigError(
            f"env.id in {source}: returns of different environments cannot be compared, as {what} would; use "
            'method = "grid" or "random" without pruning'
        )
    if settings.pruning != "none" and settings.prune_first_steps >= steps:
        raise ConfigError(
            f"tune.prune_first_steps in {source}: {settings.prune_first_steps} is not before the end of a trial "
            f"(run.steps = {steps})"
        )
    if method == "pbt":
        _check_population(search)


def _check_population(search: SearchFile) -> None:
    settings, source = search.settings, search.source
    if settings.pruning != "none" or settings.function:
        what = "function" if settings.function else "pruning"
        raise ConfigError(f"tune.{what} in {source}: pbt decides itself who goes on; leave it out")
    if search.trials < 2:
        raise ConfigError(f"tune.trials in {source}: a population has at least 2 members")
    for name in search.spaces:
        if not name.startswith("agent.") or name == "agent.name":
            raise ConfigError(f"{name} in {source}: pbt changes settings of the agent on the way, and no others")


def _check_function(function: str, source: str) -> None:
    if not function:
        return
    module_name, _, name = function.partition(":")
    where = f"tune.function in {source}"
    if not module_name or not name:
        raise ConfigError(f"{where}: expected module:function; got {function!r}")
    try:
        found = getattr(import_module(module_name), name)
    except Exception as error:
        raise BadInputError(f"{where}: {function} cannot be loaded: {last_line(error)}") from error
    if not callable(found):
        raise ConfigError(f"{where}: {function} is no function")


def _try_out(search: SearchFile) -> None:
    """Prepare what trials will run, without running it: each setting at its ends, and all of a small grid."""
    probes: dict[str, EnvProbe] = {}
    jobs: dict[str, list[Job]] = {}
    first = search.first_labels()
    variants = [({**first, name: label}, name) for name, space in search.spaces.items() for label in space.ends()]
    if search.settings.method == "grid" and search.combination_count <= MOST_TRIED:
        variants += [(labels, "a combination") for labels in search.combinations()]
    for labels, name in variants:
        config = search.config(labels)
        key = json.dumps([to_plain(config)["env"], config.engine.name])
        if key not in probes:
            probes[key] = look_at(config)
        job = prepare(config, probes[key])
        if search.settings.engine == "local":  # trials of Ray may be on machines with more
            check_machine(config)
        jobs.setdefault(name, []).append(job)
    if search.settings.method == "pbt":
        _check_copies(search, jobs)


def _check_copies(search: SearchFile, jobs: Mapping[str, list[Job]]) -> None:
    """A member can go on from another's checkpoint only where it holds the same arrays."""
    for name in search.spaces:
        first, *others = (job.agent_spec for job in jobs[name])
        if any(other != first for other in others):
            raise ConfigError(
                f"{name} in {search.source}: with another value a checkpoint holds other arrays, so that pbt cannot "
                "copy one; leave it as it is, or use another method"
            )


def describe(search: SearchFile) -> str:
    """What is searched, in one line."""
    names = ", ".join(
        f"{name} ({len(space.values)} choices)"
        if isinstance(space, Choices)
        else f"{name} ({space.low:g} to {space.high:g})"
        for name, space in search.spaces.items()
    )
    what = "members" if search.settings.method == "pbt" else "trials"
    return f"{search.settings.method}: {search.trials} {what} over {names}"
