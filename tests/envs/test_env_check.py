import contextlib
import math
import os
import signal
import time
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from whorl.config.schema import EnvConfig
from whorl.envs.check import Report, check_env, probe_apart
from whorl.envs.probe import probe_env
from whorl.errors import BadInputError, EnvironmentFault


def check(env_id: str, timeout_s: float = 60.0, **kwargs: object) -> Report:
    return check_env(EnvConfig(id=env_id, kwargs=kwargs), timeout_s)


def test_a_good_environment_shows_what_it_is() -> None:
    report = check("CartPole-v1")
    assert report.is_good
    facts = report.facts
    assert facts["observation"] == ["obs: vector float32[4]"]
    assert facts["action"] == "discrete 2"
    assert facts["steps_per_s"] > 100
    assert (facts["deterministic"], facts["seeds_matter"]) == (True, True)
    assert facts["restore"] == "replay (tried)"
    assert facts["vector_form"] == "our own"
    assert report.lines()[0] == "CartPole-v1: good"


def test_snapshots_and_shared_generators_are_told() -> None:
    assert check("env_helpers:Walk").facts["restore"] == "snapshot (tried)"
    facts = check("CartPole-v1", sutton_barto_reward=True).facts
    assert facts["vector_form"].startswith("registered, not used")
    assert facts["autoreset"] == "next_step"


@pytest.mark.parametrize(
    ("env_id", "kwargs", "what", "where"),
    [
        ("whorl/NaN-v0", {}, "obs[3]: expected finite numbers, got nan", "env step 5"),
        ("whorl/WrongShape-v0", {"how": "missing_key"}, "got no 'mode'", "env step 5"),
        ("whorl/Crash-v0", {"at": 9}, "step raised RuntimeError", "env step 9"),
        ("whorl/Crash-v0", {"how": "segfault", "at": 7}, "ended its own process (SIGSEGV)", "env step 7"),
        ("whorl/Crash-v0", {"how": "exit0", "at": 7}, "ended its own process (exit code 0)", "env step 7"),
        ("whorl/Crash-v0", {"how": "raise_close"}, "close raised RuntimeError", "close"),
        ("whorl/Leak-v0", {"how": "threads"}, "it leaks threads: 30 more", "30 env steps"),
        ("whorl/Leak-v0", {"how": "chdir"}, "changes the working directory", "working directory became"),
        ("whorl/Leak-v0", {"how": "signals"}, "handler of its own for SIG", "reset"),
        ("env_helpers:Walk", {"kind": "random"}, "the same seed and actions lead elsewhere", "env step 1"),
        ("CartPole-v1", {"wings": 2}, "could not be made", "making it"),
        ("test_env_check:Talking", {}, "observation 'obs' is a Text, which is not supported", "spaces"),
    ],
)
def test_what_is_wrong_where_and_how_to_mend_it(env_id: str, kwargs: dict, what: str, where: str) -> None:
    finding = check(env_id, **kwargs).findings[0]
    assert what in finding.what
    assert where in finding.where
    assert len(finding.mend) > 20
    assert "\n" not in finding.what + finding.where + finding.mend


def test_a_hang_is_reported_and_not_suffered() -> None:
    (finding,) = check("whorl/Hang-v0", timeout_s=4.0, how="gil", at=3).findings
    assert finding.what == "it did not come back within 4 s"
    assert "env step 3" in finding.where


def test_printing_environments_do_not_spoil_the_report() -> None:
    assert check("test_env_check:Printing").is_good


def test_an_observation_that_is_too_large_by_its_space_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"the observation 'obs' has 16 bytes, more than env.max_observation_bytes"):
        probe_env(EnvConfig("CartPole-v1", max_observation_bytes=15))


def test_unknown_ids_are_bad_input() -> None:
    with pytest.raises(BadInputError, match="did you mean CartPole-v1"):
        check("CartPole-v7")


def test_probing_apart_is_probing() -> None:
    probe = probe_apart(EnvConfig(id="Pendulum-v1"))
    assert probe.spec.action.low == (-2.0,)
    assert probe.warning == ""
    with pytest.raises(BadInputError, match="wings"):
        probe_apart(EnvConfig(kwargs={"wings": 2}))
    with pytest.raises(EnvironmentFault, match="got nan"):
        probe_apart(EnvConfig(id="whorl/NaN-v0"))


def test_an_environment_that_dies_when_probed_is_given_a_process_of_its_own() -> None:
    probe = probe_apart(EnvConfig(id="whorl/Crash-v0", kwargs={"how": "kill", "at": 4}))
    assert math.isinf(probe.step_time_s)
    assert probe.spec.observation[0].shape == (4,)
    assert "ended its process (SIGKILL)" in probe.warning


class Printing(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        print('{"report": "nonsense"}')
        return np.zeros(2, np.float32), {}

    def step(self, action):
        print("stepping", flush=True)
        return np.zeros(2, np.float32), 0.0, False, False, {}


class Forking(Printing):
    """Leaves a process behind, as simulators do that keep a server of theirs running."""

    def __init__(self, pids: str, new_session: bool) -> None:
        pid = os.fork()
        if pid == 0:
            if new_session:
                os.setsid()
            time.sleep(60)
            os._exit(0)
        with Path(pids).open("a") as file:
            file.write(f"{pid}\n")


class Wordy(Printing):
    """Has more to tell than a pipe holds."""

    episode_metrics = tuple(f"{'x' * 10_000}{number}" for number in range(16))


class Talking(Printing):
    observation_space = gymnasium.spaces.Text(5)


@pytest.mark.parametrize("new_session", [False, True])
def test_a_process_that_the_environment_leaves_behind_is_not_waited_for(tmp_path: Path, new_session: bool) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    try:
        probe = probe_apart(EnvConfig("test_env_check:Forking", {"pids": str(pids), "new_session": new_session}))
    finally:
        for pid in pids.read_text().split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert time.monotonic() - began < 30
    assert probe.warning == ""
    assert probe.spec.observation[0].shape == (2,)


def test_a_long_report_arrives_whole() -> None:
    probe = probe_apart(EnvConfig("test_env_check:Wordy"))
    assert probe.warning == ""
    assert probe.spec.episode_metrics == Wordy.episode_metrics


def test_a_state_that_does_not_come_back_is_found() -> None:
    (finding,) = check("env_helpers:Walk", kind="forgetful").findings
    assert finding.what == "the state it saves does not lead to the same future"
