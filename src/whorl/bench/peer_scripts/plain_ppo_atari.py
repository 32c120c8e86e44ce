"""PPO on Breakout as a script of one file does it, on ALE's own vector environment. Runs in an environment of its own:

    python plain_ppo_atari.py WARM_UP_ENV_STEPS MEASURED_ENV_STEPS SEED

Modules, autograd, float32, eager, as in the well-known single-file implementations. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

ENVS, ROWS, EPOCHS, MINIBATCHES = 8, 128, 4, 4
DISCOUNT, LAMBDA, CLIP, ENTROPY, VALUE = 0.99, 0.95, 0.1, 0.01, 0.5


def make_network(actions: int) -> Any:
    """The CNN of Mnih et al. (Nature 2015) with a policy and a value head."""
    from torch import nn

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1),
                nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU(),
            )  # fmt: skip
            self.policy, self.value = nn.Linear(512, actions), nn.Linear(512, 1)

        def forward(self, image: Any) -> Any:
            hidden = self.body(image.float() / 255)
            return self.policy(hidden), self.value(hidden)[:, 0]

    return Network()


def speed(warm_up: int, measured: int, seed: int) -> float:
    """Environment steps per second, learning included, after the warm-up."""
    import torch
    from ale_py.vector_env import AtariVectorEnv
    from torch import distributions

    Categorical: Any = distributions.Categorical
    torch.manual_seed(seed)
    torch.set_num_threads(os.cpu_count() or 1)
    games: Any = AtariVectorEnv("breakout", num_envs=ENVS, num_threads=os.cpu_count() or 1)
    network = make_network(int(games.single_action_space.n))
    optimiser = torch.optim.Adam(network.parameters(), lr=2.5e-4, eps=1e-5)
    images = torch.zeros((ROWS, ENVS, 4, 84, 84), dtype=torch.uint8)
    actions, log_probs, rewards, ends, values = (torch.zeros((ROWS, ENVS)) for _ in range(5))
    image, ended = torch.from_numpy(games.reset(seed=seed)[0].copy()), torch.zeros(ENVS)

    def collect() -> tuple[Any, Any]:
        nonlocal image, ended
        for row in range(ROWS):
            images[row], ends[row] = image, ended
            logits, values[row] = network(image)
            policy = Categorical(logits=logits)
            action = policy.sample()
            actions[row], log_probs[row] = action, policy.log_prob(action)
            seen, reward, terminated, truncated, _ = games.step(action.numpy())
            image, rewards[row] = torch.from_numpy(seen.copy()), torch.from_numpy(reward)
            ended = torch.from_numpy(terminated | truncated).float()
        advantages, ahead, next_value, next_end = torch.zeros_like(rewards), torch.zeros(ENVS), network(image)[1], ended
        for row in reversed(range(ROWS)):
            delta = rewards[row] + DISCOUNT * next_value * (1 - next_end) - values[row]
            advantages[row] = ahead = delta + DISCOUNT * LAMBDA * (1 - next_end) * ahead
            next_value, next_end = values[row], ends[row]
        return advantages, advantages + values

    def learn(advantages: Any, returns: Any) -> None:
        flat = [
            part.reshape(ROWS * ENVS, *part.shape[2:]) for part in (images, actions, log_probs, advantages, returns)
        ]
        for _ in range(EPOCHS):
            for rows in torch.randperm(ROWS * ENVS).chunk(MINIBATCHES):
                seen, action, before, advantage, wanted = (part[rows] for part in flat)
                logits, value = network(seen)
                policy = Categorical(logits=logits)
                ratio = (policy.log_prob(action) - before).exp()
                advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
                surrogate = torch.min(ratio * advantage, ratio.clamp(1 - CLIP, 1 + CLIP) * advantage).mean()
                loss = VALUE * (value - wanted).square().mean() - surrogate - ENTROPY * policy.entropy().mean()
                optimiser.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(network.parameters(), 0.5)
                optimiser.step()

    env_steps, begin = 0, (0.0, 0)
    while env_steps < warm_up + measured:
        if env_steps >= warm_up and not begin[1]:
            begin = (time.perf_counter(), env_steps)
        with torch.no_grad():
            batch = collect()
        learn(*batch)
        env_steps += ROWS * ENVS
    return (env_steps - begin[1]) / (time.perf_counter() - begin[0])


if __name__ == "__main__":
    print(json.dumps({"env_steps_per_s": speed(*map(int, sys.argv[1:]))}))
