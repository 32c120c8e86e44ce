"""The installed version of whorl, for manifests and results."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def whorl_version() -> str:
    """As installed; ``unknown`` from a bare source tree."""
    try:
        return metadata.version("whorl")
    except metadata.PackageNotFoundError:
        return "unknown"
