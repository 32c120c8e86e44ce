"""Starting again: how often without progress, and by whom."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

from whorl.cluster.allocation import Allocation
from whorl.cluster.launching import launcher_environ, nothing_on
from whorl.errors import WhorlError
from whorl.runs.checkpoint import find_checkpoints
from whorl.runs.files import write_atomic

_ANSWER_S = 60.0


def note_start(run_dir: Path, most: int) -> None:
    """Count a start of the job. Refuse to go on after ``most`` starts in a row that brought no newer checkpoint (of
    a study: of any trial)."""
    record = run_dir / "job" / "starts.json"
    trials = [_newest_update(path) + 2 for path in run_dir.glob("trials/*")]  # functions may leave no checkpoint
    newest = sum(trials) if trials else _newest_update(run_dir)
    before, starts = -1, 0
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        told = json.loads(record.read_text())
        before, starts = int(told["update"]), int(told["starts"])
    starts = 1 if newest > before else starts + 1
    write_atomic(record, json.dumps({"update": newest, "starts": starts}).encode(), mode=0o600)
    if starts > most + 1:
        since = "a first checkpoint" if newest < 0 else f"a checkpoint after update {newest}"
        since = "a newer checkpoint of any trial" if trials else since
        raise WhorlError(
            f"{run_dir}: the job was started {starts} times without coming to {since}: look at logs/, mend the cause "
            f"and remove {record}"
        )


def _newest_update(run_dir: Path) -> int:
    return max((_update_of(each.path) for each in find_checkpoints(run_dir / "checkpoints")), default=-1)


def _update_of(checkpoint: Path) -> int:
    found = re.search(r"(\d+)$", checkpoint.name)
    return int(found[1]) if found else -1


def requeue(job: str) -> bool:
    """Have Slurm start the job again later, as it would after a preemption. False where it will not, or where the job
    is being ended on purpose: a cancelled job must not come back."""
    said = _told("scontrol", "show", "job", "--oneliner", job)
    if "JobState=RUNNING" not in said or "Requeue=0" in said:
        return False
    done = _run("scontrol", "requeue", job)
    if done is None or done.returncode:
        reason = "scontrol does not answer" if done is None else " ".join(done.stderr.split())
        print(f"whorl: the job was not requeued: {reason}", file=sys.stderr, flush=True)
        return False
    return True


def lost_nodes(nodes: tuple[str, ...]) -> list[str]:
    """Those that are down or do not answer any more: what failed with one of them is worth another start."""
    said = _told("sinfo", "--noheader", "--Node", "--nodes", ",".join(nodes), "--format", "%N %T").splitlines()
    pairs = [line.split() for line in said]
    lost = [pair[0] for pair in pairs if len(pair) == 2 and (pair[1].startswith(("down", "fail")) or "*" in pair[1])]
    return sorted(set(lost))


def is_one_silent(allocation: Allocation) -> bool:
    """Whether nothing can be started on some node. Slurm calls a node down only after its SlurmdTimeout, 5 minutes and
    more, and a training that has lost one ends before. Where nothing can be started here either, nobody knows."""

    def starts(*, everywhere: bool) -> bool:
        done = _run(*nothing_on(allocation, everywhere=everywhere), env=launcher_environ())
        return done is not None and done.returncode == 0

    return starts(everywhere=False) and not starts(everywhere=True)


def _told(*words: str) -> str:
    done = _run(*words)
    return "" if done is None else done.stdout


def _run(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str] | None:
    try:
        return subprocess.run(words, capture_output=True, text=True, timeout=_ANSWER_S, check=False, env=env)
    except (OSError, subprocess.SubprocessError):
        return None
