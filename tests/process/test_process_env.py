"""``whorl/Process-v0`` with programs that behave: what they are told, what comes back, and what Whorl makes of it."""

import json
import os
import shutil
import sys
import tarfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env as gymnasium_check
from tests.process.conftest import HELLO, PARROT, SPACES, Make

import whorl
from whorl.config.schema import EnvConfig
from whorl.envs.check import check_env
from whorl.envs.library.process.spaces import BadAnswer, from_json, make_space
from whorl.envs.registry import make_env
from whorl.errors import BadInputError
from whorl.evaluate import evaluate


def test_gymnasium_and_whorl_find_no_fault(make: Make, program, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(make(PARROT).unwrapped, skip_render_check=True)
    kwargs = {"command": program(PARROT), **SPACES, "scratch": str(tmp_path / "checked")}
    report = check_env(EnvConfig(id="whorl/Process-v0", kwargs=kwargs))
    assert report.is_good, report.lines()
    assert report.facts["deterministic"] is True
    assert report.facts["seeds_matter"] is True
    assert report.facts["restore"] == "replay (tried)"
    assert list((tmp_path / "checked").iterdir()) == []


def test_an_episode_in_lines(make: Make) -> None:
    env = make(PARROT, metrics=["right"])
    observation, _ = env.reset(seed=5)
    assert observation.dtype == np.float32
    rewards, ends, info = [], [], {}
    for _ in range(50):
        observation, reward, terminated, truncated, info = env.step(int(observation.argmax()))
        rewards.append(reward)
        ends.append((terminated, truncated))
    assert rewards == [1.0] * 50
    assert ends == [(False, False)] * 49 + [(False, True)]
    assert info == {"right": 50.0}
    assert env.unwrapped.episode_metrics == ("right",)


def test_ppo_learns_the_optimum_and_the_same_seed_gives_the_same_weights(program, tmp_path: Path) -> None:
    """The best return is 50; chance is 16.7."""
    kwargs = {"command": program(PARROT), **SPACES, "scratch": str(tmp_path / "scratch"), "metrics": ["right"]}
    given = {f"env.kwargs.{name}": value for name, value in kwargs.items()}
    given |= {"agent.rows": 64, "agent.learning_rate": 0.02}
    one, two = (
        whorl.train("ppo", "whorl/Process-v0", steps=3072, envs_per_actor=8, run_dir=str(tmp_path / name), set=given)
        for name in ("one", "two")
    )
    assert one.result.weights_sha256 == two.result.weights_sha256
    assert one.result.exact is True
    assert evaluate(one.policy, episodes=3).returns == [50.0, 50.0, 50.0]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_prefix_tells_answers_from_chatter(make: Make) -> None:
    chatty = PARROT.replace("    print(", "    print('Solver 3.1 (c) 1987'); print('@' + ").replace(
        "import json", "print(7)\nimport json", 1
    )
    env = make(chatty, answer_prefix="@")
    env.reset(seed=1)
    assert env.step(0)[0].shape == (3,)


FILES = """
import json, os, sys, time

def look(step):
    while True:
        if os.path.exists("end"):
            sys.exit()
        told = json.load(open("action.json"))  # always whole
        if told["step"] == step:
            return told
        time.sleep(0.001)

place = None
for step in range(10**6):
    told = look(step)
    place = told["seed"] % 7 if place is None else place + told["action"] - 1
    text = json.dumps({"observation": [place, step, 0], "reward": 1.0, "terminated": step == 4})
    with open("answer.json", "w") as file:  # as rudely as codes do: in pieces, under its final name
        for piece in (text[:10], text[10:-1], text[-1:]):
            file.write(piece)
            file.flush()
            time.sleep(0.01)
"""


def test_an_episode_in_files_is_read_only_when_they_are_whole(make: Make) -> None:
    env = make(FILES, mode="files", observation={"shape": [3]})
    assert env.reset(seed=8)[0].tolist() == [1, 0, 0]
    steps = [env.step(2) for _ in range(4)]
    assert [step[0].tolist() for step in steps] == [[2, 1, 0], [3, 2, 0], [4, 3, 0], [5, 4, 0]]
    assert [step[2] for step in steps] == [False, False, False, True]
    assert env.reset(seed=2)[0].tolist() == [2, 0, 0]


LEGACY = """#!/bin/sh
# A code of another age: reads one line of its input file, keeps its state in a file, prints plain numbers.
. ./input.txt
if [ "$step" = 0 ]; then x=$((seed % 10)); else x=$(($(cat state) + push)); fi
echo $x > state
[ "$x" -ge 12 ] && over=1 || over=0
printf ' -1.0D+00 %s 0\\n  %s.500 %s\\n' $over $x "$(cat deck.txt)" > result.dat
"""


def test_a_legacy_code_run_anew_for_each_step(tmp_path: Path) -> None:
    code = tmp_path / "legacy"
    code.write_text(LEGACY)
    code.chmod(0o755)
    (tmp_path / "input.template").write_text("seed=$seed step=$step push=$action_0\n")
    (tmp_path / "deck.txt").write_text("42")
    env = make_env(
        "whorl/Process-v0",
        {
            "command": str(code),
            "mode": "rerun",
            "observation": {"low": [0, 0], "high": [100, 100]},
            "action": 5,
            "action_file": "input.txt",
            "answer_file": "result.dat",
            "template": str(tmp_path / "input.template"),
            "files": [str(tmp_path / "deck.txt")],
            "scratch": str(tmp_path / "scratch"),
        },
    )
    try:
        assert env.reset(seed=17)[0].tolist() == [7.5, 42.0]
        assert [env.step(3)[:4] for _ in range(2)][1][1:] == (-1.0, True, False)
        assert env.reset(seed=3)[0].tolist() == [3.5, 42.0]
    finally:
        env.close()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [("1.5", 1.5), ("-1.25D+01", -12.5), ("2.5-101", 2.5e-101), ("1e3", 1000.0), ("-7", -7.0), ("1.0E+00", 1.0)],
)
def test_numbers_as_fortran_writes_them(text: str, number: float) -> None:
    from whorl.envs.library.process.files import _number

    assert _number(text.encode()) == number


@pytest.mark.parametrize(("keep", "left"), [("never", 0), ("failed", 1), ("always", 3), ("archive", 3)])
def test_folders_are_kept_by_the_policy(make: Make, tmp_path: Path, keep: str, left: int) -> None:
    """Three episodes, the second of which ends by a fault."""
    script = (
        HELLO
        + """
open("trace", "w").write("x")
sys.stderr.write("last words\\n")
print('{"observation": [0, 0, 0], "reward": 1}' if os.path.exists("deck") else "no", flush=True)
sys.stdin.read()
"""
    )
    (tmp_path / "deck").write_text("")
    env = make(script, keep=keep, files=[str(tmp_path / "deck")])
    env.reset(seed=1)
    env.step(0)
    env.reset(seed=2)
    next(folder for folder in (tmp_path / "scratch").glob("whorl-1-2-*")).joinpath("deck").unlink()
    with pytest.raises(RuntimeError, match=r"no JSON object: 'no'.*seed 2"):
        env.step(0)
    env.reset(seed=3)
    env.step(0)
    env.close()
    kept = sorted((tmp_path / "scratch").iterdir())
    assert len(kept) == left
    if keep == "failed":
        about = json.loads((kept[0] / "whorl.json").read_text())
        assert (about["seed"], about["steps"]) == (2, 1)
        assert "no JSON object" in about["fault"]
        assert (kept[0] / "whorl-stderr.txt").read_text() == "last words\n"
    if keep == "archive":
        assert all(path.name.endswith(".tar.gz") for path in kept)
        with tarfile.open(kept[0]) as tar:
            assert {Path(name).name for name in tar.getnames()} == {"deck", "trace", "whorl.json", "whorl-stderr.txt"}


def test_no_more_folders_are_kept_than_asked(make: Make, tmp_path: Path) -> None:
    env = make(PARROT, keep="always", keep_most=2)
    for seed in range(5):
        env.reset(seed=seed)
    env.close()
    assert sorted(path.name.split("-")[2] for path in (tmp_path / "scratch").iterdir()) == ["3", "4"]


def test_descriptions_of_spaces() -> None:
    assert make_space("action", 4) == spaces.Discrete(4)
    assert make_space("action", [3, 2]) == spaces.MultiDiscrete([3, 2])
    assert make_space("x", {"shape": [2]}) == spaces.Box(-np.inf, np.inf, (2,), np.float32)
    assert make_space("x", {"low": [0, 1], "high": 5}) == spaces.Box(
        np.array([0, 1], np.float32), np.array([5, 5], np.float32)
    )
    both = make_space("x", {"mode": 3, "camera": {"shape": [4, 4], "dtype": "uint8"}})
    assert both == spaces.Dict(mode=spaces.Discrete(3), camera=spaces.Box(0, 255, (4, 4), np.uint8))
    value = from_json(both, {"mode": 2, "camera": list(range(16))})
    assert value["camera"].shape == (4, 4)
    assert both.contains(value)
    for wrong in ({"mode": 3, "camera": [0] * 16}, {"mode": 0, "camera": [300] * 16}, {"mode": 0}, [1], None, "x"):
        with pytest.raises(BadAnswer):
            from_json(both, wrong)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"command": "no-such-solver -q"}, "command: no-such-solver is not there"),
        ({"command": []}, "command must be a text or a list of texts"),
        ({"observation": {"shape": [0]}}, "observation: shape must be"),
        ({"observation": "Box"}, "observation must be a number of choices"),
        ({"observation": {"low": 1, "high": 0, "shape": [1]}}, "low must be below high"),
        ({"action": 0}, "action must be a number of choices"),
        ({"mode": "telepathy"}, "mode must be one of lines, files, rerun"),
        ({"keep": "some"}, "keep must be one of never, failed, always, archive"),
        ({"step_timeout_s": 0}, "step_timeout_s must be a number above 0"),
        ({"files": ["not-there.dat"]}, "files: there is no not-there.dat"),
        ({"answer_file": "../x"}, "answer_file must be a plain file name"),
        ({"template": __file__}, "template is for mode"),
    ],
)
def test_bad_arguments_are_refused_in_one_line(kwargs: dict, message: str) -> None:
    with pytest.raises(BadInputError, match=message) as error:
        make_env("whorl/Process-v0", {"command": sys.executable, **SPACES, **kwargs})
    assert "\n" not in str(error.value)


def test_files_are_found_from_where_the_run_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text(PARROT)
    monkeypatch.chdir(tmp_path)
    env = make_env("whorl/Process-v0", {"command": f"{sys.executable} -I -S mine.py", **SPACES})
    monkeypatch.chdir(os.sep)
    try:
        assert env.reset(seed=1)[0].shape == (3,)
    finally:
        env.close()
    assert shutil.which("sh")
