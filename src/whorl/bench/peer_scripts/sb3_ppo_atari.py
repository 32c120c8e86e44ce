"""Stable-Baselines3's PPO on Breakout with the usual settings for Atari. Runs in the peer's environment:

    python sb3_ppo_atari.py WARM_UP_ENV_STEPS MEASURED_ENV_STEPS SEED

Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time


def speed(warm_up: int, measured: int, seed: int) -> float:
    """Environment steps per second, learning included, from the first rollout after the warm-up to the end."""
    import ale_py
    import gymnasium
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.env_util import make_atari_env
    from stable_baselines3.common.vec_env import SubprocVecEnv, VecFrameStack

    gymnasium.register_envs(ale_py)
    torch.set_num_threads(os.cpu_count() or 1)

    class Begin(BaseCallback):  # type: ignore[misc]
        """Notes when the first rollout after the warm-up begins."""

        at_s = 0.0
        env_steps = 0

        def _on_step(self) -> bool:
            return True

        def _on_rollout_start(self) -> None:
            if not self.at_s and self.num_timesteps >= warm_up:
                self.at_s, self.env_steps = time.perf_counter(), self.num_timesteps

    begin = Begin()
    games = make_atari_env(
        "BreakoutNoFrameskip-v4",
        n_envs=8,
        seed=seed,
        vec_env_cls=SubprocVecEnv,
        vec_env_kwargs={"start_method": "fork"},  # which knows the games that were registered here
    )
    model = PPO(
        "CnnPolicy",
        VecFrameStack(games, n_stack=4),
        n_steps=128,
        batch_size=256,
        n_epochs=4,
        learning_rate=lambda remaining: remaining * 2.5e-4,
        clip_range=lambda remaining: remaining * 0.1,
        ent_coef=0.01,
        vf_coef=0.5,
        seed=seed,
        device="cpu",
    )
    model.learn(warm_up + measured, callback=begin)
    rate = (model.num_timesteps - begin.env_steps) / (time.perf_counter() - begin.at_s)
    games.close()
    return float(rate)


if __name__ == "__main__":
    print(json.dumps({"env_steps_per_s": speed(*map(int, sys.argv[1:]))}))
