"""Scalable reinforcement learning for real environments."""
