"""Served copies as a vector form: one message steps all lanes of an actor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from whorl.config.schema import EnvConfig
from whorl.envs.door import ObservationDoor, RefusedValue
from whorl.envs.remote.address import kwargs_of
from whorl.envs.remote.connection import PATIENCE_S, Connection
from whorl.envs.remote.layout import FORBIDDEN, RAISED
from whorl.envs.remote.served import ServedCopies
from whorl.envs.remote.spaces import observation_space
from whorl.types import Array, Arrays, EnvSpec

_PATIENCES_IN_A_STEP = 3
"""To ask, to find the server again, and to ask again."""


class RemoteForm:
    """Copies behind a socket, each with its own seed. Connects when it is first reset."""

    def __init__(self, config: EnvConfig, spec: EnvSpec, blocks: Sequence[Array]) -> None:
        kwargs = kwargs_of(config)
        patience_s = float(kwargs.get("patience_s", PATIENCE_S))
        self.door = ObservationDoor(observation_space(spec.observation), spec.env_id, config.max_observation_bytes)
        self.raised: dict[int, str] = {}
        self.metrics = np.full((len(blocks[0]), len(spec.episode_metrics)), np.nan)
        self.longest_step_s = _PATIENCES_IN_A_STEP * patience_s
        self._blocks, self._names = blocks, [f"obs/{leaf.name}" for leaf in spec.observation]
        self._lanes = range(len(blocks[0]))
        connection = Connection(config.id, str(kwargs.get("keys", "")), patience_s)
        self._copies = ServedCopies(connection, len(self._lanes), spec)

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Reset some copies."""
        self._take(*self._copies.reset(seeds), list(seeds))

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """Step all copies but those in ``seeds``, which are reset."""
        stepped = [lane for lane in self._lanes if lane not in seeds]
        answer, faults = self._copies.advance(actions, seeds, stepped)
        self._take(answer, faults, self._lanes)
        if "metrics" in answer:
            self.metrics = answer["metrics"]
        return answer["reward"].tolist(), answer["terminated"] != 0, answer["truncated"] != 0

    def close(self) -> None:
        """Free the copies."""
        self._copies.close()

    def _take(self, answer: Arrays, faults: Mapping[int, str], touched: Sequence[int]) -> None:
        """Observations into the rows; lanes that raised keep theirs."""
        status = answer["status"]
        for lane in np.flatnonzero(status == FORBIDDEN).tolist():
            raise RefusedValue(f"copy {lane}: {faults.get(lane, 'a value that its spaces forbid')}")
        self.raised = {
            lane: faults.get(lane, "it does not say what") for lane in np.flatnonzero(status == RAISED).tolist()
        }
        if len(touched) == len(self._lanes) and not self.raised:
            for block, name in zip(self._blocks, self._names, strict=True):
                block[...] = answer[name]
            return
        for lane in touched:
            if lane not in self.raised:
                for block, name in zip(self._blocks, self._names, strict=True):
                    block[lane] = answer[name][lane]
