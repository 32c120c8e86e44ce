"""Processes of a run die, stop or hang: they are replaced, and the weights are those of the undisturbed run."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest
from running import (
    LOCAL,
    TRAIN,
    Command,
    Trained,
    kwargs_of_env,
    result_of,
    saved,
    settings_of,
    until,
    updates_saved,
    whorl,
)

import whorl as package

WORKFLOWS = ["sync", "overlap"]


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_actors_that_die_in_any_way_are_replaced_and_the_weights_are_the_same(
    run_dir: Path, same_as: Trained, workflow: str
) -> None:
    """The same environments over four actors, each of which dies in another way. Exit code 0 is not success."""
    ways = ("kill", "exit0", "segfault", "raise")
    faults = {"WHORL_FAULT": ",".join(f"actor:{i}:env_step={45 + 40 * i}:{way}" for i, way in enumerate(ways))}
    split = ("--actors", "4", "--envs-per-actor", "2", "--workflow", workflow)
    ended = whorl(*TRAIN, *LOCAL, *split, "--run-dir", run_dir, environ=faults)
    assert (ended.code, ended.err) == (0, "")
    result = same_as(run_dir, workflow)
    assert result["restarts"] == {"learner": 0, "actor": 4}
    assert 0 < result["transitions"]["lost"] < 4 * 32 * 2  # a part of one trajectory of each
    causes = (
        "killed by SIGKILL",
        "exited with code 0, before its role had ended",
        "killed by SIGSEGV",
        f"InjectedFault: raised on purpose (WHORL_FAULT={faults['WHORL_FAULT']}) (faults.py:",
    )
    assert len(ended.warnings) == 4
    for i, (warning, cause) in enumerate(zip(sorted(ended.warnings), causes, strict=True)):
        assert warning.startswith(f"warning: actor-{i} was lost and is replaced (incarnation 1): {cause}")
    assert "Segmentation fault" in (run_dir / "logs" / "actor-2.log").read_text()
    assert "Traceback" in (run_dir / "logs" / "actor-3.log").read_text()


def test_an_actor_killed_before_the_learner_has_started_is_replaced(run_dir: Path, same_as: Trained) -> None:
    """Its replacement is started with the others, before the learner hears of the loss."""
    with Command(*TRAIN, *LOCAL, "--run-dir", run_dir) as command:
        os.kill(command.role("actor-1"), signal.SIGKILL)
        assert not updates_saved(run_dir)
        assert command.ended().code == 0
    assert same_as(run_dir)["restarts"] == {"learner": 0, "actor": 1}


def test_all_actors_killed_at_once_come_back(run_dir: Path, same_as: Trained) -> None:
    with Command(*TRAIN, *LOCAL, "--workflow", "overlap", "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        for actor in ("actor-0", "actor-1"):
            os.kill(command.role(actor), signal.SIGKILL)
        assert command.ended().code == 0
    assert same_as(run_dir, "overlap")["restarts"] == {"learner": 0, "actor": 2}


@pytest.mark.parametrize(("workflow", "every_s"), [("sync", 0), ("overlap", 0), ("sync", 1000)])
def test_a_killed_learner_goes_on_from_the_last_checkpoint_or_from_the_start(
    run_dir: Path, same_as: Trained, workflow: str, every_s: int
) -> None:
    settings = ("--workflow", workflow, "--set", f"run.checkpoint_every_s={every_s}")
    fault = {"WHORL_FAULT": "learner:0:update=5:kill"}
    ended = whorl(*TRAIN, *LOCAL, *settings, "--run-dir", run_dir, environ=fault)
    assert (ended.code, ended.err) == (0, "")
    assert same_as(run_dir, workflow)["restarts"] == {"learner": 1, "actor": 0}
    assert ended.warnings == ["warning: learner-0 was lost and is replaced (incarnation 1): killed by SIGKILL"]


def test_one_of_two_learners_killed_leaves_no_half_update(run_dir: Path, tmp_path: Path) -> None:
    """Two shards sum in another order than one, so this has a reference of its own."""
    two = ("--learners", "2", "--steps", "3000")
    fault = {"WHORL_FAULT": "learner:1:update=5:kill"}
    assert whorl(*TRAIN, *LOCAL, *two, "--run-dir", run_dir, environ=fault).code == 0
    settings = {**settings_of("inline"), "learners": 2, "steps": 3000}
    undisturbed = package.train("ppo", "CartPole-v1", run_dir=tmp_path / "undisturbed", **settings).result
    assert result_of(run_dir)["restarts"]["learner"] == 1
    assert result_of(run_dir)["weights_sha256"] == undisturbed.weights_sha256


def test_a_stopped_actor_is_lost_at_its_deadline_and_replaced(run_dir: Path, same_as: Trained) -> None:
    response = ("--set", "engine.response_s=0.5")
    with Command(*TRAIN, *LOCAL, *response, "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        os.kill(command.role("actor-1"), signal.SIGSTOP)
        ended = command.ended()
    assert ended.code == 0
    assert same_as(run_dir)["restarts"] == {"learner": 0, "actor": 1}
    (warning,) = ended.warnings
    assert "actor-1 was lost and is replaced" in warning
    assert "did not answer" in warning or "hung in the environment" in warning  # wherever it was just then
    assert "its process is stopped" in warning


def test_a_learner_stopped_for_a_while_goes_on_as_if_nothing_was(run_dir: Path, same_as: Trained) -> None:
    with Command(*TRAIN, *LOCAL, "--workflow", "overlap", "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        learner, actor = command.role("learner-0"), command.role("actor-0")
        os.kill(learner, signal.SIGSTOP)
        time.sleep(0.5)
        memory = psutil.Process(actor).memory_info().rss
        time.sleep(1.0)
        assert psutil.Process(actor).memory_info().rss == memory  # it waits, and piles nothing up
        os.kill(learner, signal.SIGCONT)
        assert command.ended().code == 0
    assert same_as(run_dir, "overlap")["restarts"] == {"learner": 0, "actor": 0}


@pytest.mark.verify
def test_a_learner_that_stays_stopped_is_replaced(run_dir: Path, same_as: Trained) -> None:
    with Command(*TRAIN, *LOCAL, "--set", "engine.response_s=0.5", "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        os.kill(command.role("learner-0"), signal.SIGSTOP)
        assert command.ended().code == 0
    assert same_as(run_dir)["restarts"]["learner"] == 1


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_killed_driver_takes_all_along_and_the_run_can_be_resumed(
    run_dir: Path, same_as: Trained, workflow: str
) -> None:
    with Command(*TRAIN, *LOCAL, "--workflow", workflow, "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        family = psutil.Process(command.pid).children(recursive=True)
        assert len(family) == 4  # nursery, learner, two actors
        command.signal(signal.SIGKILL)
        assert command.ended().code == -signal.SIGKILL
    _, alive = psutil.wait_procs(family, timeout=5)
    assert alive == []
    ended = whorl("resume", run_dir)
    assert (ended.code, ended.err) == (0, "")
    same_as(run_dir, workflow)


@pytest.mark.verify
def test_a_killed_nursery_is_replaced_with_all_it_started(run_dir: Path, same_as: Trained) -> None:
    with Command(*TRAIN, *LOCAL, "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        (nursery,) = psutil.Process(command.pid).children()
        nursery.kill()
        ended = command.ended()
    assert ended.code == 0
    same_as(run_dir)
    assert any("nursery" in warning for warning in ended.warnings)


def test_a_learner_that_dies_at_the_same_update_each_time_ends_the_run(run_dir: Path) -> None:
    """It does the updates before that one again each time: they are no progress."""
    fault = {"WHORL_FAULT": "learner:0:update=2:raise:always"}
    limits = ("--set", "engine.max_restarts_without_progress=2", "--set", "engine.max_restarts=6")
    seldom = ("--set", "run.checkpoint_every_s=1000")
    ended = whorl(*TRAIN, *LOCAL, *limits, *seldom, "--run-dir", run_dir, environ=fault)
    assert ended.code == 1
    assert "learner-0 was lost 3 times without a new update between" in ended.complaint


def test_an_actor_that_dies_each_time_ends_the_run_with_its_cause(run_dir: Path) -> None:
    fault = {"WHORL_FAULT": "actor:0:env_step=40:raise:always"}
    started = time.monotonic()
    ended = whorl(
        *TRAIN, *LOCAL, "--set", "engine.max_restarts_without_progress=3", "--run-dir", run_dir, environ=fault
    )
    assert ended.code == 1
    assert time.monotonic() - started < 30
    assert "actor-0 was lost 4 times without a new update between" in ended.complaint
    assert "InjectedFault: raised on purpose" in ended.complaint
    assert str(run_dir / "logs" / "actor-0.log") in ended.complaint
    result = result_of(run_dir)
    assert result["status"] == "failed"
    assert "InjectedFault" in result["error"]


def test_a_hung_environment_that_holds_the_interpreter_cannot_delay_the_end(run_dir: Path) -> None:
    """SIGTERM is not even seen by it: it is killed, in bounded time."""
    hang = kwargs_of_env(how="gil", at=30)
    with Command("train", "ppo", "whorl/Hang-v0", *LOCAL, *hang, "--run-dir", run_dir) as command:
        until(lambda: (run_dir / "lock").exists(), "the run to begin")
        actor = psutil.Process(command.role("actor-0"))
        until(lambda: actor.memory_info().rss and _is_idle(actor), "the hang")
        command.signal(signal.SIGTERM)
        started = time.monotonic()
        ended = command.ended(timeout_s=20)
    assert ended.code == 75
    assert time.monotonic() - started < 10
    assert result_of(run_dir)["status"] == "preempted"


def _is_idle(process: psutil.Process) -> bool:
    before = process.cpu_times()
    time.sleep(0.5)
    return process.cpu_times() == before


def soak(seconds: float, run_dir: Path, workflow: str) -> int:
    """Kill or stop something about once a second; returns how often."""
    chance = random.Random(1)
    strikes = 0
    # While a learner restarts, actors are killed again and again: that must not count as a run that gets nowhere.
    limits = ("engine.response_s=1", "engine.max_restarts=100000", "engine.max_restarts_without_progress=1000")
    # Not annealed: the schedule would be that of 20 million steps, not of those that were reached.
    endless = ("run.steps=20000000", "agent.anneal=none")
    settings = [word for setting in (*limits, *endless) for word in ("--set", setting)]
    with Command(*TRAIN, *LOCAL, *settings, "--workflow", workflow, "--run-dir", run_dir) as command:
        driver = psutil.Process(command.pid)
        saved(run_dir, 1)
        end = time.monotonic() + seconds
        descriptors = memory = 0
        while time.monotonic() < end:
            kind = chance.choice(["actor-0"] * 8 + ["actor-1"] * 8 + ["learner-0"])
            number = chance.choice([signal.SIGKILL] * 4 + [signal.SIGSTOP, signal.SIGSEGV])
            with contextlib.suppress(ProcessLookupError):
                os.kill(command.role(kind), number)
                strikes += 1
            time.sleep(chance.uniform(0.5, 1.5))
            if strikes == 20:
                descriptors, memory = driver.num_fds(), driver.memory_info().rss
        assert driver.num_fds() <= descriptors + 4
        assert driver.memory_info().rss < memory + 50_000_000
        command.signal(signal.SIGTERM)
        assert command.ended().code == 75
    return strikes


@pytest.mark.verify
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_kill_a_second_for_minutes_changes_nothing(run_dir: Path, tmp_path: Path, workflow: str, figure) -> None:
    figure("strikes", soak(180.0, run_dir, workflow))
    reached = result_of(run_dir)
    settings = {"agent.rows": 32, "agent.epochs": 2, "agent.anneal": "none"}
    undisturbed = package.train(
        "ppo",
        "CartPole-v1",
        run_dir=tmp_path / "undisturbed",
        workflow=workflow,
        engine="inline",
        actors=2,
        envs_per_actor=4,
        steps=reached["env_steps"],
        set=settings,
    )
    assert undisturbed.result.updates == reached["updates"]
    assert undisturbed.result.weights_sha256 == reached["weights_sha256"]
