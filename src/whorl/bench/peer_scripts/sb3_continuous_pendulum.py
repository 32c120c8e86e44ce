"""Stable-Baselines3's TD3 or DDPG on Pendulum-v1 with networks of 256 x 256. Runs in the peer's environment:

    python sb3_continuous_pendulum.py AGENT WARM_UP_ENV_STEPS MEASURED_ENV_STEPS SEED

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time


def speed(agent: str, warm_up: int, measured: int, seed: int) -> dict[str, float]:
    """Environment steps per second, learning included, from the first step after the warm-up to the end."""
    import numpy as np
    import torch
    from stable_baselines3 import DDPG, TD3
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.noise import NormalActionNoise

    torch.set_num_threads(1)

    class Begin(BaseCallback):  # type: ignore[misc]
        """Notes when the warm-up is over; called at every environment step."""

        at_s = 0.0
        env_steps = 0

        def _on_step(self) -> bool:
            if not self.at_s and self.num_timesteps >= warm_up:
                self.at_s, self.env_steps = time.perf_counter(), self.num_timesteps
            return True

    model = {"td3": TD3, "ddpg": DDPG}[agent](
        "MlpPolicy",
        "Pendulum-v1",
        learning_rate=1e-3,
        buffer_size=1_000_000,
        learning_starts=1000,
        batch_size=256,
        tau=0.005,
        gamma=0.99,
        train_freq=1,
        gradient_steps=1,
        action_noise=NormalActionNoise(np.zeros(1), np.full(1, 0.1)),
        policy_kwargs={"net_arch": [256, 256]},
        seed=seed,
        device="cpu",
    )
    begin = Begin()
    model.learn(warm_up + measured, callback=begin)
    duration_s = time.perf_counter() - begin.at_s
    env_steps = model.num_timesteps - begin.env_steps
    return {"env_steps": env_steps, "duration_s": duration_s, "env_steps_per_s": env_steps / duration_s}


if __name__ == "__main__":
    print(json.dumps(speed(sys.argv[1], *map(int, sys.argv[2:]))))
