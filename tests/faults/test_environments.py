"""Environments that raise, die, hang, leak or return nonsense."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from running import LOCAL, SOURCE, Ended, also_long, kwargs_of_env, metric_updates, result_of, whorl

from whorl.ops.keys import reset_seed

PROCESS = ("--set", "env.hosting=process")
INSIDE = ("--set", "env.hosting=inside")


SHORT = ("--steps", "1000")
"""Four updates: enough for the deadly first episode of lane 1 (a share of 0.05) and few others."""


def train(env: str, run_dir: Path, *settings: str, prefix: tuple[str, ...] = (), **kwargs: object) -> Ended:
    arguments = ("train", "ppo", f"whorl/{env}", *LOCAL, *kwargs_of_env(**kwargs), *settings)
    return whorl(*arguments, "--run-dir", run_dir, prefix=prefix)


def last_metrics(run_dir: Path) -> dict[str, Any]:
    return json.loads((run_dir / "metrics.jsonl").read_text().splitlines()[-1])


@pytest.mark.parametrize("how", ["raise", "raise_reset", *also_long("exit")])
def test_raising_environments_are_made_anew_and_the_first_is_told(run_dir: Path, how: str) -> None:
    ended = train("Crash-v0", run_dir, how=how, p=0.01)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    assert (result["status"], result["exact"]) == ("completed", True)  # the same faults come again each time
    assert result["restarts"] == {"learner": 0, "actor": 0}
    assert ended.warnings
    for warning in ended.warnings:
        assert "of its environments, which were made anew; the last: whorl/Crash-v0: lane " in warning
        assert ("reset raised" if how == "raise_reset" else "step raised") in warning
    if how != "raise_reset":
        assert last_metrics(run_dir)["faults"] > 10
    logs = (run_dir / "logs").glob("actor-*.log")
    assert any("environment faults so far" in path.read_text() for path in logs)


def test_an_environment_that_raises_in_close_is_left_alone(run_dir: Path, wrapped_reference: str) -> None:
    ended = train("Crash-v0", run_dir, how="raise_close")
    assert (ended.code, ended.err, ended.warnings) == (0, "", [])
    assert result_of(run_dir)["weights_sha256"] == wrapped_reference
    for command in (("eval", run_dir, "--episodes", "1"), ("export", run_dir, "--to", "torchscript")):
        ended = whorl(*command)
        assert (ended.code, ended.err) == (0, ""), command


def test_an_environment_that_always_raises_is_refused_before_the_run(run_dir: Path) -> None:
    ended = train("Crash-v0", run_dir, how="raise", at=1)
    assert ended.code == 1
    assert "step raised RuntimeError: whorl/Crash-v0 at env step 1" in ended.complaint
    assert not run_dir.exists()


@pytest.mark.parametrize("how", ["exit0", *also_long("segfault")])
def test_a_deadly_episode_inside_an_actor_is_given_up_with_its_cause(run_dir: Path, how: str) -> None:
    """It dies of the same step each time: three deaths, then the run goes on without the episode, and says so."""
    ended = train("Crash-v0", run_dir, *INSIDE, *SHORT, how=how, at=12, share=0.05)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    given_up = [warning for warning in ended.warnings if "its episode is given up" in warning]
    assert given_up
    assert result["restarts"]["actor"] in (3, 6)  # one episode, or two of the same lane
    assert result["exact"] is False
    lane = given_up[0].partition("the environment of lane ")[2].partition(" ")[0]
    cause = {"exit0": "exited with code 0", "segfault": "killed by SIGSEGV"}[how]
    assert f"({cause} in the environment of lane {lane}" in given_up[0]
    assert "env.hosting=process would keep its neighbours out of it" in given_up[0]
    assert metric_updates(run_dir) == list(range(1, result["updates"] + 1))


def test_a_deadly_episode_in_a_process_of_its_own_spares_the_actor(run_dir: Path) -> None:
    ended = train("Crash-v0", run_dir, *PROCESS, *SHORT, how="kill", at=12, share=0.05)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    assert result["restarts"]["actor"] == 0
    assert result["restarts"]["env"] >= 3
    assert result["restarts"]["env"] % 3 == 0
    assert result["exact"] is False
    assert any("its process died there 3 times; the episode is given up" in warning for warning in ended.warnings)


@pytest.mark.parametrize("hosting", [INSIDE, PROCESS], ids=["inside", "process"])
def test_an_environment_that_dies_of_its_first_step_always_ends_the_run(
    run_dir: Path, hosting: tuple[str, ...]
) -> None:
    started = time.monotonic()
    ended = train("Crash-v0", run_dir, *hosting, "--actors", "1", "--envs-per-actor", "2", how="kill", at=1)
    assert ended.code == 1
    assert time.monotonic() - started < 45
    assert "times without a new update between" in ended.complaint
    assert "killed by SIGKILL in the environment of lane " in ended.complaint
    assert "; see " in ended.complaint
    assert any("ended its process (SIGKILL) while probing it" in warning for warning in ended.warnings)
    assert sum(result_of(run_dir)["restarts"].values()) <= 24


@pytest.mark.parametrize(
    ("how", "hosting"), [("gil", INSIDE), ("sleep", PROCESS)], ids=["gil inside", "sleep in a process"]
)
def test_a_step_that_never_returns_is_a_death_at_its_deadline(
    run_dir: Path, how: str, hosting: tuple[str, ...]
) -> None:
    ended = train("Hang-v0", run_dir, *hosting, "--set", "env.step_timeout_s=0.3", *SHORT, how=how, at=12, share=0.05)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    assert result["status"] == "completed"
    assert sum(result["restarts"].values()) >= 3
    assert any("hung in the environment of lane " in warning for warning in ended.warnings)


def test_a_slow_step_is_left_alone(run_dir: Path, wrapped_reference: str) -> None:
    """Five times as long as the others and well within the deadline: no death, the same weights."""
    ended = train("Slow-v0", run_dir, step_time_s=0.002, distribution="mixture", cv=1.42, work="spin")
    assert (ended.code, ended.warnings) == (0, [])
    result = result_of(run_dir)
    assert set(result["restarts"].values()) == {0}
    assert result["weights_sha256"] == wrapped_reference


@pytest.mark.parametrize("field", ["obs", "reward"])
def test_what_is_not_finite_is_refused_with_environment_step_and_field(run_dir: Path, field: str) -> None:
    ended = train("NaN-v0", run_dir, field=field, at=60)
    assert ended.code == 1
    expected = {
        "obs": "obs[3]: expected finite numbers, got nan",
        "reward": "reward: expected a finite float32, got nan",
    }
    assert "whorl/NaN-v0: lane " in ended.complaint
    assert ", env step 60: " in ended.complaint
    assert expected[field] in ended.complaint
    assert "`whorl check-env whorl/NaN-v0` tells more" in ended.complaint
    result = result_of(run_dir)
    assert result["status"] == "failed"
    assert set(result["restarts"].values()) == {0}  # trying again would not mend it


WRONG = {
    "shape": "position: expected float of shape (4,), got float32 of shape (5,)",
    "dtype": "position: expected float of shape (4,), got int64 of shape (4,)",
    "range": "mode: expected an integer in 0..2, got 7",
    "missing_key": "expected a dict with keys ['mode', 'position'], got no 'mode'",
    "space_changed": "position: expected float of shape (4,), got float32 of shape (6,)",
    "huge": "expected at most 67108864 bytes (env.max_observation_bytes), got 500000000 bytes",
}


@pytest.mark.parametrize("how", WRONG)
def test_what_its_spaces_forbid_is_refused_expected_against_got(run_dir: Path, how: str) -> None:
    ended = train("WrongShape-v0", run_dir, how=how)
    assert ended.code == 1
    assert WRONG[how] in ended.complaint
    assert not run_dir.exists()


@pytest.mark.parametrize("how", ["fork", "info", *also_long("chdir", "signals", "threads", "memory")])
def test_leaks_and_reaching_out_change_nothing(run_dir: Path, wrapped_reference: str, how: str) -> None:
    """Children of an environment die with it (see the check for left-overs around every test)."""
    ended = train("Leak-v0", run_dir, how=how)
    assert (ended.code, ended.err) == (0, "")
    result = result_of(run_dir)
    assert result["weights_sha256"] == wrapped_reference
    if how == "info":
        assert result["resources"]["actor"]["memory_bytes"] < 300e6


def test_an_environment_out_of_descriptors_is_recycled(run_dir: Path) -> None:
    ended = train("Leak-v0", run_dir, how="descriptors", prefix=("sh", "-c", 'ulimit -n 300; exec "$@"', "sh"))
    assert (ended.code, ended.err) == (0, "")
    assert any("Too many open files" in warning for warning in ended.warnings)
    assert result_of(run_dir)["restarts"] == {"learner": 0, "actor": 0}


def test_episodes_that_never_end_are_capped(run_dir: Path) -> None:
    ended = train("Endless-v0", run_dir, "--set", "env.max_episode_steps=50")
    assert ended.code == 0
    assert last_metrics(run_dir)["length_mean"] == 50.0


def test_episodes_of_no_length_do_not_stall(run_dir: Path) -> None:
    ended = train("Empty-v0", run_dir, length=0)
    assert ended.code == 0
    result = result_of(run_dir)
    assert result["episodes"] == result["env_steps"]
    assert result["return_mean"] == 0.0


THREADED = """
import threading, time
import gymnasium
from gymnasium import spaces

class Threaded(gymnasium.Env):
    observation_space = action_space = spaces.Discrete(2)

    def __init__(self):
        threading.Thread(target=time.sleep, args=(1000,)).start()

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 1.0, True, False, {}

class Unusual(Threaded):
    def __init__(self):
        pass

    def step(self, action):
        class Cancelled(BaseException):
            pass
        raise Cancelled("elsewhere")
"""


def test_threads_left_behind_do_not_keep_the_command_from_ending(run_dir: Path) -> None:
    (run_dir.parent / "threaded.py").write_text(THREADED)
    environ = {"PYTHONPATH": f"{SOURCE}:{run_dir.parent}"}
    options = ("--engine", "inline", "--steps", "100", "--run-dir")
    assert whorl("train", "ppo", "threaded:Threaded", *options, run_dir, environ=environ).code == 0
    ended = whorl("train", "ppo", "threaded:Unusual", *options, run_dir.with_name("other"), environ=environ)
    assert (ended.code, "Cancelled: elsewhere" in ended.complaint) == (1, True)


def test_an_actor_that_holds_up_all_the_others_is_named(run_dir: Path) -> None:
    """Where nobody waits for it, that is another test."""
    uneven = Path(__file__).parents[1] / "workflows"
    slow = ("--set", f"env.kwargs.slow_seeds=[{reset_seed(1, 2, 0)}]", "--set", "env.hosting=inside")
    size = ("--engine", "local", "--actors", "4", "--envs-per-actor", "1", "--set", "agent.rows=4", "--steps", "150")
    environ = {"PYTHONPATH": f"{uneven}{os.pathsep}{SOURCE}"}
    run = ("train", "a2c", "uneven_env:Uneven-v0", *size, *slow, "--seed", "1", "--run-dir", run_dir)
    ended = whorl(*run, environ=environ)
    assert (ended.code, ended.err) == (0, "")
    (warning,) = ended.warnings
    assert "warning: actor-2 takes " in warning
    assert "look at its environments (lanes 2..2)" in warning
