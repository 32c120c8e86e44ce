"""Scripts that run in a peer's own environment: they use the peer's public interface and nothing of Whorl."""
