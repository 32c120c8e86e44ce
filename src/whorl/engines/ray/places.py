"""The driver's side of stations: what is known of each, and the orders that open, change and drop them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from whorl.config.schema import EngineConfig, Resources
from whorl.engines.contract import Plan, RoleId
from whorl.engines.plain import plan_to_plain
from whorl.engines.ray.envoy import station_id
from whorl.engines.ray.link import Link
from whorl.engines.ray.units import Unit, neighbours, part_of, unit_numbers
from whorl.engines.wire import encode_body

_NOT_PASSED_ON = (b"RAY_", b"SLURM_", b"PBS_", b"CUDA_VISIBLE", b"HOSTNAME", b"TMPDIR", b"PWD", b"OLDPWD")
"""Variables that say something of the driver's own machine."""


@dataclass
class Place:
    """A unit's station, there or not."""

    unit: Unit
    generation: int = -1
    """How often one was opened, less one."""
    state: Literal["closed", "opening", "up", "lost"] = "closed"
    """``lost``: it will not answer any more, and this has not been seen to yet."""
    asked_at: float = 0.0
    told: bool = False
    """That there is no room for it yet."""
    epoch: int = 0
    pid: int = 0
    node: str = ""
    """Ray's name of it."""
    address: str = ""
    reported: int = 0
    """The newest report that was asked for and came."""


class Places:
    """Every station of a plan."""

    def __init__(self, plan: Plan, units: tuple[Unit, ...], config: EngineConfig, resources: Resources) -> None:
        self._plan, self._config, self._resources = plan, config, resources
        self.unit_of = unit_numbers(units)
        self._places = [Place(unit) for unit in units]

    def __iter__(self) -> Iterator[Place]:
        return iter(self._places)

    def __getitem__(self, unit: int) -> Place:
        return self._places[unit]

    @property
    def up(self) -> list[Place]:
        """Those that answer."""
        return [place for place in self._places if place.state == "up"]

    def introduce(self, link: Link) -> None:
        """Tell the envoy who lives where, and which units have something to exchange."""
        wired = [[place.unit.index, neighbours(self._plan, place.unit, self.unit_of)] for place in self._places]
        link.order("units", {"unit_of": _plain(self.unit_of), "wired": wired})

    def open(self, link: Link, place: Place, epoch: int, handed_over: Mapping[str, int]) -> None:
        """Have Ray find room for a station. ``handed_over``: how often each channel was written so far."""
        place.generation += 1
        place.state, place.asked_at, place.told, place.epoch = "opening", time.monotonic(), False, epoch
        part = part_of(self._plan, place.unit)
        setup = {
            "unit": place.unit.index,
            "generation": place.generation,
            "epoch": epoch,
            "unit_of": _plain(self._concerned(part)),
            "plan": plan_to_plain(part),
            "board_units": {
                board.name: sorted({self.unit_of[reader] for reader in board.readers}) for board in self._plan.boards
            },
            "config": asdict(self._config),
            "cores": int(place.unit.cpus) if self._config.pin else 0,
            "torch_threads": self._resources.learner_threads,
            "handed_over": {each.name: handed_over.get(each.name, 0) for each in part.channels},
            "sys_path": [os.fsencode(str(path)) for path in sys.path],
            "environ": [pair for pair in os.environb.items() if not pair[0].startswith(_NOT_PASSED_ON)],
            "folder": os.fsencode(Path.cwd()),
        }
        order = {
            "unit": place.unit.index,
            "generation": place.generation,
            "cpus": place.unit.cpus,
            "gpus": place.unit.gpus,
            "resources": dict(place.unit.resources),
            "placement": self._config.placement,
            "setup": encode_body(setup),
        }
        link.order("open", order)

    def table(self) -> Iterator[str]:
        """Which role is where, in lines for people."""
        yield "node             CPUs  GPUs  roles"
        for place in sorted(self.up, key=lambda place: (place.address, place.node, place.unit.index)):
            first, *others = place.unit.roles
            roles = f"{first} and {len(others)} beside it" if others else str(first)
            yield f"{place.address:<15}  {place.unit.cpus:>4g}  {place.unit.gpus:>4g}  {roles}"

    def drop(self, link: Link, place: Place) -> None:
        """End a station, and give back what was set aside for it."""
        link.order("drop", {"unit": place.unit.index})
        place.state = "closed"

    def order(self, link: Link, place: Place, kind: str, body: dict[str, Any]) -> None:
        """Have a station do something."""
        link.order(kind, body, station_id(place.unit.index))

    def _concerned(self, part: Plan) -> dict[RoleId, int]:
        """Where those are that the roles of a part have to do with."""
        here = {spec.id for spec in part.roles}
        parties = set(here)
        parties.update(*((each.writer, *each.readers) for each in part.channels))
        parties.update(*((each.writer,) for each in part.boards), *(each.members for each in part.groups))
        written = {each.name for each in part.boards if each.writer in here}
        parties.update(*(each.readers for each in self._plan.boards if each.name in written))
        return {role: unit for role, unit in self.unit_of.items() if role in parties}


def _plain(unit_of: Mapping[RoleId, int]) -> list[list[Any]]:
    return [[role.kind, role.index, unit] for role, unit in unit_of.items()]
