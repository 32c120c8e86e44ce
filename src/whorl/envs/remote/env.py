"""A served environment as a Gymnasium environment: ``make_env("tcp://127.0.0.1:5555")``."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

from whorl.envs.remote.connection import PATIENCE_S, Connection
from whorl.envs.remote.layout import FORBIDDEN, RAISED
from whorl.envs.remote.served import ServedCopies
from whorl.envs.remote.spaces import action_space, observation_space, shown
from whorl.errors import BadInputError, EnvironmentFault
from whorl.types import Arrays

Info = dict[str, Any]


class RemoteRaised(RuntimeError):
    """The served environment raised."""


class RemoteEnv(gymnasium.Env[Any, Any]):
    """One copy of a served environment.

    address:     tcp://HOST:PORT or ipc://PATH
    keys:        a folder with keys; by default that of the variable WHORL_KEYS, if it is set
    patience_s:  how long to wait for an answer, with as many retries as fit in
    """

    def __init__(self, address: str, keys: str = "", patience_s: float = PATIENCE_S) -> None:
        self._copies = ServedCopies(Connection(address, keys, patience_s), lanes=1)
        try:
            spec = self._served = self._copies.open()
            self.observation_space, self.action_space = observation_space(spec.observation), action_space(spec.action)
        except BaseException:
            self._copies.close()
            raise
        self.most_copies = self._copies.most_copies
        self.episode_metrics = spec.episode_metrics
        self.metadata = {"render_modes": [], "restore": spec.restore}
        if len(spec.observation) == 1:
            self.frame_stack, self.frame_stack_padding = spec.observation[0].frames, spec.observation[0].padding
        self.spec = GymnasiumSpec(
            "whorl/Remote-v0",
            entry_point=f"{__name__}:RemoteEnv",
            max_episode_steps=spec.max_episode_steps,
            kwargs={"address": address, "keys": keys, "patience_s": patience_s},
        )

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin an episode; without a seed, with one that follows from the last."""
        super().reset(seed=seed)
        if options:
            raise ValueError("a served environment takes no reset options")
        wanted = int(self.np_random.integers(2**31)) if seed is None else seed
        answer = self._ask(None, {0: wanted})
        return self._observation(answer), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """One step of the served copy."""
        answer = self._ask(action, {})
        ends = bool(answer["terminated"][0]), bool(answer["truncated"][0])
        names = self.episode_metrics if any(ends) else ()
        told = {name: float(value) for name, value in zip(names, answer["metrics"][0], strict=True)} if names else {}
        return self._observation(answer), float(answer["reward"][0]), *ends, told

    def close(self) -> None:
        """Free the copy."""
        self._copies.close()

    def _ask(self, action: Any, seeds: dict[int, int]) -> Arrays:
        taken = None if action is None else np.asarray(action, self._served.action.dtype)[None]
        answer, faults = self._copies.advance(taken, seeds, () if seeds else (0,))
        status = int(answer["status"][0])
        if status == RAISED:
            raise RemoteRaised(faults.get(0, "it does not say what"))
        if status == FORBIDDEN:
            raise EnvironmentFault(f"{self._served.env_id}: {faults.get(0, 'a value that its spaces forbid')}")
        return answer

    def _observation(self, answer: Arrays) -> Any:
        values = {leaf.name: shown(leaf, answer[f"obs/{leaf.name}"][0]) for leaf in self._served.observation}
        return values if isinstance(self.observation_space, gymnasium.spaces.Dict) else values["obs"]


def connect(address: str, **kwargs: Any) -> RemoteEnv:
    """A ``RemoteEnv``; arguments meant for the served environment are refused with the place where they belong."""
    unknown = sorted(set(kwargs) - {"keys", "patience_s"})
    if unknown:
        raise BadInputError(
            f"{address}: env.kwargs.{unknown[0]}: a served environment gets its arguments from its server: "
            f"`whorl env serve ENV --set env.kwargs.{unknown[0]}=...`; here there are keys and patience_s"
        )
    patience_s = kwargs.get("patience_s", PATIENCE_S)
    if not isinstance(patience_s, int | float) or not 0 < patience_s < 1e6:
        raise BadInputError(f"{address}: env.kwargs.patience_s: expected seconds above 0; got {patience_s!r}")
    return RemoteEnv(address, str(kwargs.get("keys", "")), float(patience_s))
