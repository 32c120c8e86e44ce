"""What a study leaves for people and programs: the best settings as presets, ``trials.csv``, ``result.json``."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import optuna
from optuna.trial import TrialState

from whorl.config.toml import write_toml
from whorl.runs.files import file_safe, write_atomic
from whorl.tuning.directory import StudyDirectory
from whorl.tuning.search import fixed_labels
from whorl.tuning.search_file import SearchFile

_STATES = {
    TrialState.COMPLETE: "done",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
    TrialState.RUNNING: "unfinished",
    TrialState.WAITING: "waiting",
}


@dataclass(frozen=True)
class TrialSummary:
    """One trial of a study."""

    number: int
    state: str
    """``done``, ``pruned``, ``failed``, ``unfinished`` (a study that goes on takes it up again) or ``waiting``."""
    env: str
    values: dict[str, Any]
    """Of the settings that are searched over, by dotted name."""
    score: float | None
    env_steps: int
    run_dir: str
    error: str = ""
    generation: int = 0
    """Of population-based training."""


@dataclass(frozen=True)
class Best:
    """The best trial of an environment, and the file that holds its settings."""

    env: str
    trial: int
    score: float
    values: dict[str, Any]
    preset: str


@dataclass(frozen=True)
class StudyResult:
    """``result.json`` of a study."""

    status: Literal["completed", "preempted", "failed"]
    method: str
    metric: str
    goal: str
    counts: dict[str, int]
    env_steps: int
    """Of all trials together, as far as they have ended."""
    wall_s: float
    best: list[Best] = field(default_factory=list)


def summaries(search: SearchFile, study: optuna.Study, directory: StudyDirectory) -> list[TrialSummary]:
    """Every trial of the journal."""
    found = []
    for trial in study.get_trials(deepcopy=False):
        labels = fixed_labels(trial)
        done = trial.state == TrialState.COMPLETE
        values = {name: space.value_of(labels[name]) for name, space in search.spaces.items() if name in labels}
        found.append(
            TrialSummary(
                number=trial.number,
                state=_STATES[trial.state],
                env=search.group_of(labels),
                values=values,
                score=trial.value if done else None,
                env_steps=trial.user_attrs.get("env_steps", 0),
                run_dir=str(directory.run_dir(trial.number)),
                error=trial.user_attrs.get("error", ""),
                generation=trial.user_attrs.get("generation", 0),
            )
        )
    return found


def best_of(search: SearchFile, trials: Sequence[TrialSummary]) -> list[TrialSummary]:
    """For each environment the best trial that was done; of a population, in its last generation."""
    done = [trial for trial in trials if trial.score is not None]
    last = max((trial.generation for trial in done), default=0)
    sign = 1 if search.settings.goal == "maximise" else -1
    best: dict[str, TrialSummary] = {}
    for trial in done:
        rival = best.get(trial.env)
        if trial.generation == last and (rival is None or sign * _score(trial) > sign * _score(rival)):
            best[trial.env] = trial
    return list(best.values())


def _score(trial: TrialSummary) -> float:
    assert trial.score is not None
    return trial.score


def write_report(
    search: SearchFile,
    directory: StudyDirectory,
    trials: Sequence[TrialSummary],
    status: Literal["completed", "preempted", "failed"],
    wall_s: float,
) -> StudyResult:
    """All files but the picture."""
    best = [_write_preset(search, directory, trial, len(trials)) for trial in best_of(search, trials)]
    states = [trial.state for trial in trials]
    result = StudyResult(
        status=status,
        method=search.settings.method,
        metric=search.settings.metric,
        goal=search.settings.goal,
        counts={state: states.count(state) for state in _STATES.values() if state in states},
        env_steps=sum(trial.env_steps for trial in trials),
        wall_s=wall_s,
        best=best,
    )
    write_atomic(directory.result, msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    write_atomic(directory.path / "trials.csv", _csv(search, trials).encode())
    return result


def _write_preset(search: SearchFile, directory: StudyDirectory, trial: TrialSummary, count: int) -> Best:
    """The trial's own file under a heading: what ``whorl train`` takes, and what a folder of presets holds."""
    name = f"best-{file_safe(trial.env)}.toml" if search.searches_environments else "best.toml"
    labels = {name: _label(search, name, value) for name, value in trial.values.items()}
    layer = search.layer(labels)
    metric, score = search.settings.metric, _score(trial)
    summary = f"Found by {search.settings.method} over {count} trials: {metric} {score:.4g}."
    tables = {"preset": {"agent": layer["agent"]["name"], "env": trial.env, "summary": summary}, **layer}
    comment = f"# Trial {trial.number} of a study ({metric} {score:.6g})."
    if search.settings.method == "pbt":
        comment += " Its settings changed on the way: lineage.jsonl tells how; these are the last."
    write_atomic(directory.path / name, f"{comment}\n{write_toml(tables)}".encode())
    return Best(trial.env, trial.number, score, trial.values, str(directory.path / name))


def _label(search: SearchFile, name: str, value: Any) -> Any:
    from whorl.tuning.spaces import Choices, label_of

    return label_of(value) if isinstance(search.spaces[name], Choices) else value


def _csv(search: SearchFile, trials: Sequence[TrialSummary]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["trial", "state", "score", "env_steps", *search.spaces, "error"])
    for trial in trials:
        values = [trial.values.get(name, "") for name in search.spaces]
        score = "" if trial.score is None else trial.score
        writer.writerow([trial.number, trial.state, score, trial.env_steps, *values, trial.error])
    return text.getvalue()


def read_result(path: Path) -> StudyResult:
    """``result.json`` of a study."""
    return msgspec.json.decode(path.read_bytes(), type=StudyResult)
