"""An environment around another one: passes everything on, and has a seeded generator of its own."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from whorl.envs.registry import make_env
from whorl.ops.keys import key

Info = dict[str, Any]
StepResult = tuple[Any, float, bool, bool, Info]


def one_of(name: str, value: str, choices: tuple[str, ...]) -> str:
    """``value``, or an error that names the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, not {value!r}")
    return value


class Around(gymnasium.Env[Any, Any]):
    """Passes ``step`` and ``reset`` on to the environment it wraps; subclasses add what they are about.

    It is no ``gymnasium.Wrapper`` because it takes the id of what it wraps, as a registered environment must.
    """

    metadata = {"render_modes": ["human", "rgb_array"]}

    def __init__(self, env: str = "CartPole-v1", render_mode: str | None = None, **kwargs: Any) -> None:
        if render_mode is not None:
            kwargs["render_mode"] = render_mode
        self.inner = make_env(env, kwargs)
        self.observation_space, self.action_space = self.inner.observation_space, self.inner.action_space
        self.render_mode = render_mode
        self.draws = np.random.default_rng()
        self.episode_steps = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[Any, Info]:
        """Reset what is wrapped, and seed our own generator apart from its generator."""
        super().reset(seed=seed, options=options)
        if seed is not None:
            self.draws = np.random.default_rng(key(seed, 1))
        self.episode_steps = 0
        return self.inner.reset(seed=seed, options=options)

    def step(self, action: Any) -> StepResult:
        """Step what is wrapped, and count."""
        self.episode_steps += 1
        observation, reward, terminated, truncated, info = self.inner.step(action)
        return observation, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """Whatever is wrapped shows."""
        return self.inner.render()

    def close(self) -> None:
        """Close what is wrapped."""
        self.inner.close()
