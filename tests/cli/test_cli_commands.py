from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from whorl import __version__
from whorl.agents.a2c.config import A2CConfig
from whorl.agents.ppo.config import PPOConfig
from whorl.cli import probes
from whorl.cli.main import COMMANDS
from whorl.config.layers import dump_toml
from whorl.errors import CheckpointError

SRC = Path(__file__).parents[2] / "src"


def trained(calls):
    (name, (positional, named)) = calls[-1]
    assert name == "run_training"
    return *positional, named


def preset_learning_rate(name: str) -> float:
    """As it is shipped, and not the default."""
    rate = tomllib.loads((SRC / "whorl" / "presets" / f"{name}.toml").read_text())["agent"]["learning_rate"]
    assert rate != PPOConfig().learning_rate
    return float(rate)


def test_train_resolves_preset_flags_and_sets(whorl, calls, tmp_path):
    run_dir = str(tmp_path / "run")
    arguments = ["--actors", "4", "--steps", "1e6", "--stop-return", "-1.5", "--set", "agent.clip=0.1", "--quiet"]
    code, out, err = whorl("train", "ppo", "CartPole-v1", "--run-dir", run_dir, *arguments)
    assert (code, out, err) == (0, "", "")
    config, path, named = trained(calls)
    assert (config.agent_name, config.env.id, path) == ("ppo", "CartPole-v1", tmp_path / "run")
    assert (config.resources.actors, config.run.steps, config.run.stop_return) == (4, 1_000_000, -1.5)
    assert config.agent.clip == 0.1
    assert config.agent.learning_rate == preset_learning_rate("ppo-CartPole-v1")
    assert config.workflow.name == "sync", "the agent's default"
    assert config.resources.shards == 1
    assert named == {"console": False}


def test_without_a_preset_the_defaults_stand(whorl, calls):
    whorl("train", "a2c", "Acrobot-v1", "--learners", "2")
    config, path, named = trained(calls)
    assert config.agent == A2CConfig()
    assert (config.workflow.name, config.resources.shards, path, named) == ("overlap", 2, None, {"console": True})


def test_the_preset_follows_the_environment_that_is_trained(whorl, calls):
    whorl("train", "ppo", "Acrobot-v1", "--set", "env.id=CartPole-v1")
    config, *_ = trained(calls)
    assert (config.env.id, config.agent.learning_rate) == ("CartPole-v1", preset_learning_rate("ppo-CartPole-v1"))


def test_options_may_stand_between_the_positionals(whorl, calls):
    assert whorl("--quiet", "train", "ppo", "--seed", "3", "CartPole-v1")[0] == 0
    config, _, named = trained(calls)
    assert (config.run.seed, config.env.id, named) == (3, "CartPole-v1", {"console": False})


def test_training_from_a_written_config_gives_the_same_config(whorl, calls, tmp_path):
    whorl("train", "ppo", "CartPole-v1", "--seed", "9", "--set", "env.kwargs.x=[1, 'a']")
    config, *_ = trained(calls)
    path = tmp_path / "config.toml"
    path.write_text(dump_toml(config))
    whorl("train", str(path))
    assert trained(calls)[0] == config
    whorl("train", str(path), "--seed", "10")
    assert trained(calls)[0].run.seed == 10


def test_commands_call_their_parts(whorl, calls, tmp_path):
    assert whorl("resume", "r", "--steps", "5")[0] == 75
    assert calls[-1] == ("resume_training", ((Path("r"),), {"steps": 5, "engine": None, "console": True}))
    changes = ("--actors", "4", "--envs-per-actor", "2", "--learners", "2", "--engine", "inline")
    assert whorl("resume", "r", *changes, "--quiet")[0] == 75
    asked = {"actors": 4, "envs_per_actor": 2, "learners": 2, "engine": "inline", "console": False}
    assert calls[-1] == ("resume_training", ((Path("r"),), asked))
    _, out, _ = whorl("eval", "r", "--episodes", "2", "--video")
    assert calls[-1] == ("evaluate_run", ((Path("r"),), {"episodes": 2, "seed": 0, "video": True}))
    assert "2 episodes: return mean 2.00, standard deviation 1.00, min 1.00, max 3.00; length mean 15.0" in out
    assert f"film: {tmp_path / 'film.mp4'}" in out
    assert whorl("plot", "a", "b", "-o", "c.png")[1] == f"{tmp_path / 'curve.png'}\n"
    assert calls[-1] == ("plot_runs", (([Path("a"), Path("b")], Path("c.png")), {}))
    assert whorl("plot", "a")[0] == 0
    assert calls[-1] == ("plot_runs", (([Path("a")], Path("a/curve.png")), {}))
    assert whorl("export", "r", "--to", "onnx")[1].splitlines() == [
        f"{tmp_path / 'policy.onnx'}",
        "  inputs    obs float32 [batch, 4]",
        "  outputs   action int64 [batch]",
        "  checked   against the policy: largest difference 1.2e-07",
    ]
    assert whorl("export", "r", "--to", "onnx", "--quiet")[1] == f"{tmp_path / 'policy.onnx'}\n"
    assert calls[-1] == ("export_run", ((Path("r"), "onnx", None), {}))
    assert whorl("bench", "ppo", "--repeats", "5")[0] == 0
    assert calls[-1] == ("bench", ((["ppo"], 5, None), {}))


def test_check_env_prints_facts_and_findings(whorl, calls):
    code, out, _ = whorl("check-env", "Broken-v0", "--set", "env.kwargs.p=0.5", "--timeout", "90")
    ((env_config, timeout_s), _) = calls[-1][1]
    assert (code, env_config.id, env_config.kwargs, timeout_s) == (1, "Broken-v0", {"p": 0.5}, 90)
    assert out.splitlines() == [
        "Broken-v0: 1 problem",
        "  wrong          reward is NaN",
        "  where          step 3",
        "  mend           check the division",
        "  observation    pos: vector float32[2], mode: discrete int64[]",
        "  speed          90,000 env steps/s (a step takes 11.1 us, a reset 12.3 ms)",
        "  deterministic  yes",
    ]


def test_lists(whorl):
    assert whorl("list", "agents")[1].splitlines() == [
        "a2c    Plain policy gradient.",
        "ppo    Clipped policy gradient.",
        "a3c    a2c in the workflow gradients",
        "apex   dqn in the workflow replay",
        "ddppo  ppo in the workflow allreduce",
    ]
    assert whorl("list", "workflows")[1] == "sync     All wait.\noverlap  One behind.\n"
    assert whorl("list", "engines")[1] == "inline  One thread.\nlocal   Processes.\n"
    assert "ppo-CartPole-v1  " in whorl("list", "presets")[1]
    envs = whorl("list", "envs")[1]
    assert envs.startswith("whorl/Slow-v0 ")
    assert "CartPole-v1 " in envs
    assert "CartPole-v0 " not in envs
    assert "classic control" in envs


def test_help_names_every_command_and_every_command_has_help(whorl):
    code, out, err = whorl()
    assert code == 0
    assert whorl("--help")[:2] == (0, out)
    for name in COMMANDS:
        assert f"\n  {name} " in out
        code, help_text, err = whorl(name, "--help")
        assert (code, err) == (0, "")
        assert help_text.startswith(f"usage: whorl {name}")


def test_the_help_of_a_flag_is_the_docstring_of_its_setting(whorl):
    out = " ".join(whorl("train", "--help")[1].split())
    assert "--envs-per-actor N Environments (lanes) of each actor. Default: 8." in out
    assert "--stop-return X End early when the mean return of the last 100 episodes reaches this." in out


def test_version(whorl):
    assert whorl("--version")[:2] == (0, f"whorl {__version__}\n")


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (CheckpointError("r: damaged;\ntry another"), 1, "whorl: error: r: damaged; try another\n"),
        (
            ZeroDivisionError("oops"),
            1,
            "whorl: error: unexpected ZeroDivisionError: oops (test_cli_commands.py:LINE in fail); "
            "run again with --debug\n",
        ),
        (KeyboardInterrupt(), 130, "whorl: interrupted\n"),
    ],
)
def test_errors_are_one_line_and_debug_shows_the_traceback(whorl, monkeypatch, error, code, line):
    def fail(*positional, **named):
        raise error

    monkeypatch.setattr(sys.modules["whorl.trainer"], "resume_training", fail)
    line = line.replace("LINE", str(fail.__code__.co_firstlineno + 1))
    assert whorl("resume", "r") == (code, "", line)
    if isinstance(error, Exception):
        code_of_debug, _, err = whorl("resume", "r", "--debug")
        assert code_of_debug == code
        assert err.startswith("Traceback")
        assert err.endswith(line)


def run_python(*arguments: str, **options) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    return subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, **options)


HEAVY = ("numpy", "torch", "gymnasium", "rich", "msgspec", "matplotlib")


@pytest.mark.parametrize("arguments", [["--help"], [], ["train", "--help"], ["trian"], ["--version"]])
def test_help_imports_nothing_heavy(arguments):
    code = (
        "import sys\nfrom whorl.cli.main import main\n"
        f"try: main({arguments!r})\nexcept SystemExit: pass\n"
        f"print('heavy:', [name for name in {HEAVY!r} if name in sys.modules])"
    )
    assert run_python("-c", code, check=True).stdout.endswith("heavy: []\n")


def test_importing_whorl_imports_nothing_heavy_and_offers_its_names():
    code = f"import sys, whorl\nprint(dir(whorl), [name for name in {HEAVY!r} if name in sys.modules])"
    out = run_python("-c", code, check=True).stdout
    assert out.endswith(" []\n")
    for name in ("Run", "Trainer", "load", "train"):
        assert f"'{name}'" in out
    failed = run_python("-c", "import whorl; whorl.trian")
    assert "AttributeError: module 'whorl' has no attribute 'trian'" in failed.stderr


def test_exit_codes_reach_the_shell():
    assert run_python("-m", "whorl", "trian").returncode == 2
    assert run_python("-m", "whorl").returncode == 0


def test_a_reader_that_leaves_is_no_traceback():
    read_end, write_end = os.pipe()
    os.close(read_end)
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-m", "whorl", "list", "presets"]
    done = subprocess.run(command, env=environment, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (1, "")


def test_doctor_reports_each_probe(whorl):
    code, out, _ = whorl("doctor")
    assert code == 0
    for name in ("python", "numpy", "torch", "processors", "memory", "/dev/shm", "file descriptors", "memfd", "pidfd"):
        assert f"  {name} " in out
    assert "ok    exactness, numpy" in out
    assert "ok    exactness, torch" in out
    assert out.splitlines()[-1].startswith("usable")


def test_doctor_names_what_is_missing(whorl, monkeypatch):
    monkeypatch.setattr(probes, "_version", lambda name: None if name in ("msgspec", "onnx") else "1.0")
    code, out, _ = whorl("doctor", "--quiet")
    assert code == 1
    assert "bad   msgspec               not installed; mend: pip install msgspec" in out
    assert "optional, without onnx; mend: pip install 'whorl[export]'" in out
    assert out.splitlines()[-1] == "not usable: msgspec"


def test_doctor_knows_the_extras_of_the_package():
    project = tomllib.loads((SRC.parent / "pyproject.toml").read_text())["project"]
    required = {line.partition(">=")[0] for line in project["dependencies"]}
    assert set(probes.REQUIRED) == required
    assert set(probes.EXTRAS) == set(project["optional-dependencies"]) - {"all", "dev"}


@pytest.mark.parametrize(
    ("membership", "files", "cpus", "memory"),
    [
        (
            "0::/a/b\n",
            {"a/cpu.max": "150000 100000\n", "a/b/cpu.max": "max 100000", "a/b/memory.max": "1048576"},
            1.5,
            2**20,
        ),
        ("0::/\n", {"cpu.max": "max 100000", "memory.max": "max"}, None, None),
        (
            "4:cpu,cpuacct:/x\n3:memory:/x\n",
            {
                "cpu/x/cpu.cfs_quota_us": "50000",
                "cpu/x/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": "9223372036854771712",
                "memory/x/memory.limit_in_bytes": "4096",
            },
            0.5,
            4096,
        ),
        ("0::/../../other\n", {"cpu.max": "200000 100000", "../../other/cpu.max": "1 1"}, 2.0, None),
        ("", {}, None, None),
    ],
)
def test_limits_of_control_groups(tmp_path, membership, files, cpus, memory):
    root = tmp_path / "cgroup"
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (tmp_path / "membership").write_text(membership)
    assert probes.cgroup_cpus(root, tmp_path / "membership") == cpus
    assert probes.cgroup_memory_bytes(root, tmp_path / "membership") == memory
