"""Ray nodes on several machines, and the cable of one of them cut: for a while, and for good."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl
from accounts import job_of
from whorl.runs.directory import RunDirectory
from whorl.trainer import stored_config
from whorl.workflows import first_come

sys.path.insert(0, str(Path(__file__).parent))
from counted import steps_in
from machines import Machines

PLACES = {"engine.learner_resources": {"head": 1}, "engine.actor_resources": {"far": 1}}
SLOW = {"env.kwargs.env": "CartPole-v1", "env.kwargs.step_time_s": 0.02, "env.hosting": "process"}
SMALL = {"agent.rows": 8, "agent.network.hidden": (16,)}


@pytest.fixture
def machines() -> Iterator[Machines]:
    """A head with the learner, two others with an actor each, and room for one more on both."""
    found = Machines(3)
    yield found
    found.end()


def train(machines: Machines, run_dir: Path, workflow: str, *, cut_s: float, for_good: bool) -> dict[str, Any]:
    """The machine with actor-1 is cut off; the cluster says which that is."""
    slow = SLOW
    if workflow == "async":
        steps = run_dir.with_name("steps")
        steps.mkdir()
        slow = {"env.kwargs.folder": str(steps), "env.kwargs.step_time_s": 0.02, "env.hosting": "process"}
    settings = {**PLACES, **slow, **SMALL, **{f"engine.{name}": value for name, value in machines.settings.items()}}
    words = (str(run_dir), settings, machines.cables, workflow, cut_s, for_good)
    script = str(Path(__file__).parent / "cut_links.py")
    command = machines.command(0, script, *(json.dumps(word) for word in words))
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=200, env=machines.environ)
    assert done.returncode == 0
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


ROWS, STRANDS, SLOTS = 8, 2, 6
"""Of a trajectory; of an actor, one for each environment; of its channel, three for each strand."""
SLOTS_HOLD = SLOTS * ROWS
"""Environment steps of an actor."""
UNHEARD = (SLOTS + STRANDS) * ROWS + 2 * STRANDS
"""What is made and counted nowhere. Of the actor that was cut off: a trajectory that arrives brings the actor's count
along, and gives its slot back; after the last that arrived every slot can be filled once more, and then the memory in
which each strand collects before it asks for a slot. Of the two actors of the end: each environment is in a step."""


def check_accounts(run_dir: Path, ended_at: float) -> None:
    """Also with what the environments have counted themselves: behind a cable that is cut an actor goes on until it has
    no room, and nobody hears of it."""
    job = job_of(stored_config(RunDirectory.open(run_dir)))
    assert (job.config.agent.rows, job.lane_map.strands_per_actor, first_come.slots(job)) == (ROWS, STRANDS, SLOTS)
    result = whorl.load(run_dir).result
    counts = result.transitions
    assert counts.balanced
    assert 0 <= counts.lost <= SLOTS_HOLD
    assert 0 <= counts.in_flight <= 2 * SLOTS_HOLD
    times = np.concatenate(steps_in(run_dir.with_name("steps")))
    assert counts.collected <= len(times), "what was counted was made"
    assert np.sum(times < ended_at) <= counts.collected + UNHEARD, "and what was made was counted"
    assert (result.restarts["actor"], result.restarts["learner"]) == (1, 0)


@pytest.mark.timeout(300)  # three nodes are started one by one
def test_actors_behind_a_link_that_is_cut_for_good_are_replaced(tmp_path: Path, machines: Machines) -> None:
    found = train(machines, tmp_path / "run", "async", cut_s=0.0, for_good=True)
    assert found["moved"], found
    check_accounts(tmp_path / "run", found["ended_at"])


@pytest.mark.verify
def test_a_link_cut_for_5_s_is_ridden_out_and_one_cut_for_good_found_out_within_10_s(
    tmp_path: Path, machines: Machines, figure: Callable[[str, object], None]
) -> None:
    found = train(machines, tmp_path / "run", "async", cut_s=5.0, for_good=True)
    assert found["rode_it_out"], f"5 s are no reason to give a machine up: {found}"
    assert found["went_on_by"] >= 100
    assert found["moved"]
    figure("replaced_after_s", round(found["replaced_after_s"], 2))
    assert found["replaced_after_s"] < 10
    check_accounts(tmp_path / "run", found["ended_at"])


@pytest.mark.verify
def test_in_lockstep_a_cut_link_changes_nothing_in_the_weights(tmp_path: Path, machines: Machines) -> None:
    job: dict[str, Any] = {"workflow": "sync", "engine": "inline", "actors": 2, "envs_per_actor": 2, "steps": 3000}
    quick = {**SLOW, **SMALL, "env.kwargs.step_time_s": 0.0, "env.hosting": "inside"}
    expected = whorl.train("ppo", "whorl/Slow-v0", run_dir=tmp_path / "inline", set=quick, **job).result
    found = train(machines, tmp_path / "run", "sync", cut_s=5.0, for_good=True)
    assert found["rode_it_out"], found
    assert found["moved"]
    result = whorl.load(tmp_path / "run").result
    assert result.exact
    assert result.weights_sha256 == expected.weights_sha256
    assert result.transitions.balanced
    assert 0 <= result.transitions.lost <= 2 * 2 * 8, "two slots of an actor with two environments"
    assert 0 <= result.transitions.in_flight <= 2 * 2 * 2 * 8
