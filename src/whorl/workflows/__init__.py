"""Wiring plans: roles, channels, pacing."""
