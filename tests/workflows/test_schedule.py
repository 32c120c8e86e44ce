"""A recorded asynchronous run is repeated bit for bit in one thread."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import whorl
from whorl.cli.main import main
from whorl.errors import BadInputError, ConfigError

ON_POLICY = {"agent.rows": 16, "agent.network.hidden": (16,)}
REPLAY = {**ON_POLICY, "agent.learning_starts": 200, "agent.batch_size": 32, "agent.gradient_steps": 2}
KEYWORDS: dict[str, Any] = {"workflow": "async", "envs_per_actor": 2, "steps": 2000}
RECORDED = {"run.record_schedule": True}


def recorded(folder: Path, agent: str, settings: dict[str, Any], **flags: Any) -> Any:
    run = whorl.train(
        agent, "CartPole-v1", run_dir=folder, engine="local", set={**settings, **RECORDED}, **{**KEYWORDS, **flags}
    )
    return run.result


def replayed(folder: Path, source: Path, agent: str, settings: dict[str, Any], **flags: Any) -> Any:
    again = {**settings, "run.replay_schedule": str(source)}
    return whorl.train(agent, "CartPole-v1", run_dir=folder, engine="inline", set=again, **{**KEYWORDS, **flags}).result


@pytest.mark.parametrize(
    ("agent", "settings", "flags"),
    [
        ("impala", ON_POLICY, {"actors": 4}),
        ("impala", {**ON_POLICY, "agent.normalise_rewards": True}, {"actors": 4, "learners": 2}),
        ("dqn", REPLAY, {"actors": 3}),
        ("a2c", {**ON_POLICY, "agent.vtrace": True, "workflow.max_staleness": 2}, {"actors": 4}),
    ],
)
def test_the_same_weights_come_out(tmp_path: Path, agent: str, settings: dict[str, Any], flags: dict[str, Any]) -> None:
    settings = {**settings, "workflow.trajectories_per_update": flags.get("learners", 1)}
    first = recorded(tmp_path / "recorded", agent, settings, **flags)
    again = replayed(tmp_path / "replayed", tmp_path / "recorded", agent, settings, **flags)
    assert first.staleness.max > 0
    assert again.weights_sha256 == first.weights_sha256
    for name in ("updates", "env_steps", "episodes", "return_mean", "staleness"):
        assert getattr(again, name) == getattr(first, name), name
    assert again.transitions.dropped == first.transitions.dropped


def test_a_run_of_environments_with_processes_is_repeated_from_its_own_config(tmp_path: Path) -> None:
    source, again = tmp_path / "recorded", tmp_path / "again"
    first = recorded(source, "impala", {**ON_POLICY, "env.hosting": "process"}, actors=2, steps=500)
    assert 'hosting = "process"' in (source / "config.toml").read_text()
    words = ["train", str(source / "config.toml"), "--engine", "inline", "--run-dir", str(again), "--quiet"]
    words += ["--set", "run.record_schedule=false", "--set", f"run.replay_schedule={source}"]
    assert main(words) == 0
    assert whorl.load(again).result.weights_sha256 == first.weights_sha256


def test_a_run_with_losses_is_repeated_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=100:kill")
    first = recorded(tmp_path / "recorded", "impala", ON_POLICY, actors=2)
    assert first.restarts["actor"] == 1
    monkeypatch.delenv("WHORL_FAULT")
    again = replayed(tmp_path / "replayed", tmp_path / "recorded", "impala", ON_POLICY, actors=2)
    assert again.weights_sha256 == first.weights_sha256


def test_what_was_dropped_makes_room_for_what_came_after_it(tmp_path: Path) -> None:
    """Three of an actor's lay in its three slots and were dropped, and then its fourth was learnt from."""
    lines = [
        {"update": 0, "batch": [[0, 0, 0]], "dropped": []},
        {"update": 1, "batch": [[1, 3, 1]], "dropped": [[1, 0, 0], [1, 1, 0], [1, 2, 0]]},
    ]
    (tmp_path / "schedule-0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    settings = {**ON_POLICY, "workflow.trajectories_per_update": 1}
    result = replayed(tmp_path / "replayed", tmp_path, "impala", settings, actors=2, steps=3 * 32)
    transitions = result.transitions  # a little less than rows x environments: rows between episodes are none
    assert (result.updates, round(transitions.dropped / 32), round(transitions.used / 32)) == (2, 3, 2)


def test_a_line_for_each_update(tmp_path: Path) -> None:
    result = recorded(tmp_path / "run", "impala", ON_POLICY, actors=2, steps=500)
    lines = [json.loads(line) for line in (tmp_path / "run" / "schedule-0.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == list(range(result.updates))
    assert all(len(line["batch"]) == 2 for line in lines)


@pytest.mark.parametrize(
    ("flags", "more", "says"),
    [
        ({"workflow": "sync"}, RECORDED, "sync has no schedule to record"),
        ({"engine": "local"}, {"run.replay_schedule": "somewhere"}, "add --engine inline"),
        ({"engine": "inline"}, {"run.replay_schedule": "nowhere"}, "no such schedule; record one with"),
    ],
)
def test_what_cannot_be_recorded_or_replayed_is_refused(
    tmp_path: Path, flags: dict[str, Any], more: dict[str, Any], says: str
) -> None:
    with pytest.raises((BadInputError, ConfigError), match=says):
        whorl.train(
            "impala", "CartPole-v1", run_dir=tmp_path / "run", set={**ON_POLICY, **more}, **{**KEYWORDS, **flags}
        )
    assert not (tmp_path / "run" / "config.toml").exists()


def test_a_schedule_of_more_actors_is_refused(tmp_path: Path) -> None:
    recorded(tmp_path / "run", "impala", ON_POLICY, actors=4, steps=500)
    with pytest.raises(BadInputError, match="replay with the recorded run's own"):
        replayed(tmp_path / "again", tmp_path / "run", "impala", ON_POLICY, actors=2, steps=500)
