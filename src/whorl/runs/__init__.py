"""Run directory, checkpoints, metrics, console."""
