"""Trials on the nodes of a Ray cluster: each a process of its own in a place that Ray has set aside for it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

import msgspec

from whorl.engines.ray.link import Link
from whorl.engines.ray.room import name_of, places, shortage
from whorl.engines.waking import WakePipe
from whorl.engines.wire import decode_body
from whorl.errors import ConfigError, MissingExtraError, RoleLostError
from whorl.tuning.executor import END_S, Ended, Order
from whorl.tuning.local import own_cpus
from whorl.tuning.settings import TuneConfig

CONNECT_S = 120.0
MOST_MOVES = 3
"""How often a trial is begun elsewhere when its node is lost; more are the trial's own fault."""


class RayExecutor:
    """Trials across a cluster. They end with the driver, as those of one machine do."""

    def __init__(self, settings: TuneConfig, trials: int) -> None:
        if find_spec("ray") is None:
            raise MissingExtraError("tune.engine = ray needs Ray: pip install 'whorl[ray]'")
        from whorl.engines.ray.private import check_token_file, joined_cluster

        self._address, token_file = joined_cluster(settings.address, settings.token_file)
        if token_file:
            check_token_file(token_file)
        self._each = {"CPU": settings.cpus_per_trial, "GPU": settings.gpus_per_trial, **_custom(settings)}
        cpus = max(own_cpus(), settings.parallel * settings.cpus_per_trial, settings.cpus_per_trial)
        here = {name: amount * max(1, settings.parallel) for name, amount in self._each.items() if name != "CPU"}
        self._wake = WakePipe()
        setup = {
            "address": self._address,
            "token_file": token_file,
            "namespace": f"whorl-tune-{os.getpid()}",
            "needed": {"CPU": float(cpus), **{name: amount for name, amount in here.items() if amount}},
            "sys_path": [os.fsencode(str(path)) for path in sys.path],
        }
        self._link = Link(setup, "", self._wake, "whorl.tuning.ray_hosts")
        self._orders: dict[int, Order] = {}
        self._moves: dict[int, int] = {}
        self._closed = False
        try:
            ready = self._link.expect("ready", CONNECT_S)
            room = self._room(ready["has"], ready["nodes"])
        except BaseException:
            self.close()
            raise
        self.slots = min(settings.parallel or room, trials)

    def _room(self, has: Mapping[str, float], nodes: Sequence[Mapping[str, float]]) -> int:
        """Trials that the cluster, of these nodes, has room for at a time."""
        where = name_of(self._address)
        for name, amount in self._each.items():
            if amount > has.get(name, 0.0):
                raise ConfigError(f"a trial asks for {amount:g} {name} and {where} has {has.get(name, 0.0):g}")
        if short := shortage(self._each, nodes, where):
            raise ConfigError(f"a trial asks for {short}; a trial is on one node: ask for less, or start a larger one")
        return sum(places(self._each, node) for node in nodes)

    def start(self, order: Order) -> None:
        self._orders[order.number] = order
        resources = {name: amount for name, amount in self._each.items() if amount and name not in ("CPU", "GPU")}
        place = {"cpus": self._each["CPU"], "gpus": self._each["GPU"], "resources": resources}
        self._link.order("start", {"order": msgspec.json.encode(order), "number": order.number, **place})

    def stop(self, number: int) -> None:
        if number in self._orders:
            self._link.order("stop", {"number": number})

    def wait(self, timeout_s: float) -> Sequence[Ended]:
        if not self._link.pending:
            self._link.receive(timeout_s)
        ended = []
        while self._link.pending:
            head, body = self._link.pending.popleft()
            words = decode_body(body)
            order = self._orders.get(words["number"])
            if order is None:
                continue
            if head.kind == "lost" and self._moves.get(order.number, 0) < MOST_MOVES:
                self._moves[order.number] = self._moves.get(order.number, 0) + 1
                self.start(order)  # it goes on from its checkpoint, wherever there is room
            else:
                del self._orders[order.number]
                error = words["error"]
                if head.kind == "lost":
                    error = f"its place was lost {MOST_MOVES + 1} times: {error}"
                ended.append(Ended(order.number, words["code"], error))
        if self._link.lost and self._orders:
            raise RoleLostError("the Ray cluster was lost, its head or our envoy; `whorl tune --resume` goes on")
        return ended

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for number in self._orders:
            self.stop(number)
        end = time.monotonic() + END_S
        while self._orders and not self._link.lost and time.monotonic() < end:
            self.wait(1.0)
        self._link.close()
        self._wake.close()


def _custom(settings: TuneConfig) -> dict[str, float]:
    for name, amount in settings.resources_per_trial.items():
        if isinstance(amount, bool) or not isinstance(amount, int | float) or amount <= 0:
            raise ConfigError(f"tune.resources_per_trial.{name}: expected a number more than 0; got {amount!r}")
        if name in ("CPU", "GPU"):
            raise ConfigError(f"tune.resources_per_trial.{name}: use tune.cpus_per_trial and tune.gpus_per_trial")
    return {name: float(amount) for name, amount in settings.resources_per_trial.items()}
