"""A run without a checkpoint: did it not come so far, or are they gone?"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from whorl.errors import CheckpointError
from whorl.runs.beginnings import begins_again
from whorl.runs.directory import RunDirectory

from .test_result_and_plot import RESULT

AGAIN = "no checkpoint had been saved: the run begins again at the start"


def write_metrics(run: RunDirectory, *wall_s: float) -> None:
    lines = ({"update": i, "env_steps": 8 * i, "wall_s": at} for i, at in enumerate(wall_s, 1))
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("wall_s", "every_s"),
    [
        ((3.0,), 0.0),
        ((3.0, 100.0), 0.0),
        ((5000.0,), 60.0),  # a long first update
        ((3.0, 1900.0), 1000.0),
    ],
)
def test_a_run_that_had_not_come_to_its_first_checkpoint_begins_again(
    run: RunDirectory, wall_s: tuple[float, ...], every_s: float
) -> None:
    assert begins_again(run, every_s) == ""
    write_metrics(run, *wall_s)
    assert begins_again(run, every_s) == AGAIN


def test_a_run_that_must_have_had_checkpoints_does_not(run: RunDirectory) -> None:
    write_metrics(run, 3.0, 50.0, 130.0)
    with pytest.raises(CheckpointError, match=r"tell of 3 updates, .* are gone; .* remove metrics\.jsonl there"):
        begins_again(run, 60.0)
    RESULT.write(run.result)
    with pytest.raises(CheckpointError, match="its result tells of 4 updates"):
        begins_again(run, 60.0)
    run.result.unlink()
    run.metrics.unlink()
    assert begins_again(run, 60.0) == ""


def test_a_run_without_even_the_folder_does_not(run: RunDirectory) -> None:
    run.checkpoints.rmdir()
    assert begins_again(run, 60.0) == ""
    write_metrics(run, 3.0)
    with pytest.raises(CheckpointError, match="tell of 1 updates"):
        begins_again(run, 60.0)


def test_a_run_whose_saves_all_failed_begins_again(run: RunDirectory) -> None:
    write_metrics(run, 3.0, 5000.0)
    replace(RESULT, status="failed", failed_saves=9).write(run.result)
    assert begins_again(run, 60.0) == AGAIN
