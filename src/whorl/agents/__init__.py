"""One place per algorithm: how to act, what to store, the loss."""
