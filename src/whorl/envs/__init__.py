"""Environments as lanes of rows."""
