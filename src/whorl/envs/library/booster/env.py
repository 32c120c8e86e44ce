"""The Booster as Gymnasium environments: one tick of 1/15 s per env step."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Info, StepResult, one_of
from whorl.envs.library.booster import plant
from whorl.envs.library.booster.copies import Settings
from whorl.envs.library.booster.replayed import make_copies
from whorl.envs.library.booster.signals import TICKS_PER_S
from whorl.types import Array

PAPER_CHANGES_A = (0.0, 1e-4, -1e-4, 5e-3, -5e-3, 1e-3, -1e-3)
QUANTILE_CHANGES_A = (
    -0.0302, -0.0237, -0.0200, -0.0173, -0.0150, -0.0131, -0.0114, -0.0098, -0.0083, -0.0069,
    -0.0056, -0.0043, -0.0030, -0.0018, -0.0005, 0.0007, 0.0019, 0.0031, 0.0044, 0.0057,
    0.0070, 0.0084, 0.0099, 0.0114, 0.0131, 0.0150, 0.0172, 0.0199, 0.0234, 0.0299,
)  # fmt: skip
"""The middles of 30 equally likely classes of how the published regulator changes VIMIN from tick to tick."""
_SETS = {"paper": PAPER_CHANGES_A, "quantiles": QUANTILE_CHANGES_A}


class _Booster(gymnasium.Env[Any, Any]):
    """What the two have in common: everything but the meaning of an action."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": TICKS_PER_S}
    episode_metrics = ("converged",)

    def __init__(self, settings: Settings, render_mode: str | None) -> None:
        if render_mode is not None:
            one_of("render_mode", render_mode, ("rgb_array",))
        low, high = settings.bounds()
        self.observation_space = spaces.Box(low, high, dtype=np.float32)
        self.settings, self.render_mode = settings, render_mode
        self._copies = make_copies(settings, 1)
        self._born: dict[str, Any] | None = None
        self._trace: list[tuple[float, float]] = []
        self._picture: Any = None

    def changes_of(self, actions: Array) -> Array:
        """By how many A these actions [lanes, ...] change the set point [lanes]."""
        raise NotImplementedError

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Begin at a random moment, with the published regulator just out of charge."""
        super().reset(seed=seed, options=options)
        self._born = dict(self.np_random.bit_generator.state)
        self._copies.restart({0: self.np_random})
        self._trace, self._picture = [], None
        return self._copies.observation[0].copy(), self._info()

    def step(self, action: Any) -> StepResult:
        """Change the set point and let a tick pass."""
        copies = self._copies
        rewards, terminated, truncated = copies.step(self.changes_of(np.asarray(action)[None]))
        if self.render_mode is not None:
            self._trace.append((float(copies.error[0]), float(copies.set_point[0])))
        return copies.observation[0].copy(), float(rewards[0]), bool(terminated[0]), bool(truncated[0]), self._info()

    def render(self) -> Any:
        """Error and set point of the episode so far, beside those of the published regulator."""
        if self.render_mode is None:
            return None
        from whorl.envs.library.booster.drawing import Picture

        if self._picture is None:
            self._picture = Picture(self._copies)
        return self._picture.draw(self._trace)

    def get_state(self) -> bytes:
        """The generator as it was before this episode's draws, and what the episode has come to."""
        copies = self._copies
        head = {
            "generator": self._born,
            "ticks": int(copies.ticks[0]),
            "within": int(copies.within_tolerance[0]),
            "error": float(copies.error[0]),
        }
        return json.dumps(head).encode() + b"\n" + b"".join(array.tobytes() for array in copies.state)

    def set_state(self, state: bytes) -> None:
        """Draw the episode's signals again, and go on from where it was."""
        text, _, arrays = bytes(state).partition(b"\n")
        head, copies = json.loads(text), self._copies
        self.np_random.bit_generator.state = head["generator"]
        self.reset()
        copies.ticks[0], copies.within_tolerance[0], copies.error[0] = head["ticks"], head["within"], head["error"]
        for array in copies.state:
            saved, arrays = arrays[: array.nbytes], arrays[array.nbytes :]
            array[...] = np.frombuffer(saved, array.dtype).reshape(array.shape)

    def _info(self) -> Info:
        copies = self._copies
        shown = {"IMINER": copies.error, "VIMIN": copies.set_point, "converged": copies.converged}
        return {name: float(values[0]) for name, values in shown.items()}


class Booster(_Booster):
    """Keep the minimum current of Fermilab's Booster magnets at its set point; actions are steps of VIMIN.

    The reward of a tick is -|IMINER| in A; the published regulator gets about -17.65 per 100 ticks.

    episode_ticks:  env steps per episode
    action_set:     paper (7 steps of up to 5 mA), quantiles (30, of up to 30 mA), or a list of steps in A
    history:        ticks in an observation
    tolerance:      |IMINER| in A up to which a tick counts as converged (``info["converged"]`` is the share so far)
    surrogate:      a file of ``whorl booster fit``, to learn on records of the machine instead of on the plant
    """

    def __init__(
        self,
        episode_ticks: int = 200,
        action_set: str | Sequence[float] = "paper",
        history: int = 10,
        tolerance: float = 0.1,
        surrogate: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        self._changes = np.array(_steps_of(action_set))
        self.action_space = spaces.Discrete(len(self._changes))
        super().__init__(Settings(episode_ticks, history, tolerance, surrogate), render_mode)

    def changes_of(self, actions: Array) -> Array:
        """Looked up."""
        return self._changes[actions]


class BoosterContinuous(_Booster):
    """Keep the minimum current of Fermilab's Booster magnets at its set point; actions change VIMIN by any amount.

    The reward of a tick is -|IMINER| in A; the published regulator gets about -17.65 per 100 ticks.

    episode_ticks:  env steps per episode
    max_change:     A by which an action of 1 raises VIMIN
    history:        ticks in an observation
    tolerance:      |IMINER| in A up to which a tick counts as converged (``info["converged"]`` is the share so far)
    surrogate:      a file of ``whorl booster fit``, to learn on records of the machine instead of on the plant
    """

    def __init__(
        self,
        episode_ticks: int = 200,
        max_change: float = 0.01,
        history: int = 10,
        tolerance: float = 0.1,
        surrogate: str | None = None,
        render_mode: str | None = None,
    ) -> None:
        width = plant.VIMIN_RANGE[1] - plant.VIMIN_RANGE[0]
        if not 0 < max_change <= width:
            raise ValueError(f"max_change must be above 0 and at most {width:.3f} A, not {max_change!r}")
        self._max_change = float(max_change)
        self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        super().__init__(Settings(episode_ticks, history, tolerance, surrogate), render_mode)

    def changes_of(self, actions: Array) -> Array:
        """Clipped to [-1, 1] and scaled."""
        return np.asarray(actions[:, 0].astype(np.float64).clip(-1, 1) * self._max_change)


def _steps_of(action_set: str | Sequence[float]) -> tuple[float, ...]:
    if isinstance(action_set, str):
        return _SETS[one_of("action_set", action_set, tuple(_SETS))]
    steps = tuple(action_set) if isinstance(action_set, Sequence) else ()
    numbers = [step for step in steps if isinstance(step, int | float) and math.isfinite(step)]
    if len(numbers) < 2 or len(numbers) < len(steps):
        raise ValueError(f"action_set must be {', '.join(_SETS)} or at least two steps in A, not {action_set!r}")
    return tuple(float(step) for step in numbers)
