"""The learner's step on images: forward, backward and optimiser of the Nature CNN for 256 rows of 4 x 84 x 84 bytes.

Whorl's is a minibatch of PPO as a learner takes it, from the rows of a batch in host memory to the changed weights, the
loss, the sums and the norm of the gradient included. The plain one is the same network, loss and optimiser as people
write it in PyTorch: modules, float32, eager. All take turns in one process with the same number of threads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from whorl.agents.contract import LearnerSettings, Progress, Step
from whorl.agents.ppo.config import PPOConfig
from whorl.agents.ppo.learning import PPOLearning
from whorl.bench.report import Measure, Report
from whorl.models.precision import Precision, has_bfloat16
from whorl.types import ActionSpec, Arrays, EnvSpec, ObservationLeaf

BATCH = 256
LANES = 8
ACTIONS = 6
STEPS_PER_TURN = 5
PLAIN = "plain eager float32"
ENV = EnvSpec(
    "84 x 84 x 4",
    (ObservationLeaf("screen", "image", (4, 84, 84), "uint8", 0, 255),),
    ActionSpec("discrete", (), "int64", (ACTIONS,)),
    "replay",
    False,
    1000,
)
SETTINGS = PPOConfig(rows=BATCH // LANES, minibatches=1, entropy_coefficient=0.01)


def run(repeats: int, directory: Path) -> Report:
    """Alternate the ways to compute a step, ``repeats`` turns each."""
    del directory
    threads = torch.get_num_threads()
    measure = Measure(
        "the Nature CNN's learner step",
        "samples/s",
        "higher",
        f"batch {BATCH}, {threads} threads, the best of {STEPS_PER_TURN} steps per turn; warmed up, compilation apart",
    )
    report = Report(f"Learner step on images, {repeats} turns each, alternating", [measure], reference=PLAIN)
    ways: dict[str, Callable[[], None]] = {PLAIN: plain_step(), "whorl float32": whorl_step(threads, "float32")}
    if has_bfloat16("cpu"):
        ways["whorl bfloat16"] = whorl_step(threads, "bfloat16")
    else:
        report.notes.append("this processor has no bfloat16 instructions: run.precision = auto takes float32 here")
    best: Precision = "bfloat16" if has_bfloat16("cpu") else "float32"
    ways[f"whorl {best}, compiled"] = whorl_step(threads, best, compiled=True)
    for name, step in ways.items():
        begin = time.perf_counter()
        for _ in range(3):
            step()
        print(f"  {name}: three steps to warm up took {time.perf_counter() - begin:.1f} s", file=sys.stderr)
    for _ in range(repeats):
        for name, step in ways.items():
            measure.add(name, BATCH / min(_seconds(step) for _ in range(STEPS_PER_TURN)))
    return report


def _seconds(step: Callable[[], None]) -> float:
    begin = time.perf_counter()
    step()
    return time.perf_counter() - begin


def made_up_batch(seed: int = 0) -> Arrays:
    """One trajectory of random images."""
    rng, rows = np.random.default_rng(seed), BATCH // LANES
    return {
        "first": np.zeros((rows + 1, LANES), np.bool_),
        "valid": np.ones((rows + 1, LANES), np.bool_),
        "obs/screen": rng.integers(0, 256, (rows + 1, LANES, 4, 84, 84), np.uint8),
        "action": rng.integers(0, ACTIONS, (rows, LANES)),
        "reward": rng.standard_normal((rows, LANES)).astype(np.float32),
        "terminated": np.zeros((rows, LANES), np.bool_),
        "truncated": np.zeros((rows, LANES), np.bool_),
        "log_prob": np.full((rows, LANES), -np.log(ACTIONS), np.float32),
        "discounted_return": np.zeros((rows, LANES), np.float32),
        "version": np.zeros(rows, np.int64),
    }


def whorl_step(threads: int, precision: Precision, compiled: bool = False) -> Callable[[], None]:
    """A minibatch of PPO: the whole batch, as the learner role computes and applies it."""
    settings = LearnerSettings(1, "cpu", threads, compiled, shards=1, lanes=LANES, precision=precision)
    learning = PPOLearning(SETTINGS, ENV, settings)
    learning.begin({0: made_up_batch()}, Progress(0, 0, 100))
    learning.apply(Step("advantages"), learning.contribute(Step("advantages"), 0))
    minibatch = Step("minibatch")

    def step() -> None:
        learning.apply(minibatch, learning.contribute(minibatch, 0))

    return step


class PlainNetwork(nn.Module):
    """The CNN of Mnih et al. (Nature 2015) with a policy and a value head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, 2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3, 1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(3136, 512),
            nn.ReLU(),
        )
        self.policy = nn.Linear(512, ACTIONS)
        self.value = nn.Linear(512, 1)

    def forward(self, image: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.body(image.to(self.value.weight.dtype) / 255)
        return self.policy(hidden), self.value(hidden)[:, 0]


def plain_step(compiled: bool = False, channels_last: bool = False) -> Callable[[], None]:
    """PPO's loss on the same batch, with torch's modules, autograd, clipping and Adam."""
    layout = torch.channels_last if channels_last else torch.contiguous_format
    network = PlainNetwork().to(memory_format=layout)  # type: ignore[call-overload]
    optimiser = torch.optim.Adam(network.parameters(), lr=SETTINGS.learning_rate, eps=SETTINGS.adam_eps)
    batch = made_up_batch()
    image = torch.from_numpy(batch["obs/screen"][:-1].reshape(BATCH, 4, 84, 84)).to(memory_format=layout)
    action, reward, log_prob_old = (torch.from_numpy(batch[k].reshape(-1)) for k in ("action", "reward", "log_prob"))
    advantage = (reward - reward.mean()) / reward.std()

    def loss_of(image: Tensor) -> Tensor:
        logits, value = network(image)
        log_probs = logits.float().log_softmax(1)
        ratio = (log_probs.gather(1, action[:, None])[:, 0] - log_prob_old).exp()
        clipped = ratio.clamp(1 - SETTINGS.clip, 1 + SETTINGS.clip)
        surrogate = torch.min(ratio * advantage, clipped * advantage).mean()
        error = (value - reward).square().mean()
        entropy = -(log_probs.exp() * log_probs).sum(1).mean()
        loss: Tensor = -surrogate + SETTINGS.value_coefficient * error - SETTINGS.entropy_coefficient * entropy
        return loss

    loss_function: Callable[[Tensor], Tensor] = torch.compile(loss_of) if compiled else loss_of

    def step() -> None:
        loss = loss_function(image)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call, unused-ignore]
        nn.utils.clip_grad_norm_(network.parameters(), SETTINGS.max_grad_norm)
        optimiser.step()

    return step
