"""The inline engine: every role in one thread, with a fixed schedule. The debugger, the reference, the fast path."""

from whorl.engines.inline.engine import InlineCluster, InlineEngine

__all__ = ["InlineCluster", "InlineEngine"]
