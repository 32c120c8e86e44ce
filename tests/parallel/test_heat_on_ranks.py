"""``whorl/Heat-v0`` on one, two and four ranks: one trajectory, bit for bit."""

from __future__ import annotations

import json

import pytest
from tests.parallel.conftest import Job

from whorl.envs.parallel.__main__ import main


def test_any_number_of_ranks_gives_the_same_trajectory(ranks: Job, capsys: pytest.CaptureFixture[str]) -> None:
    """Two episodes with random actions: observations and rewards."""
    task = ("whorl/Heat-v0", "--steps", "60", "--kwargs", '{"episode_steps": 40}', "--seed", "1")
    main(task)
    alone = json.loads(capsys.readouterr().out)
    for count in (2, 4):
        job = ranks(count, "-m", "whorl.envs.parallel", *task)
        assert job.returncode == 0, job.stderr
        found = json.loads(job.stdout)
        assert found["ranks"] == count
        assert (found["sha256"], found["reward"], found["episodes"]) == (alone["sha256"], alone["reward"], 2)
