"""Whom the driver's orders are for."""

from __future__ import annotations

from whorl.engines.contract import RoleId

EVERYBODY = RoleId("everybody", 0)
"""All ranks."""
