"""RLlib's IMPALA on Breakout: two runners, one pass over each batch. Runs in the peer's environment:

    python rllib_impala_atari.py WARM_UP_S MEASURED_S SEED

Prints one line of JSON: environment steps per second, and the share of them that was learnt from.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

RUNNERS, ENVS, ROWS = 2, 8, 32


def make_env(tally: str) -> Any:
    """Breakout with the usual preprocessing, which counts its steps in a file: results come in bursts."""
    import ale_py
    import gymnasium
    from ray.rllib.env.wrappers.atari_wrappers import wrap_atari_for_new_api_stack

    gymnasium.register_envs(ale_py)

    counter = os.open(tally, os.O_WRONLY | os.O_APPEND)

    class Counted(gymnasium.Wrapper):
        """Counts."""

        def step(self, action: Any) -> Any:
            os.write(counter, b".")
            return self.env.step(action)

    game = gymnasium.make("ALE/Breakout-v5", frameskip=1, repeat_action_probability=0.0)
    return Counted(wrap_atari_for_new_api_stack(game, dim=84, framestack=4))


def speed(tally: Path, warm_up_s: float, measured_s: float, seed: float) -> dict[str, float]:
    """Environment steps per second after a warm-up."""
    import ray
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.tune.registry import register_env

    here = str(Path(__file__).parent)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
    register_env("counted", lambda _: make_env(str(tally)))
    config = (
        IMPALAConfig()
        .environment("counted")
        .env_runners(
            num_env_runners=RUNNERS,
            num_envs_per_env_runner=ENVS,
            num_cpus_per_env_runner=1 / RUNNERS,
            rollout_fragment_length=ROWS,
        )
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=RUNNERS * ENVS * ROWS)
        .rl_module(
            model_config=DefaultModelConfig(
                conv_filters=[(32, 8, 4), (64, 4, 2), (64, 3, 1)],
                conv_activation="relu",
                head_fcnet_hiddens=[512],
                head_fcnet_activation="relu",
                vf_share_layers=True,
            )
        )
        .debugging(seed=int(seed))
        .reporting(min_time_s_per_iteration=0)
    )
    config.num_cpus_for_main_process = 0
    algorithm = config.build_algo()
    learnt = 0.0

    def mark() -> tuple[float, int, float]:
        return time.perf_counter(), tally.stat().st_size, learnt

    marks = [mark()]
    while marks[-1][0] - marks[0][0] < warm_up_s + measured_s:
        told = algorithm.train()
        learners = told.get("learners", {}).get("__all_modules__", {})  # absent until there was an update
        learnt = float(learners.get("num_env_steps_trained_lifetime", learnt))
        marks.append(mark())
    begin, end = next(one for one in marks if one[0] - marks[0][0] >= warm_up_s), marks[-1]
    algorithm.stop()
    ray.shutdown()
    taken = end[1] - begin[1]
    return {"env_steps_per_s": taken / (end[0] - begin[0]), "learnt": (end[2] - begin[2]) / taken}


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    with tempfile.NamedTemporaryFile() as file:
        print(json.dumps(speed(Path(file.name), *map(float, sys.argv[1:]))))
