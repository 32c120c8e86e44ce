"""Stable-Baselines3's PPO on CartPole-v1 with the tuned settings of rl-zoo3. Runs in the peer's environment:

    python sb3_ppo_cartpole.py speed WARM_UP_ENV_STEPS MEASURED_ENV_STEPS SEED
    python sb3_ppo_cartpole.py solve TOTAL_ENV_STEPS STOP_RETURN SEED

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

N_STEPS = 32


def linear(start: float) -> Callable[[float], float]:
    """rl-zoo3's ``lin_...``: from ``start`` to 0 over the run."""
    return lambda remaining: remaining * start


def make_model(seed: int) -> Any:
    """The model as rl-zoo3 tunes it; the policy's default network is 64-64 tanh."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import DummyVecEnv

    torch.set_num_threads(1)
    return PPO(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=8, seed=seed, vec_env_cls=DummyVecEnv),
        n_steps=N_STEPS,
        batch_size=256,
        n_epochs=20,
        gae_lambda=0.8,
        gamma=0.98,
        ent_coef=0.0,
        learning_rate=linear(0.001),
        clip_range=linear(0.2),
        seed=seed,
        device="cpu",
    )


def speed(warm_up: int, measured: int, seed: int) -> dict[str, float]:
    """Environment steps per second, learning included, from the first rollout after the warm-up to the end."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Begin(BaseCallback):  # type: ignore[misc]
        """Notes when the first rollout after the warm-up begins; called once per 256 environment steps."""

        at_s = 0.0
        env_steps = 0

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if not self.at_s and self.num_timesteps >= warm_up:
                self.at_s, self.env_steps = time.perf_counter(), self.num_timesteps

    begin = Begin()
    model = make_model(seed)
    model.learn(warm_up + measured, callback=begin)
    duration_s = time.perf_counter() - begin.at_s
    env_steps = model.num_timesteps - begin.env_steps
    return {"env_steps": env_steps, "duration_s": duration_s, "env_steps_per_s": env_steps / duration_s}


def solve(total: int, stop_return: float, seed: int) -> dict[str, float]:
    """Trains until the mean return of the last 100 episodes reaches the goal; looked at once per rollout."""
    from stable_baselines3.common.callbacks import BaseCallback

    class Stop(BaseCallback):  # type: ignore[misc]
        """Ends the training at the goal."""

        def _on_step(self) -> bool:
            return self.n_calls % N_STEPS != 0 or return_mean(self.model) < stop_return

    def return_mean(model: Any) -> float:
        episodes = [episode["r"] for episode in model.ep_info_buffer]
        return sum(episodes) / 100 if len(episodes) == 100 else 0.0

    model = make_model(seed)
    model.learn(total, callback=Stop())
    return {"env_steps": model.num_timesteps, "return_mean": return_mean(model)}


if __name__ == "__main__":
    what, first, second, seed_text = sys.argv[1:]
    function = {"speed": speed, "solve": solve}[what]
    print(json.dumps(function(int(first), int(second), int(seed_text))))
