"""Metrics as TensorBoard event files, without torch or TensorFlow."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from whorl.errors import MissingExtraError
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
    """A sink of records beside ``metrics.jsonl``; the horizontal axis is ``env_steps``."""

    def __init__(self, path: Path) -> None:
        require_tensorboard()
        from tensorboard.compat.proto import event_pb2, summary_pb2  # type: ignore[import-untyped, unused-ignore]
        from tensorboard.summary.writer.event_file_writer import (  # type: ignore[import-untyped, unused-ignore]
            EventFileWriter,
        )

        self._event: Any = event_pb2
        self._summary: Any = summary_pb2
        self._writer: Any = EventFileWriter(str(path))

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
        """Hand everything to the operating system."""
        self._writer.flush()

    def close(self) -> None:
        """Flush, and end the writing thread."""
        self._writer.close()

    def _add(self, **event: Any) -> None:
        self._writer.add_event(self._event.Event(wall_time=time.time(), **event))
