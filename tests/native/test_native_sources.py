"""The sources come with the package, and a command copies them."""

from __future__ import annotations

from pathlib import Path

import pytest

from whorl.cli.main import main


def test_sources_are_copied_and_never_overwrite(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "native", str(tmp_path / "mine")]) == 0
    names = {str(path.relative_to(tmp_path / "mine")) for path in (tmp_path / "mine").rglob("*") if path.is_file()}
    assert {"whorl.hpp", "whorl.h", "whorl_c.cpp", "whorl.f90", "CMakeLists.txt", "examples/play.cpp"} <= names
    assert len(capsys.readouterr().out.splitlines()) == len(names)
    assert main(["env", "native", str(tmp_path / "mine")]) == 2
    assert "CMakeLists.txt is there already; use another folder" in capsys.readouterr().err
