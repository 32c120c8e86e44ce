"""Metrics as TensorBoard event files, without torch or TensorFlow."""

from __future__ import annotations

import contextlib
import io
import math
import os
import socket
import time
from pathlib import Path
from typing import Any

from whorl.errors import MissingExtraError
from whorl.runs.files import os_reason
from whorl.runs.metrics import Record

_AXES = {"update", "env_steps", "wall_s"}


def require_tensorboard() -> None:
    """Refuse where it is not installed."""
    try:
        import tensorboard.compat.proto  # type: ignore[import-untyped, unused-ignore]  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "run.tensorboard needs TensorBoard, which is not installed: pip install 'whorl[tensorboard]'"
        ) from error


class TensorBoardWriter:
    """A sink of records beside ``metrics.jsonl``; the horizontal axis is ``env_steps``.

    As there, there is at most one write to the disk per second, and a full disk does not stop training: events wait
    (up to ``max_waiting_bytes``, newer ones are then dropped). TensorBoard's own writer raises in a thread instead.
    """

    flush_every_s = 1.0
    max_waiting_bytes = 16 << 20

    def __init__(self, path: Path) -> None:
        require_tensorboard()
        from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped, unused-ignore]
        from tensorboard.summary.writer.record_writer import RecordWriter  # type: ignore[import-untyped, unused-ignore]

        self._event: Any = event_pb2
        self._summary: Any = summary_pb2
        second, rest = divmod(time.time_ns(), 10**9)  # TensorBoard reads files in the order of their names
        self._path = path / f"events.out.tfevents.{second:010}.{socket.gethostname()}.{os.getpid()}.{rest:09}"
        self._descriptor = -1
        self._waiting = io.BytesIO()
        self._records: Any = RecordWriter(self._waiting)
        self._flushed_at = time.monotonic()
        self.last_error = ""
        self._add(file_version="brain.Event:2")

    def write(self, record: Record) -> None:
        """One event with every metric of the record."""
        values = [
            self._summary.Summary.Value(tag=name, simple_value=float(value))
            for name, value in record.items()
            if value is not None and name not in _AXES and math.isfinite(value)
        ]
        self._add(step=int(record["env_steps"] or 0), summary=self._summary.Summary(value=values))

    def rewind(self, update: int, env_steps: int) -> None:
        """Tell TensorBoard to forget what was written beyond the checkpoint, by this process or an earlier one."""
        del update
        start = self._event.SessionLog(status=self._event.SessionLog.START)
        self._add(step=env_steps + 1, session_log=start)

    def flush(self) -> None:
        """Hand everything waiting to the operating system."""
        self._flushed_at = time.monotonic()
        waiting, written = self._waiting.getvalue(), 0
        try:
            if waiting and self._descriptor < 0:
                self._descriptor = self._open()
            while written < len(waiting):
                written += os.write(self._descriptor, waiting[written:])
            self.last_error = ""
        except OSError as error:
            self.last_error = f"{self._path.parent}: events wait to be written: {os_reason(error)}"
        self._waiting.seek(0)
        self._waiting.truncate()
        self._waiting.write(waiting[written:])  # also the rest of one that is half written: a reader stops at a bad one

    def close(self) -> None:
        """Flush and let go. May be called again."""
        self.flush()
        if self._descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = -1

    def _open(self) -> int:
        self._path.parent.mkdir(exist_ok=True)
        return os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)

    def _add(self, **event: Any) -> None:
        if self._waiting.tell() < self.max_waiting_bytes:
            self._records.write(self._event.Event(wall_time=time.time(), **event).SerializeToString())
        if time.monotonic() - self._flushed_at >= self.flush_every_s:
            self.flush()
