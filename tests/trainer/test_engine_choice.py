"""Which engine a run takes that names none, and what is said of settings that mean nothing on the one it names."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from whorl.job import Job
from whorl.prepare import look_at, prepare
from whorl.resolve import config_from_keywords

LIMIT = {"env.step_timeout_s": 5.0}


def job_of(**given: Any) -> Job:
    return prepare(config_from_keywords("ppo", "CartPole-v1", {**given.pop("dotted", {}), **given}))


@pytest.mark.parametrize(
    ("given", "engine"),
    [({}, "inline"), ({"actors": 2}, "local"), ({"learners": 2, "actors": 2}, "local"), ({"dotted": LIMIT}, "local")],
)
def test_the_engine_is_chosen_by_what_is_asked_of_it(given: dict[str, Any], engine: str) -> None:
    job = job_of(**given)
    assert (job.config.engine.name, job.warnings) == (engine, ())


def test_a_served_environment_with_a_time_limit_needs_no_processes() -> None:
    config = config_from_keywords("ppo", "CartPole-v1", LIMIT)
    served = replace(config, env=replace(config.env, id="tcp://127.0.0.1:7001"))
    job = prepare(served, look_at(config))
    assert (job.config.engine.name, job.warnings) == ("inline", ())


@pytest.mark.parametrize(
    ("given", "engine", "words"),
    [
        ({"dotted": LIMIT}, "inline", "env.step_timeout_s is not heeded on inline"),
        ({"cpus_per_actor": 2.0}, "inline", "--cpus-per-actor sets nothing aside on inline"),
        ({"gpus_per_actor": 0.5, "actors": 2}, "local", "--gpus-per-actor sets nothing aside on local"),
    ],
)
def test_what_means_nothing_on_an_engine_is_said(given: dict[str, Any], engine: str, words: str) -> None:
    (warning,) = job_of(engine=engine, **given).warnings
    assert warning.startswith(words)
    assert "use --engine" in warning


def test_what_an_engine_heeds_is_not_warned_of() -> None:
    assert job_of(engine="local", actors=2, dotted=LIMIT).warnings == ()
    assert job_of(engine="ray", cpus_per_actor=0.5, gpus_per_actor=0.25).warnings == ()
