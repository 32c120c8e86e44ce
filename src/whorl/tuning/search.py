"""Grid, random and TPE searches, with or without pruning: ask the journal for a trial, run it, tell how it ended.

The journal is told of a decision before it is carried out, so that a driver that is killed at any place repeats no
finished trial and forgets none.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from whorl.tuning.crew import Crew, Outcome, Running
from whorl.tuning.search_file import SearchFile
from whorl.tuning.table import TrialRow, values_text


def fixed_labels(trial: FrozenTrial) -> dict[str, Any]:
    """What a trial has, or will have once it is begun."""
    return dict(trial.system_attrs.get("fixed_params", trial.params))


class Search:
    """One search, from wherever its journal stands to its end or to a signal."""

    def __init__(self, search: SearchFile, study: optuna.Study, crew: Crew) -> None:
        self._search, self._study, self._crew = search, study, crew
        self._trials: dict[int, optuna.trial.Trial] = {}
        trials = study.get_trials(deepcopy=False)
        self._unfinished = deque(trial.number for trial in trials if trial.state == TrialState.RUNNING)
        self._rungs = _rungs(search)
        if search.settings.pruning == "asha":
            study.pruner = optuna.pruners.SuccessiveHalvingPruner(
                min_resource=self._rungs[0], reduction_factor=search.settings.prune_factor
            )
        self._enqueue(trials)

    def run(self) -> None:
        """To the end of the search, or until a signal has come and every trial has saved."""
        while True:
            while self._crew.has_room and (trial := self._next()) is not None:
                self._trials[trial.number] = trial
                labels = {name: space.suggest(name, trial) for name, space in self._search.spaces.items()}
                self._crew.start(trial.number, labels)
            if not self._crew.running:
                return
            for outcome in self._crew.wait(self._look):
                self._settle(outcome)

    def _enqueue(self, trials: list[FrozenTrial]) -> None:
        """What is to be tried for certain: a grid, or where the user begins; not what is in the journal already."""
        wanted: Iterator[Mapping[str, Any]] = iter(())
        if self._search.settings.method == "grid":
            wanted = self._search.combinations()
        else:
            starts = {name: space.start for name, space in self._search.spaces.items() if space.start is not None}
            wanted = iter([starts] if starts else [])
        known = {json.dumps(fixed_labels(trial), sort_keys=True) for trial in trials}
        if self._search.settings.method != "grid" and trials:
            return
        for labels, _ in zip(wanted, range(self._search.trials), strict=False):
            if json.dumps(labels, sort_keys=True) not in known:
                self._study.enqueue_trial(dict(labels))

    def _next(self) -> optuna.trial.Trial | None:
        """One that was begun and not ended, else a new one."""
        trials = self._study.get_trials(deepcopy=False)
        if self._unfinished:
            return optuna.trial.Trial(self._study, trials[self._unfinished.popleft()]._trial_id)
        begun = sum(trial.state != TrialState.WAITING for trial in trials)
        if begun >= self._search.trials:
            return None
        self._study.sampler = self._sampler(begun)
        return self._study.ask()

    def _sampler(self, number: int) -> optuna.samplers.BaseSampler:
        """What is drawn follows from the seed, the trial's number and, for TPE, the trials before: a search that was
        stopped must not draw the same again."""
        seed = int(np.random.SeedSequence([self._search.settings.seed, number]).generate_state(1)[0])
        if self._search.settings.method == "tpe":
            startup = max(3, min(10, self._search.trials // 4))
            return optuna.samplers.TPESampler(seed=seed, n_startup_trials=startup)
        return optuna.samplers.RandomSampler(seed=seed)

    def _look(self, running: Running) -> None:
        """Compare a trial with the others at each rung it has come to."""
        trial = self._trials[running.number]
        if self._report(running) and trial.should_prune():
            trial.set_user_attr("env_steps", running.curve.env_steps)
            self._study.tell(trial, state=TrialState.PRUNED)
            self._crew.prune(running)
            self._say(running, "pruned", running.curve.points[-1][1])

    def _report(self, running: Running) -> bool:
        """Tell the journal of the next rung, if the trial is there."""
        if self._search.settings.pruning == "none":
            return False
        trial = self._trials[running.number]
        told = self._study.get_trials(deepcopy=False)[running.number].intermediate_values
        for rung in self._rungs:
            if rung not in told:
                value = running.curve.at(rung)
                if value is None:
                    return False
                trial.report(value, rung)
                return True
        return False

    def _settle(self, outcome: Outcome) -> None:
        running, trial = outcome.trial, self._trials[outcome.trial.number]
        match outcome.status:
            case "done":
                while self._report(running):  # for others to be compared with; who is done is not pruned any more
                    trial.should_prune()
                trial.set_user_attr("env_steps", running.curve.env_steps)
                self._study.tell(trial, outcome.score)
                self._say(running, "done", outcome.score)
            case "failed":
                trial.set_user_attr("error", outcome.error)
                trial.set_user_attr("env_steps", running.curve.env_steps)
                self._study.tell(trial, state=TrialState.FAIL)
                self._say(running, "failed", None, outcome.error)
            case "preempted":
                self._say(running, "preempted", None)

    def _say(self, running: Running, state: str, score: float | None, error: str = "") -> None:
        self._crew.table.put(
            TrialRow(running.number, state, running.labels, running.curve.env_steps, score, error, running.seconds)
        )
        what = f": {error}" if error else "" if score is None else f": {self._search.settings.metric} {score:.4g}"
        self._crew.table.say(f"trial {running.number}: {state}{what} ({values_text(running.labels)})")


def _rungs(search: SearchFile) -> list[int]:
    """Environment steps at which trials are compared."""
    steps = search.config(search.first_labels()).run.steps
    rung = search.settings.prune_first_steps or max(1, steps // 9)
    rungs = [rung]
    while rungs[-1] * search.settings.prune_factor < steps:
        rungs.append(rungs[-1] * search.settings.prune_factor)
    return rungs
