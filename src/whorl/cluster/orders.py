"""What the script of a job tells the processes that it starts, as words of a command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

RAY, MPI, ALONE = "ray", "mpi", "alone"
HEAD_RESOURCE, WORKER_RESOURCE = "head", "worker"
"""Of Ray: which nodes were asked for by ``--head-...`` and which by ``--worker-...``."""
NO_ULFM = "engine.ulfm does not work under srun, which starts the ranks of this job: leave it out, or use --engine ray"


@dataclass(frozen=True)
class JobOrder:
    """For the batch process on the first node."""

    system: str
    """``slurm`` or ``pbs``."""
    run_dir: Path
    id: str
    """Of the script: a run that another one has begun is not gone on with."""
    launch: str
    """``ray`` (a process on each node), ``mpi`` (a rank for each role) or ``alone`` (one process on the first node)."""
    node_script: Path
    cpus_per_node: int = 0
    """0: as the batch system says."""
    heads: int = 0
    """The first so many nodes are for learners; 0: all are alike."""
    interface: str = ""
    join_timeout_s: float = 180.0
    mpi: str = ""
    """What ``srun --mpi`` is told; empty: as the MPI of this Python needs it."""
    library: str = "auto"
    """``engine.mpi``."""
    ulfm: bool = False
    """``engine.ulfm``."""
    learners: int = 0
    """How many of the ranks are learners: the first ones."""
    learner_threads: int = 1
    requeue: bool = True
    restarts: int = 3
    """Starts without a newer checkpoint before the job gives up."""
    guest: bool = False
    """Its nodes join the run of another job."""
    words: tuple[str, ...] = ()

    def to_words(self) -> list[str]:
        """The command line that ``from_words`` understands."""
        words: list[str] = []
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "words" and value != field.default:
                text = str(int(value)) if isinstance(value, bool) else str(value)
                words += [f"--{field.name.replace('_', '-')}", text]
        return [*words, "--", *self.words]

    @classmethod
    def from_words(cls, words: Sequence[str]) -> JobOrder:
        """Of a command line."""
        parser = argparse.ArgumentParser(allow_abbrev=False)
        kinds: dict[str, Callable[[str], Any]] = {
            "int": int,
            "float": float,
            "Path": Path,
            "str": str,
            "bool": lambda text: text == "1",
        }
        for field in fields(cls):
            if field.name != "words":
                kind = kinds[str(field.type)]
                parser.add_argument(f"--{field.name.replace('_', '-')}", type=kind, default=field.default)
        cut = list(words).index("--")
        return cls(**vars(parser.parse_args(words[:cut])), words=tuple(words[cut + 1 :]))
