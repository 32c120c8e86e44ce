"""A trainer in unlucky hands: wrong arguments, Ctrl-C at any moment. Nothing that was learnt is lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from gymnasium import spaces

import whorl
from whorl.errors import BadInputError, StalledError
from whorl.runs.checkpoint import load_latest
from whorl.signals import HeldInterrupt, StopSignals

SMALL: dict[str, Any] = {"steps": 100_000, "envs_per_actor": 2, "set": {"agent.rows": 16}}


@pytest.mark.parametrize("updates", [0, -1, 1.5, float("nan"), "3", None, True])
def test_a_wrong_number_of_updates_is_refused_and_the_run_goes_on(tmp_path: Path, updates: Any) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", **SMALL) as trainer:
        with pytest.raises(BadInputError, match="updates: expected an integer"):
            trainer.step(updates)
        assert trainer.step()["update"] == 1


@pytest.mark.parametrize("agent", [3, ["ppo"]])
def test_an_agent_that_is_no_text_is_refused(agent: Any) -> None:
    with pytest.raises(BadInputError, match="agent: expected text such as"):
        whorl.train(agent, "CartPole-v1")


def test_a_closed_trainer_is_done_only_when_the_run_is(tmp_path: Path) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", **SMALL) as trainer:
        trainer.step()
    assert not trainer.done


def _interrupt_a_long_step(trainer: whorl.Trainer) -> None:
    """Ctrl-C, two updates into a step of a million."""
    goal = trainer.updates + 2

    def strike() -> None:
        while trainer.updates < goal:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=strike)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        trainer.step(10**6)
    thread.join()


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_ctrl_c_in_a_step_loses_nothing(tmp_path: Path, engine: str) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", engine=engine, **SMALL) as trainer:
        _interrupt_a_long_step(trainer)
        reached = trainer.updates
        assert trainer.step()["update"] > reached  # the user may go on
        _interrupt_a_long_step(trainer)
        reached = trainer.updates
    checkpoint = load_latest(tmp_path / "run/checkpoints")
    assert checkpoint is not None
    assert checkpoint.update >= reached
    assert whorl.load(tmp_path / "run").status == "stopped"


def _interrupted_twice(seen: list[bool]) -> None:
    with HeldInterrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        with HeldInterrupt() as inner:
            seen += [interrupt.came, inner.came]
        os.kill(os.getpid(), signal.SIGINT)
        seen.append(True)


def test_a_second_ctrl_c_comes_at_once() -> None:
    seen: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        _interrupted_twice(seen)
    assert seen == [True, False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Wanderer(gymnasium.Env[int, int]):
    """Changes the working directory at every step, and its episodes are long."""

    observation_space = spaces.Discrete(2)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        os.chdir("/")
        return 1, 1.0, False, False, {}


def test_an_environment_that_changes_the_directory_does_not_move_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = whorl.train("ppo", f"{__name__}:Wanderer", run_dir="run", engine="inline", **{**SMALL, "steps": 100})
    assert run.path == tmp_path / "run"
    assert load_latest(tmp_path / "run/checkpoints") is not None


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_is_a_wish_to_stop_but_not_under_nohup(ignored: bool) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)
    try:
        with StopSignals() as signals:
            signals.hold()
            os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received == (None if ignored else "SIGHUP")
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_that_the_user_takes_care_of_are_left_to_them() -> None:
    seen: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: seen.append(number))
    try:
        with StopSignals() as signals:
            signals.hold()
            signal.raise_signal(signal.SIGUSR1)
            assert (seen, signals.received) == ([signal.SIGUSR1], None)
            signal.raise_signal(signal.SIGUSR2)
            assert signals.received == "SIGUSR2"
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL


def _stopped_and_interrupted(*, looks: bool) -> None:
    with StopSignals() as signals:
        signals.hold()
        os.kill(os.getpid(), signal.SIGTERM)
        assert not looks or signals.received == "SIGTERM"
        time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGTERM)  # a batch system's: one clean save, however many come
        os.kill(os.getpid(), signal.SIGINT)


def test_a_ctrl_c_that_nobody_looks_at_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a step of an environment in the driver's own process does not return."""
    monkeypatch.setattr("whorl.signals.UNHEARD_S", 0.0)
    _stopped_and_interrupted(looks=True)
    with pytest.raises(StalledError, match="does not return"):
        _stopped_and_interrupted(looks=False)
