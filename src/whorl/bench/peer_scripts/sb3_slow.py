"""Stable-Baselines3's PPO on CartPole-v1 with slow steps, in subprocesses. Runs in the peer's environment:

    python sb3_slow.py ENVS STEP_S DISTRIBUTION CV WARM_UP_S MEASURED_S

Prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time

N_STEPS = 32


def speed(envs: int, step_s: float, distribution: str, cv: float, warm_up_s: float, measured_s: float) -> float:
    """Environment steps per second with learning, after a warm-up."""
    import torch
    from slow_cartpole import make_env
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import SubprocVecEnv

    torch.set_num_threads(1)

    class Watch(BaseCallback):  # type: ignore[misc]
        """Notes the first rollout after the warm-up, and ends with the last."""

        begin: tuple[float, int] | None = None
        rate = 0.0

        def _on_training_start(self) -> None:
            self.started = time.perf_counter()

        def _on_step(self) -> bool:
            return time.perf_counter() - self.started < warm_up_s + measured_s

        def _on_rollout_start(self) -> None:
            now = time.perf_counter()
            if self.begin is not None:
                self.rate = (self.num_timesteps - self.begin[1]) / (now - self.begin[0])
            elif now - self.started >= warm_up_s:
                self.begin = (now, self.num_timesteps)

    watch = Watch()
    vector = SubprocVecEnv([lambda: make_env(step_s, distribution, cv) for _ in range(envs)])
    model = PPO("MlpPolicy", vector, n_steps=N_STEPS, batch_size=N_STEPS * envs, n_epochs=4, device="cpu", seed=0)
    model.learn(10**9, callback=watch)
    vector.close()
    return watch.rate


if __name__ == "__main__":
    count, step, name, *rest = sys.argv[1:]
    variation, before, during = map(float, rest)
    print(json.dumps({"env_steps_per_s": speed(int(count), float(step), name, variation, before, during)}))
