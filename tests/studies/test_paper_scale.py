"""Paper scale is the published configuration: every field of Tables I to IV, as numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from whorl.config.schema import Config
from whorl.studies import published
from whorl.studies.published import Row
from whorl.studies.registry import get_study

from .test_cells import training_configs

STEPS = 10_000_000


def paper_configs(name: str) -> list[tuple[dict[str, object], Config]]:
    """Labels and resolved config of every training at paper scale."""
    study = get_study(name)
    found = []
    for cell in study.cells("paper", study.engine_for("paper")):
        (config,) = training_configs(cell)
        found.append((dict(cell.labels), config))
    return found


def laid_out(config: Config) -> tuple[int, int, float]:
    """Workers, environments and CPUs of each."""
    return config.resources.actors, config.resources.envs_per_actor, config.resources.cpus_per_actor


def batch(config: Config) -> int:
    """Environment steps of an update where everybody hands over one trajectory."""
    return config.resources.actors * config.resources.envs_per_actor * config.agent.rows


def test_table_i() -> None:
    """IMPALA: 32 x 5, 1 CPU each, fragment 50, batch 500, a GPU. Ape-X: 16 x 8, 8 CPUs each, fragment 20, batch 512."""
    seen = set()
    for labels, config in paper_configs("atari-throughput"):
        seen.add((labels["agent"], config.env.id))
        assert config.run.steps == STEPS
        if labels["agent"] == "impala":
            assert (config.agent_name, config.workflow.name) == ("impala", "async")
            assert laid_out(config) == (32, 5, 1)
            assert config.agent.rows == 50
            assert config.workflow.trajectories_per_update * config.agent.rows * 5 == 500
            assert config.resources.device == "cuda"
        else:
            assert (config.agent_name, config.workflow.name) == ("dqn", "replay")
            assert laid_out(config) == (16, 8, 8)
            assert config.agent.rows == 20
            assert config.agent.batch_size == 512
            assert config.agent.replay.prioritised
    games = ("Breakout", "BeamRider", "Qbert", "SpaceInvaders")
    assert seen == {(agent, f"atari/{game}-v0") for agent in ("impala", "apex") for game in games}


def test_table_ii() -> None:
    """Qbert, 7 workers x 9 environments, fragment 100, batch 7,000, A2C and PPO on two shapes."""
    seen = set()
    for labels, config in paper_configs("platforms"):
        seen.add((labels["agent"], labels["shape"]))
        assert config.agent_name == labels["agent"]
        assert config.env.id == "atari/Qbert-v0"
        assert config.run.steps == STEPS
        assert laid_out(config)[:2] == (7, 9)
        assert config.agent.rows == 100
        assert batch(config) == pytest.approx(7000, rel=0.1), "6,300: one fragment of each worker"
    assert seen == {(agent, shape) for agent in ("a2c", "ppo") for shape in ("one node", "messages only")}
    results = {
        (one.platform[:2], one.agent): (one.reward, round(60 * one.minutes)) for one in published.TABLE_II_RESULTS
    }
    assert results == {
        ("CS", "a2c"): (15_101, 3600 + 35 * 60 + 54),
        ("CS", "ppo"): (12_775, 2 * 3600 + 24 * 60 + 15),
        ("XC", "a2c"): (4_193, 3600 + 11 * 60 + 48),
        ("XC", "ppo"): (6_998, 2 * 3600 + 1 * 60 + 40),
    }


def test_table_iii() -> None:
    """Workers x CPUs on one node: 1x32, 2x16, 4x8, 8x4, 16x2."""
    configs = paper_configs("node-shape")
    assert {laid_out(config) for _, config in configs} == {(1, 32, 32), (2, 16, 16), (4, 8, 8), (8, 4, 4), (16, 2, 2)}
    for _, config in configs:
        assert (config.agent_name, config.env.id, config.run.steps) == ("ppo", "atari/SpaceInvaders-v0", STEPS)


def test_table_iv() -> None:
    """1, 2, 4, 8 workers x 36 CPUs and 16 x 20, an environment for each CPU, batches of up to 32,000."""
    configs = paper_configs("scaling")
    shapes = {(1, 36, 36), (2, 36, 36), (4, 36, 36), (8, 36, 36), (16, 20, 20)}
    for agent in ("ppo", "a2c"):
        for game in ("Qbert", "SpaceInvaders"):
            for mode in ("weak", "strong"):
                own = [
                    config
                    for labels, config in configs
                    if (labels["mode"], config.agent_name, config.env.id) == (mode, agent, f"atari/{game}-v0")
                ]
                assert {laid_out(config) for config in own} == shapes
                assert max(batch(config) for config in own) == 32_000
                assert all(config.run.steps == STEPS for config in own)
    strong = [batch(config) for labels, config in configs if labels["mode"] == "strong"]
    assert all(31_900 <= size <= 32_000 for size in strong)


def test_figure_3() -> None:
    """128, then 64, then 32 workers, PPO on Qbert, 10 M steps."""
    study = get_study("elastic")
    cells = {cell.labels["way"]: cell for cell in study.cells("paper", "ray") if cell.seed == 1}
    (config,) = training_configs(cells["schedule"])
    assert (config.agent_name, config.env.id, config.run.steps) == ("ppo", "atari/Qbert-v0", STEPS)
    counts = [int(change.partition(":")[2]) for change in config.resources.actors_schedule.split(",")]
    assert counts == [128, 64, 32]
    restart = cells["restart"].commands
    assert [command[1] for command in restart] == ["train", "resume", "resume"]
    assert [command[command.index("--actors") + 1] for command in restart] == ["128", "64", "32"]
    assert restart[-1][restart[-1].index("--steps") + 1] == str(STEPS)


def test_a_changed_field_would_be_noticed() -> None:
    assert Row("ppo", 1, 32, 32) != replace(Row("ppo", 1, 32, 32), cpus_per_worker=16)
    assert published.redundant_share(30, 120) == pytest.approx(0.112, abs=5e-4)
    assert published.redundant_share(120, 120) == pytest.approx(0.366, abs=5e-4)
