"""A clock that jumps, too few descriptors, too little memory, who may read what."""

from __future__ import annotations

import contextlib
import os
import signal
import stat
from pathlib import Path

import psutil
from running import LOCAL, TRAIN, Command, Trained, result_of, saved, whorl

JUMPING_CLOCK = """
import itertools, time

real_time, real_time_ns = time.time, time.time_ns
jumps = itertools.cycle((0, 3600, -3600, 86_400))
time.time = lambda: real_time() + next(jumps)
time.time_ns = lambda: real_time_ns() + next(jumps) * 10**9
"""


def test_a_wall_clock_that_jumps_by_hours_has_no_effect(run_dir: Path, tmp_path: Path, same_as: Trained) -> None:
    """In every process, at every look at it. A replaced actor and deadlines are part of the run."""
    (tmp_path / "sitecustomize.py").write_text(JUMPING_CLOCK)
    environ = {
        "PYTHONPATH": os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH")))),
        "WHORL_FAULT": "actor:1:env_step=77:stop",
    }
    settings = ("--set", "engine.response_s=0.5", "--set", "env.step_timeout_s=5")
    ended = whorl(*TRAIN, *LOCAL, *settings, "--run-dir", run_dir, environ=environ)
    assert (ended.code, ended.err) == (0, "")
    result = same_as(run_dir)
    assert result["restarts"] == {"learner": 0, "actor": 1}
    assert 0 < result["wall_s"] < 120


def limited(limit: str) -> tuple[str, ...]:
    return ("sh", "-c", f'ulimit {limit}; exec "$@"', "sh")


def test_too_few_descriptors_are_said_before_anything_is_made(run_dir: Path) -> None:
    ended = whorl(*TRAIN, *LOCAL, "--run-dir", run_dir, prefix=limited("-n 60"))
    assert ended.code == 2
    assert "open descriptors and the limit is 60; use fewer actors, or raise the limit (ulimit -n)" in ended.complaint
    assert not run_dir.exists()


def test_too_little_memory_is_reported_as_such(run_dir: Path) -> None:
    once = ("--set", "engine.max_restarts_without_progress=1")
    ended = whorl(*TRAIN, *LOCAL, *once, "--run-dir", run_dir, prefix=limited("-v 400000"))
    assert ended.code == 1
    assert "learner-0 was lost" in ended.complaint
    assert "out of memory: " in ended.complaint
    assert "out of memory: " in result_of(run_dir)["error"]


def test_nothing_of_a_run_can_be_reached_by_others(run_dir: Path) -> None:
    """No sockets that listen, no shared memory with a name; logs and the lock are for their owner alone."""
    with Command(*TRAIN, *LOCAL, "--run-dir", run_dir) as command:
        saved(run_dir, 2)
        driver = psutil.Process(command.pid)
        os.kill(command.pid, signal.SIGSTOP)
        family = [driver, *driver.children(recursive=True)]
        assert len(family) == 5
        for process in family:
            assert process.net_connections("inet") == []
            bound = [each for each in process.net_connections("unix") if each.laddr]
            assert bound == []
            for link in Path(f"/proc/{process.pid}/fd").iterdir():
                with contextlib.suppress(FileNotFoundError):  # closed meanwhile: roles go on
                    assert not str(link.readlink()).startswith("/dev/shm/")
        os.kill(command.pid, signal.SIGCONT)
        assert command.ended().code == 0
    private = [run_dir / "lock", *(run_dir / "logs").iterdir()]
    assert len(private) == 4
    for path in private:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_run_files_obey_the_users_umask(stopped: Path) -> None:
    before = set(stopped.rglob("*"))
    ended = whorl("resume", stopped, prefix=("sh", "-c", 'umask 0077; exec "$@"', "sh"))
    assert ended.code == 0
    new = set(stopped.rglob("*")) - before
    assert new
    for path in new:
        assert not stat.S_IMODE(path.stat().st_mode) & 0o077, path
