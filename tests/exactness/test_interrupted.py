"""Stopped, killed and resumed runs end with the weights of the undisturbed one. Where, is drawn."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import whorl
from whorl.runs.metrics import read_metrics
from whorl.runs.result import Result

from .conftest import EVERYTHING, settings

LOCAL = {"engine": "local", "actors": 2, "envs_per_actor": 4}
UPDATES = 12
STEPS = UPDATES * 8 * 32 - 200  # rows that follow an episode's end are no steps

interruptions = st.lists(st.integers(1, UPDATES - 1), max_size=2, unique=True).map(sorted)
kills = st.lists(st.tuples(st.integers(0, 1), st.integers(0, UPDATES * 32 - 1)), max_size=3, unique=True)


@cache
def undisturbed(kind: str, env: str, workflow: str, steps: int) -> str:
    agent, keywords = settings(kind, steps=steps, workflow=workflow)
    with TemporaryDirectory() as folder:
        return whorl.train(agent, env, run_dir=Path(folder) / "run", **keywords).result.weights_sha256


def run_with(
    kind: str, env: str, workflow: str, steps: int, stops: list[int], faults: str, monkeypatch: pytest.MonkeyPatch
) -> Result:
    """Train on ``local``, stopping after the given updates, with planned faults in each session."""
    agent, keywords = settings(kind, steps=steps, workflow=workflow, **LOCAL)
    monkeypatch.setenv("WHORL_FAULT", faults)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        trainer = whorl.Trainer(agent, env, run_dir=path, **keywords)
        for stop in stops:
            with trainer:
                trainer.step(stop - trainer.updates)
            trainer = whorl.Trainer.resume(path)
        with trainer:
            trainer.step(10**9)
        assert list(read_metrics(path / "metrics.jsonl")["update"]) == list(range(1, trainer.updates + 1))
        return Result.read(path / "result.json")


def check_interrupted(
    kind: str, env: str, workflow: str, steps: int, stops: list[int], killed: list[tuple[int, int]], learner: int
) -> None:
    faults = [f"actor:{actor}:env_step={row}:kill" for actor, row in killed]
    if learner:
        faults.append(f"learner:0:update={learner}:kill")
    with pytest.MonkeyPatch.context() as monkeypatch:
        result = run_with(kind, env, workflow, steps, stops, ",".join(faults), monkeypatch)
    assert result.exact
    assert result.transitions.balanced
    assert result.weights_sha256 == undisturbed(kind, env, workflow, steps)


@hypothesis_settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    workflow=st.sampled_from(["sync", "overlap"]), stops=interruptions, killed=kills, learner=st.sampled_from([0, 0, 5])
)
def test_stops_and_kills_anywhere_leave_no_trace(
    workflow: str, stops: list[int], killed: list[tuple[int, int]], learner: int
) -> None:
    check_interrupted("ppo", "CartPole-v1", workflow, STEPS, stops, killed, learner)


def test_every_kind_of_interruption_at_once() -> None:
    check_interrupted("lstm ppo", "Pendulum-v1", "overlap", STEPS, [3, 7], [(0, 5), (1, 100), (0, 300)], 9)


@pytest.mark.parametrize("kind", ["dqn", "lstm dqn"])
def test_a_replay_outlives_interruptions(kind: str) -> None:
    check_interrupted(kind, "CartPole-v1", "sync", STEPS, [3, 7], [(0, 5), (1, 100)], 9)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_driver_ended_by_a_signal_goes_on_as_the_same_run(tmp_path: Path, number: int) -> None:
    agent, keywords = settings("a2c", steps=STEPS)
    path = tmp_path / "run"
    command = [sys.executable, "-m", "whorl", "--quiet"]
    sets = [word for name, value in keywords["set"].items() for word in ("--set", f"{name}={_text(value)}")]
    flags = ["--steps", str(STEPS), "--seed", "7", "--engine", "local", "--actors", "2", "--envs-per-actor", "4"]
    process = subprocess.Popen([*command, "train", agent, "CartPole-v1", "--run-dir", str(path), *flags, *sets])
    _wait_for_updates(path, 4, process)
    process.send_signal(number)
    code = process.wait(30)
    assert code in ((0, 75) if number == signal.SIGTERM else (0, -signal.SIGKILL))
    assert subprocess.run([*command, "resume", str(path)], timeout=60).returncode == 0
    assert Result.read(path / "result.json").weights_sha256 == undisturbed("a2c", "CartPole-v1", "sync", STEPS)


def _text(value: object) -> str:
    return str(list(value)) if isinstance(value, tuple) else str(value)


def _wait_for_updates(path: Path, updates: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if (
            len(list(path.glob("checkpoints/update-*")))
            and int(max(path.glob("checkpoints/update-*")).name[7:16]) >= updates
        ):
            return
        time.sleep(0.01)


@pytest.mark.verify
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("kind", "env"), EVERYTHING)
@hypothesis_settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    workflow=st.sampled_from(["sync", "overlap"]),
    stops=st.lists(st.integers(1, 190), max_size=3, unique=True).map(sorted),
    killed=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 190 * 32)), max_size=8, unique=True),
    learner=st.sampled_from([0, 20, 100]),
)
def test_anything_at_length(
    kind: str, env: str, workflow: str, stops: list[int], killed: list[tuple[int, int]], learner: int
) -> None:
    check_interrupted(kind, env, workflow, 50_000, stops, killed, learner)
