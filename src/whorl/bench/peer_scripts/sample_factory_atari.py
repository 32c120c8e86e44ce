"""Sample Factory's APPO on Breakout: two workers, one pass over each batch. Runs in the peer's environment:

    python sample_factory_atari.py WARM_UP_S MEASURED_S SEED

Without V-trace, which is its default for Atari (and ends in an error in this version). Prints one line of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TALLY = "BREAKOUT_TALLY"
"""Names a file to which each environment step adds a byte."""
WORKERS, ENVS, ROWS = 2, 8, 32


def make_env(name: str, config: Any, env_config: Any = None, render_mode: str | None = None) -> Any:
    """Breakout with Sample Factory's own preprocessing."""
    import gymnasium
    from ale_py import registration
    from sf_examples.atari.atari_utils import make_atari_env

    if "BreakoutNoFrameskip-v4" not in gymnasium.registry:  # not done of itself with this version of Gymnasium
        registration.register_v0_v4_envs()  # type: ignore[no-untyped-call]
    counter = os.open(os.environ[TALLY], os.O_WRONLY | os.O_APPEND)

    class Counted(gymnasium.Wrapper):
        """Counts."""

        def step(self, action: Any) -> Any:
            os.write(counter, b".")
            return self.env.step(action)

    return Counted(make_atari_env(name, config, env_config, render_mode))


def train(folder: Path, seed: int) -> None:
    """Until it is ended."""
    from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
    from sample_factory.envs.env_utils import register_env
    from sample_factory.train import run_rl
    from sf_examples.atari.atari_params import atari_override_defaults

    register_env("atari_breakout", make_env)
    words = {
        "env": "atari_breakout",
        "algo": "APPO",
        "device": "cpu",
        "seed": seed,
        "experiment": "breakout",
        "train_dir": folder,
        "num_workers": WORKERS,
        "num_envs_per_worker": ENVS,
        "worker_num_splits": 2,
        "rollout": ROWS,
        "batch_size": WORKERS * ENVS * ROWS,
        "num_batches_per_epoch": 1,
        "num_epochs": 1,
        "async_rl": True,
        "serial_mode": False,
        "use_rnn": False,
        "encoder_conv_architecture": "convnet_atari",
        "encoder_conv_mlp_layers": 512,
        "train_for_env_steps": 10**9,
    }
    parser, _ = parse_sf_args([f"--{name}={value}" for name, value in words.items()])
    atari_override_defaults("atari_breakout", parser)
    run_rl(parse_full_cfg(parser, [f"--{name}={value}" for name, value in words.items()]))


def speed(warm_up_s: float, measured_s: float, seed: str) -> float:
    """Environment steps per second after a warm-up, which begins with the first of them."""
    with tempfile.TemporaryDirectory() as folder:
        tally = Path(folder) / "tally"
        tally.touch()
        # Ended from outside, in a session of its own: its own limit of time is not heeded in time.
        training = subprocess.Popen(
            [sys.executable, __file__, "train", folder, seed],
            env={**os.environ, TALLY: str(tally)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        marks: list[tuple[float, int]] = []
        try:
            while not marks or marks[-1][0] - marks[0][0] < warm_up_s + measured_s:
                if training.poll() is not None:
                    raise RuntimeError(f"the training ended by itself, with exit code {training.returncode}")
                time.sleep(0.25)
                if count := tally.stat().st_size:
                    marks.append((time.perf_counter(), count))
        finally:
            _end(training)
    begin = next(mark for mark in marks if mark[0] - marks[0][0] >= warm_up_s)
    return (marks[-1][1] - begin[1]) / (marks[-1][0] - begin[0])


def _end(training: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
        training.send_signal(signal.SIGINT)
        training.wait(timeout=20)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(training.pid, signal.SIGKILL)
    training.wait()


if __name__ == "__main__":
    if sys.argv[1] == "train":
        train(Path(sys.argv[2]), int(sys.argv[3]))
    else:
        print(json.dumps({"env_steps_per_s": speed(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3])}))
