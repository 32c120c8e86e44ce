"""Agents by name: our own, and those that installed packages offer under the entry-point group ``whorl.agents``.

    [project.entry-points."whorl.agents"]
    my_agent = "my_package.my_agent:AGENT"

One that is not registered is named by its place, ``my_package.my_agent:AGENT``. Nothing is imported before it is asked
for, and torch not even then.
"""

from __future__ import annotations

from whorl.agents.contract import Agent
from whorl.config.plugins import find_part, plugin_names

GROUP = "whorl.agents"
_OWN = {name: f"whorl.agents.{name}:AGENT" for name in ("a2c", "ddpg", "dqn", "impala", "ppo", "sac", "td3")}


def agent_names() -> list[str]:
    """Every agent that can be asked for by a name of its own, sorted."""
    return sorted({*_OWN, *plugin_names(GROUP)})


def get_agent(name: str) -> Agent:
    """The agent of that name; our own take precedence."""
    return find_part("agent", name, Agent, _OWN, GROUP)
