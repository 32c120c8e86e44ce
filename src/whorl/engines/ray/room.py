"""Whether the nodes of a Ray cluster have room for what must be on one of them: a unit, or a trial.

The sums over a cluster do not tell: four nodes of 8 CPUs have 32, and no place for a learner of 16 threads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

_ROUNDING = 1e-9
"""1.0 // 0.2 is 4."""


def name_of(address: str) -> str:
    """How messages name a cluster; a private one has no address."""
    return f"the Ray cluster at {address}" if address else "this machine"


def places(asked: Mapping[str, float], node: Mapping[str, float]) -> int:
    """How often a node has, were it empty, what is asked for at once."""
    often = (math.floor(node.get(name, 0.0) / amount + _ROUNDING) for name, amount in asked.items() if amount)
    return min(often, default=1)


def shortage(asked: Mapping[str, float], nodes: Sequence[Mapping[str, float]], where: str) -> str:
    """What of it no node has alone, and will never be free on one; empty where a node has everything."""
    if any(places(asked, node) for node in nodes):
        return ""
    for name, amount in asked.items():
        most = max((node.get(name, 0.0) for node in nodes), default=0.0)
        if amount > most + _ROUNDING:
            return f"{amount:g} {name} and no node of {where} has more than {most:g}"
    everything = ", ".join(f"{amount:g} {name}" for name, amount in asked.items() if amount)
    return f"{everything} and no node of {where} has all of that"
