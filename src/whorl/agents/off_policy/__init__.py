"""What agents that learn from replay share: replays, draws, target networks, an optimiser for each phase."""
