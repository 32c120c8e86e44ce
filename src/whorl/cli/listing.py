"""``whorl list agents|envs|workflows|engines|presets``."""

from __future__ import annotations

import argparse
import re
from importlib.util import find_spec

from whorl.cli.parser import one_of
from whorl.cli.table import print_table
from whorl.errors import EXIT_DONE

Rows = list[tuple[str, str]]


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("what", metavar="|".join(LISTS), help="What to list.")


def run(arguments: argparse.Namespace) -> int:
    """Print names and summaries."""
    what = one_of(arguments.what, LISTS, "whorl list")
    print_table(LISTS[what]())
    return EXIT_DONE


def _agents() -> Rows:
    from whorl.agents.registry import agent_names, get_agent
    from whorl.config.plugins import summary_of
    from whorl.resolve import ALIASES

    agents = [(name, summary_of(get_agent, name)) for name in agent_names()]
    return agents + [(name, f"{alias.agent} in the workflow {alias.workflow}") for name, alias in ALIASES.items()]


def _envs() -> Rows:
    from whorl.envs.atari import games
    from whorl.envs.library import catalogue
    from whorl.envs.registry import register_plugins

    register_plugins()
    if games.is_installed():
        games.register("atari/...")
    own = sorted(catalogue())
    own_ids = {env_id for env_id, _ in own}
    own = [(env_id, summary.replace("``", "")) for env_id, summary in own]
    return own + [(env_id, summary) for env_id, summary in _gymnasium_envs() if env_id not in own_ids]


def _gymnasium_envs() -> Rows:
    """The newest version of everything registered with Gymnasium, by family."""
    import gymnasium

    newest: dict[str, tuple[int, str, str]] = {}
    for env_id, spec in gymnasium.registry.items():
        if not isinstance(spec.entry_point, str):
            continue  # bridges to old Gym, which only say that another package is needed
        name, _, version = env_id.rpartition("-v")
        family = _family(spec.entry_point)
        if name and version.isdigit() and int(version) >= newest.get(name, (-1, "", ""))[0]:
            newest[name] = (int(version), env_id, family)
    return sorted(((env_id, family) for _, env_id, family in newest.values()), key=lambda row: (row[1], row[0]))


def _family(entry_point: str) -> str:
    """``gymnasium.envs.classic_control.cartpole:CartPoleEnv`` is of the family classic control."""
    match = re.match(r"(?:gymnasium|whorl)\.envs\.(\w+)", entry_point)
    family = match[1] if match else entry_point.partition(".")[0].partition(":")[0]
    needs = {"box2d": "Box2D", "mujoco": "mujoco", "phys2d": "jax", "tabular": "jax"}.get(family)
    missing = "" if needs is None or find_spec(needs) else f" (needs {needs}, which is not installed)"
    return family.replace("_", " ") + missing


def _workflows() -> Rows:
    from whorl.workflows.registry import workflow_table

    return list(workflow_table())


def _engines() -> Rows:
    from whorl.engines.registry import engine_table

    return list(engine_table())


def _presets() -> Rows:
    from whorl.config.presets import list_presets

    return [(preset.name, preset.summary) for preset in list_presets()]


LISTS = {"agents": _agents, "envs": _envs, "workflows": _workflows, "engines": _engines, "presets": _presets}
