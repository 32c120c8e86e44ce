"""``ParallelEnv`` on real ranks: what one rank calls, all do; what one raises, the first one hears of."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from gymnasium.utils.env_checker import check_env as gymnasium_check
from tests.parallel.conftest import Job

from whorl.envs.parallel import ParallelEnv
from whorl.envs.parallel.waiting import wait_until

CREWED = str(Path(__file__).with_name("crewed.py"))


def said(job: Any) -> dict[str, Any]:
    assert job.returncode == 0, job.stderr
    found: dict[str, Any] = json.loads(job.stdout)
    return found


def test_all_ranks_do_what_the_first_one_calls(ranks: Job) -> None:
    found = said(ranks(3, CREWED, "behave"))
    drawn = 0.08564916714362436  # of generator 3
    assert found == {
        "sum": [3 * drawn, 3 * drawn, 3.0],
        "options": {"name": "x"},
        "same_entropy": True,
        "step": [1.5, -1.5, 3.0],
        "count": [5, 7, 9],
        "state": 24,
        "drawn": 5000,
        "after_close": [0, 1, 2],
    }


def test_the_first_rank_hears_of_what_any_rank_raises_and_all_go_on(ranks: Job) -> None:
    assert said(ranks(2, CREWED, "faults")) == {
        "made": "RankRaised: rank 1 of the environment raised in make: ValueError: rank 1 has no voice "
        "(crewed.py:35 in __init__)",
        "leader": "ValueError: rank 0 has no voice",
        "1": "RankRaised: rank 1 of the environment raised in speak: ValueError: rank 1 lost its voice "
        "(crewed.py:119 in speak)",
        "0": "ValueError: rank 0 lost its voice",
        "0 1": "ValueError: rank 0 lost its voice",
        "then": "spoke",
    }


def test_a_rank_that_raises_where_others_wait_for_it_ends_the_job(ranks: Job) -> None:
    began_s = time.monotonic()
    job = ranks(2, CREWED, "broken", "1")
    assert job.returncode != 0
    assert "CrewBroken: rank 1 of an environment raised in step (ValueError: rank 1 lost its voice" in job.stderr
    assert time.monotonic() - began_s < 30


def test_ranks_wait_without_burning_their_cores(ranks: Job) -> None:
    """One that spins burns a second."""
    burnt = said(ranks(3, CREWED, "idle"))["burnt"]
    assert max(burnt[1:]) < 0.2


def test_with_one_rank_it_is_an_ordinary_environment() -> None:
    import numpy as np
    from gymnasium.spaces import Box

    class Alone(ParallelEnv):
        observation_space = Box(0, 1, (1,), np.float32)
        action_space = Box(0, 1, (1,), np.float32)

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            super().reset(seed=seed)
            return self.np_random.random(1, np.float32), {}

        def step(self, action: Any) -> Any:
            return np.zeros(1, np.float32), 0.0, False, False, {}

    env = Alone()
    gymnasium_check(env, skip_render_check=True)
    assert (env.comm, env.rank, env.size) == (None, 0, 1)


def test_waiting_ends_with_its_patience() -> None:
    assert not wait_until(lambda: False, patience_s=0.01)
    looks = iter([False] * 60 + [True])
    assert wait_until(lambda: next(looks))
