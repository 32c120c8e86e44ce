"""Agents by name: our own, and those that installed packages offer under the entry-point group ``whorl.agents``.

    [project.entry-points."whorl.agents"]
    my_agent = "my_package.my_agent:AGENT"

Nothing is imported before it is asked for, and torch not even then.
"""

from __future__ import annotations

import difflib
from importlib import import_module
from importlib.metadata import entry_points

from whorl.agents.contract import Agent
from whorl.errors import BadInputError

GROUP = "whorl.agents"
_OWN = {name: f"whorl.agents.{name}" for name in ("a2c", "ddpg", "dqn", "impala", "ppo", "sac", "td3")}


def agent_names() -> list[str]:
    """Every agent that can be asked for, sorted."""
    return sorted({*_OWN, *(point.name for point in entry_points(group=GROUP))})


def get_agent(name: str) -> Agent:
    """The agent of that name; our own take precedence."""
    if name in _OWN:
        return _checked(name, import_module(_OWN[name]).AGENT)
    for point in entry_points(group=GROUP):
        if point.name == name:
            return _checked(name, point.load())
    close = difflib.get_close_matches(name.lower(), agent_names(), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"choose one of {', '.join(agent_names())}"
    raise BadInputError(f"there is no agent {name!r}: {hint}")


def _checked(name: str, found: object) -> Agent:
    if not isinstance(found, Agent):
        raise BadInputError(f"the entry point {name!r} of {GROUP} must be a whorl Agent, and is {type(found).__name__}")
    return found
