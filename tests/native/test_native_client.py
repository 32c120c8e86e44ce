"""The C++ client plays served environments as a Python client does, through the same bad networks and restarts."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remote.conftest import Serve, ServerProcess
from remote.proxies import ByteProxy, MessageProxy
from whorl.cli.main import main
from whorl.envs.registry import make_env

LOOPBACK = "tcp://127.0.0.1:*"
BITS = 2**64 - 1


def drawn(episode: int, step: int) -> int:
    """The random numbers of examples/play.cpp."""
    mixed = (episode * 1000003 + step + 0x9E3779B97F4A7C15) & BITS
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & BITS
    return mixed ^ (mixed >> 31)


def played_here(address: str, episodes: int, choices: int = 2) -> list[str]:
    """What play prints, from a Python client with the same seeds and actions."""
    env, lines = make_env(address), []
    for episode in range(episodes):
        env.reset(seed=episode)
        total, steps, is_over = 0.0, 0, False
        while not is_over:
            _, reward, terminated, truncated, _ = env.step(drawn(episode, steps) % choices)
            total, steps, is_over = total + float(reward), steps + 1, terminated or truncated
        lines.append(f"episode {episode} return {total:.17g} steps {steps}")
    env.close()
    return lines


def by_episode(said: str) -> list[str]:
    return sorted(said.splitlines(), key=lambda line: int(line.split()[1]))


def play(programs: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([programs / "play", *map(str, arguments)], capture_output=True, text=True, timeout=600)


@pytest.mark.parametrize("episodes", [20, pytest.param(1000, marks=pytest.mark.verify)])
def test_returns_are_those_of_a_python_client(programs: Path, serve: Serve, episodes: int) -> None:
    served = serve("CartPole-v1")
    done = play(programs, served.address, episodes, 4)
    assert done.stderr == ""
    assert by_episode(done.stdout) == played_here(served.address, episodes)
    assert served.counts["dropped"] == served.counts["refused"] == served.counts["lost"] == 0
    stop_s = time.monotonic() + 20
    while served.counts["freed"] < 2:  # both said bye
        assert time.monotonic() < stop_s, served.counts
        time.sleep(0.01)


def test_messages_doubled_and_late_are_performed_once(programs: Path, serve: Serve) -> None:
    served = serve("CartPole-v1", bind=LOOPBACK)
    with MessageProxy(served.address, seed=2, lost=0, doubled=0.5, late=0.5) as proxy:
        done = play(programs, proxy.address, 10, 3)
        assert min(proxy.counts["doubled"], proxy.counts["late"]) > 0
    assert served.counts["answered_again"] > 0
    assert by_episode(done.stdout) == played_here(served.address, 10)


@pytest.mark.parametrize("cut_s", [1.0, pytest.param(6, marks=pytest.mark.verify)])
def test_cut_off_for_a_while_it_goes_on_where_it_was(programs: Path, serve: Serve, cut_s: float) -> None:
    served = serve("whorl/Slow-v0", kwargs={"env": "CartPole-v1", "step_time_s": 0.005}, bind=LOOPBACK)
    with ByteProxy(served.address) as proxy:

        def cut() -> None:
            while served.counts["performed"] < 20:
                time.sleep(0.005)
            proxy.is_cut = True
            time.sleep(cut_s)
            proxy.is_cut = False

        cutting = threading.Thread(target=cut)
        cutting.start()
        done = play(programs, proxy.address, 10, 4)
        cutting.join()
    assert done.stderr == ""
    performed = served.counts["performed"]
    assert by_episode(done.stdout) == played_here(served.address, 10)
    assert performed >= 20


def restarted_while_it_plays(
    programs: Path, serve_process: Callable[..., ServerProcess], folder: Path, afterwards: str
) -> tuple[int, str, str]:
    """Plays slow episodes; after the first one has ended, another server takes the place of the first."""
    address = f"ipc://{folder / 'env.sock'}"
    slow = ("--set", "env.kwargs.env=CartPole-v1", "--set", "env.kwargs.step_time_s=0.005")
    server = serve_process("whorl/Slow-v0", address, *slow)
    command = [programs / "play", address, "8", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        server.kill()
        serve_process(afterwards, address, *(slow if afterwards == "whorl/Slow-v0" else ()))
        said, complaints = process.communicate(timeout=100)
    return process.returncode, first + said, complaints


def test_a_server_killed_and_restarted_amid_episodes_changes_nothing(
    programs: Path, serve_process: Callable[..., ServerProcess], folder: Path, serve: Serve
) -> None:
    code, said, complaints = restarted_while_it_plays(programs, serve_process, folder, "whorl/Slow-v0")
    assert (code, complaints) == (0, "")
    assert by_episode(said) == played_here(serve("CartPole-v1").address, 8)


def test_a_server_that_came_back_with_other_spaces_is_refused(
    programs: Path, serve_process: Callable[..., ServerProcess], folder: Path
) -> None:
    code, _, complaints = restarted_while_it_plays(programs, serve_process, folder, "Pendulum-v1")
    assert code == 1
    assert "the server there now serves Pendulum-v1, with other spaces than at the start" in complaints


def test_keys_are_taken_from_their_folder(programs: Path, serve: Serve, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    main(["env", "keys", str(keys)])
    served = serve("CartPole-v1", bind=LOOPBACK, keys=keys)
    done = play(programs, served.address, 2, 1, keys)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    (keys / "client.secret").chmod(0o644)
    done = play(programs, served.address, 2, 1, keys)
    assert done.returncode == 1
    assert "nobody else's to read" in done.stderr


def test_a_refusal_is_one_line(programs: Path, serve: Serve) -> None:
    served = serve("CartPole-v1", copies=2)
    done = play(programs, served.address, 2, 3)
    assert (done.returncode, done.stdout) == (1, "")
    assert "3 lanes wanted, and 2 are the most here" in done.stderr
    assert done.stderr.count("\n") == 1
