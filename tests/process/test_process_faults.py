"""``whorl/Process-v0`` with programs that misbehave: each is a fault with a cause, and nothing is left behind.

Every test is also watched by the leak check of ``tests/conftest.py``: a process left behind fails it.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.process.conftest import HELLO, PARROT, SPACES, Make

import whorl
from whorl.config.schema import EnvConfig
from whorl.envs.check import check_env


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(pid: int, within_s: float = 5.0) -> bool:
    deadline_s = time.monotonic() + within_s
    while alive(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    return not alive(pid)


@pytest.mark.parametrize(
    ("misdeed", "message"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "the program was ended by SIGSEGV"),
        (
            "sys.stderr.write('mesh\\nis tangled\\n'); sys.exit(3)",
            "ended with exit code 3; its stderr ends: mesh | is tangled",
        ),
        ("sys.exit(0)", "ended with exit code 0 before it answered"),
        ("os.close(1); time.sleep(60)", "closed its standard output"),
        ("print('Segmentation fault')", "no JSON object: 'Segmentation fault'"),
        ("os.write(1, bytes(range(128, 256)) + b'\\n')", "no JSON object: "),
        ("print('[' * 100000)", "no JSON object: "),
        ("print('9' * 100000)", "no JSON object: "),
        ("print('{}')", "an answer without an observation; it has nothing"),
        ('print(\'{"observation": [1, 2], "reward": 0}\')', "expected numbers of shape [3]; got [2]"),
        ('print(\'{"observation": {"a": 1}, "reward": 0}\')', "expected numbers; got {'a': 1}"),
        ("print('{\"observation\": [0, 0, 0]}')", "reward: expected a number; got None"),
        ('print(\'{"observation": [0, 0, 0], "reward": 1, "terminated": 2}\')', "terminated: expected true or false"),
    ],
)
def test_a_fault_has_a_cause_in_one_line(make: Make, tmp_path: Path, misdeed: str, message: str) -> None:
    env = make(HELLO + misdeed + "\nsys.stdout.flush(); time.sleep(60)")
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match=re.escape(message)) as error:
        env.step(1)
    assert "\n" not in str(error.value)
    assert "step 1 of an episode with seed 1" in str(error.value)
    assert list((tmp_path / "scratch").iterdir()) == []
    env.reset(seed=2)


@pytest.mark.parametrize(
    ("misdeed", "message"),
    [
        ("time.sleep(60)", "did not answer in time"),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)\nwhile True: pass", "did not answer in time"),
        ("os.kill(os.getpid(), signal.SIGSTOP)", "did not answer in time"),
        (
            "while True: os.write(2, b'never ends\\n' * 1000)",
            "did not answer in time; its stderr ends: never ends | never",
        ),
    ],
)
def test_hangs_are_bounded(make: Make, misdeed: str, message: str) -> None:
    env = make(HELLO + misdeed, step_timeout_s=0.5)
    env.reset(seed=1)
    began_s = time.monotonic()
    with pytest.raises(RuntimeError, match=re.escape(message)) as error:
        env.step(1)
    assert time.monotonic() - began_s < 5
    assert len(str(error.value)) < 300


def test_an_answer_without_end_is_refused(make: Make) -> None:
    env = make(HELLO + "while True: os.write(1, b'x' * 65536)", max_answer_bytes=1_000_000)
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="a line of more than 1000000 bytes"):
        env.step(1)


def test_a_program_that_does_not_read_is_bounded(make: Make) -> None:
    script = "import time\nprint('{\"observation\": [0, 0, 0]}', flush=True)\ntime.sleep(60)"
    env = make(script, action={"shape": [100_000]}, step_timeout_s=0.5)
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="did not read what was sent to it in time"):
        env.step(env.action_space.sample())


def test_speaking_out_of_turn_is_a_fault(make: Make) -> None:
    answer = json.dumps({"observation": [0, 0, 0], "reward": 0.0})
    env = make(HELLO + f"print('''{answer}\\n{answer}''', flush=True); sys.stdin.read()")
    env.reset(seed=1)
    env.step(0)
    with pytest.raises(RuntimeError, match="answered twice"):
        env.step(0)


LEAVES_CHILDREN = (
    HELLO
    + """
plain = subprocess.Popen(["sleep", "600"])
apart = subprocess.Popen(["sleep", "600"], start_new_session=True)  # left the process group
print(json.dumps({"observation": [0, 0, 0], "reward": 0, "terminated": True, "metrics":
    {"plain": plain.pid, "apart": apart.pid, "own": os.getpid()}}), flush=True)
sys.stdin.read()
"""
)


def test_children_do_not_outlive_the_episode(make: Make) -> None:
    env = make(LEAVES_CHILDREN, metrics=["plain", "apart", "own"])
    env.reset(seed=1)
    pids = env.step(0)[4]
    assert alive(pids["plain"])
    assert alive(pids["apart"])
    env.reset(seed=2)
    assert all(gone(pid) for pid in pids.values())


def test_nothing_outlives_a_killed_run(program, tmp_path: Path) -> None:
    """kill -9 to the process that holds the environment: its guard ends the program, its children and the folder."""
    scratch = tmp_path / "scratch"
    script = (
        "import sys, time\nfrom whorl.envs.registry import make_env\n"
        f"env = make_env('whorl/Process-v0', dict(command={program(LEAVES_CHILDREN)!r}, **{SPACES!r}, "
        f"scratch={str(scratch)!r}, metrics=['plain', 'apart', 'own']))\n"
        "env.reset(seed=1)\nprint(*env.step(0)[4].values(), flush=True)\ntime.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    holder = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, env=environment)
    with holder:
        assert holder.stdout is not None
        pids = [int(word) for word in holder.stdout.readline().split()]
        assert len(pids) == 3
        assert len(list(scratch.iterdir())) == 1
        holder.send_signal(signal.SIGKILL)
    assert all(gone(pid) for pid in pids)
    deadline_s = time.monotonic() + 5
    while any(scratch.iterdir()) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not any(scratch.iterdir())


def test_a_full_scratch_folder_is_a_fault(make: Make, tmp_path: Path) -> None:
    env = make(
        HELLO + "file = open('big', 'wb')\nwhile True: file.write(bytes(100_000)); file.flush(); time.sleep(0.01)",
        scratch_mb=3,
    )
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match=r"filled its scratch folder with \d+ MB, more than scratch_mb = 3"):
        env.step(0)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_folder_made_unwritable_is_removed_all_the_same(make: Make, tmp_path: Path) -> None:
    env = make(HELLO + "os.makedirs('a/b/c'); os.chmod('a/b', 0); os.chmod('a', 0o500); sys.exit(1)")
    env.reset(seed=1)
    with pytest.raises(RuntimeError, match="exit code 1"):
        env.step(0)
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("mode", "script", "message"),
    [
        ("rerun", "import sys; print('diverged'); sys.exit(9)", "ended with exit code 9; its output ends: diverged"),
        (
            "rerun",
            "open('answer.json', 'w').write('{\"observation\": [0, 0')",
            "ended without writing a whole answer.json",
        ),
        ("rerun", "import time; time.sleep(60)", "did not end in time"),
        (
            "files",
            "import time; open('answer.json', 'w').write('{'); time.sleep(60)",
            "did not write a whole answer.json in time",
        ),
        ("files", "open('answer.json', 'w').write('x' * 3000)", "wrote more than 2000 bytes to answer.json"),
    ],
)
def test_faults_in_files(make: Make, mode: str, script: str, message: str) -> None:
    env = make(script, mode=mode, start_timeout_s=1.0, max_answer_bytes=2000)
    with pytest.raises(RuntimeError, match=re.escape(message)):
        env.reset(seed=1)


def test_the_check_names_the_cause(program, tmp_path: Path) -> None:
    command = program(HELLO + "sys.stderr.write('mesh is tangled'); sys.exit(3)")
    report = check_env(EnvConfig(id="whorl/Process-v0", kwargs={"command": command, **SPACES}))
    assert not report.is_good
    assert "ended with exit code 3; its stderr ends: mesh is tangled" in report.lines()[1]


def test_training_goes_on_when_programs_crash(program, tmp_path: Path) -> None:
    """One episode in five dies by a signal: given up as a fault, counted, and the run completes, exactly."""
    crashing = PARROT.replace(
        "    reward =", "    if begin['seed'] % 5 == 0 and step == 7: import os; os.kill(os.getpid(), 11)\n    reward ="
    )
    kwargs = {"command": program(crashing), **SPACES, "scratch": str(tmp_path / "scratch"), "keep": "failed"}
    given = {f"env.kwargs.{name}": value for name, value in kwargs.items()}
    shas = []
    for name in ("one", "two"):
        whorl.train("ppo", "whorl/Process-v0", steps=512, envs_per_actor=4, run_dir=str(tmp_path / name), set=given)
        result = json.loads((tmp_path / name / "result.json").read_text())
        assert result["status"] == "completed"
        shas.append(result["weights_sha256"])
    assert shas[0] == shas[1]
    kept = list((tmp_path / "scratch").iterdir())
    assert len(kept) >= 2
    assert all("SIGSEGV" in json.loads((folder / "whorl.json").read_text())["fault"] for folder in kept)
