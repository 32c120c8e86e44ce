"""``whorl/Heat-v0``: heaters along the edges of a plate steer its temperatures to a target."""

from __future__ import annotations

import functools
import json
from typing import Any

import numpy as np
from gymnasium import spaces

from whorl.envs.library.around import Info, StepResult, one_of
from whorl.envs.library.heat.plate import HEATER_RESPONSE, HEATERS, SUBSTEPS, Episode, Plate, steady_responses
from whorl.envs.library.heat.rows import Rows
from whorl.envs.parallel import ParallelEnv
from whorl.types import Array

SENSORS = 4
"""In each direction."""
_BOUND = 10.0
_REWARD_SCALE = 10.0


class Heat(ParallelEnv):
    """Steer the temperatures of a plate to a target by heaters along its edges; on one or several MPI ranks.

    The reward of a step is -10 times the mean squared distance to the target, over all cells.

    cells:          of the plate in each direction
    episode_steps:  env steps per episode
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}
    episode_metrics = ("final_error",)

    def __init__(self, cells: int = 32, episode_steps: int = 100, render_mode: str | None = None) -> None:
        super().__init__()
        if not isinstance(cells, int) or not SENSORS * 2 <= cells <= 4096:
            raise ValueError(f"cells must be from {SENSORS * 2} to 4096, not {cells!r}")
        if not isinstance(episode_steps, int) or episode_steps < 1:
            raise ValueError(f"episode_steps must be at least 1, not {episode_steps!r}")
        if render_mode is not None:
            one_of("render_mode", render_mode, ("rgb_array",))
        self.observation_space = spaces.Box(-_BOUND, _BOUND, (2 * SENSORS**2 + HEATERS,), np.float32)
        self.action_space = spaces.Box(-1, 1, (HEATERS,), np.float32)
        self.cells, self.episode_steps, self.render_mode = cells, episode_steps, render_mode
        self.responses = _responses(cells)
        self.places = sensor_places(cells)
        self._rows = Rows(cells, self.comm, self.rank, self.size, self.wait_for)
        self._plate = Plate(cells, self._rows.first, self._rows.last)
        self._heaters: Array = np.zeros(HEATERS)
        self._aims: Array = np.zeros(SENSORS**2)
        self._steps = 0
        self._born: dict[str, Any] = {}
        self._picture: Any = None

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Draw an initial field, a target, and a source that nobody is told of; the heaters are at 0."""
        super().reset(seed=seed, options=options)
        self._born = dict(self.np_random.bit_generator.state)
        episode = Episode.draw(self.np_random, self.responses)
        self._plate.begin(episode)
        self._aims = episode.target[self.places].reshape(-1)
        self._heaters, self._steps = np.zeros(HEATERS), 0
        observation, error = self._look()
        return observation, {"error": error}

    def step(self, action: Any) -> StepResult:
        """Set the heaters, and let the plate go on for some substeps."""
        setting = np.clip(np.asarray(action, np.float64), -1, 1)
        self._heaters = self._heaters + HEATER_RESPONSE * (setting - self._heaters)
        plate = self._plate
        plate.heat(self._heaters)
        for _ in range(SUBSTEPS):
            self._rows.exchange(plate.neighbours)
            plate.advance()
        self._steps += 1
        observation, error = self._look()
        info = {"error": error, "final_error": error**0.5}
        return observation, -_REWARD_SCALE * error, False, self._steps >= self.episode_steps, info

    def render(self) -> Any:
        """The plate beside its target."""
        if self.render_mode is None:
            return None
        field, target = self._rows.gather(self._plate.field), self._rows.gather(self._plate.target)
        if field is None or target is None:
            return None
        from whorl.envs.library.heat.drawing import Picture

        self._picture = self._picture or Picture()
        return self._picture.draw(field, target, self._heaters, self._steps)

    def get_state(self) -> bytes:
        """The generator before this episode's draws, and what the plate and its heaters have come to."""
        field = self._rows.gather(self._plate.field)
        if field is None:
            return b""  # what the first rank returns counts
        head = json.dumps({"generator": self._born, "steps": self._steps}).encode()
        return head + b"\n" + self._heaters.tobytes() + np.ascontiguousarray(field).tobytes()

    def set_state(self, state: bytes) -> None:
        """Draw the episode again, and go on from where it was."""
        head, _, arrays = bytes(state).partition(b"\n")
        saved, numbers = json.loads(head), np.frombuffer(arrays)
        self.np_random.bit_generator.state = saved["generator"]
        self.reset()
        self._heaters, self._steps = numbers[:HEATERS].copy(), saved["steps"]
        self._plate.field[...] = numbers[HEATERS:].reshape(self.cells, self.cells)[self._plate.rows]

    def _look(self) -> tuple[Any, float]:
        """What the sensors show, and the mean squared distance to the target: both known at the first rank alone.

        Sums are of whole rows, added in the order of the plate, so that the number of ranks does not matter.
        """
        plate = self._plate
        rows = self._rows.gather(np.column_stack([plate.squared_errors(), plate.field[:, self.places[1][0]]]))
        if rows is None:
            return None, 0.0
        seen = rows[self.places[0][:, 0], 1:].reshape(-1)
        observation = np.concatenate([seen, self._aims, self._heaters]).clip(-_BOUND, _BOUND).astype(np.float32)
        return observation, float(rows[:, 0].sum()) / self.cells**2


def sensor_places(cells: int) -> tuple[Array, Array]:
    """Row and column of each sensor, as an open mesh."""
    along = (np.arange(SENSORS) * 2 + 1) * cells // (2 * SENSORS)
    rows, columns = np.ix_(along, along)
    return rows, columns


@functools.lru_cache(maxsize=4)
def _responses(cells: int) -> Array:
    return steady_responses(cells)
