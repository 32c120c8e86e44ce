"""Which roles live together, and what each such unit asks of the cluster.

A unit is what Ray places: one actor with its environments, one learner, one replay. What two units exchange passes
through Ray; what the roles of one unit exchange is shared memory. Readers that share a channel are one unit, because
either may take what lies in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Plan, RoleId
from whorl.engines.ray.room import name_of, shortage
from whorl.errors import BadInputError, ConfigError


@dataclass(frozen=True)
class Unit:
    """Roles that live together."""

    index: int
    roles: tuple[RoleId, ...]
    cpus: float
    gpus: float
    resources: Mapping[str, float]

    def __str__(self) -> str:
        return str(self.roles[0])


def units_of(plan: Plan, config: EngineConfig, resources: Resources) -> tuple[Unit, ...]:
    """The units of a plan, in the order of their first roles."""
    lead = {role.id: role.beside or role.id for role in plan.roles}
    for channel in plan.channels:
        first = lead[channel.readers[0]] if channel.readers else None
        for reader in channel.readers[1:]:
            if first is not None and lead[reader] != first:
                merged = lead[reader]
                lead = {role: first if led == merged else led for role, led in lead.items()}
    members: dict[RoleId, list[RoleId]] = {}
    for role in plan.roles:
        members.setdefault(lead[role.id], []).append(role.id)
    return tuple(_unit(index, tuple(roles), config, resources) for index, roles in enumerate(members.values()))


def _unit(index: int, roles: tuple[RoleId, ...], config: EngineConfig, resources: Resources) -> Unit:
    unit = Unit(index, roles, 0.0, 0.0, {})
    for role in roles:
        if role.kind == "actor":
            custom = _custom(config.actor_resources, "engine.actor_resources")
            unit = _and(unit, resources.cpus_per_actor, resources.gpus_per_actor, custom)
        elif role.kind == "learner":
            custom = _custom(config.learner_resources, "engine.learner_resources")
            unit = _and(unit, float(resources.learner_threads), float(resources.device != "cpu"), custom)
        elif role.kind != "env":  # which live on the CPUs of their actor
            unit = _and(unit, 1.0, 0.0, {})
    return unit


def _and(unit: Unit, cpus: float, gpus: float, custom: Mapping[str, float]) -> Unit:
    merged = {name: unit.resources.get(name, 0.0) + custom.get(name, 0.0) for name in {*unit.resources, *custom}}
    return replace(unit, cpus=unit.cpus + cpus, gpus=unit.gpus + gpus, resources=merged)


def _custom(table: Mapping[str, Any], where: str) -> dict[str, float]:
    for name, amount in table.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount <= 0:
            raise ConfigError(f"{where}.{name}: expected a number more than 0; got {amount!r}")
        if name in ("CPU", "GPU"):
            raise ConfigError(f"{where}.{name}: use --cpus-per-actor, --gpus-per-actor or --learner-threads")
    return {name: float(amount) for name, amount in table.items()}


def unit_numbers(units: tuple[Unit, ...]) -> dict[RoleId, int]:
    """In which unit each role is."""
    return {role: unit.index for unit in units for role in unit.roles}


def neighbours(plan: Plan, unit: Unit, unit_of: Mapping[RoleId, int]) -> list[int]:
    """The other units that a unit has something to exchange with."""
    mine, met = set(unit.roles), set[RoleId]()
    for channel in plan.channels:
        if mine.intersection(parties := (channel.writer, *channel.readers)):
            met.update(parties)
    for board in plan.boards:
        if board.writer in mine:
            met.update(board.readers)
        elif mine.intersection(board.readers):
            met.add(board.writer)
    for group in plan.groups:
        if mine.intersection(group.members):
            met.update(group.members)
    return sorted({unit_of[role] for role in met} - {unit.index})


def check_room(asked: Mapping[str, float], has: Mapping[str, float], address: str) -> None:
    """What the whole cluster does not have will never be free."""
    for name, amount in asked.items():
        if amount > has.get(name, 0.0) + 1e-6:
            less = "--actors or --cpus-per-actor" if name == "CPU" else f"less {name}"
            raise BadInputError(
                f"this run asks for {amount:g} {name} and {name_of(address)} has {has.get(name, 0):g}: use {less}"
            )


def check_nodes(units: tuple[Unit, ...], nodes: Sequence[Mapping[str, float]], address: str) -> None:
    """A unit is on one node: what none of those that there are has alone will not become free by waiting."""
    for unit in units:
        if short := shortage(needed((unit,)), nodes, name_of(address)):
            raise BadInputError(f"{unit} asks for {short}; it is on one node: ask for less, or start a larger one")


def needed(units: tuple[Unit, ...]) -> dict[str, float]:
    """Everything that all units ask for, by Ray's names."""
    total: dict[str, float] = {"CPU": 0.0, "GPU": 0.0}
    for unit in units:
        total["CPU"] += unit.cpus
        total["GPU"] += unit.gpus
        for name, amount in unit.resources.items():
            total[name] = total.get(name, 0.0) + amount
    return {name: amount for name, amount in total.items() if amount}


def part_of(plan: Plan, unit: Unit) -> Plan:
    """What of a plan concerns a unit: its roles, and the endpoints that they are wired to."""
    mine = set(unit.roles)
    boards = []
    for board in plan.boards:
        near = tuple(reader for reader in board.readers if reader in mine)
        far = tuple(reader for reader in board.readers if reader not in mine)
        if board.writer in mine:
            boards.append(replace(board, readers=(*near, *far[:1])))  # the far one's doorbell is the station's
        elif near:
            boards.append(replace(board, readers=near))
    return replace(
        plan,
        roles=tuple(role for role in plan.roles if role.id in mine),
        channels=tuple(each for each in plan.channels if mine.intersection((each.writer, *each.readers))),
        boards=tuple(boards),
        groups=tuple(each for each in plan.groups if mine.intersection(each.members)),
    )
