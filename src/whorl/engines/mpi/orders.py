"""Whom the driver's orders are for, and by when they can be heard."""

from __future__ import annotations

from whorl.engines.contract import RoleId

EVERYBODY = RoleId("everybody", 0)
"""All ranks."""

START_S = 120.0
"""By when all ranks must have begun."""
