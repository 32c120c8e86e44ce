"""Every study's cells are plain data, and commands that Whorl takes."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from whorl.cli.parser import Parser
from whorl.cli.train import config_of
from whorl.cli.train import configure as configure_train
from whorl.config.schema import Config
from whorl.errors import BadInputError
from whorl.prepare import prepare
from whorl.session import plan_of
from whorl.studies.command import check_cells, study_table
from whorl.studies.contract import SCALES, Cell
from whorl.studies.directory import Directory
from whorl.studies.progress import seconds_left
from whorl.studies.registry import MODULES, NAMES, check_engine, get_study
from whorl.studies.results import CellResult, Taken, since_start

MOST_SMOKE_CELLS = 24


def training_configs(cell: Cell) -> list[Config]:
    """What the trainings among its commands resolve to."""
    parser = Parser("whorl train", "")
    configure_train(parser)
    words = [list(command) for command in cell.commands if command[:2] == ("whorl", "train")]
    return [config_of(parser.parse_strictly(command[2:])) for command in words]


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, SCALES)])
def test_cells_are_plain_data_and_differ(name: str, scale: str) -> None:
    study = get_study(name)
    cells = study.cells(scale, study.engine_for(scale))  # type: ignore[arg-type]
    check_cells(cells)
    assert cells
    for cell in cells:
        assert json.loads(json.dumps(cell.plain()))["seed"] == cell.seed
        assert all(command[0] in ("whorl", "python") for command in cell.commands)
        assert all(len(part) < 250 for part in (cell.name, f"{cell.name}.json"))
    if scale == "smoke":
        assert len(cells) <= MOST_SMOKE_CELLS


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, SCALES)])
def test_every_setting_of_a_training_exists(name: str, scale: str) -> None:
    study = get_study(name)
    for engine in study.engines:
        for cell in study.cells(scale, engine):  # type: ignore[arg-type]
            training_configs(cell)


def test_what_sleeps_is_said_to_be_emulated() -> None:
    for name, scale in product(NAMES, SCALES):
        study = get_study(name)
        for cell in study.cells(scale, study.engine_for(scale)):
            assert ("whorl/Slow-v0" in str(cell.commands)) <= bool(cell.emulated), cell.name


def test_studies_are_listed_with_their_source() -> None:
    rows = dict(study_table())
    assert tuple(rows) == NAMES
    assert all(text.endswith(")") and "\n" not in text for text in rows.values())


def test_an_unknown_study_is_refused_with_the_nearest() -> None:
    with pytest.raises(BadInputError, match="there is no study 'vtrac'; did you mean vtrace"):
        get_study("vtrac")
    with pytest.raises(BadInputError, match="there are vtrace, "):
        get_study("xxxxxxxx")


def test_an_engine_that_a_study_cannot_use_is_refused() -> None:
    with pytest.raises(BadInputError, match="the study vtrace cannot use the engine 'ray'; it runs on inline"):
        check_engine(get_study("vtrace"), "ray")


def test_a_study_that_compares_engines_is_run_on_all_of_them_or_on_one() -> None:
    tasks = get_study("tasks")
    every = tasks.engine_for("small")
    check_engine(tasks, every)
    assert {cell.labels["engine"] for cell in tasks.cells("small", every)} == {"local", "inline", "mpi", "ray"}
    assert {cell.labels["engine"] for cell in tasks.cells("small", "mpi")} == {"mpi"}
    with pytest.raises(BadInputError, match="cannot use the engine 'every-engine'"):
        check_engine(get_study("vtrace"), every)


def test_a_cell_shows_its_commands_as_they_are_typed() -> None:
    cell = Cell({"side": "a b"}, 3, (("whorl", "train", "ppo", "X-v0", "--run-dir", "{folder}/run"),))
    assert cell.name == "side-a-b_seed-3"
    assert [shlex.split(line) for line in cell.shown("some dir")] == [
        ["whorl", "train", "ppo", "X-v0", "--run-dir", "some dir/run"]
    ]


def test_results_are_kept_whole_and_only_for_the_same_cell(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    cell = Cell({"a": 1}, 1, (("whorl", "train"),))
    (directory.clear(cell) / "run" / "checkpoints").mkdir(parents=True)
    assert directory.load(cell) is None
    directory.keep(CellResult(cell, {"result": {"wall_s": 2.5}}, {}, [1.0, 2.0], "commit abc"))
    found = Directory(tmp_path.rename(tmp_path.with_name("moved"))).load(cell)
    assert found is not None, "all of it is in the folder, wherever that is"
    tmp_path.with_name("moved").rename(tmp_path)
    assert found.origin == "commit abc"
    assert (found.number("result.wall_s"), found.number("seconds"), found.number("result.x")) == (2.5, 3.0, None)
    assert not (directory.folder(cell) / "run" / "checkpoints").exists()
    assert directory.load(Cell({"a": 1}, 1, (("whorl", "train", "--steps", "9"),))) is None, "another under its name"
    (tmp_path / "cells" / "a-1_seed-1.json").write_text('{"cell": ')
    assert directory.load(cell) is None


@pytest.mark.parametrize(
    ("wall_s", "commands", "expected"),
    [
        ([0.5, 1.0], [(3.0, 2)], [2.5, 3.0]),  # two seconds until the training began
        ([1.0, 2.0, 0.5, 1.0, 1.5], [(3.0, 2), (4.0, 4), (2.0, 5)], [2.0, 3.0, 6.5, 7.0, 9.0]),
        ([1.0, 2.0, 2.5], [(3.0, 2), (1.0, 2), (2.0, 3)], [2.0, 3.0, 6.0]),  # the second had nothing to do
    ],
)
def test_a_run_that_is_resumed_goes_on_in_time(
    wall_s: list[float], commands: list[tuple[float, int]], expected: list[float]
) -> None:
    assert since_start(np.array(wall_s), [Taken(*command) for command in commands]).tolist() == expected


def test_the_time_left_is_what_others_took() -> None:
    quick, slow = Cell({"a": 1}, 1, ()), Cell({"a": 2}, 1, ())
    done = [CellResult(quick, {}, {}, [2.0]), CellResult(slow, {}, {}, [3.0, 5.0])]
    assert seconds_left([quick], [], [], slots=1) is None
    assert seconds_left([quick, slow], [(quick, 4.0)], [], slots=2, usual_s=10.0) == 13.0, "before any has ended"
    assert seconds_left([Cell({"a": 1}, 2, ()), Cell({"a": 2}, 2, ())], [], done, slots=1) == 10.0
    assert seconds_left([Cell({"a": 3}, 1, ())], [], done, slots=2) == 2.5, "the average, over two cores"
    assert seconds_left([], [(Cell({"a": 2}, 2, ()), 7.0)], done, slots=1) == 1.0
    assert seconds_left([], [(Cell({"a": 2}, 2, ()), 70.0)], done, slots=1) == 0.0


@pytest.mark.parametrize("name", NAMES)
def test_no_training_of_smoke_or_small_scale_would_be_refused(name: str) -> None:
    """Everything that is looked at before the first process starts, agent and workflow together included."""
    study = get_study(name)
    if any(find_spec(module) is None for extra, module in MODULES.items() if extra in study.needs):
        pytest.skip("an extra is not installed")
    for scale in ("smoke", "small"):
        first_seeds = {repr(cell.labels): cell for cell in reversed(study.cells(scale, study.engines[0]))}
        for cell in first_seeds.values():
            for config in training_configs(cell):
                plan_of(prepare(replace(config, env=replace(config.env, hosting="inside"))))
