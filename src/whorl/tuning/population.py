"""Population-based training: members train side by side for a generation; then the worst go on from copies of the best,
with settings a little changed.

Each member's generation is a trial with a run directory of its own. The directory begins as a copy of the one it goes
on from (checkpoints by hard link, which costs nothing) with its own ``config.toml`` and a ``lineage.json``, so that
what was resumed from where can be seen at any time, and nothing that another trial needs is ever changed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from whorl.config.layers import from_plain
from whorl.config.toml import load_toml, write_toml
from whorl.errors import WhorlError
from whorl.runs.checkpoint import find_checkpoints
from whorl.runs.checkpoint.format import MANIFEST
from whorl.runs.files import write_atomic
from whorl.tuning.crew import Crew, Outcome
from whorl.tuning.directory import StudyDirectory
from whorl.tuning.search import fixed_labels
from whorl.tuning.search_file import SearchFile
from whorl.tuning.table import TrialRow, values_text

LINEAGE = "lineage.json"


class Population:
    """One study of this kind, from wherever its journal stands."""

    def __init__(self, search: SearchFile, study: optuna.Study, crew: Crew, directory: StudyDirectory) -> None:
        self._search, self._study, self._crew, self._directory = search, study, crew, directory
        self._steps = search.config(search.first_labels()).run.steps
        self._interval = search.settings.exploit_every_steps or max(1, self._steps // 10)

    @property
    def generations(self) -> int:
        return generations_of(self._search)

    def run(self) -> None:
        """To the end, or until a signal has come and every member has saved."""
        for generation in range(self.generations):
            self._breed(generation)
            self._write_lineage()
            self._train(generation)
            self._write_lineage()
            if self._crew.stopped:
                return
            if generation + 1 < self.generations:
                self._tidy(generation - 1)

    def _of(self, generation: int) -> dict[int, FrozenTrial]:
        """By member."""
        trials = self._study.get_trials(deepcopy=False)
        return {t.user_attrs["member"]: t for t in trials if t.user_attrs.get("generation") == generation}

    # Who begins with what ---------------------------------------------------------------------------------------------

    def _breed(self, generation: int) -> None:
        """Put the members of a generation into the journal. Everything random follows from (seed, generation,
        member): a driver that was killed half-way through decides the same again."""
        known = self._of(generation)
        before = self._of(generation - 1)
        best, worst = self._ranked(before) if generation else ([], set())
        for member in range(self._search.trials):
            if member in known:
                continue
            generator = np.random.default_rng([self._search.settings.seed, generation, member])
            if generation == 0:
                labels, origin, why = self._first_labels(member, generator), None, "begins"
            elif member in worst:
                parent = best[int(generator.integers(len(best)))]
                labels, origin = self._perturbed(fixed_labels(parent), generator), parent
                own = before[member]
                score = "failed" if own.value is None else f"had {own.value:.4g}"
                why = f"copied from member {parent.user_attrs['member']} with {parent.value:.4g}; its own {score}"
            else:
                labels, origin, why = fixed_labels(before[member]), before[member], "goes on"
            attributes = {"member": member, "generation": generation, "why": why}
            if origin is not None:
                attributes["origin"] = origin.number
            self._study.enqueue_trial(labels, user_attrs=attributes)

    def _first_labels(self, member: int, generator: np.random.Generator) -> dict[str, Any]:
        drawn = {name: space.draw(generator) for name, space in self._search.spaces.items()}
        if member == 0:
            drawn |= {name: space.start for name, space in self._search.spaces.items() if space.start is not None}
        return drawn

    def _perturbed(self, labels: dict[str, Any], generator: np.random.Generator) -> dict[str, Any]:
        factor = self._search.settings.perturb_factor
        return {name: space.perturb(labels[name], factor, generator) for name, space in self._search.spaces.items()}

    def _ranked(self, members: dict[int, FrozenTrial]) -> tuple[list[FrozenTrial], set[int]]:
        """The best, best first, and the numbers of the members that are replaced: the worst, and all that failed."""
        sign = -1 if self._search.settings.goal == "maximise" else 1
        done = [member for member, trial in members.items() if trial.value is not None]
        done.sort(key=lambda member: (sign * float(members[member].value or 0.0), member))
        if not done:
            errors = [trial.user_attrs.get("error", "") for trial in members.values()]
            raise WhorlError(f"every member of the population failed; the first: {errors[0]}")
        count = max(1, int(len(members) * self._search.settings.exploit_share))
        best = done[:count]
        failed = set(members) - set(done)
        worst = set(done[max(len(done) - count, count) :]) | failed
        return [members[member] for member in best], worst

    # A generation -----------------------------------------------------------------------------------------------------

    def _train(self, generation: int) -> None:
        until = min(self._steps, (generation + 1) * self._interval)
        waiting = sorted(t.number for t in self._of(generation).values() if not t.state.is_finished())
        while True:
            while self._crew.has_room and waiting:
                self._start(waiting.pop(0), until)
            if not self._crew.running:
                return
            for outcome in self._crew.wait():
                self._settle(outcome)

    def _start(self, number: int, until: int) -> None:
        trial = self._study.get_trials(deepcopy=False)[number]
        if trial.state == TrialState.WAITING:
            asked = self._study.ask()  # the first that waits, which is this one
            for name, space in self._search.spaces.items():
                space.suggest(name, asked)
        labels, origin = fixed_labels(trial), trial.user_attrs.get("origin")
        if origin is not None and not (self._directory.run_dir(number) / "config.toml").is_file():
            self._copy(origin, trial, labels)
        self._crew.start(number, labels, until_env_steps=until, seed_offset=trial.user_attrs["member"])

    def _settle(self, outcome: Outcome) -> None:
        number, curve = outcome.trial.number, outcome.trial.curve
        if outcome.status != "preempted":
            trial = optuna.trial.Trial(self._study, self._study.get_trials(deepcopy=False)[number]._trial_id)
            trial.set_user_attr("env_steps", curve.env_steps)
            if outcome.status == "done":
                self._study.tell(trial, outcome.score)
            else:
                trial.set_user_attr("error", outcome.error)
                self._study.tell(trial, state=TrialState.FAIL)
        row = TrialRow(
            number, outcome.status, outcome.trial.labels, curve.env_steps, outcome.score, outcome.error,
            outcome.trial.seconds,
        )  # fmt: skip
        self._crew.table.put(row)
        attributes = self._study.get_trials(deepcopy=False)[number].user_attrs
        what = outcome.error or ("" if outcome.score is None else f"{curve.metric} {outcome.score:.4g}")
        self._crew.table.say(
            f"trial {number}: member {attributes['member']}, generation {attributes['generation']}, {outcome.status}"
            f"{': ' * bool(what)}{what} ({values_text(outcome.trial.labels)})"
        )

    # Who comes from where ---------------------------------------------------------------------------------------------

    def _copy(self, origin: int, trial: FrozenTrial, labels: dict[str, Any]) -> None:
        """Make a trial's run directory from its origin's newest checkpoint; whole or not there."""
        source, target = self._directory.run_dir(origin), self._directory.run_dir(trial.number)
        shutil.rmtree(target, ignore_errors=True)
        checkpoint = [found for found in find_checkpoints(source / "checkpoints") if found.manifest][-1]
        assert checkpoint.manifest is not None
        making = target.with_name(f".{target.name}-{secrets.token_hex(4)}")
        (making / "checkpoints").mkdir(parents=True)
        (making / "logs").mkdir()
        _link_tree(checkpoint.path, making / "checkpoints" / checkpoint.path.name)
        shutil.copy2(source / "metrics.jsonl", making / "metrics.jsonl")
        plain, changed = load_toml(source / "config.toml"), {}
        for name, space in self._search.spaces.items():
            before = _put(plain, name, space.value_of(labels[name]))
            if before != space.value_of(labels[name]):
                changed[name] = [before, space.value_of(labels[name])]
        _check(plain, str(target / "config.toml"))
        (making / "config.toml").write_text(write_toml(plain), encoding="utf-8")
        record = {
            "checkpoint": f"trials/{source.name}/checkpoints/{checkpoint.path.name}",
            "manifest_sha256": sha256((checkpoint.path / MANIFEST).read_bytes()).hexdigest(),
            "update": checkpoint.manifest.update,
            "env_steps": checkpoint.manifest.env_steps,
            "changed": changed,
        }
        write_atomic(making / LINEAGE, json.dumps(record, indent=2).encode() + b"\n")
        making.rename(target)

    def _write_lineage(self) -> None:
        """``lineage.jsonl``: one line for each trial, from the journal and the trials' own records."""
        lines = []
        for trial in self._study.get_trials(deepcopy=False):
            if "member" not in trial.user_attrs:
                continue
            own = self._directory.run_dir(trial.number) / LINEAGE
            about = trial.user_attrs
            record = {
                "trial": trial.number,
                "member": about["member"],
                "generation": about["generation"],
                "why": about["why"],
                "from_trial": about.get("origin"),
                **(
                    {f"from_{key}": value for key, value in json.loads(own.read_bytes()).items()}
                    if own.is_file()
                    else {}
                ),
                "settings": fixed_labels(trial),
                "state": trial.state.name.lower(),
                "score": trial.value,
            }
            lines.append(json.dumps(record))
        write_atomic(self._directory.lineage, "".join(f"{line}\n" for line in lines).encode())

    def _tidy(self, generation: int) -> None:
        """Checkpoints that nobody can go on from any more are removed; metrics, configs and results stay."""
        for trial in self._of(generation).values():
            shutil.rmtree(self._directory.run_dir(trial.number) / "checkpoints", ignore_errors=True)


def generations_of(search: SearchFile) -> int:
    """How many there are."""
    steps = search.config(search.first_labels()).run.steps
    return -(-steps // (search.settings.exploit_every_steps or max(1, steps // 10)))


def _link_tree(source: Path, target: Path) -> None:
    """Checkpoints are never written to again: a second name for the same file is a copy."""
    try:
        shutil.copytree(source, target, copy_function=os.link)
    except (OSError, shutil.Error):  # no hard links here
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)


def _put(tables: dict[str, Any], name: str, value: Any) -> Any:
    """Set a value by its dotted name; returns what was there."""
    *sections, last = name.split(".")
    for section in sections:
        tables = tables.setdefault(section, {})
    before = tables.get(last)
    tables[last] = value
    return before


def _check(plain: dict[str, Any], source: str) -> None:
    from whorl.agents.registry import get_agent

    from_plain(get_agent(plain["agent"]["name"]).config, plain, source)
