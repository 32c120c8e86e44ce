"""The envoy: speaks to Ray for the supervisor of a plan.

It has Ray place the stations, passes frames on in both directions and reports which stations are up or lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any

from whorl.engines.contract import RoleId
from whorl.engines.ray.emissary import Emissary, main
from whorl.engines.ray.private import in_one_line, lost_for_good
from whorl.engines.wire import Envelope, encode_frame

CLOSE_S = 5.0
RETRY_S = 0.2


def station_id(unit: int) -> RoleId:
    """How orders to a station are addressed."""
    return RoleId("station", unit)


class Envoy(Emissary):
    """Has Ray place stations, and passes frames on between them and the supervisor. It decides nothing."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._stations: dict[int, _Abroad] = {}
        self._unit_of: dict[RoleId, int] = {}
        self._wired: dict[int, set[int]] = {}

    def pass_on(self, head: Envelope, body: bytes) -> None:
        """To a station, or to a role in one."""
        unit = head.to_id.index if head.to_id.kind == "station" else self._unit_of[head.to_id]
        station = self._stations.get(unit)
        if station is not None and station.stream is not None:
            station.stream.put({}, [encode_frame(head, body)])

    def obey(self, kind: str, body: dict[str, Any]) -> None:
        """Of the supervisor."""
        if kind == "units":
            self._unit_of = {RoleId(*role): unit for *role, unit in body["unit_of"]}
            self._wired = {unit: set(others) for unit, others in body["wired"]}
        elif kind == "open":
            self.spawn(self._open(body))
        elif kind == "drop":
            self._drop(body["unit"])

    async def _open(self, order: dict[str, Any]) -> None:
        """Have Ray place a station, introduce it to those it is wired to, and listen to it."""
        import ray

        from whorl.engines.ray.station import Station
        from whorl.engines.ray.stream import Stream

        unit, generation = order["unit"], order["generation"]
        options = {"num_cpus": order["cpus"], "num_gpus": order["gpus"], "resources": order["resources"] or None}
        options["enable_task_events"] = False  # nobody reads what Ray would write down of every message
        if order["placement"] == "spread":
            options["scheduling_strategy"] = "SPREAD"
        actor: Any = ray.remote(Station)
        handle = actor.options(max_concurrency=10_000, max_restarts=0, **options).remote(order["setup"])
        station = self._stations[unit] = _Abroad(generation, handle)
        try:
            where = await handle.open.remote()
        except ray.exceptions.RayError as error:
            self._lost(unit, station, error)
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(handle)  # it may only be out of reach
            return
        station.stream = Stream(lambda number, _headers, frames: handle.tell.remote(number, b"".join(frames)))
        for other in self._wired.get(unit, ()):
            peer = self._stations.get(other)
            if peer is not None and peer.stream is not None:
                self.spawn(_introduce(handle, other, peer))
                self.spawn(_introduce(peer.handle, unit, station))
        self.say("up", {**where, "unit": unit, "generation": generation})
        await self._listen(unit, station)

    async def _listen(self, unit: int, station: _Abroad) -> None:
        from ray.exceptions import RayError

        number = 0
        while self._stations.get(unit) is station:
            try:
                number, frames = await station.handle.news.remote(number)
            except lost_for_good() as error:
                self._lost(unit, station, error)
                return
            except RayError:  # it cannot be reached just now
                await asyncio.sleep(RETRY_S)
                continue
            if frames:
                self.forward(frames)

    def _lost(self, unit: int, station: _Abroad, error: BaseException) -> None:
        if self._stations.get(unit) is station and not self.done:
            del self._stations[unit]
            if station.stream is not None:
                station.stream.end()
            self.say("lost", {"unit": unit, "generation": station.generation, "cause": in_one_line(error)})

    def _drop(self, unit: int) -> None:
        import ray

        station = self._stations.pop(unit, None)
        if station is not None:
            if station.stream is not None:
                station.stream.end()
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(station.handle)

    async def close(self) -> None:
        """Have every station end its roles, politely."""
        import ray

        stations = [*self._stations.values()]
        self._stations.clear()
        closing = [asyncio.ensure_future(station.handle.close.remote()) for station in stations if station.stream]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_S)
        for station in stations:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.kill(station.handle)
        for done in closing:
            if done.done() and not done.cancelled():
                done.exception()


class _Abroad:
    """A station as the envoy knows it."""

    def __init__(self, generation: int, handle: Any) -> None:
        self.generation = generation
        self.handle = handle
        self.stream: Any = None


async def _introduce(to: Any, unit: int, station: _Abroad) -> None:
    from ray.exceptions import RayError

    while True:
        try:
            await to.meet.remote(unit, station.generation, station.handle)
            return
        except lost_for_good():
            return
        except RayError:
            await asyncio.sleep(RETRY_S)


if __name__ == "__main__":
    main(Envoy)
