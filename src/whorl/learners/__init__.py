"""Learners turn trajectories into new weights."""
