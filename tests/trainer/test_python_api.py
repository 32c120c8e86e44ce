"""``whorl.train``, ``whorl.Trainer`` and ``whorl.load``, as a user calls them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import whorl
from accounts import check_transitions
from whorl.cli.main import main
from whorl.errors import BadInputError, ConfigError, MissingExtraError, WhorlError

SMALL = {"agent.rows": 32, "agent.epochs": 2, "agent.minibatches": 1}
"""Whatever the preset says: about 250 env steps per update."""
ENGINES: list[dict[str, Any]] = [
    {"engine": "inline", "actors": 1, "envs_per_actor": 8, "set": SMALL},
    {"engine": "local", "actors": 2, "envs_per_actor": 4, "set": SMALL},
]
engines = pytest.mark.parametrize("engine", ENGINES, ids=["inline", "local"])


@engines
def test_train_returns_a_run(tmp_path: Path, engine: dict[str, Any]) -> None:
    run = whorl.train("ppo", "CartPole-v1", steps=1200, run_dir=tmp_path / "run", **engine)
    assert run.path == tmp_path / "run"
    assert run.status == "completed"
    assert run.result.env_steps >= 1200
    assert run.result.updates == len(run.metrics["return_mean"]) == run.metrics["update"][-1]
    assert run.metrics["update"].tolist() == list(range(1, run.result.updates + 1))
    assert run.metrics["env_steps"].dtype.kind == "i"
    assert run.metrics["env_steps"][-1] == run.result.env_steps
    assert np.isfinite(run.metrics["policy_loss"]).all()
    assert run.policy.act([0.0, 0.1, 0.0, -0.1]) in (0, 1)
    assert run.policy.act(np.zeros(4, np.float32)) in (0, 1)
    again = whorl.load(tmp_path / "run")
    assert again.result == run.result


def test_a_variable_that_is_not_utf8_does_not_keep_a_run_from_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOWN", os.fsdecode(b"Orl\xe9ans"))
    run = whorl.train("ppo", "CartPole-v1", steps=300, run_dir=tmp_path / "run", **ENGINES[1])
    assert run.status == "completed"


OWN_LOOP = """
import sys, time, whorl
with whorl.Trainer("ppo", "CartPole-v1", steps=10**7, run_dir="run", actors=2, envs_per_actor=4, **{}) as trainer:
    while not trainer.done:
        trainer.step()
        print(trainer.updates, flush=True)
print("what comes after the loop is for runs that are done")
"""


def run_own_loop(folder: Path, script: str, **variables: str) -> subprocess.Popen[str]:
    path = os.pathsep.join([str(Path(whorl.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # below nohup it is ignored, and stays so
    )


@engines
@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP", "SIGUSR1", "the end of the job's time"])
def test_a_loop_of_the_users_own_is_saved_before_its_job_ends(tmp_path: Path, engine: dict[str, Any], how: str) -> None:
    script = OWN_LOOP.format({"engine": engine["engine"], "set": SMALL})
    limit = {} if how.startswith("SIG") else {"WHORL_JOB_BEGAN": str(int(time.time())), "WHORL_JOB_SECONDS": "16"}
    process = run_own_loop(tmp_path, script, **limit)
    assert process.stdout is not None
    assert process.stdout.readline() == "1\n"
    if how.startswith("SIG"):
        process.send_signal(getattr(signal, how))
    out, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert err == f"whorl: stopped by {how}, saved; whorl.Trainer.resume('run') goes on\n"
    assert "after the loop" not in out
    run = whorl.load(tmp_path / "run")
    assert (run.status, run.result.updates) == ("preempted", len(run.metrics["update"]))
    with whorl.Trainer.resume(tmp_path / "run") as trainer:
        assert trainer.updates == run.result.updates
        trainer.step()


def test_a_program_that_handles_sigterm_itself_is_left_to_do_so(tmp_path: Path) -> None:
    """A trainer leaves the signals as it has found them."""
    seen: list[int] = []
    job: dict[str, Any] = {"steps": 2000, "engine": "inline", "set": SMALL}
    before = signal.signal(signal.SIGTERM, lambda number, _frame: seen.append(number))
    try:
        with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "own", **job) as trainer:
            signal.raise_signal(signal.SIGTERM)
            trainer.step()
        assert seen == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "ours", **job) as trainer:
        assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
        trainer.step()
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_setting_can_be_given_by_its_dotted_name(tmp_path: Path) -> None:
    run = whorl.train("ppo", "CartPole-v1", steps=300, run_dir=tmp_path / "run", set={"agent.learning_rate": 0.0005})
    assert "learning_rate = 0.0005" in (run.path / "config.toml").read_text()
    with pytest.raises(ConfigError, match=r"did you mean agent\.learning_rate"):
        whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "other", set={"agent.learnig_rate": 0.1})
    with pytest.raises(ConfigError, match=r"did you mean run\.steps"):
        whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "other", stepps=3)
    assert not (tmp_path / "other").exists()


@engines
def test_a_trainer_under_the_users_own_loop(tmp_path: Path, engine: dict[str, Any]) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", steps=2500, run_dir=tmp_path / "run", **engine) as trainer:
        assert (trainer.updates, trainer.env_steps, trainer.done) == (0, 0, False)
        first = trainer.step()
        assert (trainer.updates, first["update"]) == (1, 1)
        assert trainer.env_steps == first["env_steps"] > 0
        assert trainer.step(updates=2)["update"] == 3
        check_transitions(trainer.transitions, trainer.path)
        assert trainer.transitions.used == trainer.env_steps <= trainer.transitions.collected
        assert trainer.phase_seconds["learner"]["learning"] > 0
        assert trainer.phase_seconds["actor"]["environment"] > 0
        checkpoint = trainer.save()
        assert checkpoint.parent == trainer.path / "checkpoints"
        assert json.loads((checkpoint / "manifest.json").read_text())["update"] == 3
        before = trainer.evaluate(episodes=3)
        assert before == trainer.evaluate(episodes=3)
        assert (before["episodes"], before["return_mean"] >= 1) == (3, True)
        assert trainer.policy().act(np.zeros(4)) in (0, 1)
        assert trainer.updates == 3  # looking at it does not move it
        while not trainer.done:
            last = trainer.step()
        assert last["env_steps"] >= 2500
        assert trainer.step() == last  # a run that is done stays where it is
        assert trainer.save() == trainer.save()
        assert trainer.save().name == f"update-{trainer.updates:09d}"
        assert trainer.evaluate(episodes=2)["episodes"] == 2
        trainer.close()
        trainer.close()
    run = whorl.load(tmp_path / "run")
    assert run.status == "completed"
    straight = whorl.train("ppo", "CartPole-v1", steps=2500, run_dir=tmp_path / "straight", **engine)
    assert straight.result.weights_sha256 == run.result.weights_sha256


@engines
def test_a_trainer_that_is_left_early_can_be_resumed(tmp_path: Path, engine: dict[str, Any]) -> None:
    with whorl.Trainer("ppo", "CartPole-v1", steps=2000, run_dir=tmp_path / "run", **engine) as trainer:
        trainer.step(2)
    stopped = whorl.load(tmp_path / "run")
    assert (stopped.status, stopped.result.updates) == ("stopped", 2)
    assert stopped.policy.act(np.zeros(4)) in (0, 1)
    with whorl.Trainer.resume(tmp_path / "run") as trainer:
        trainer.step()
        assert trainer.updates == 3
        while not trainer.done:
            trainer.step()
    resumed = whorl.load(tmp_path / "run")
    straight = whorl.train("ppo", "CartPole-v1", steps=2000, run_dir=tmp_path / "straight", **engine)
    assert resumed.status == "completed"
    assert resumed.result.weights_sha256 == straight.result.weights_sha256
    assert resumed.metrics["update"].tolist() == straight.metrics["update"].tolist()
    assert resumed.metrics["return_mean"].tolist() == straight.metrics["return_mean"].tolist()


def test_an_exception_in_the_users_loop_comes_out_and_ends_every_process(tmp_path: Path) -> None:
    def loop() -> None:
        with whorl.Trainer("ppo", "CartPole-v1", engine="local", run_dir=tmp_path / "run") as trainer:
            raise ZeroDivisionError(f"after update {trainer.step()['update']}")

    with pytest.raises(ZeroDivisionError, match="after update 1"):
        loop()
    assert whorl.load(tmp_path / "run").status == "stopped"


def test_a_closed_trainer_says_so(tmp_path: Path) -> None:
    trainer = whorl.Trainer("ppo", "CartPole-v1", steps=600, run_dir=tmp_path / "run")
    trainer.step()
    trainer.close()
    for use in (trainer.step, trainer.save, trainer.policy, trainer.evaluate):
        with pytest.raises(WhorlError, match="the trainer is closed"):
            use()


def test_the_written_config_reproduces_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {"agent.network.core": "lstm", "agent.network.lstm_size": 8, "env.kwargs.g": 9.0, "agent.rows": 32}
    settings["agent.normalise_observations"] = True
    first = whorl.train("ppo", "Pendulum-v1", steps=600, seed=5, run_dir=tmp_path / "first", set=settings)
    config = str(first.path / "config.toml")
    assert main(["train", config, "--run-dir", str(tmp_path / "second"), "--quiet"]) == 0
    second = whorl.load(tmp_path / "second")
    assert second.result.weights_sha256 == first.result.weights_sha256
    assert (second.path / "config.toml").read_text() == (first.path / "config.toml").read_text()
    assert main(["train", config, "--run-dir", str(tmp_path / "third"), "--quiet", "--seed", "6"]) == 0
    assert whorl.load(tmp_path / "third").result.weights_sha256 != first.result.weights_sha256


def test_a_run_is_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run"
    first = whorl.train("ppo", "CartPole-v1", steps=300, run_dir=path)
    kept = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with pytest.raises(BadInputError, match="holds a run already; `whorl resume"):
        whorl.train("ppo", "CartPole-v1", steps=300, run_dir=path)
    with pytest.raises(BadInputError, match="holds a run already"):
        whorl.Trainer("a2c", "CartPole-v1", run_dir=path)
    assert main(["train", "ppo", "CartPole-v1", "--run-dir", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == kept
    assert whorl.load(path).result == first.result


def test_runs_are_numbered_by_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    paths = [whorl.train("ppo", "CartPole-v1", steps=300).path for _ in range(2)]
    assert paths == [tmp_path / "runs/ppo-CartPole-v1-1", tmp_path / "runs/ppo-CartPole-v1-2"]


def test_tensorboard_reads_what_a_run_wrote(tmp_path: Path) -> None:
    """Also across a stop: what was written beyond the checkpoint is forgotten, and nothing comes twice."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    path = tmp_path / "run"
    with whorl.Trainer(
        "ppo", "CartPole-v1", steps=1500, run_dir=path, set={**SMALL, "run.tensorboard": True}
    ) as trainer:
        trainer.step(2)
    with whorl.Trainer.resume(path) as trainer:
        while not trainer.done:
            trainer.step()
    metrics = whorl.load(path).metrics
    events = EventAccumulator(str(path / "tensorboard"))
    events.Reload()
    for name in ("return_mean", "policy_loss", "entropy"):
        scalars = events.Scalars(name)
        assert [scalar.step for scalar in scalars] == metrics["env_steps"].tolist()
        assert [scalar.value for scalar in scalars] == pytest.approx(metrics[name].tolist(), rel=1e-6)


def test_tensorboard_missing_is_refused_before_a_run_directory_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "tensorboard.compat.proto", None)
    with pytest.raises(MissingExtraError, match=r"whorl\[tensorboard\]"):
        whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", set={"run.tensorboard": True})
    assert not (tmp_path / "run").exists()


def test_loading_what_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no such run directory"):
        whorl.load(tmp_path / "nowhere")
    with pytest.raises(BadInputError, match="no such run directory"):
        whorl.Trainer.resume(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("device", "message"),
    [
        ("gpu", "expected cpu, cuda or cuda:N; got 'gpu'"),
        (f"cuda:{'9' * 5000}", "expected cpu"),
        ("cuda:99", "there is no cuda:99, PyTorch sees "),
    ],
)
def test_a_device_that_is_not_there_is_refused(tmp_path: Path, device: str, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^resources.device: {message}"):
        whorl.train("ppo", "CartPole-v1", run_dir=tmp_path / "run", device=device)
    assert not (tmp_path / "run").exists()


def test_the_result_tells_what_each_kind_of_role_used(tmp_path: Path) -> None:
    run = whorl.train("ppo", "CartPole-v1", steps=600, engine="local", actors=2, run_dir=tmp_path / "run")
    assert set(run.result.resources) == {"actor", "learner"}
    for used in run.result.resources.values():
        assert used["memory_bytes"] > 5e6
        assert used["cpu_share"] > 0


def test_a_run_that_has_not_ended_says_so(tmp_path: Path) -> None:
    with (
        whorl.Trainer("ppo", "CartPole-v1", run_dir=tmp_path / "run"),
        pytest.raises(BadInputError, match="has not ended: it is still going on, or `whorl resume"),
    ):
        whorl.load(tmp_path / "run")


@engines
def test_the_last_update_may_be_followed_at_once_by_anything(tmp_path: Path, engine: dict[str, Any]) -> None:
    """The learner is ending just then: whatever is asked of it, its last checkpoint answers."""
    asks = {"policy": lambda run: run.policy().act(np.zeros(4)), "save": lambda run: run.save()}
    for name, ask in asks.items():
        with whorl.Trainer("ppo", "CartPole-v1", steps=400, run_dir=tmp_path / name, **engine) as trainer:
            trainer.step(2)
            assert ask(trainer) is not None
        assert whorl.load(tmp_path / name).status == "completed"


def test_a_trainer_may_rest_for_longer_than_roles_are_patient(tmp_path: Path) -> None:
    settings = {"engine.patience_s": 12.0, "agent.rows": 16}  # long enough to start
    with whorl.Trainer(
        "ppo", "CartPole-v1", run_dir=tmp_path / "run", actors=2, learners=2, engine="local", set=settings
    ) as trainer:
        trainer.step(2)
        time.sleep(13.0)
        trainer.step(1)
        assert trainer.updates == 3
