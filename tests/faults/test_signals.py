"""SIGTERM and SIGINT at any moment: saved within 5 s, exit code 75, and the resumed run ends with the same weights."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from running import LOCAL, SMALL, TRAIN, Command, Trained, kwargs_of_env, result_of, saved, until, updates_saved, whorl


def test_a_signal_saves_and_the_resumed_run_ends_with_the_same_weights(run_dir: Path, same_as: Trained) -> None:
    """Ctrl-C, which a terminal sends to every process of the group."""
    with Command(*TRAIN, *LOCAL, "--workflow", "overlap", "--run-dir", run_dir) as command:
        saved(run_dir, 3)
        os.killpg(command.pid, signal.SIGINT)
        started = time.monotonic()
        ended = command.ended()
    assert time.monotonic() - started < 5.0
    assert (ended.code, ended.err) == (75, "")
    assert "Preempted, saved and resumable: ppo on CartPole-v1" in ended.out
    assert f"whorl resume {run_dir}" in ended.out
    result = result_of(run_dir)
    assert (result["status"], result["restarts"]) == ("preempted", {"learner": 0, "actor": 0})
    assert updates_saved(run_dir)[-1] == result["updates"]
    assert whorl("resume", run_dir).code == 0
    same_as(run_dir, "overlap")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2])
def test_the_signal_itself_saves(run_dir: Path, wrapped_reference: str, number: signal.Signals) -> None:
    """To every process, as a batch system sends it, long before a checkpoint is due."""
    slow = (*kwargs_of_env(step_time_s=0.001), "--set", "env.hosting=inside", "--set", "run.checkpoint_every_s=1000")
    metrics = run_dir / "metrics.jsonl"
    with Command("train", "ppo", "whorl/Slow-v0", *LOCAL, *slow, "--run-dir", run_dir) as command:
        until(lambda: metrics.exists() and metrics.stat().st_size, "an update")
        assert updates_saved(run_dir) == []
        os.killpg(command.pid, number)
        started = time.monotonic()
        ended = command.ended()
    assert time.monotonic() - started < 5.0
    assert (ended.code, ended.err) == (75, "")
    assert updates_saved(run_dir) == [result_of(run_dir)["updates"]]
    assert whorl("resume", run_dir).code == 0
    result = result_of(run_dir)
    assert (result["status"], result["weights_sha256"]) == ("completed", wrapped_reference)


def test_a_signal_in_the_first_moments_is_no_failure_and_leaves_nothing_half(run_dir: Path) -> None:
    endless = ("--steps", "1000000000")
    for delay_s in (0.5, 0.9, 1.3):
        with Command(*TRAIN, *LOCAL, *endless, "--run-dir", run_dir.with_name(f"run-{delay_s}")) as command:
            time.sleep(delay_s)
            os.killpg(command.pid, signal.SIGTERM)
            ended = command.ended()
        if ended.code == -signal.SIGTERM:  # Python had not come to our first line yet
            assert not run_dir.with_name(f"run-{delay_s}").exists()
        else:
            assert ended.code == 75
            assert ended.err == "" or "stopped by SIGTERM before the run had begun; start it again" in ended.complaint


@pytest.mark.parametrize(("engine", "step_time_s"), [("local", 0.2), ("inline", 0.03)])
def test_a_signal_in_the_middle_of_slow_steps_waits_for_no_trajectory(
    run_dir: Path, engine: str, step_time_s: float
) -> None:
    """A trajectory takes 6 s (inline steps all environments one after the other): it is given up, and will be
    collected again."""
    slow = (*kwargs_of_env(step_time_s=step_time_s), "--engine", engine)
    with Command("train", "ppo", "whorl/Slow-v0", *SMALL, *slow, "--run-dir", run_dir) as command:
        saved(run_dir, 1)
        time.sleep(1.0)
        command.signal(signal.SIGTERM)
        started = time.monotonic()
        ended = command.ended()
    assert time.monotonic() - started < 3.0
    assert ended.code == 75
    result = result_of(run_dir)
    assert result["updates"] == 1
    assert 0 < result["transitions"]["in_flight"] < 32 * 8


def test_signals_during_a_save_give_one_clean_save(run_dir: Path, same_as: Trained) -> None:
    slow_save = {"WHORL_FAULT_SAVE": "manifest:slow:3"}
    with Command(*TRAIN, *LOCAL, "--run-dir", run_dir, environ=slow_save) as command:
        saved(run_dir, 2)
        until(lambda: list((run_dir / "checkpoints").glob(".tmp-*/.manifest.json")), "a save under way")
        started = time.monotonic()
        for _ in range(3):
            command.signal(signal.SIGTERM)
            time.sleep(0.1)
        ended = command.ended()
    assert time.monotonic() - started < 5.0
    assert (ended.code, ended.err) == (75, "")
    assert not list((run_dir / "checkpoints").glob(".tmp-*"))
    assert max(updates_saved(run_dir)) == result_of(run_dir)["updates"]
    assert whorl("resume", run_dir).code == 0
    same_as(run_dir)


def test_a_signal_while_the_learner_is_being_replaced_is_not_forgotten(run_dir: Path, same_as: Trained) -> None:
    fault = {"WHORL_FAULT": "learner:0:update=5:kill"}
    with Command(*TRAIN, *LOCAL, "--run-dir", run_dir, environ=fault) as command:
        saved(run_dir, 3)
        first = command.role("learner-0")
        until(lambda: command.roles().get("learner-0", first) != first, "the learner to be replaced")
        command.signal(signal.SIGTERM)
        assert command.ended().code == 75
    assert result_of(run_dir)["status"] == "preempted"
    assert whorl("resume", run_dir).code == 0
    same_as(run_dir)


@pytest.mark.parametrize("workflow", ["window", "queue"])
def test_workflows_without_an_order_save_and_go_on_too(run_dir: Path, workflow: str) -> None:
    # So many that none ends before the signal comes: in `window`, actors wait for nobody.
    small = ("--steps", "20000000", "--actors", "2", "--learners", "2", "--set", "run.checkpoint_every_s=1000")
    metrics = run_dir / "metrics.jsonl"
    with Command("train", "impala", "CartPole-v1", *small, "--workflow", workflow, "--run-dir", run_dir) as command:
        until(lambda: metrics.exists() and metrics.stat().st_size, "an update")
        os.killpg(command.pid, signal.SIGTERM)
        started = time.monotonic()
        ended = command.ended()
    assert time.monotonic() - started < 5.0
    assert (ended.code, ended.err) == (75, "")
    before = result_of(run_dir)
    assert updates_saved(run_dir) == [before["updates"]]
    assert whorl("resume", run_dir, "--steps", str(before["env_steps"] + 2000)).code == 0
    result = result_of(run_dir)
    assert result["updates"] > before["updates"]
    assert result["transitions"]["in_flight"] >= 0
