"""The journal of a run: takes in what roles report, writes the metrics, shows the console, and makes the result."""

from __future__ import annotations

import math
import time
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from whorl.engines.contract import Cluster, RoleId
from whorl.errors import WhorlError
from whorl.job import Job
from whorl.runs.console import Console
from whorl.runs.directory import RunDirectory
from whorl.runs.files import os_reason, shown
from whorl.runs.metrics import MetricsSink, MetricsWriter, read_metrics
from whorl.runs.result import Result, Staleness, Status, Transitions
from whorl.runs.status import RunStatus
from whorl.workflows.registry import get_workflow

WARM_UP_UPDATES = 2
"""Left out of the steady-state rate: start-up, and compilation where there is any."""
RATE_WINDOW = 50
SHOWN_WARNINGS = 20
SHOW_EVERY_S = 0.2
LOSSES_TOLD = 8
"""Of each kind of role; after that, every time their number has doubled."""


class Journal:
    """Counts, rates and warnings of one session of a run."""

    def __init__(self, directory: RunDirectory, job: Job, console: Console) -> None:
        self.directory = directory
        self.last: dict[str, Any] = {}
        """The newest update's metrics."""
        self.updates = 0
        self.env_steps = 0
        self._job = job
        self._exact = get_workflow(job.config.workflow.name).exact
        """What the workflow promises; what was lost on the way may take it back."""
        self._console = console
        self._started = time.monotonic()
        self._learner_ahead_s = 0.0
        """Of the learner's monotonic clock, which is another machine's where an engine has several."""
        self._shown_at = 0.0
        self._sinks: list[MetricsSink] = [MetricsWriter(directory.metrics)]
        if job.config.run.tensorboard:
            from whorl.runs.tensorboard import TensorBoardWriter

            self._sinks.append(TensorBoardWriter(directory.path / "tensorboard"))
        self._recent: deque[tuple[float, int, int]] = deque(maxlen=RATE_WINDOW)
        self._steady_from: tuple[float, int] | None = None
        self._records_since_open = 0
        self._history: list[tuple[int, float]] = []
        self._staleness: dict[int, int] = {}
        self._warnings: list[str] = []
        self._notes: list[str] = []
        self._restarts: Counter[str] = Counter()
        self._lost = 0
        self._failed_saves = 0
        self._checkpoint: tuple[int, float] | None = None
        self._opened: Mapping[str, Any] = {}
        self._env_steps_at_start: int | None = None
        self._collected_at_start = 0
        """By earlier sessions, as far as the checkpoint holds it."""
        self._counted_before = 0
        self._restarts_before: Counter[str] = Counter()

    def replaced(self, cluster: Cluster) -> None:
        """This cluster is closed, and another goes on with the run."""
        self._counted_before += _counted(cluster)
        self._restarts_before.update(cluster.restarts)

    def lost(self, env_steps: int) -> None:
        """Environment steps of an actor that died before it handed them over."""
        self._lost += env_steps

    def opened(self, body: Mapping[str, Any], cluster: Cluster) -> None:
        """The learner has started, at update 0 or from a checkpoint. What was written beyond it is taken back."""
        self._opened = body
        self._learner_ahead_s = float(body["time"]) - time.monotonic()
        self.updates, self.env_steps = int(body["updates"]), int(body["env_steps"])
        held = self.env_steps + int(body["untold_env_steps"])
        is_first = self._env_steps_at_start is None
        if is_first:
            self._env_steps_at_start, self._collected_at_start = self.env_steps, held
        self._lost = self._collected(cluster) - held  # whatever the checkpoint does not hold
        for sink in self._sinks:
            sink.rewind(self.updates, self.env_steps)
        history = _returns_of(self.directory) if is_first and self.updates else self._history
        self._history = [entry for entry in history if entry[0] <= self.env_steps]
        self._records_since_open = 0
        self._recent.clear()
        for text in body["warnings"]:
            self.warn(text)

    def record(self, body: dict[str, Any]) -> None:
        """An update's metrics."""
        at = float(body.pop("time")) - self._learner_ahead_s
        self.updates, self.env_steps = int(body["update"]), int(body["env_steps"])
        self._records_since_open += 1
        self._recent.append((at, self.env_steps, self.updates))
        if self._steady_from is None and self._records_since_open == WARM_UP_UPDATES:
            self._steady_from = (at, self.env_steps)
        counts = body["staleness"]
        for staleness, env_steps in counts:
            self._staleness[staleness] = self._staleness.get(staleness, 0) + env_steps
        body["staleness"] = _mean_of(counts)
        if body["return_mean"] is not None:
            self._history.append((self.env_steps, float(body["return_mean"])))
        self.last = {**body, "env_steps_per_s": self._rate(1) or None, "wall_s": at - self._started}
        for sink in self._sinks:
            sink.write(self.last)
            self._tell_of(sink)

    def _tell_of(self, sink: MetricsSink) -> None:
        if sink.last_error and sink.last_error not in self._warnings:
            self.warn(sink.last_error)

    def saved(self, body: Mapping[str, Any]) -> None:
        """A checkpoint was written and verified. The metrics that lead to it go to the disk as well."""
        self._checkpoint = (int(body["update"]), time.monotonic())
        for sink in self._sinks:
            sink.flush()

    def save_failed(self, text: str) -> None:
        """A checkpoint could not be written; training goes on and the next interval tries again."""
        self._failed_saves += 1
        self.warn(text)

    def warn(self, text: str) -> None:
        """Something the user should know."""
        self._warnings = [*self._warnings, text][-SHOWN_WARNINGS:]

    def restarted(self, role: RoleId, incarnation: int, cause: str) -> None:
        """A process was lost. When many of a kind are, ever fewer are told of: the count is in the result."""
        self._restarts[role.kind] += 1
        nth = self._restarts[role.kind]
        if nth <= LOSSES_TOLD or nth.bit_count() == 1:
            of_many = f", loss {nth:,} of this kind" if nth > LOSSES_TOLD else ""
            self.warn(f"{role} was lost and is replaced (incarnation {incarnation}{of_many}): {cause}")

    def placed(self, table: Sequence[str]) -> None:
        """Where the roles go."""
        self._console.say(table)

    def show(self, cluster: Cluster) -> None:
        """Draw, if it is time to."""
        if time.monotonic() - self._shown_at >= SHOW_EVERY_S:
            self._shown_at = time.monotonic()
            self._console.update(self.status(cluster))

    def note(self, text: str) -> None:
        """Something that happened as it was asked for."""
        self._notes = [*self._notes, text][-SHOWN_WARNINGS:]

    def status(self, cluster: Cluster) -> RunStatus:
        """A snapshot for people."""
        config = self._job.config
        means = [value for _, value in self._history]
        return RunStatus(
            agent=config.agent_name,
            env=config.env.id,
            workflow=config.workflow.name,
            engine=config.engine.name,
            exact=self._exact and bool(self._so_far().get("exact", True)),
            env_steps=self.env_steps,
            total_env_steps=config.run.steps,
            updates=self.updates,
            episodes=int(self._so_far().get("episodes", 0)),
            resumed_at_env_steps=self._env_steps_at_start or 0,
            elapsed_s=time.monotonic() - self._started,
            env_steps_per_s=self._rate(1),
            updates_per_s=self._rate(2),
            return_mean=means[-1] if means else math.nan,
            return_best=max(means) if means else math.nan,
            return_history=tuple(self._history),
            staleness_mean=_mean_of(self._staleness.items()),
            staleness_max=max(self._staleness, default=0),
            time_share=_as_shares(cluster.time_shares()),
            restarts=self._restarts.total(),
            failed_saves=self._failed_saves,
            checkpoint_update=self._checkpoint[0] if self._checkpoint else None,
            checkpoint_age_s=time.monotonic() - self._checkpoint[1] if self._checkpoint else None,
            warnings=tuple(self._warnings),
            notes=tuple(self._notes),
            phase="" if self._records_since_open else "starting",
        )

    def finish(
        self,
        status: Status,
        finished: Mapping[str, Any] | None,
        cluster: Cluster | None,
        error: str | None = None,
        *,
        lost_role: bool = False,
    ) -> Result:
        """Write ``result.json`` and show the end."""
        summary = finished or self._so_far()
        config = self._job.config
        result = Result(
            status=status,
            agent=config.agent_name,
            env=config.env.id,
            workflow=config.workflow.name,
            engine=config.engine.name,
            env_steps=int(summary.get("env_steps", 0)),
            updates=int(summary.get("updates", 0)),
            episodes=int(summary.get("episodes", 0)),
            return_mean=summary.get("return_mean"),
            wall_s=time.monotonic() - self._started,
            env_steps_per_s=self._steady_rate(),
            weights_sha256=str(summary.get("weights_sha256", "")),
            exact=self._exact and bool(summary.get("exact", False)),
            staleness=self._staleness_summary(),
            transitions=self._transitions(summary, cluster),
            time_share=_as_shares(cluster.time_shares()) if cluster else {},
            resources=cluster.resources() if cluster else {},
            restarts={kind: self._restarts_before[kind] + count for kind, count in cluster.restarts.items()}
            if cluster
            else {},
            error=error,
            lost_role=lost_role,
            failed_saves=self._failed_saves,
            seed=config.run.seed,
        )
        for sink in self._sinks:
            sink.close()
            self._tell_of(sink)
        try:
            result.write(self.directory.result)
        except OSError as reason:
            text = f"{self.directory.result}: the result could not be written: {os_reason(reason)}"
            if error is None:
                raise WhorlError(f"{text}; the checkpoints are as they were") from reason
            self.warn(text)  # it failed anyway, and of that something worse
        if status == "completed" and result.env_steps == self._env_steps_at_start:
            self.warn("nothing was left to do: the run had reached its env steps or its return before")
        if cluster is not None:
            self._console.finish(self.status(cluster), result, Path(shown(self.directory.path)))
        self._console.close()
        return result

    def _so_far(self) -> Mapping[str, Any]:
        """What is known of a run that has not finished: its newest update, or where it was opened."""
        return {**self.last, "updates": self.updates} if self._records_since_open else self._opened

    def _rate(self, column: int) -> float:
        if len(self._recent) < 2:
            return 0.0
        first, last = self._recent[0], self._recent[-1]
        return (last[column] - first[column]) / max(1e-9, last[0] - first[0])

    def _steady_rate(self) -> float | None:
        if self._steady_from is None or not self._recent or self._recent[-1][1] <= self._steady_from[1]:
            return None
        at, env_steps = self._steady_from
        return (self._recent[-1][1] - env_steps) / max(1e-9, self._recent[-1][0] - at)

    def _staleness_summary(self) -> Staleness:
        total = sum(self._staleness.values())
        if not total:
            return Staleness()
        mean = _mean_of(self._staleness.items())
        seen, p99 = 0, 0
        for value in sorted(self._staleness):
            seen += self._staleness[value]
            if seen >= 0.99 * total:
                p99 = value
                break
        return Staleness(mean=mean, p99=float(p99), max=max(self._staleness))

    def transitions(self, cluster: Cluster) -> Transitions:
        """Where the environment steps went so far."""
        return self._transitions(self._so_far(), cluster)

    def _transitions(self, summary: Mapping[str, Any], cluster: Cluster | None) -> Transitions:
        """Of the whole run: what earlier sessions used counts as collected, too."""
        taken, dropped = int(summary.get("env_steps", 0)), int(summary.get("dropped", 0))
        collected = self._collected(cluster)
        return Transitions(
            collected=collected,
            used=taken - dropped,
            dropped=dropped,
            lost=self._lost,
            in_flight=collected - taken - self._lost,
            reused=int(summary.get("reused", 0)),
        )

    def _collected(self, cluster: Cluster | None) -> int:
        return self._collected_at_start + self._counted_before + (_counted(cluster) if cluster else 0)


def _counted(cluster: Cluster) -> int:
    return cluster.counted("actor") + cluster.counted("learner")


def _mean_of(counts: Iterable[tuple[int, int]]) -> float:
    """Of values that were counted."""
    pairs = list(counts)
    return sum(value * count for value, count in pairs) / max(1, sum(count for _, count in pairs))


def _returns_of(directory: RunDirectory) -> list[tuple[int, float]]:
    """(env_steps, return_mean) of earlier sessions, so that a resumed run shows its whole curve."""
    metrics = read_metrics(directory.metrics)
    if not {"env_steps", "return_mean"} <= metrics.keys():
        return []
    points = zip(metrics["env_steps"].tolist(), metrics["return_mean"].tolist(), strict=True)
    return [(int(env_steps), value) for env_steps, value in points if math.isfinite(value)]


def _as_shares(seconds: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
    """Seconds per phase as shares of each role's time; start-up and odds and ends are left out."""
    shares: dict[str, dict[str, float]] = {}
    for kind, phases in seconds.items():
        named = {phase: spent for phase, spent in phases.items() if phase != "other"}
        total = sum(named.values())
        shares[kind] = {phase: spent / total if total else 0.0 for phase, spent in named.items()}
    return shares
