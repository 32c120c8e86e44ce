"""Actors turn observations into actions and fill trajectories."""
