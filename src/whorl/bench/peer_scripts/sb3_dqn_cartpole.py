"""Stable-Baselines3's DQN on CartPole-v1 with the tuned settings of rl-zoo3. Runs in the peer's environment:

    python sb3_dqn_cartpole.py ENVS WARM_UP_ENV_STEPS MEASURED_ENV_STEPS SEED

However many environments are stepped together, 256 rows in all are followed by 128 gradient steps. Prints one line of
JSON.
"""

from __future__ import annotations

import json
import sys
import time


def speed(envs: int, warm_up: int, measured: int, seed: int) -> dict[str, float]:
    """Environment steps per second, learning included, from the first rollout after the warm-up to the end."""
    import torch
    from stable_baselines3 import DQN
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_vec_env

    torch.set_num_threads(1)

    class Begin(BaseCallback):  # type: ignore[misc]
        """Notes when the first rollout after the warm-up begins; called once per 256 environment steps."""

        at_s = 0.0
        env_steps = 0

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if not self.at_s and self.num_timesteps >= warm_up:
                self.at_s, self.env_steps = time.perf_counter(), self.num_timesteps

    model = DQN(
        "MlpPolicy",
        make_vec_env("CartPole-v1", n_envs=envs, seed=seed),
        learning_rate=2.3e-3,
        batch_size=64,
        buffer_size=100_000,
        learning_starts=1000,
        gamma=0.99,
        target_update_interval=10,
        train_freq=256 // envs,
        gradient_steps=128,
        exploration_fraction=0.16,
        exploration_final_eps=0.04,
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
    print(json.dumps(speed(*map(int, sys.argv[1:]))))
