"""Whole studies: real trials in real processes, stopped and killed on the way."""

from __future__ import annotations

import signal
import statistics
import tomllib
from pathlib import Path

import psutil
import pytest

import whorl
from whorl.agents.ppo.config import PPOConfig
from whorl.resolve import config_from_file
from whorl.runs.result import Result
from whorl.trainer import run_training
from whorl.tuning.report import read_result

from .watching import ended, wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"


def results(study: Path, numbers: set[str]) -> dict[str, tuple[int, int]]:
    """What tells a result that was written again from one that was not."""
    found = {number: (study / "trials" / number / "result.json").stat() for number in numbers}
    return {number: (stat.st_ino, stat.st_mtime_ns) for number, stat in found.items()}


def test_a_grid_killed_half_way_repeats_no_finished_trial(small, write, begin, whorl_tune, tmp_path):
    small["env"]["id"] = {"choices": ["CartPole-v1", "Acrobot-v1"]}
    small["tune"] = {"method": "grid", "parallel": 2}
    path, study = write(small), tmp_path / "studies" / "small"
    driver = begin(path)
    wait_for(lambda: len(ended(study)) >= 2)
    children = psutil.Process(driver.pid).children(recursive=True)
    driver.kill()
    driver.communicate()
    psutil.wait_procs(children, timeout=5)
    assert not [child for child in children if child.is_running()], "trials outlived their driver"
    finished = ended(study)
    assert 2 <= len(finished) < 6
    before = results(study, finished)

    code, out, err = whorl_tune(path)
    assert (code, err) == (0, "")
    assert "the study goes on: " in out
    assert results(study, finished) == before
    assert not [line for number in finished for line in out.splitlines() if line.startswith(f"trial {int(number)}:")]
    result = read_result(study / "result.json")
    assert (result.status, result.counts) == ("completed", {"done": 6})
    assert {best.env for best in result.best} == {"CartPole-v1", "Acrobot-v1"}
    pairs = {
        (config["env"]["id"], config["agent"]["learning_rate"])
        for config in (tomllib.loads(file.read_text()) for file in study.glob("trials/*/config.toml"))
    }
    rates = (0.0003, 0.001, 0.003)
    assert pairs == {(env, rate) for env in ("CartPole-v1", "Acrobot-v1") for rate in rates}
    assert (study / "study.png").stat().st_size > 10_000
    assert len((study / "trials.csv").read_text().splitlines()) == 7

    best = next(best for best in result.best if best.env == "CartPole-v1")
    assert Path(best.preset) == study / "best-CartPole-v1.toml"
    again = tmp_path / "again"
    assert run_training(config_from_file(Path(best.preset)), again, console=False) == 0
    trial = Result.read(study / "trials" / f"{best.trial:04d}" / "result.json")
    assert Result.read(again / "result.json").weights_sha256 == trial.weights_sha256

    code, out, _ = whorl_tune("--resume", study)
    assert (code, results(study, finished)) == (0, before), "a study that is done has nothing to do"


def test_sigterm_saves_the_trials_and_the_study_goes_on(small, write, begin, whorl_tune, tmp_path):
    small["run"]["steps"] = 30_000
    small["agent"]["learning_rate"] = {"choices": [0.001, 0.002]}
    small["tune"] = {"method": "grid", "parallel": 2}
    path, study = write(small), tmp_path / "kept"
    driver = begin(path, "--study-dir", study)
    wait_for(lambda: len(list(study.glob("trials/*/checkpoints/update-*"))) >= 4)
    driver.send_signal(signal.SIGTERM)
    out, err = driver.communicate(timeout=60)
    assert (driver.returncode, err) == (75, "")
    assert f"whorl tune --resume {study.relative_to(tmp_path)}" in out
    assert read_result(study / "result.json").counts == {"unfinished": 2}
    statuses = [Result.read(file).status for file in study.glob("trials/*/result.json")]
    assert statuses == ["preempted", "preempted"]

    (study / "tune.toml").write_text((study / "tune.toml").read_text().replace("30000", "4000"))
    for config in study.glob("trials/*/config.toml"):
        config.write_text(config.read_text().replace("steps = 30000", "steps = 4000"))
    code, out, _ = whorl_tune("--resume", study)
    assert code == 0
    assert out.count("goes on from its checkpoint at ") == 2
    assert read_result(study / "result.json").counts == {"done": 2}


FUNCTIONS = '''
import json, os, signal, time


def crashes(trial):
    rate = trial.tables["agent"]["learning_rate"]
    if rate == 0.1:
        raise RuntimeError("the simulator has no licence")
    if rate == 0.2:
        os.kill(os.getpid(), signal.SIGKILL)
    if rate == 0.3:
        os._exit(0)
    return {0.25: float("nan"), 0.35: float("-inf")}.get(rate, rate)


def curves(trial):
    """Fast ones learn, slow ones do not: lines of metrics, without any training."""
    rate = trial.tables["agent"]["learning_rate"]
    trial.run_dir.mkdir(parents=True, exist_ok=True)
    with (trial.run_dir / "metrics.jsonl").open("a", buffering=1) as file:
        for update in range(1, 31):
            file.write(json.dumps({"update": update, "env_steps": 100 * update, "return_mean": rate * update}) + "\\n")
            time.sleep(0.05 if rate < 0.5 else 0)
'''


def test_crashed_trials_are_failed_trials(small, write, whorl_tune, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    small["agent"]["learning_rate"] = {"choices": [0.1, 0.2, 0.3, 0.4, 0.25, 0.35]}
    small["tune"] = {"method": "grid", "parallel": 4, "function": "lab_functions:crashes"}
    code, out, err = whorl_tune(write(small))
    assert (code, err) == (0, "")
    result = read_result(tmp_path / "studies" / "small" / "result.json")
    assert result.counts == {"done": 1, "failed": 5}
    assert (result.best[0].trial, result.best[0].score) == (3, 0.4)
    assert "trial 0: failed: exit code 1: RuntimeError: the simulator has no licence" in out
    assert "trial 1: failed: killed by signal 9" in out
    assert "trial 2: failed: it ended without a return_mean" in out, "exit code 0 is not success"
    assert "trial 4: failed: the function returned nan (" in out, "nothing can be compared with it"
    assert "trial 5: failed: the function returned -inf (" in out
    assert whorl_tune("--resume", tmp_path / "studies" / "small")[0] == 0


def test_a_study_without_a_finished_trial_has_failed(small, write, whorl_tune, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    small["agent"]["learning_rate"] = {"choices": [0.1]}
    small["tune"] = {"method": "grid", "function": "lab_functions:crashes"}
    code, _, err = whorl_tune(write(small))
    assert code == 1
    assert err.count("\n") == 1
    assert "no trial was done; trial 0: exit code 1: RuntimeError: the simulator has no licence" in err


def test_asha_ends_trials_that_fall_behind(small, write, whorl_tune, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    small["run"]["steps"] = 3000
    small["agent"]["learning_rate"] = {"choices": [0.9, 0.1, 0.2]}
    small["tune"] = {"method": "grid", "parallel": 1, "pruning": "asha", "prune_first_steps": 300}
    small["tune"]["function"] = "lab_functions:curves"
    code, _out, err = whorl_tune(write(small))
    assert (code, err) == (0, "")
    study = tmp_path / "studies" / "small"
    assert read_result(study / "result.json").counts == {"done": 1, "pruned": 2}
    rows = [line.split(",") for line in (study / "trials.csv").read_text().splitlines()[1:]]
    assert [row[1] for row in rows] == ["done", "pruned", "pruned"]
    assert int(rows[0][3]) == 3000
    assert all(300 <= int(row[3]) < 3000 for row in rows[1:]), "at the first rung, and not at the end"


def test_another_search_in_the_same_place_is_refused(small, write, whorl_tune, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    small["agent"]["learning_rate"] = {"low": 0.4, "high": 0.5, "start": 0.45}
    small["tune"] = {"method": "random", "trials": 1, "function": "lab_functions:crashes"}
    assert whorl_tune(write(small))[0] == 0
    small["tune"]["trials"] = 3
    code, out, _ = whorl_tune(write(small))
    assert (code, out.count(": started")) == (0, 2), "more trials may be asked for"
    table = (tmp_path / "studies" / "small" / "trials.csv").read_text().splitlines()[1:]
    drawn = [float(row.split(",")[4]) for row in table]
    assert drawn[0] == 0.45, "where the user begins"
    assert len(set(drawn)) == 3, "what goes on does not draw the same again"
    small["agent"]["learning_rate"]["high"] = 0.6
    code, _, err = whorl_tune(write(small))
    assert code == 2
    assert "holds a study of another search; give another --study-dir" in err


def test_a_torn_journal_and_a_stale_lock_are_no_obstacle(small, write, whorl_tune, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    small["agent"]["learning_rate"] = {"choices": [0.4, 0.5]}
    small["tune"] = {"method": "grid", "trials": 1, "function": "lab_functions:crashes"}
    assert whorl_tune(write(small))[0] == 0
    study = tmp_path / "studies" / "small"
    with (study / "journal.log").open("a") as journal:
        journal.write('{"op_code": 4, "worker')
    (study / "journal.log.lock").symlink_to("journal.log")
    code, out, err = whorl_tune("--resume", study, "--trials", "2")
    assert (code, err) == (0, "")
    assert read_result(study / "result.json").counts == {"done": 2}
    assert "trial 0:" not in out


def test_from_python(small, tmp_path, monkeypatch):
    (tmp_path / "lab_scores.py").write_text(FUNCTIONS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    small["agent"]["learning_rate"] = {"low": 0.4, "high": 0.9}
    small["tune"] = {"method": "tpe", "function": "lab_scores:crashes", "goal": "minimise"}
    study = whorl.tune(small, study_dir="mine", trials=2, parallel=2)
    assert (study.status, study.path, len(study.trials)) == ("completed", tmp_path / "mine", 2)
    assert study.best.score == min(trial.score for trial in study.trials)
    assert study.best.values == {"agent.learning_rate": study.best.score}
    assert whorl.tune(small, study_dir="mine", trials=3).result.counts == {"done": 3}


@pytest.mark.verify
@pytest.mark.timeout(1800)
def test_tpe_with_pruning_beats_the_preset_and_the_defaults_on_cartpole(tmp_path, figure):
    """What users get (the preset, tuned by hand) and PPO's own defaults against the best of a bounded search: 20,000
    steps each, on seeds that the search never saw. Better means: in the median, and on most seeds."""
    study = whorl.tune(EXAMPLES / "cartpole-tpe.toml", study_dir=tmp_path / "study")
    assert study.status == "completed"
    most_beyond = 128 * 8  # the rows of the longest trajectories: a trial ends with the update that reaches its steps
    assert study.result.env_steps <= 30 * (20_000 + most_beyond)
    figure("search_env_steps", study.result.env_steps)
    figure("trials_pruned", study.result.counts.get("pruned", 0))
    agent = PPOConfig()
    defaults = {name: getattr(agent, name.removeprefix("agent.")) for name in study.best.values}
    every = {}
    for name, values in (("defaults", defaults), ("preset", {}), ("found", study.best.values)):
        returns = [
            whorl.train(
                "ppo", "CartPole-v1", run_dir=tmp_path / f"{name}-{seed}", steps=20_000, seed=seed, set=values
            ).result.return_mean
            for seed in (11, 12, 13, 14, 15)
        ]
        every[name] = returns
        figure(f"return_with_{name}", [round(value, 1) for value in returns])
    for other, fewest in (("preset", 3), ("defaults", 4)):
        assert statistics.median(every["found"]) > statistics.median(every[other])
        assert sum(found > given for found, given in zip(every["found"], every[other], strict=True)) >= fewest
