"""The version of whorl, for manifests and results."""

from __future__ import annotations

import whorl


def whorl_version() -> str:
    """As the code says, installed or not."""
    return whorl.__version__
