"""Population-based training: who went on from where is on record, and true."""

from __future__ import annotations

import json
import tomllib
from hashlib import sha256
from pathlib import Path

import pytest

from whorl.tuning.report import read_result

from .conftest import LONG_S
from .watching import ended, wait_for


def lineage(study: Path) -> list[dict]:
    return [json.loads(line) for line in (study / "lineage.jsonl").read_text().splitlines()]


def comparable(study: Path) -> list[dict]:
    """A manifest holds who wrote it."""
    return [{**record, "from_manifest_sha256": ""} for record in lineage(study)]


def metrics(study: Path, trial: int) -> list[dict]:
    lines = (study / "trials" / f"{trial:04d}" / "metrics.jsonl").read_text().splitlines()
    return [{**json.loads(line), "wall_s": 0, "env_steps_per_s": 0} for line in lines]


def population(small: dict, members: int, steps: int) -> dict:
    small["run"]["steps"] = steps
    small["agent"]["learning_rate"] = {"low": 1e-4, "high": 1e-2, "log": True}
    small["tune"] = {"method": "pbt", "trials": members, "parallel": 2, "exploit_share": 0.5}
    small["tune"]["exploit_every_steps"] = 512
    return small


def check_lineage(study: Path, members: int, generations: int) -> None:
    records = lineage(study)
    assert len(records) == members * generations
    by_trial = {record["trial"]: record for record in records}
    for record in records:
        config = tomllib.loads((study / "trials" / f"{record['trial']:04d}" / "config.toml").read_text())
        assert config["agent"]["learning_rate"] == record["settings"]["agent.learning_rate"]
        if record["generation"] == 0:
            assert record["from_trial"] is None
            continue
        origin = by_trial[record["from_trial"]]
        assert origin["generation"] == record["generation"] - 1
        inherited = record["from_update"]
        mine, theirs = metrics(study, record["trial"]), metrics(study, origin["trial"])
        assert mine[:inherited] == theirs[:inherited], "what was learnt before is that of the origin"
        assert len(mine) > inherited == len(theirs)
        assert record["from_env_steps"] == theirs[-1]["env_steps"]
        if record["member"] == origin["member"]:
            assert record["settings"] == origin["settings"]
        else:
            rate, before = (each["settings"]["agent.learning_rate"] for each in (record, origin))
            assert rate / before == pytest.approx(1.2) or before / rate == pytest.approx(1.2)
            assert record["from_changed"] == {"agent.learning_rate": [before, rate]}
            assert origin["score"] >= by_trial[_own_before(records, record)]["score"]


def _own_before(records: list[dict], record: dict) -> int:
    return next(
        other["trial"]
        for other in records
        if (other["member"], other["generation"]) == (record["member"], record["generation"] - 1)
    )


def test_the_worst_go_on_from_copies_of_the_best(small, write, whorl_tune, tmp_path):
    study = tmp_path / "study"
    code, _, err = whorl_tune(write(population(small, members=2, steps=1024)), "--study-dir", study)
    assert (code, err) == (0, "")
    check_lineage(study, members=2, generations=2)
    copied = [record for record in lineage(study) if "copied" in record["why"]]
    assert len(copied) == 1
    checkpoint = study / copied[0]["from_checkpoint"]
    assert sha256((checkpoint / "manifest.json").read_bytes()).hexdigest() == copied[0]["from_manifest_sha256"]
    result = read_result(study / "result.json")
    assert result.counts == {"done": 4}
    assert result.best[0].trial in (2, 3), "of the last generation"


@pytest.mark.verify
def test_a_population_killed_on_the_way_ends_as_the_undisturbed_one(small, write, begin, whorl_tune, tmp_path):
    path = write(population(small, members=4, steps=2048))
    assert whorl_tune(path, "--study-dir", tmp_path / "calm")[0] == 0
    check_lineage(tmp_path / "calm", members=4, generations=4)
    struck = tmp_path / "struck"
    for count in (1, 6, 11):
        driver = begin(path, "--study-dir", struck)
        wait_for(lambda count=count: len(ended(struck)) >= count, LONG_S)
        driver.kill()
        driver.communicate()
    assert whorl_tune("--resume", struck)[0] == 0
    check_lineage(struck, members=4, generations=4)
    assert comparable(struck) == comparable(tmp_path / "calm")
