"""What sync and overlap survive with the same weights, every other workflow survives as well: it goes on, and the
account is exact.

One workflow for each fault here, all of them in `make verify`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from running import AGENTS, Command, kwargs_of_env, result_of, saved, until, whorl

WORKFLOWS = [workflow for workflow in AGENTS if workflow not in ("sync", "overlap")]
REPLAY = ("agent.learning_starts=100", "agent.batch_size=16", "agent.gradient_steps=1", "agent.replay.capacity=5000")
FOR_EVER = 1_000_000_000
SHORT = 1500

pytestmark = pytest.mark.timeout(180)


def options(workflow: str, steps: int, *settings: str) -> list[str]:
    """Two actors of two environments (or two learners that act themselves)."""
    learners = 2 if workflow == "allreduce" else 1
    size = ["--actors", "2", "--envs-per-actor", "2", "--learners", str(learners), "--steps", str(steps)]
    mine = [*settings, "agent.rows=8", "run.checkpoint_every_s=0.2", *(REPLAY if workflow == "replay" else ())]
    return ["--workflow", workflow, "--engine", "local", *size, *(word for one in mine for word in ("--set", one))]


def actor(workflow: str, index: int) -> str:
    """The name of who acts."""
    return f"{'learner' if workflow == 'allreduce' else 'actor'}-{index}"


def last_metrics(run_dir: Path) -> dict[str, Any]:
    """The newest whole line of the metrics."""
    metrics = run_dir / "metrics.jsonl"
    lines = metrics.read_text().split("\n")[:-1] if metrics.exists() else []
    return json.loads(lines[-1]) if lines else {"update": 0}


def goes_on(run_dir: Path, updates: int = 5) -> None:
    """Wait for so many updates more."""
    goal = last_metrics(run_dir)["update"] + updates
    until(lambda: last_metrics(run_dir)["update"] >= goal, f"update {goal}")


@contextlib.contextmanager
def running(run_dir: Path, workflow: str, *settings: str) -> Iterator[Command]:
    """A run that is struck in the ``with`` block. It goes on after that, and is then told to stop."""
    arguments = options(workflow, FOR_EVER, "engine.response_s=1", *settings)
    with Command("train", AGENTS[workflow], "CartPole-v1", *arguments, "--run-dir", run_dir) as command:
        goes_on(run_dir)
        yield command
        goes_on(run_dir)
        command.signal(signal.SIGTERM)
        ended = command.ended()
    assert (ended.code, ended.err) == (75, "")


def completed(run_dir: Path, workflow: str, env: str, *settings: str, **kwargs: Any) -> dict[str, Any]:
    """A short run to its end in an environment of ours; its result."""
    arguments = [*options(workflow, SHORT, *settings), *kwargs_of_env(**kwargs)]
    ended = whorl("train", AGENTS[workflow], f"whorl/{env}", *arguments, "--run-dir", run_dir)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    assert result["status"] == "completed"
    assert result["env_steps"] >= SHORT
    return result


def one_actor_killed(run_dir: Path, workflow: str) -> None:
    with running(run_dir, workflow) as command:
        os.kill(command.role(actor(workflow, 1)), signal.SIGKILL)
        until(lambda: len(command.roles()) and command.roles().get(actor(workflow, 1)), "its replacement", 3.0)
    assert result_of(run_dir)["restarts"][actor(workflow, 1)[:-2]] == 1


def all_actors_killed(run_dir: Path, workflow: str) -> None:
    with running(run_dir, workflow) as command:
        for pid in [command.role(actor(workflow, index)) for index in (0, 1)]:
            os.kill(pid, signal.SIGKILL)
    result = result_of(run_dir)
    assert result["restarts"][actor(workflow, 0)[:-2]] in ((1, 2) if workflow == "allreduce" else (2,))


def learner_killed(run_dir: Path, workflow: str) -> None:
    with running(run_dir, workflow) as command:
        saved(run_dir, 1)
        os.kill(command.role("learner-0"), signal.SIGKILL)
        time.sleep(0.5)
    assert result_of(run_dir)["restarts"]["learner"] == 1


def driver_killed(run_dir: Path, workflow: str) -> None:
    arguments = options(workflow, FOR_EVER)
    with Command("train", AGENTS[workflow], "CartPole-v1", *arguments, "--run-dir", run_dir) as command:
        goes_on(run_dir)
        saved(run_dir, 1)
        family = psutil.Process(command.pid).children(recursive=True)
        command.signal(signal.SIGKILL)
        command.ended()
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    steps = last_metrics(run_dir)["env_steps"] + 500
    ended = whorl("resume", run_dir, "--steps", str(steps))
    assert (ended.code, ended.err) == (0, "")
    assert result_of(run_dir)["env_steps"] >= steps


def actor_stopped(run_dir: Path, workflow: str) -> None:
    with running(run_dir, workflow) as command:
        pid = command.role(actor(workflow, 1))
        os.kill(pid, signal.SIGSTOP)
        until(lambda: command.roles().get(actor(workflow, 1)) not in (pid, None), "its replacement", 12.0)
    assert result_of(run_dir)["restarts"][actor(workflow, 1)[:-2]] == 1


def learner_stopped(run_dir: Path, workflow: str) -> None:
    with running(run_dir, workflow, "engine.response_s=30") as command:
        learner, other = command.role("learner-0"), psutil.Process(command.role(actor(workflow, 1)))
        os.kill(learner, signal.SIGSTOP)
        time.sleep(0.7)
        memory = other.memory_info().rss
        time.sleep(1.0)
        assert other.memory_info().rss <= memory + 2**20  # it waits, and piles nothing up
        os.kill(learner, signal.SIGCONT)
    assert set(result_of(run_dir)["restarts"].values()) == {0}


def environment_raises(run_dir: Path, workflow: str) -> None:
    result = completed(run_dir, workflow, "Crash-v0", how="raise", p=0.01)
    assert set(result["restarts"].values()) == {0}
    assert 3 <= last_metrics(run_dir)["faults"] <= 60


def environment_dies(run_dir: Path, workflow: str) -> None:
    result = completed(run_dir, workflow, "Crash-v0", "env.hosting=inside", how="exit0", at=12, share=0.05)
    assert sum(result["restarts"].values()) >= 1


def environment_hangs(run_dir: Path, workflow: str) -> None:
    # Long enough for those that do not hang to be at work still when the deadline of one that does is over.
    settings = ("env.hosting=process", "env.step_timeout_s=0.3", f"run.steps={4 * SHORT}")
    result = completed(run_dir, workflow, "Hang-v0", *settings, how="sleep", at=12, share=0.1)
    assert result["restarts"]["env"] >= 1
    assert result["restarts"].get("actor", 0) == 0


def episodes_never_end(run_dir: Path, workflow: str) -> None:
    # In a window learners do not see all episodes, and on a busy machine few.
    steps = f"run.steps={(40 if workflow == 'window' else 1) * SHORT}"
    result = completed(run_dir, workflow, "Endless-v0", "env.max_episode_steps=50", steps)
    assert result["episodes"] >= 5
    assert last_metrics(run_dir)["length_mean"] == 50


def episodes_are_empty(run_dir: Path, workflow: str) -> None:
    result = completed(run_dir, workflow, "Empty-v0", length=0)
    assert result["episodes"] == result["env_steps"] - result["transitions"]["dropped"]


def learner_is_slow(run_dir: Path, workflow: str) -> None:
    """Its updates are held up again and again: what lies about is bounded, and so is its age where that is asked."""
    bounds = ("workflow.max_staleness=2",) if workflow in ("async", "queue", "window") else ()
    with running(run_dir, workflow, "engine.response_s=30", *bounds) as command:
        learner, other = command.role("learner-0"), psutil.Process(command.role(actor(workflow, 1)))
        memory = 0
        for number in range(20):
            os.kill(learner, signal.SIGSTOP)
            time.sleep(0.1)
            os.kill(learner, signal.SIGCONT)
            time.sleep(0.02)
            memory = memory or (other.memory_info().rss if number == 5 else 0)
        assert other.memory_info().rss <= memory + 2**21
    result = result_of(run_dir)
    if bounds:
        assert result["staleness"]["max"] <= 2
    if workflow != "window":  # where actors go on by themselves, until the last moment
        assert result["transitions"]["in_flight"] <= 2 * 2 * 8 * 8  # a few trajectories of 8 rows and 2 lanes per actor


def one_actor_is_slow(run_dir: Path, workflow: str) -> None:
    """Nobody waits for it, but where learners work in step."""
    uneven = str(Path(__file__).parents[1] / "workflows")
    slow = ",".join(str(seed) for seed in _slow_seeds())
    arguments = [*options(workflow, 400, f"env.kwargs.slow_seeds=[{slow}]", "env.hosting=inside"), "--seed", "7"]
    environ = {"PYTHONPATH": os.pathsep.join([uneven, str(Path(__file__).parents[2] / "src")])}
    ended = whorl("train", AGENTS[workflow], "uneven_env:Uneven-v0", *arguments, "--run-dir", run_dir, environ=environ)
    assert (ended.code, ended.err) == (0, "")
    # In step, 4 lanes would give no more than 4 / 0.4 s (the two slow lanes one after the other).
    assert result_of(run_dir)["env_steps_per_s"] > 4 * (4 / 0.4)


def _slow_seeds() -> list[int]:
    from whorl.ops.keys import reset_seed

    return [reset_seed(7, lane, 0) for lane in (2, 3)]


FAULTS: dict[Callable[[Path, str], None], str] = {
    one_actor_killed: "window",
    all_actors_killed: "queue",
    learner_killed: "replay",
    driver_killed: "seed",
    actor_stopped: "async",
    learner_stopped: "gradients",
    environment_raises: "allreduce",
    environment_dies: "seed",
    environment_hangs: "replay",
    episodes_never_end: "gradients",
    episodes_are_empty: "window",
    learner_is_slow: "queue",
    one_actor_is_slow: "async",
}
"""What is done, and the workflow it is done to in `make test`."""

IMPOSSIBLE = {(one_actor_is_slow, "allreduce")}
"""Its learners act themselves, and wait for each other by what they are."""


def cases() -> Iterator[Any]:
    for fault, quick in FAULTS.items():
        for workflow in WORKFLOWS:
            if (fault, workflow) not in IMPOSSIBLE:
                marks = () if workflow == quick else (pytest.mark.verify,)
                yield pytest.param(fault, workflow, marks=marks, id=f"{fault.__name__}-{workflow}")


@pytest.mark.parametrize(("fault", "workflow"), list(cases()))
def test_every_workflow_survives(fault: Callable[[Path, str], None], workflow: str, run_dir: Path) -> None:
    fault(run_dir, workflow)
