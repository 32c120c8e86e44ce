"""The leak check finds real leaks, and is cheap."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import leakcheck

HERE = Path(__file__).parents[1]

LEAKS = {
    "process": ("import subprocess; subprocess.Popen(['sleep', '60'])", "sleep 60"),
    "zombie": ("import os\n    if os.fork() == 0: os._exit(0)", "a zombie"),
    "orphan": ("import subprocess; subprocess.run(['sh', '-c', 'sleep 61 & exit 0'])", "sleep 61"),
    "thread": ("import threading, time; threading.Thread(target=time.sleep, args=(1,), name='lazy').start()", "lazy"),
    "memfd": ("import os; os.memfd_create('forgotten')", "memfd descriptor"),
    "mapping": ("import mmap, os; fd = os.memfd_create('m'); os.truncate(fd, 9); HELD.append(mmap.mmap(fd, 9)); "
                "os.close(fd)", "memfd mapping /memfd:m"),
    "descriptors": ("import os; HELD.extend(os.open('/dev/null', os.O_RDONLY) for _ in range(20))", "descriptors"),
    "shm": ("open('/dev/shm/whorl-leak-test', 'w').close()", "/dev/shm/whorl-leak-test"),
}  # fmt: skip


def run_pytest(directory: Path, body: str, *options: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(HERE / "conftest.py", directory)
    shutil.copy(HERE / "leakcheck.py", directory)
    (directory / "pytest.ini").write_text("[pytest]\nmarkers =\n    verify: long\n    timeout: limit\n")
    (directory / "test_it.py").write_text(body)
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, str(directory)]
    return subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)


def test_every_leak_is_named_and_only_the_leaking_test_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHORL_TEST_GRACE_S", "0.2")
    tests = [f"def test_{kind}():\n    {code}\n\ndef test_after_{kind}(): pass\n" for kind, (code, _) in LEAKS.items()]
    try:
        done = run_pytest(tmp_path, "\n".join(["HELD = []", *tests]))
    finally:
        Path("/dev/shm/whorl-leak-test").unlink(missing_ok=True)
    reports = {text.split()[0]: text for text in done.stdout.split("ERROR at teardown of test_")[1:]}
    for kind, (_, expected) in LEAKS.items():
        assert "left behind" in reports[kind]
        assert expected in reports[kind]
    assert f"{2 * len(LEAKS)} passed, {len(LEAKS)} errors" in done.stdout


def test_what_ends_within_the_grace_period_is_no_leak(tmp_path: Path) -> None:
    body = "import threading, time\n\ndef test_it():\n    threading.Thread(target=time.sleep, args=(0.3,)).start()\n"
    assert "1 passed" in run_pytest(tmp_path, body).stdout


def test_a_clean_test_leaves_nothing_to_report() -> None:
    assert leakcheck.Snapshot.take().leaks() == ([], [])


@pytest.mark.parametrize(
    ("options", "expected"),
    [((), "1 passed, 1 deselected"), (("--verify",), "2 passed"), (("-m", "verify"), "1 passed, 1 deselected")],
)
def test_long_tests_run_only_when_asked_for(options: tuple[str, ...], expected: str, tmp_path: Path) -> None:
    body = "import pytest\n\n@pytest.mark.verify\ndef test_long(): pass\n\ndef test_short(): pass\n"
    assert expected in run_pytest(tmp_path, body, *options).stdout


def test_figures_are_recorded(tmp_path: Path) -> None:
    record = tmp_path / "figures.jsonl"
    os.environ["WHORL_FIGURES"] = str(record)
    try:
        run_pytest(tmp_path, "def test_it(figure):\n    figure('seconds_to_475', 9.5)\n")
    finally:
        del os.environ["WHORL_FIGURES"]
    assert record.read_text() == '{"test": "test_it.py::test_it", "name": "seconds_to_475", "value": 9.5}\n'
