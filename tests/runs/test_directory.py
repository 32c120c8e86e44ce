from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from whorl.errors import BadInputError, RunBusyError
from whorl.runs.directory import RunDirectory
from whorl.runs.lock import read_holder


def test_numbers_go_on_from_the_last(tmp_path: Path) -> None:
    names = [RunDirectory.create(None, "ppo", "ALE/Pong-v5", root=tmp_path).path.name for _ in range(2)]
    assert names == ["ppo-ALE-Pong-v5-1", "ppo-ALE-Pong-v5-2"]
    (tmp_path / "ppo-ALE-Pong-v5-7").mkdir()
    (tmp_path / "ppo-ALE-Pong-v5-old").mkdir()
    assert RunDirectory.create(None, "ppo", "ALE/Pong-v5", root=tmp_path).path.name == "ppo-ALE-Pong-v5-8"


@pytest.mark.parametrize("env", ["../../etc/x", "module:Env-v0", "a b\n\x1b[31m", "..", "", "/"])
def test_any_env_id_stays_inside_the_root(tmp_path: Path, env: str) -> None:
    path = RunDirectory.create(None, "ppo", env, root=tmp_path).path
    assert path.parent == tmp_path
    assert path.name.isascii()
    assert path.name.isprintable()


def test_a_run_that_was_there_is_never_overwritten(run: RunDirectory) -> None:
    with pytest.raises(BadInputError, match=r"holds a run already; `whorl resume .*run` goes on"):
        RunDirectory.create(run.path, "ppo", "CartPole-v1")
    assert run.config.read_text() == "seed = 1\n"


def test_a_directory_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(BadInputError, match=r"not empty.*another --run-dir"):
        RunDirectory.create(tmp_path, "ppo", "CartPole-v1")
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(BadInputError, match="a file is in the way"):
        RunDirectory.create(tmp_path / "thesis.tex", "ppo", "CartPole-v1")


def test_a_path_that_is_not_utf8_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / os.fsdecode(b"caf\xe9")
    odd.mkdir()
    (odd / "config.toml").write_text("seed = 1\n")
    monkeypatch.chdir(odd)
    for attempt in (
        lambda: RunDirectory.create(odd / "run", "ppo", "CartPole-v1"),
        lambda: RunDirectory.create(None, "ppo", "CartPole-v1"),  # below the working directory
        lambda: RunDirectory.reserve("run", "ppo", "CartPole-v1"),
        lambda: RunDirectory.free_place("run", "ppo", "CartPole-v1"),
        lambda: RunDirectory.open(odd),
    ):
        with pytest.raises(BadInputError, match=r"caf\\udce9.*must be UTF-8.*another --run-dir") as refusal:
            attempt()
        assert str(refusal.value).isascii()
    assert [entry.name for entry in odd.iterdir()] == ["config.toml"]


def test_an_empty_directory_is_taken(tmp_path: Path) -> None:
    assert RunDirectory.create(tmp_path, "ppo", "CartPole-v1").checkpoints.is_dir()


def test_open_explains_itself(run: RunDirectory, tmp_path: Path) -> None:
    assert RunDirectory.open(run.path) == run
    with pytest.raises(BadInputError, match=r"no such run directory; did you mean .*/run\?"):
        RunDirectory.open(tmp_path / "rum")
    with pytest.raises(BadInputError, match=r"holds no config\.toml\); there are: .*/run"):
        RunDirectory.open(tmp_path)
    with pytest.raises(BadInputError, match=r"not a run directory but a file; did you mean .*/run\?"):
        RunDirectory.open(run.config)


def test_a_second_run_refuses_and_names_the_first(run: RunDirectory) -> None:
    with run.lock() as lock, pytest.raises(RunBusyError, match=rf"held by pid {os.getpid()} on .* since 2\d\d\d-"):
        run.lock()
    with run.lock() as again:
        assert again.token == lock.token + 1


def test_lock_is_private(run: RunDirectory) -> None:
    with run.lock():
        assert (run.path / "lock").stat().st_mode & 0o777 == 0o600


def test_a_link_as_lock_is_refused(run: RunDirectory, tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("precious")
    (run.path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(BadInputError, match="cannot take the run for writing"):
        run.lock()
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_killed_holder_is_no_obstacle(run: RunDirectory) -> None:
    code = (
        "import sys, time; from whorl.runs.directory import RunDirectory\n"
        "lock = RunDirectory.open(sys.argv[1]).lock(); print(lock.token, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code, run.path], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        token = int(holder.stdout.readline())
        with pytest.raises(RunBusyError, match=f"held by pid {holder.pid} "):
            run.lock()
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with run.lock() as lock:
        assert lock.token == token + 1
        assert lock.holder == read_holder(run.path / "lock")


def test_who_only_looks_is_no_obstacle(run: RunDirectory) -> None:
    run.lock().close()
    descriptor = os.open(run.path / "lock", os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    looker = threading.Timer(0.2, os.close, [descriptor])
    looker.start()
    run.lock().close()
    looker.join()


def test_a_forked_child_neither_frees_the_lock_nor_keeps_it(run: RunDirectory) -> None:
    code = """
import os, sys
from whorl.runs.directory import RunDirectory
run = RunDirectory.open(sys.argv[1])
lock = run.lock()
child = os.fork()
if child == 0:
    lock.close()
    os._exit(0)
os.waitpid(child, 0)
print(run.is_busy())
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.close(writer)
    os.read(reader, 1)
    os._exit(0)
lock.close()
print(run.is_busy())
os.close(writer)
os.waitpid(child, 0)
"""
    command = [sys.executable, "-c", code, str(run.path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert said.split() == ["True", "False"]


def test_damaged_lock_file_is_taken_over(run: RunDirectory) -> None:
    (run.path / "lock").write_bytes(b'{"pid": 1, "ho\xff')
    with run.lock() as lock:
        assert lock.token == 1


@pytest.mark.parametrize("path", ["x" * 300, "x" * 5000, "a\0b"])
def test_impossible_paths_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(BadInputError, match="cannot be opened"):
        RunDirectory.open(tmp_path / path)
    with pytest.raises(BadInputError, match="cannot make a run directory"):
        RunDirectory.create(tmp_path / path, "ppo", "CartPole-v1")
