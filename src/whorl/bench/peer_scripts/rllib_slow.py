"""RLlib's IMPALA on CartPole-v1 with slow steps. Runs in the peer's environment:

    python rllib_slow.py ENVS STEP_S DISTRIBUTION CV WARM_UP_S MEASURED_S

One runner for each environment up to 16 of them; more environments are processes of 8 runners. Prints one line of JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROWS, BATCH_SIZE = 32, 512
MOST_RUNNERS, RUNNERS_OF_MANY = 16, 8


def speed(envs: int, slow: dict[str, Any], tally: Path, warm_up_s: float, measured_s: float) -> tuple[float, float]:
    """Environment steps per second, learnt from or not, after a warm-up; and when there were environments."""
    import ray
    from ray.rllib.algorithms.impala import IMPALAConfig
    from ray.tune.registry import register_env
    from slow_cartpole import make_env

    here = str(Path(__file__).parent)
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env={"env_vars": {"PYTHONPATH": here}})
    register_env("slow", lambda config: make_env(**config, tally=str(tally)))

    def mark() -> tuple[float, int]:
        return time.perf_counter(), tally.stat().st_size

    runners = envs if envs <= MOST_RUNNERS else RUNNERS_OF_MANY
    config = (
        IMPALAConfig()
        .environment("slow", env_config=slow)
        .env_runners(
            num_env_runners=runners,
            num_envs_per_env_runner=envs // runners,
            gym_env_vectorize_mode="async" if envs > runners else "sync",
            num_cpus_per_env_runner=1 / runners,
            rollout_fragment_length=ROWS,
        )
        .learners(num_learners=0)
        .training(train_batch_size_per_learner=BATCH_SIZE)
        .reporting(min_time_s_per_iteration=0)
    )
    config.num_cpus_for_main_process = 0
    algorithm = config.build_algo()
    ready_at = time.time()
    marks = [mark()] * 2
    while marks[-1][0] - marks[0][0] < warm_up_s + measured_s or marks[-2][0] - marks[0][0] < warm_up_s:
        algorithm.train()  # which takes as long as it takes: two marks at least come after the warm-up
        marks.append(mark())
    begin = next(one for one in marks if one[0] - marks[0][0] >= warm_up_s)
    algorithm.stop()
    ray.shutdown()
    return (marks[-1][1] - begin[1]) / (marks[-1][0] - begin[0]), ready_at


if __name__ == "__main__":
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    count, step, name, *rest = sys.argv[1:]
    variation, before, during = map(float, rest)
    steps = {"step_s": float(step), "distribution": name, "cv": variation}
    with tempfile.NamedTemporaryFile() as tally:  # results come in bursts; environments are counted more evenly
        rate, ready = speed(int(count), steps, Path(tally.name), before, during)
        print(json.dumps({"env_steps_per_s": rate, "ready_at": ready}))
