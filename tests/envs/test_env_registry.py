import subprocess
import sys
import types
from importlib.metadata import EntryPoint

import gymnasium
import pytest

from whorl.config.schema import EnvConfig
from whorl.envs import registry
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import probe_env
from whorl.envs.registry import make_env
from whorl.errors import BadInputError, MissingExtraError


@pytest.mark.parametrize(
    ("env_id", "near"),
    [
        ("CartPole-v9", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("whorl/slow-v0", "whorl/Slow-v0"),
        ("whorl/Recal-v0", "whorl/Recall-v0"),
        ("env_helpers:Skripted", "env_helpers:Scripted"),
    ],
)
def test_unknown_ids_suggest_the_nearest(env_id: str, near: str) -> None:
    with pytest.raises(BadInputError, match=rf"no environment '{env_id}'; did you mean .*{near}") as error:
        make_env(env_id)
    assert "\n" not in str(error.value)
    assert (f"MODULE:{env_id}" in str(error.value)) == (":" not in env_id and "/" not in env_id)


def test_modules_and_classes() -> None:
    assert type(make_env("env_helpers:Walk")).__name__ == "Walk"
    assert make_env("gymnasium.envs.classic_control:CartPole-v1").spec.id == "CartPole-v1"
    with pytest.raises(BadInputError, match="no module 'not_there'; install it or set PYTHONPATH"):
        make_env("not_there:Env-v0")


def test_what_cannot_be_made_says_why_in_one_line() -> None:
    with pytest.raises(
        BadInputError, match=r"CartPole-v1 could not be made with \{'wings': 2\}: TypeError.*wings"
    ) as error:
        make_env("CartPole-v1", {"wings": 2})
    assert "\n" not in str(error.value)
    with pytest.raises(BadInputError, match="made a dict, which is not a gymnasium"):
        make_env("builtins:dict")


def test_a_missing_package_names_the_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("Box2D", "gymnasium.envs.box2d"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[box2d\]'"):
        make_env("LunarLander-v3")


def test_entry_points_register_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = types.ModuleType("whorl_test_plugin")
    plugin.register = lambda: gymnasium.register("Lab/Thing-v0", entry_point="env_helpers:Walk")
    plugin.broken = lambda: 1 / 0
    monkeypatch.setitem(sys.modules, "whorl_test_plugin", plugin)
    points = [EntryPoint(n, f"whorl_test_plugin:{n}", registry.ENTRY_POINTS) for n in ("broken", "register")]
    monkeypatch.setattr(registry, "entry_points", lambda group: points)
    monkeypatch.setattr(registry, "_registered_plugins", set())
    try:
        with pytest.warns(UserWarning, match="entry point broken .* failed: ZeroDivisionError"):
            env = make_env("Lab/Thing-v0")
        assert type(env.unwrapped).__name__ == "Walk"
    finally:
        gymnasium.registry.pop("Lab/Thing-v0", None)


def test_importing_whorl_registers_nothing_and_needs_no_torch() -> None:
    code = (
        "import sys, whorl, whorl.envs, gymnasium\n"
        "assert not [name for name in gymnasium.registry if name.startswith('whorl/')]\n"
        "import whorl.envs.lanes, whorl.envs.vector, whorl.envs.hosted_lanes, whorl.envs.probe, whorl.envs.check\n"
        "assert 'torch' not in sys.modules\n"
    )
    path = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path}, timeout=60)


def test_the_probe_measures_and_keeps_the_time_limit() -> None:
    probe = probe_env(EnvConfig(id="whorl/Slow-v0", kwargs={"step_time_s": 0.004}))
    assert 0.004 <= probe.step_time_s < 1.0
    assert probe_env(EnvConfig()).spec.max_episode_steps == 500
    assert probe_env(EnvConfig(max_episode_steps=50)).spec.max_episode_steps == 50


def test_a_bad_environment_is_refused_at_the_start() -> None:
    config = EnvConfig()
    spec = probe_env(config).spec
    lanes = ScalarLanes(EnvConfig(kwargs={"wings": 2}), spec, range(1), 1)
    from env_helpers import drain, fresh

    with pytest.raises(BadInputError, match="wings"):
        drain(lanes.start(fresh(range(1))))
