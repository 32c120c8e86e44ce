"""How the nodes of a job find each other: small files in a folder of the run directory that only its owner can read.

RUN_DIR/job/lock             held by the batch process of the job that runs now, for as long as it lives
RUN_DIR/job/current          the key of that job
RUN_DIR/job/KEY/token        of the Ray cluster; the head makes it
RUN_DIR/job/KEY/address      ip:port of the head, when it listens
RUN_DIR/job/KEY/node-N       how node N fares: ``joined``, or an exit code and why it did not
RUN_DIR/job/KEY/mpi          a rank has come through MPI's beginning
RUN_DIR/job/KEY/exit         the exit code of the training, at the end

Each start of a job has a key of its own, so that nobody meets what a former start has left. Each file is whole or not
there.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from whorl.errors import BadInputError, RunBusyError, WhorlError
from whorl.runs.files import os_reason, write_atomic
from whorl.runs.lock import RunLock, is_held, read_holder

JOINED = "joined"
LOOK_EVERY_S = 0.2
_LOCK_KEPT_S = 300.0


def claim(run_dir: Path, job: str = "") -> RunLock:
    """The run directory for one batch process, from before it clears or writes anything there. The run's own lock comes
    too late: it is not held while nodes come up.

    A file system may keep the locks of a node that was lost: where an earlier start of ``job`` seems to be here it is
    waited for."""
    folder = run_dir / "job"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(f"{folder}: {os_reason(error)}") from error
    end = time.monotonic() + _LOCK_KEPT_S
    while True:
        try:
            return RunLock(folder / "lock")
        except RunBusyError:
            if not job or _job_in(folder) != f"job {job}" or time.monotonic() > end:
                who = read_holder(folder / "lock") or "who is unknown"
                raise RunBusyError(
                    f"{run_dir}: {_job_in(folder)} starts or runs here ({who}); wait for it, or cancel it first"
                ) from None
        time.sleep(LOOK_EVERY_S)


def is_claimed(run_dir: Path) -> bool:
    """Whether a batch process lives."""
    return is_held(run_dir / "job" / "lock")


def _job_in(folder: Path) -> str:
    try:
        return f"job {(folder / 'current').read_text().partition('-')[0]}"
    except OSError:
        return "another job"


class Meeting:
    """One start of a job, as each of its nodes sees it."""

    def __init__(self, run_dir: Path, key: str) -> None:
        self.run_dir, self.key = run_dir, key
        self.folder = run_dir / "job" / key

    @property
    def token_file(self) -> Path:
        return self.folder / "token"

    def open(self) -> None:
        """The batch process makes the folder, and clears away what former starts have left. Refused while another
        job's run goes on here."""
        try:
            self.folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for former in self.folder.parent.iterdir():
                if former.is_dir():
                    self._clear(former)
            self.folder.mkdir(mode=0o700)
            write_atomic(self.folder.parent / "current", self.key.encode(), mode=0o600)
        except OSError as error:
            raise BadInputError(f"{self.folder}: {os_reason(error)}") from error

    def _clear(self, former: Path) -> None:
        job = former.name.partition("-")[0]
        if job != self.key.partition("-")[0] and is_held(self.run_dir / "lock"):
            raise RunBusyError(
                f"{self.run_dir}: job {job} runs here; wait for it, or remove {former} if that job is long gone"
            )
        shutil.rmtree(former, ignore_errors=True)

    def close(self) -> None:
        """The token does not outlive the cluster."""
        with contextlib.suppress(OSError):
            (self.folder.parent / "current").unlink()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def mpi_mark(self) -> Path:
        """There once a rank has come through MPI's beginning."""
        return self.folder / "mpi"

    def publish(self, address: str) -> None:
        """The head listens here."""
        self._write("address", address)

    def address(self, end: float) -> str:
        """Wait for the head's; ``end`` is monotonic."""
        began = time.monotonic()
        while not (text := self._read("address")):
            if self.exit_code() is not None or not self.folder.is_dir():
                raise WhorlError("the head has ended before it listened")
            if time.monotonic() > end:
                raise WhorlError(f"the head did not say within {time.monotonic() - began:.0f} s where it listens")
            time.sleep(LOOK_EVERY_S)
        return text

    def is_published(self) -> bool:
        """The head listens, and waits for the others."""
        return bool(self._read("address"))

    def report(self, node: int, words: str) -> None:
        """``JOINED``, or what went wrong in one line, behind an exit code."""
        with contextlib.suppress(OSError):
            self._write(f"node-{node}", words)

    def heard_of(self, node: int) -> str:
        """What a node has reported; empty before."""
        return self._read(f"node-{node}")

    def say_exit(self, code: int) -> None:
        """The training has ended. The first word stands: who is ended because of it may speak, too."""
        with contextlib.suppress(OSError):
            if self.exit_code() is None:
                self._write("exit", str(code))

    def exit_code(self) -> int | None:
        """The training's, once it has ended."""
        text = self._read("exit")
        return int(text) if text else None

    def is_going_on(self) -> bool:
        """The training has not ended, nor the batch process."""
        return self.exit_code() is None and self.folder.is_dir()

    def _write(self, name: str, text: str) -> None:
        write_atomic(self.folder / name, text.encode(), mode=0o600)

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text()
        except OSError:
            return ""


def current_meeting(run_dir: Path) -> Meeting:
    """Of the job that runs in a run directory now, to join it."""
    try:
        key = (run_dir / "job" / "current").read_text().strip()
    except OSError:
        raise BadInputError(f"{run_dir}: no job of `whorl slurm` runs here that could be joined") from None
    meeting = Meeting(run_dir, Path(key).name)
    if not meeting.token_file.exists():
        raise BadInputError(f"{run_dir}: its job has no Ray cluster (yet): only runs on engine ray can be joined")
    return meeting
