"""What is asked of a batch system, in words that are neither Slurm's nor PBS's."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from whorl.errors import BadInputError
from whorl.runs.files import os_reason

WARN_S = 60
_PLAIN = re.compile(r"[^\x00-\x1f\x7f]*")


@dataclass(frozen=True)
class Part:
    """Nodes that are alike."""

    nodes: int = 1
    cpus_per_node: int = 1
    """0: all that the job has there."""
    gpus_per_node: int = 0
    memory_mb: int = 0
    """0: as the batch system has it."""
    partition: str = ""
    constraint: str = ""
    gres: str = ""
    """Further generic resources, as the batch system writes them."""


@dataclass(frozen=True)
class Request:
    """A job."""

    name: str
    run_dir: Path
    parts: tuple[Part, ...]
    """One; or two: the nodes of learners, then those of actors."""
    time_s: int = 0
    """0: as the batch system has it."""
    account: str = ""
    exclusive: bool = False
    requeue: bool = True
    survives_nodes: bool = False
    """Go on without a node that is lost."""
    prologue: str = ""
    python: str = ""
    """The command that starts Python with Whorl on a node."""
    folder: Path = Path()
    """Where the user stands."""
    python_path: str = ""

    def __post_init__(self) -> None:
        texts = [("--account", self.account), ("--run-dir", str(self.run_dir)), ("--python", self.python)]
        for part in self.parts:
            texts += [("--partition", part.partition), ("--constraint", part.constraint), ("--gres", part.gres)]
        for option, text in texts:
            if not _PLAIN.fullmatch(text):
                raise BadInputError(f"{option}: expected one line of text; got {text!r}")

    @property
    def nodes(self) -> int:
        """All of them."""
        return sum(part.nodes for part in self.parts)

    @property
    def warn_s(self) -> int:
        """How long before the end the batch system is to send its warning."""
        return min(WARN_S, self.time_s // 4) if self.time_s else WARN_S


def read_prologue(path: Path) -> str:
    """Lines of shell that every node runs first; refused where bash cannot read them."""
    try:
        text = path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = os_reason(error) if isinstance(error, OSError) else "not text"
        raise BadInputError(f"--prologue: {path}: {reason}") from error
    bash = shutil.which("bash")
    if bash is not None:
        done = subprocess.run([bash, "-n"], input=text, capture_output=True, text=True, timeout=30, check=False)
        if done.returncode:
            said = done.stderr.strip().splitlines()
            raise BadInputError(f"--prologue: {path}: bash cannot read it: {said[0] if said else 'no reason given'}")
    return text


def quoted(words: list[str] | tuple[str, ...]) -> str:
    """For a shell."""
    return " ".join(shlex.quote(word) for word in words)
