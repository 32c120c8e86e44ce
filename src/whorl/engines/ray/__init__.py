"""The Ray engine: roles in stations on the nodes of a Ray cluster, joined by ordered streams between stations."""
