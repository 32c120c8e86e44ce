"""What DDPG, TD3 and SAC share: an actor of bounded actions, critics of state and action, exploration."""
