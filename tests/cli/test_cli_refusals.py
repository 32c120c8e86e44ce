"""Bad input of any kind: exit code 2, one line, with what to do about it, before anything is started."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = ("train", "ppo", "CartPole-v1")

BAD_INPUT = [
    (("trian",), "there is no command 'trian'; did you mean train?"),
    (("zzz",), "there are train, resume, resize, eval"),
    (("--versoin",), "unknown option --versoin; did you mean --version?"),
    (("--quite", "train"), "unknown option --quite; did you mean --quiet?"),
    (("train",), "arguments are required: AGENT | FILE.toml"),
    (("train", "ppo"), "which environment? Try: whorl train ppo CartPole-v1"),
    (("train", "pp0", "CartPole-v1"), "there is no agent 'pp0'; did you mean ppo?"),
    (("train", "zzz", "CartPole-v1"), "there is no agent 'zzz'; there are a2c, a3c, apex, ddppo, ppo"),
    (("train", "ppo", ""), "env.id: empty"),
    ((*TRAIN, "more"), "unexpected argument 'more'"),
    ((*TRAIN, "--actor", "4"), "unknown option --actor; did you mean --actors?"),
    ((*TRAIN, "--num-actors=4"), "unknown option --num-actors; did you mean --actors?"),
    ((*TRAIN, "--ranks-per-env", "0"), "--ranks-per-env: expected an integer, at least 1; got 0"),
    ((*TRAIN, "--actors"), "argument --actors: expected one argument"),
    ((*TRAIN, "--actors", "four"), "--actors: expected an integer, at least 1; got 'four'"),
    ((*TRAIN, "--actors", "-4"), "--actors: expected an integer, at least 1; got -4"),
    ((*TRAIN, "--actors", "0"), "at least 1; got 0"),
    ((*TRAIN, "--actors", "2.5"), "expected an integer"),
    ((*TRAIN, "--actors=--"), "--actors: expected a value; got '--'"),
    ((*TRAIN, "--set", "env.kwargs.x=" + 5000 * "9", "--set", "x=1"), "there is no such setting"),
    ((*TRAIN, "--set", "agent.network.hidden=[64, 0]"), "expected an integer, at least 1; got 0"),
    ((*TRAIN, "--set", "agent.network.hidden=" + 101 * "8,"), "hidden: expected at most 100 layers; got 101"),
    ((*TRAIN, "--steps", "nan"), "--steps: expected an integer"),
    ((*TRAIN, "--learner-threads", "100000"), "--learner-threads: expected an integer, at least 1, at most 1024"),
    ((*TRAIN, "--actors-schedule", "0:" + 5000 * "9"), "resources.actors_schedule = "),
    ((*TRAIN, "--set", "env.step_timeout_s=1e300"), "at most 1e+08; got 1e+300"),
    ((*TRAIN, "--set", "engine.patience_s=1e300"), "at most 1e+08; got 1e+300"),
    ((*TRAIN, "--stop-return", "nan"), "--stop-return: expected a finite number"),
    (
        (*TRAIN, "--set", "zzz=9.8"),
        "--set zzz: there is no such setting; docs/reference/settings.md lists them all "
        "(a keyword argument of the environment is env.kwargs.zzz)",
    ),
    ((*TRAIN, "--workflow", "snyc"), "there is no workflow 'snyc'; did you mean sync?"),
    ((*TRAIN, "--engine", "mpi"), "there is no engine 'mpi'; there are inline, local"),
    ((*TRAIN, "--set", "agent.learning_rate=nan"), "--set agent.learning_rate: expected a finite number; got nan"),
    ((*TRAIN, "--set", "agent.learning_rate=-1"), "more than 0"),
    ((*TRAIN, "--set", "learning_rate=1"), "did you mean agent.learning_rate?"),
    ((*TRAIN, "--set", "agent.nme=a2c"), "there is no such setting"),
    ((*TRAIN, "--set", "agent.name=a2c"), "name it first"),
    ((*TRAIN, "--set", "x\ny=1"), "there is no such setting"),
    (("train", "none.toml"), "none.toml: no such file"),
    (("train", "./none"), "none: no such file"),
    (("train", "a.toml", "CartPole-v1"), "names its own environment"),
    (("resume",), "arguments are required: RUN_DIR"),
    (("resume", "x", "--steps", "many"), "--steps: expected an integer, at least 1; got 'many'"),
    (("resume", "x", "--actors", "0"), "--actors: expected an integer, at least 1; got 0"),
    (("resume", "x", "--envs-per-actor", "2.5"), "--envs-per-actor: expected an integer, at least 1; got"),
    (("resume", "x", "--engine", "locla"), "--engine: expected one of inline, local; got 'locla'; did you mean local?"),
    (("resume", "x", "--seed", "3"), "unknown option --seed"),
    (("eval", "x", "--episodes", "0"), "--episodes: expected an integer, at least 1; got 0"),
    (("eval", "x", "--seed", "-1"), "--seed: expected an integer, at least 0; got -1"),
    (("eval", "x", "--vidoe"), "did you mean --video?"),
    (("export", "x"), "arguments are required: --to"),
    (("export", "x", "--to", "onx"), "--to: expected one of onnx, torchscript; got 'onx'; did you mean onnx?"),
    (("list", "agent"), "did you mean agents?"),
    (("bench", "--repeats", "0"), "--repeats: expected an integer, at least 1; got 0"),
    (("plot",), "arguments are required: RUN_DIR"),
    (("check-env", "X-v0", "--set", "agent.clip=1"), "there is no such setting"),
    (("check-env", "X-v0", "--set", "env.hosting=proces"), "did you mean process?"),
]


def refused(result: tuple[int, str, str], calls: list) -> str:
    code, out, err = result
    assert (code, out) == (2, "")
    assert err.startswith("whorl: error: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert len(err) <= 1100
    assert calls == []
    return err


@pytest.mark.parametrize(("arguments", "expected"), BAD_INPUT, ids=[" ".join(row[0])[:60] for row in BAD_INPUT])
def test_refused_in_one_line(whorl, calls, arguments, expected):
    assert expected in refused(whorl(*arguments), calls)


BAD_FILES = [
    (b"", "empty"),
    (b"x" * 2_000_000, "larger than 1,000,000 bytes"),
    (b"\xff\xfe\x00", "not a text file"),
    (b"[agent\n", "line 1"),
    (b"[run]\nseed = 1\n", "names no agent"),
    (b'[agent]\nname = "ppo"\n', "names no env"),
    (b'[agent]\nname = "pppo"\n[env]\nid = "E-v0"\n', "did you mean ppo?"),
    (b'agent = "ppo"\n', 'agent in {path}: expected a table; write [agent] and then name = "..."'),
    (b'[agent]\nname = "ppo"\nlearning_rte = 1\n[env]\nid = "E-v0"\n', "did you mean agent.learning_rate?"),
    (
        b'[agent]\nname = "ppo"\nlearning_rate = nan\n[env]\nid = "E-v0"\n',
        "agent.learning_rate in {path}: expected a f",
    ),
    (
        b'[agent]\nname = "ppo"\n[env]\nid = "E-v0"\n[resources]\nactors = -1\n',
        "resources.actors in {path}: expected an",
    ),
    (b'[agent]\nname = "ppo"\n[env]\nid = 3\n', "env.id in {path}: expected text; got 3"),
    (b'"' + b"k" * 900_000 + b'" = 1\n[agent]\nname = "ppo"\n[env]\nid = "E-v0"\n', "kkkkk"),
]


@pytest.mark.parametrize(("content", "expected"), BAD_FILES, ids=[row[0][:30].decode("latin1") for row in BAD_FILES])
def test_bad_files_are_refused_in_one_line(whorl, calls, tmp_path, content, expected):
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    assert expected.format(path=path) in refused(whorl("train", str(path)), calls)


def test_a_directory_is_refused_with_its_config(whorl, calls, tmp_path):
    (tmp_path / "config.toml").write_text("")
    assert f"did you mean {tmp_path / 'config.toml'}?" in refused(whorl("train", str(tmp_path)), calls)


def test_an_environment_package_that_is_broken_is_named_in_one_line(tmp_path: Path) -> None:
    about = tmp_path / "broken-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[whorl.envs]\nbroken = nowhere:register\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-m", "whorl", "list", "envs"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0
    assert ended.stderr.count("\n") == 1
    assert ended.stderr.startswith("whorl: warning: entry point broken = nowhere:register failed: ModuleNotFoundError")
