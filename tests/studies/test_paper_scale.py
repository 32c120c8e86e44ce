"""Paper scale is the published configuration: every field of Tables I to IV, as the document has it, against what the
dry run prints and what the report shows beside our results."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from itertools import pairwise

import pytest

from whorl.config.schema import Config
from whorl.studies import published
from whorl.studies.command import print_commands
from whorl.studies.contract import Cell, Report
from whorl.studies.registry import get_study

from .fakes import fake_results
from .test_cells import training_configs

STEPS = 10_000_000
SEEDS = 3
GAMES = ("Breakout", "BeamRider", "Qbert", "SpaceInvaders")

TABLE_I = {
    "Name": ("IMPALA", "Apex"),
    "num_workers": (32, 16),
    "num_gpus": (1, 1),
    "num_cpus_per_worker": (1, 8),
    "num_envs_per_worker": (5, 8),
    "sample_batch_size": (50, 20),
    "train_batch_size": (500, 512),
    "GPU": ("P100", "P100"),
    "CPU": ("36 Xeon Cores", "36 Xeon Cores"),
}
TABLE_II = {
    "Name": ("CS", "XC"),
    "num_nodes": (1, 8),
    "num_gpus_on_node": ("8 P100", "1 P100"),
    "num_cpus_available": (72, 36),
    "num_workers": (7, 7),
    "num_gpus": (1, 1),
}
TABLE_II_TEXT = {"cpus": 9, "envs": 9, "gpus_of_all_workers": 7}
"""What the text around it adds, for both platforms and both agents."""
FIGURE_6 = {
    "Qbert_CS_A2C": (15_101, "1h 35m 54s"),
    "Qbert_CS_PPO": (12_775, "2h 24m 15s"),
    "Qbert_XC_A2C": (4_193, "1h 11m 48s"),
    "Qbert_XC_PPO": (6_998, "2h 1m 40s"),
}
"""Reward mean and wall time, after 10M steps."""
TABLE_III = ((1, 32), (2, 16), (4, 8), (8, 4), (16, 2))
"""num_workers, num_cpus_per_worker."""
TABLE_IV = ((1, 36, 1, 36), (2, 36, 1, 36), (4, 36, 1, 36), (8, 36, 1, 36), (16, 20, 1, 20))
"""workers, cpus/worker, gpus/worker, num/worker (environments)."""

DryRun = Callable[[str], "Printed"]


class Printed:
    """A dry run at paper scale."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.options = dict(re.findall(r"#SBATCH --([\w-]+)=(\S+)", "\n".join(lines)))
        self.notes = " ".join(line for line in lines if line.startswith("# Note: "))
        self.trainings: list[tuple[str, str, Config]] = []
        """Name of the cell, agent as it is typed, resolved config."""
        for before, line in pairwise(lines):
            if training := re.match(r"# whorl (?:slurm .* -- )?(train .*)", line):
                words = ("whorl", *shlex.split(training[1]))
                (config,) = training_configs(Cell({}, 1, (words,)))
                self.trainings.append((before.removeprefix("# "), words[2], config))

    def of(self, agent: str, game: str, part_of_name: str = "") -> list[Config]:
        """The trainings of an agent on a game, in their order."""
        return [
            config
            for name, typed, config in self.trainings
            if (typed, config.env.id) == (agent, f"atari/{game}-v0") and part_of_name in name
        ]


@pytest.fixture
def dry_run(capsys: pytest.CaptureFixture[str]) -> DryRun:
    """``whorl study NAME --scale paper --dry-run``."""

    def run(name: str) -> Printed:
        print_commands(name, "paper", None, None)
        return Printed(capsys.readouterr().out.splitlines())

    return run


def paper_report(name: str) -> Report:
    """What a study says beside results of all its cells."""
    study = get_study(name)
    return study.report(fake_results(study, "paper"))


def batch(config: Config) -> int:
    """Environment steps of an update where everybody hands over one trajectory."""
    return config.resources.actors * config.resources.envs_per_actor * config.agent.rows


def train_batch_size(config: Config) -> int:
    """As RLlib counts it: what an update of IMPALA takes, and what Ape-X draws from its memory."""
    if config.agent_name == "dqn":
        return int(config.agent.batch_size)
    return config.workflow.trajectories_per_update * config.resources.envs_per_actor * int(config.agent.rows)


def learner_gpus(config: Config) -> int:
    """Whether its learner, of which there is one, computes on a GPU."""
    assert config.resources.learners == 1
    return int(config.resources.device == "cuda")


def minutes_of(text: str) -> float:
    """Of ``1h 35m 54s``."""
    hours, minutes, seconds = map(int, re.findall(r"\d+", text))
    return 60 * hours + minutes + seconds / 60


def test_table_i(dry_run: DryRun) -> None:
    printed = dry_run("atari-throughput")
    assert len(printed.trainings) == 2 * len(GAMES) * SEEDS
    xeon = re.search(r"nodes of (\d+ Xeon) cores with a (\w+)", printed.notes)
    assert xeon
    resolved = {"IMPALA": ("impala", "async"), "Apex": ("dqn", "replay")}
    for column, name in enumerate(resolved):
        agent = name.lower()
        for game in GAMES:
            configs = printed.of(agent, game)
            assert len(configs) == SEEDS
            for config in configs:
                found = {
                    "Name": name,
                    "num_workers": config.resources.actors,
                    "num_gpus": learner_gpus(config),
                    "num_cpus_per_worker": config.resources.cpus_per_actor,
                    "num_envs_per_worker": config.resources.envs_per_actor,
                    "sample_batch_size": config.agent.rows,
                    "train_batch_size": train_batch_size(config),
                    "GPU": xeon[2],
                    "CPU": f"{xeon[1]} Cores",
                }
                assert found == {field: row[column] for field, row in TABLE_I.items()}
                assert (config.agent_name, config.workflow.name) == resolved[name]
                assert (config.run.steps, config.engine.name) == (STEPS, "ray")
                assert config.env.kwargs.get("threads", 1) == config.resources.cpus_per_actor
                assert agent == "impala" or config.agent.replay.prioritised
    assert (printed.options["cpus-per-task"], printed.options["gpus-per-node"]) == ("36", "1")
    assert "IMPALA had 2 nodes" in printed.notes


def test_times_beside_table_i() -> None:
    """IMPALA in less than 30 min, Ape-X in an hour."""
    made = paper_report("atari-throughput")
    assert {row[0]: row[2:] for row in made.tables[0].rows} == {
        "impala": ("5,556", "30 min"),
        "apex": ("2,778", "60 min"),
    }
    assert made.findings[0].published == "under 30 minutes against about 1 h for 10 M steps"


def test_table_ii(dry_run: DryRun) -> None:
    printed = dry_run("platforms")
    assert len(printed.trainings) == 2 * 2 * 2 * SEEDS, "two games, agents and shapes"
    cs = re.search(r"with (P100)s: .*CS, (\d+) node of (\d+) CPUs and (\d+) GPUs each", printed.notes)
    assert cs, "the script asks for XC, and says what CS was"
    cs_machine = (int(cs[2]), f"{cs[4]} {cs[1]}", int(cs[3]))
    asked = printed.options
    xc_machine = (int(asked["nodes"]), f"{asked['gpus-per-node']} {cs[1]}", int(asked["cpus-per-task"]))
    shapes = (("CS", cs_machine, "one-node", "local"), ("XC", xc_machine, "messages-only", "ray"))
    for column, (platform, machine, shape, engine) in enumerate(shapes):
        for agent in ("a2c", "ppo"):
            configs = [
                config for game in ("Qbert", "SpaceInvaders") for config in printed.of(agent, game, f"shape-{shape}_")
            ]
            assert len(configs) == 2 * SEEDS
            for config in configs:
                workers = config.resources.actors
                found = (platform, *machine, workers, learner_gpus(config))
                assert found == tuple(row[column] for row in TABLE_II.values())
                around = {
                    "cpus": config.resources.cpus_per_actor,
                    "envs": config.resources.envs_per_actor,
                    "gpus_of_all_workers": workers * config.resources.gpus_per_actor,
                }
                assert around == TABLE_II_TEXT
                assert (config.agent_name, config.engine.name, config.run.steps) == (agent, engine, STEPS)
                assert config.env.kwargs["threads"] == config.resources.cpus_per_actor
                assert batch(config) == 6993, "as near to the published 7,000 as whole fragments come"
    assert "Published fragments are of 100 rows and batches of 7,000 environment steps" in printed.notes


def test_results_beside_table_ii() -> None:
    made = paper_report("platforms")
    shown = {
        f"Qbert_{platform[:2]}_{agent.upper()}": (int(reward.replace(",", "")), time)
        for platform, agent, reward, time in made.tables[0].rows
    }
    assert shown == {name: (reward, f"{minutes_of(time):.1f} min") for name, (reward, time) in FIGURE_6.items()}
    assert made.tables[0].title == "Published: Qbert, 10 M steps"
    said = {finding.name: finding.published for finding in made.findings}
    for agent in ("A2C", "PPO"):
        cs, xc = FIGURE_6[f"Qbert_CS_{agent}"], FIGURE_6[f"Qbert_XC_{agent}"]
        times = said[f"messages_cost_little_{agent.lower()}"]
        assert times == (
            f"Qbert: CS: one node with 8 GPUs: {minutes_of(cs[1]):.0f} min; XC: 8 nodes: {minutes_of(xc[1]):.0f} min"
        )
        assert f"{cs[0]:,} and {xc[0]:,} ({agent})" in said["shapes_do_not_change_the_result"]


def test_table_iii(dry_run: DryRun) -> None:
    printed = dry_run("node-shape")
    assert len(printed.trainings) == len(TABLE_III) * SEEDS
    configs = printed.of("ppo", "SpaceInvaders")
    assert [(config.resources.actors, config.resources.cpus_per_actor) for config in configs] == [*TABLE_III * SEEDS]
    for config in configs:
        assert config.resources.envs_per_actor == config.resources.cpus_per_actor == config.env.kwargs["threads"]
        assert (config.agent_name, config.engine.name, config.run.steps) == ("ppo", "ray", STEPS), (
            "on local, nobody sets the CPUs of a worker aside"
        )
    assert printed.options["nodes"] == "1"
    assert int(printed.options["cpus-per-task"]) >= max(workers * cpus for workers, cpus in TABLE_III)
    assert "caption says IMPALA and Ape-X where its figure shows PPO" in printed.notes
    said = [finding.published for finding in paper_report("node-shape").findings]
    assert said == ["1 worker slowest", "16 and 8 workers alike"]


@pytest.mark.parametrize("agent", ["ppo", "a2c"])
@pytest.mark.parametrize("game", ["Qbert", "SpaceInvaders"])
def test_table_iv(dry_run: DryRun, agent: str, game: str) -> None:
    printed = dry_run("scaling")
    assert len(printed.trainings) == 2 * 2 * 2 * len(TABLE_IV) * SEEDS
    for mode, smallest in (("weak", 3600), ("strong", 31_900)):
        configs = printed.of(agent, game, f"mode-{mode}_")
        rows = [
            (one.resources.actors, one.resources.cpus_per_actor, one.resources.gpus_per_actor,
             one.resources.envs_per_actor)
            for one in configs
        ]  # fmt: skip
        assert rows == [*TABLE_IV * SEEDS]
        assert smallest <= min(map(batch, configs)) <= max(map(batch, configs)) == 32_000, "close to 32000"
        for config in configs:
            assert config.env.kwargs["threads"] == config.resources.cpus_per_actor
            assert (config.agent_name, config.engine.name, config.run.steps) == (agent, "ray", STEPS)
    asked = printed.options
    assert (asked["nodes"], asked["cpus-per-task"], asked["gpus-per-node"]) == ("16", "36", "1"), "a worker on each"
    assert "Xeon CPUs with P100 GPUs" in printed.notes


def test_trends_beside_table_iv() -> None:
    said = [finding.published for finding in paper_report("scaling").findings]
    assert said[:2] == ["near-linear to 4 workers", "tapering past 8"]


def test_figure_3() -> None:
    """128 workers for 2 M steps, 64 for 5 M, then 32, PPO on Qbert, 10 M steps; and each number throughout."""
    study = get_study("elastic")
    cells = {cell.labels["way"]: cell for cell in study.cells("paper", "ray") if cell.seed == 1}
    (config,) = training_configs(cells["schedule"])
    assert (config.agent_name, config.env.id, config.run.steps) == ("ppo", "atari/Qbert-v0", STEPS)
    changes = [tuple(map(int, change.split(":"))) for change in config.resources.actors_schedule.split(",")]
    assert [count for _, count in changes] == [128, 64, 32]
    assert [start for start, _ in changes] == pytest.approx([0, 2_000_000, 7_000_000], abs=128 * 32)
    fixed = [training_configs(cells[way])[0].resources.actors for way in ("fixed-most", "fixed-half", "fixed-fewest")]
    assert fixed == [128, 64, 32]
    restart = cells["restart"].commands
    assert [command[1] for command in restart] == ["train", "resume", "resume"]
    assert [command[command.index("--actors") + 1] for command in restart] == ["128", "64", "32"]
    assert restart[-1][restart[-1].index("--steps") + 1] == str(STEPS)


def test_the_share_that_random_windows_waste() -> None:
    assert published.redundant_share(30, 120) == pytest.approx(0.112, abs=5e-4)
    assert published.redundant_share(120, 120) == pytest.approx(0.366, abs=5e-4)
