"""The tools around the code: the documentation check and the resumable verification."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documentation_is_sound() -> None:
    assert list(load("check_docs").problems(ROOT)) == []


def test_what_is_wrong_with_a_page_is_said(tmp_path: Path) -> None:
    decisions = tmp_path / "docs" / "decisions"
    decisions.mkdir(parents=True)
    (tmp_path / "README.md").write_text("# A\n[x](docs/gone.md) [y](#b) [z](docs/decisions/index.md#all-of-them)\n")
    (decisions / "index.md").write_text("# All of them\n```\ncode\n```\n")
    (decisions / "0001-first.md").write_text("# First\n`[code](is-no-link.md)`\n")
    assert list(load("check_docs").problems(tmp_path)) == [
        "README.md: links to docs/gone.md, which is not there",
        "README.md: links to #b, but that page has no such heading",
        "docs/decisions/index.md:2: a code fence without a language; write ```bash, ```python, ```text ...",
        "docs/decisions/0001-first.md: no page links here; link it from docs/index.md",
        "docs/decisions/0001-first.md: not in docs/decisions/index.md; add its line there",
    ]


def test_studies_that_are_not_whole_are_not_kept_and_touch_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep, results = load("keep_studies"), tmp_path / "results"
    monkeypatch.setattr(keep, "RESULTS", results)

    def run(*studies: str) -> None:
        monkeypatch.setattr(sys, "argv", ["keep_studies.py", *studies, "--date", "2026-01-02"])
        keep.main()

    def left(folder: Path, name: str, **others: object) -> None:
        (folder / f"{name}-small").mkdir(parents=True)
        found = {"failed": [], "from": ["commit abc"], "findings": [], "took_s": 60.0, **others}
        (folder / f"{name}-small" / "findings.json").write_text(json.dumps(found))
        (folder / f"{name}-small" / "report.html").write_text(folder.name)

    left(tmp_path / "first", "vtrace")
    run(f"{tmp_path / 'first'}")
    kept = results / "studies-2026-01-02" / "vtrace-small" / "report.html"
    left(tmp_path / "second", "vtrace")
    left(tmp_path / "second", "windows", **{"from": ["commit abc with changes"]})
    with pytest.raises(SystemExit, match="windows-small: not all cells have results, or some are from a commit with"):
        run(f"{tmp_path / 'second'}")
    assert kept.read_text() == "first", "nothing was copied"
    left(tmp_path / "third", "windows")
    run(f"{tmp_path / 'third'}")
    page = (results / "studies-2026-01-02.md").read_text()
    assert "Studies at scale `small`, each as `whorl study NAME --scale small` runs it: 2 studies in 2 min" in page
    assert "Kept as they were, and not copied with the others: vtrace." in page
    overview = (kept.parents[1] / "overview-small.html").read_text()
    assert 'href="vtrace-small/report.html"' in overview
    assert "<li>tetris was not run</li>" in overview


def test_verification_goes_on_where_it_stopped(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tests").mkdir()
    shutil.copy(ROOT / "tools" / "verify.py", tmp_path / "tools")
    for name in ("conftest.py", "leakcheck.py"):
        shutil.copy(ROOT / "tests" / name, tmp_path / "tests")
    (tmp_path / ".gitignore").write_text(".verify/\n.pytest_cache/\n__pycache__/\n")
    (tmp_path / "pyproject.toml").write_text(
        "[tool.pytest.ini_options]\nmarkers = ['verify: long', 'timeout: limit']\n"
    )
    passing = (
        "import pytest\n@pytest.mark.verify\ndef test_it(figure): figure('speed_per_s', 7)\ndef test_quick(): pass\n"
    )
    (tmp_path / "tests" / "test_good.py").write_text(passing)
    (tmp_path / "tests" / "test_bad.py").write_text(
        "import pytest\n@pytest.mark.verify\ndef test_it(): assert 1 == 2\n"
    )
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=e", *command], cwd=tmp_path, check=True)

    def verify(*options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "tools/verify.py", *options]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)

    first = verify("--jobs", "2")
    assert first.returncode == 1
    assert "[2/3] test_bad: FAILED" in first.stdout
    assert "assert 1 == 2" in first.stdout
    second = verify()
    assert "[1/3] quick: passed before" in second.stdout
    assert "[3/3] test_good: passed before" in second.stdout
    assert "[2/3] test_bad: FAILED" in second.stdout, "only what passed is skipped"
    state = json.loads((tmp_path / ".verify" / "state.json").read_text())
    assert state["test_good"]["figures"] == [{"test": "tests/test_good.py::test_it", "name": "speed_per_s", "value": 7}]
    (page,) = (tmp_path / "docs" / "results").glob("verify-*.md")
    assert "2 of 3 parts passed" in page.read_text()
    assert "| speed_per_s | 7 |" in page.read_text()


def test_the_long_tests_of_this_tree_are_found() -> None:
    listed = subprocess.run(
        [sys.executable, "tools/verify.py", "--list"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert "exactness.test_same_weights" in listed
    assert "learning.test_presets_learn" in listed
