"""What results depend on: the machine, the versions, the commit."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import whorl
from whorl.bench.report import machine_facts


def facts() -> dict[str, Any]:
    """By name, for the report."""
    return {**machine_facts(), "whorl": whorl.__version__, "commit": commit() or "not a checkout"}


def origin_of(known: dict[str, Any]) -> str:
    """Of these, what tells two places apart at which cells of one study were run."""
    return f"commit {known['commit']} on {known['cpu']}, {known['cpus']} CPUs"


def commit() -> str:
    """Of the checkout this code runs from; empty where it is installed."""
    source = Path(whorl.__file__).resolve().parent
    if not (source.parents[1] / ".git").exists():
        return ""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=source, capture_output=True, text=True, timeout=30)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        changed = " with changes" if git("status", "--porcelain", "--untracked-files=no") else ""
        return git("rev-parse", "--short", "HEAD") + changed
    except (OSError, subprocess.TimeoutExpired):
        return ""
