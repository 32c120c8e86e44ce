"""Bad input: exit code 2, one line that says what to do, and nothing is made or started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from whorl.cli.main import main
from whorl.tuning.search_file import load_search

EXAMPLES = Path(__file__).parents[2] / "examples"
HEAD = '[agent]\nname = "ppo"\n[env]\nid = "CartPole-v1"\n'
RATE = "[agent]\nname = 'ppo'\nlearning_rate = { low = 1e-4, high = 1e-2, log = true }\n[env]\nid = 'CartPole-v1'\n"

BAD_FILES = [
    ("", "the file is empty"),
    (HEAD, "nothing to search over; write a space in the place of a value"),
    (RATE + "[tune]\nmetod = 'tpe'\n", "tune.metod in {path}: there is no such setting; did you mean method?"),
    (RATE + "[tune]\nmethod = 'tep'\n", "expected one of grid, random, tpe, pbt; got 'tep'; did you mean tpe?"),
    (RATE + "[tune]\ntrials = 0\n", "tune.trials in {path}: expected an integer, at least 1"),
    (RATE + "[tune]\nmethod = 'grid'\n", "agent.learning_rate in {path}: a grid cannot go over a continuous range"),
    (RATE.replace("learning_rate", "learning_rte"), "did you mean agent.learning_rate?"),
    (RATE.replace("low = 1e-4", "low = 1"), "low = 1 is more than high = 0.01; exchange them"),
    (RATE.replace("low = 1e-4", "low = -1").replace(", log = true", ""), "more than 0; got -1"),
    (RATE.replace("ppo", "pp0"), "there is no agent 'pp0'; did you mean ppo?"),
    (RATE.replace("CartPole-v1", "CartPol-v1"), "CartPol"),
    ("tune = 3\n" + RATE, "tune in {path}: expected a table"),
    (HEAD.replace("[env]", "minibatches = { choices = [4, 4096] }\n[env]"), "agent.minibatches: so many need"),
    (HEAD.replace("[env]", "anneal = { choices = ['linear', 'none', 'lin'] }\n[env]"), "did you mean linear?"),
    (HEAD.replace("[env]", "anneal = { low = 1, high = 2 }\n[env]"), "agent.anneal in {path}: expected one of"),
    (HEAD.replace('"CartPole-v1"', '{ choices = ["CartPole-v1", "X-v9"] }') + "[tune]\nmethod = 'grid'\n", "X-v9"),
    (
        HEAD.replace('"CartPole-v1"', '{ choices = ["CartPole-v1", "Acrobot-v1"] }'),
        "returns of different environments cannot be compared",
    ),
    (RATE + "[tune]\nfunction = 'no_such_module:f'\n", "no_such_module:f cannot be loaded"),
    (RATE + "[tune]\nfunction = 'f'\n", "expected module:function; got 'f'"),
    (RATE + "[tune]\nfunction = 'math:pi'\n", "math:pi is no function"),
    (RATE + "[tune]\npruning = 'asha'\nprune_first_steps = 100_000_000\n", "is not before the end of a trial"),
    (RATE + "[tune]\nmethod = 'pbt'\npruning = 'asha'\n", "pbt decides itself who goes on"),
    (RATE + "[tune]\nmethod = 'pbt'\ntrials = 1\n", "at least 2 members"),
    (
        RATE.replace("[env]", "network.hidden = { choices = [[8], [16]] }\n[env]") + "[tune]\nmethod = 'pbt'\n",
        "a checkpoint holds other arrays",
    ),
    (RATE + "[run]\nseed = { choices = [1, 2] }\n[tune]\nmethod = 'pbt'\n", "pbt changes settings of the agent"),
    (RATE + "[tune]\ngpus_per_trial = 1\nparallel = 64\n", "GPUs for"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_FILES, ids=[row[1][:50] for row in BAD_FILES])
def test_bad_files_are_refused_in_one_line(tmp_path, monkeypatch, capsys, text, expected):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "bad.toml"
    path.write_text(text)
    assert main(["tune", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("whorl: error: ")
    assert captured.err.count("\n") == 1
    assert expected.format(path=path) in captured.err
    assert [entry.name for entry in tmp_path.iterdir()] == ["bad.toml"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "which file? Try: whorl tune FILE.toml"),
        (("none.toml",), "none.toml: no such file"),
        (("--resume", "nowhere"), "nowhere: not the directory of a study"),
        (("x.toml", "--resume", "d"), "names the study itself"),
        (("x.toml", "--trials", "0"), "--trials: expected an integer, at least 1"),
        (("x.toml", "--paralel", "2"), "did you mean --parallel?"),
    ],
)
def test_bad_arguments_are_refused(tmp_path, monkeypatch, capsys, arguments, expected):
    monkeypatch.chdir(tmp_path)
    assert main(["tune", *arguments]) == 2
    assert expected in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_optuna_the_install_line_is_told(tmp_path):
    (tmp_path / "optuna.py").write_text("raise ImportError('not here')\n")
    path = tmp_path / "f.toml"
    path.write_text(RATE)
    done = subprocess.run(
        [sys.executable, "-m", "whorl", "tune", str(path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{EXAMPLES.parent / 'src'}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "pip install 'whorl[tune]'" in done.stderr


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_examples_can_be_run(path, monkeypatch):
    if path.stem.startswith("games") and not os.environ.get("CI"):
        pytest.importorskip("ale_py", reason="whorl[atari] is not installed")
    monkeypatch.syspath_prepend(EXAMPLES)
    search = load_search(path)
    counts = {"games-and-learning-rates": 12, "small-grid": 6, "cartpole-tpe": 30}
    assert search.trials == counts.get(path.stem, 8)
