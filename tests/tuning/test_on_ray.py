"""Trials across a Ray cluster of three nodes."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from leakcheck import has_ended
from whorl.errors import EXIT_FAILED, ConfigError
from whorl.tuning.executor import END_S, Ended, Order
from whorl.tuning.ray import RayExecutor
from whorl.tuning.report import read_result
from whorl.tuning.settings import TuneConfig

from .watching import ended, wait_for

FUNCTIONS = """
import json, os, pathlib, psutil, time


def score(trial):
    rate = trial.tables["agent"]["learning_rate"]
    host = psutil.Process().parent()
    trial.run_dir.mkdir(parents=True, exist_ok=True)
    (trial.run_dir / "place.json").write_text(json.dumps([os.getpid(), host.pid, host.parent().pid]))
    while rate >= 0.3 and not pathlib.Path("go").exists():
        time.sleep(0.05)
    return rate
"""


def places(study: Path) -> dict[str, list[int]]:
    """Of each trial: its process, its host's, and the raylet's that had started that."""
    return {file.parent.name: json.loads(file.read_text()) for file in study.glob("trials/*/place.json")}


@pytest.fixture
def on_ray(small: dict[str, Any], ray_nodes: Any) -> dict[str, Any]:
    """A grid of six in threes, each with a third of a node's four slots."""
    small["agent"]["learning_rate"] = {"choices": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}
    small["tune"] = {"method": "grid", "parallel": 3, "engine": "ray", **ray_nodes.settings}
    small["tune"]["resources_per_trial"] = {"slot": 3}
    return small


def test_trials_on_several_nodes_killed_half_way_are_not_repeated(
    on_ray, write, begin, whorl_tune, tmp_path, ray_nodes
):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    on_ray["tune"]["function"] = "lab_functions:score"
    path, study = write(on_ray), tmp_path / "studies" / "small"
    driver = begin(path)
    wait_for(lambda: len(ended(study)) == 2 and len(places(study)) == 5, 90)
    trials = [psutil.Process(where[0]) for name, where in places(study).items() if name not in ended(study)]
    driver.kill()
    driver.communicate()
    _, alive = psutil.wait_procs(trials, timeout=20)
    assert not alive, "trials outlived their driver"
    before = {name: where for name, where in places(study).items() if name in ended(study)}

    (tmp_path / "go").touch()
    code, out, err = whorl_tune(path)
    assert (code, err) == (0, "")
    assert "the study goes on: " in out
    result = read_result(study / "result.json")
    assert (result.status, result.counts) == ("completed", {"done": 6})
    assert (result.best[0].trial, result.best[0].score) == (5, 0.6)
    after = places(study)
    assert {name: after[name] for name in before} == before
    raylets = {where[2] for where in after.values()}
    assert raylets <= set(ray_nodes.raylets.values())
    assert len(raylets) == 3, "each node has room for one"


def test_trials_that_wait_for_a_place_do_not_keep_a_study_from_ending(on_ray, write, begin, tmp_path):
    """Each of the four asks for a whole node of the three: one waits."""
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    on_ray["agent"]["learning_rate"] = {"choices": [0.3, 0.4, 0.5, 0.6]}
    on_ray["tune"] |= {"function": "lab_functions:score", "parallel": 4, "resources_per_trial": {"slot": 4}}
    study = tmp_path / "studies" / "small"
    driver = begin(write(on_ray))
    wait_for(lambda: len(places(study)) == 3, 90)
    driver.send_signal(signal.SIGTERM)
    out, err = driver.communicate(timeout=40)
    assert (driver.returncode, err) == (75, "")
    assert "Preempted, saved and resumable: 4 unfinished" in out
    assert ended(study) == set(), "a trial that had no place has not failed"
    assert all(has_ended(where[0]) for where in places(study).values())


@pytest.mark.verify
def test_a_trial_that_cannot_be_reached_does_not_keep_a_study_from_ending(on_ray, write, begin, tmp_path):
    """Its host is stopped, and hears nothing."""
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    on_ray["agent"]["learning_rate"] = {"choices": [0.3]}
    on_ray["tune"]["function"] = "lab_functions:score"
    study = tmp_path / "studies" / "small"
    driver = begin(write(on_ray))
    wait_for(lambda: len(places(study)) == 1, 90)
    trial, host, _ = places(study)["0000"]
    os.kill(host, signal.SIGSTOP)
    driver.send_signal(signal.SIGTERM)
    begun = time.monotonic()
    _, err = driver.communicate(timeout=120)
    assert (driver.returncode, err) == (75, "")
    assert time.monotonic() - begun < END_S + 30
    assert ended(study) == set()
    wait_for(lambda: has_ended(trial), 20)


@pytest.mark.verify
def test_a_trial_whose_place_is_lost_goes_on_in_another(on_ray, write, begin, tmp_path):
    (tmp_path / "lab_functions.py").write_text(FUNCTIONS)
    on_ray["agent"]["learning_rate"] = {"choices": [0.3]}
    on_ray["tune"]["function"] = "lab_functions:score"
    study = tmp_path / "studies" / "small"
    driver = begin(write(on_ray))
    wait_for(lambda: len(places(study)) == 1, 90)
    first = places(study)["0000"]
    os.kill(first[1], signal.SIGKILL)
    wait_for(lambda: places(study)["0000"] != first, 90)
    assert has_ended(first[0])
    (tmp_path / "go").touch()
    _, err = driver.communicate(timeout=60)
    assert (driver.returncode, err) == (0, "")
    assert read_result(study / "result.json").counts == {"done": 1}


@pytest.mark.verify
def test_environments_times_learning_rates_across_the_cluster(small, write, whorl_tune, tmp_path, ray_nodes):
    small["env"]["id"] = {"choices": ["CartPole-v1", "Acrobot-v1"]}
    small["tune"] = {"method": "grid", "engine": "ray", "cpus_per_trial": 4, **ray_nodes.settings}
    code, _, err = whorl_tune(write(small))
    assert (code, err) == (0, "")
    result = read_result(tmp_path / "studies" / "small" / "result.json")
    assert (result.status, result.counts) == ("completed", {"done": 6})
    assert {best.env for best in result.best} == {"CartPole-v1", "Acrobot-v1"}


def test_what_the_cluster_does_not_have_is_refused_in_one_line(ray_nodes):
    for asked, said in (
        ({"gpus_per_trial": 0.5}, "a trial asks for 0.5 GPU and the Ray cluster at .* has 0$"),
        ({"resources_per_trial": {"telescope": 1}}, "a trial asks for 1 telescope and the Ray cluster at .* has 0$"),
        ({"resources_per_trial": {"CPU": 1}}, "use tune.cpus_per_trial"),
        ({"cpus_per_trial": 9}, "a trial asks for 9 CPU and no node of the Ray cluster at .* has more than 8; "),
    ):
        with pytest.raises(ConfigError, match=said):
            RayExecutor(TuneConfig(engine="ray", **ray_nodes.settings, **asked), 4)


def test_a_trial_that_its_host_cannot_begin_has_failed_and_says_why(ray_nodes, tmp_path):
    """Each node has four slots: of the twelve, no fourth trial can have three."""
    settings = TuneConfig(engine="ray", **ray_nodes.settings, resources_per_trial={"slot": 3})
    executor = RayExecutor(settings, 9)
    try:
        assert executor.slots == 3
        executor.start(Order(7, str(tmp_path / "run"), str(tmp_path / "nowhere" / "log"), {}, "here"))
        ended: list[Ended] = []
        wait_for(lambda: bool(ended.extend(executor.wait(0.2)) or ended))
    finally:
        executor.close()
    assert (ended[0].number, ended[0].code) == (7, EXIT_FAILED)
    assert ended[0].error.startswith("FileNotFoundError: ")
    assert str(tmp_path / "nowhere" / "log") in ended[0].error
