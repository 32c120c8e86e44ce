"""Waiting for a study that runs elsewhere."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path


def wait_for(condition: Callable[[], bool], timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "did not come"
        time.sleep(0.05)


def ended(study: Path) -> set[str]:
    """Trials that a study knows to have ended."""
    journal = study / "journal.log"
    lines = [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
    return {f"{line['trial_id']:04d}" for line in lines if line.get("state") in (1, 2, 3) and "trial_id" in line}
