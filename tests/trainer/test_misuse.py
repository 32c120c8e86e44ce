"""A trainer in unlucky hands: wrong arguments, Ctrl-C at any moment. Nothing that was learnt is lost."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.errors import BadInputError
from whorl.runs.checkpoint import load_latest
from whorl.signals import HeldInterrupt

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


def _interrupt_during(action: Any, delay_s: float = 0.5) -> None:
    timer = threading.Timer(delay_s, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            action()
    finally:
        timer.join()


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_ctrl_c_in_a_step_loses_nothing(tmp_path: Path, engine: str) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run", engine=engine, **SMALL) as trainer:
        trainer.step()
        _interrupt_during(lambda: trainer.step(10**6))
        reached = trainer.updates
        assert reached > 1
        assert trainer.step()["update"] > reached  # the user may go on
        _interrupt_during(lambda: trainer.step(10**6))
        reached = trainer.updates
    checkpoint = load_latest(tmp_path / "run/checkpoints")
    assert checkpoint is not None
    assert checkpoint.update >= reached
    assert whorl.load(tmp_path / "run").status == "stopped"


def test_a_second_ctrl_c_comes_at_once() -> None:
    after = []
    with pytest.raises(KeyboardInterrupt), HeldInterrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.came
        with HeldInterrupt() as inner:
            assert not inner.came
        os.kill(os.getpid(), signal.SIGINT)
        after.append("not reached")
    assert not after
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
