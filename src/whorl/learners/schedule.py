"""The schedule of an asynchronous run: which trajectories each update learnt from, and with which weights each was
collected. With it the run can be repeated bit for bit, on the inline engine, under a debugger.

``schedule-<learner>.jsonl`` in the run directory, a line for each update:

    {"update": 7, "batch": [[actor, number, version], ...], "dropped": [[actor, number, version], ...]}

What is random in a trajectory follows from its lanes and its number alone, so that number and version are all there is
to know about it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from whorl.errors import BadInputError
from whorl.job import Job
from whorl.types import Arrays


class Taken(NamedTuple):
    """One trajectory of an update."""

    actor: int
    number: int
    version: int


@dataclass(frozen=True)
class Entry:
    """One update."""

    batch: list[Taken]
    dropped: list[Taken]


def taken(actor: int, trajectory: Arrays) -> Taken:
    """A trajectory as a schedule names it."""
    return Taken(actor, int(trajectory["number"][0]), int(trajectory["version"][0]))


class ScheduleWriter:
    """Appends to a learner's schedule. One that was resumed goes on after the update it begins with."""

    def __init__(self, run_dir: Path, rank: int, updates: int) -> None:
        path = _path(run_dir, rank)
        kept = path.read_text().splitlines(keepends=True)[:updates] if path.exists() and updates else []
        self._file = path.open("w")
        self._file.writelines(kept)

    def write(self, update: int, batch: Iterable[Taken], dropped: Iterable[Taken]) -> None:
        """One update's line, at once on its way to the disk."""
        self._file.write(json.dumps({"update": update, "batch": list(batch), "dropped": list(dropped)}) + "\n")
        self._file.flush()


class Schedule:
    """A recorded schedule of all learners."""

    def __init__(self, job: Job) -> None:
        folder = Path(job.config.run.replay_schedule)
        self._entries = [_read(_path(folder, rank)) for rank in range(job.lane_map.learners)]
        self._versions = {(one.actor, one.number): one.version for one in self._everything()}

    def _everything(self) -> Iterator[Taken]:
        for entries in self._entries:
            for entry in entries:
                yield from (*entry.batch, *entry.dropped)

    @property
    def actors(self) -> int:
        """At least as many there were."""
        return 1 + max((one.actor for one in self._everything()), default=-1)

    def entry(self, rank: int, update: int) -> Entry:
        """What a learner learnt from in an update."""
        if update >= len(self._entries[rank]):
            raise BadInputError(
                f"the recorded schedule ends after update {len(self._entries[rank])}: nothing more to replay"
            )
        return self._entries[rank][update]

    def version(self, actor: int, number: int) -> int | None:
        """The weights that a trajectory was collected with; None for one that was not learnt from in the end."""
        return self._versions.get((actor, number))

    def by_version(self, actors: Iterable[int]) -> list[Taken]:
        """What some actors collected, that with the oldest weights first."""
        mine = set(actors)
        return sorted((one for one in self._everything() if one.actor in mine), key=lambda one: one.version)


def check_schedule(job: Job) -> None:
    """Refuse a schedule that is not there, or is of another run."""
    actors = Schedule(job).actors
    if actors > job.lane_map.actors:
        raise BadInputError(
            f"{job.config.run.replay_schedule}: its schedule has {actors} actors or more, and this run "
            f"{job.lane_map.actors}: replay with the recorded run's own config.toml"
        )


def _path(run_dir: Path, rank: int) -> Path:
    return run_dir / f"schedule-{rank}.jsonl"


def _read(path: Path) -> list[Entry]:
    if not path.is_file():
        raise BadInputError(f"{path}: no such schedule; record one with --record-schedule")
    entries = []
    for line in path.read_text().splitlines():
        try:
            plain = json.loads(line)
            entries.append(Entry(*([Taken(*one) for one in plain[name]] for name in ("batch", "dropped"))))
        except (ValueError, KeyError, TypeError) as error:
            raise BadInputError(f"{path}: not a schedule: line {len(entries) + 1}: {error}") from error
    return entries
