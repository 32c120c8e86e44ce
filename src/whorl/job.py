"""A job: the resolved config together with what the environment turned out to be. Every role is given the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from whorl.agents.contract import Agent, AgentSpec
from whorl.agents.registry import get_agent
from whorl.config.layers import from_plain, to_plain
from whorl.config.schema import Config
from whorl.envs.spec_json import spec_from_json, spec_to_json
from whorl.trajectory.lanes import LaneMap
from whorl.types import EnvSpec


@dataclass(frozen=True)
class Job:
    """What roles need to know. Travels as plain values."""

    config: Config
    env: EnvSpec
    hosted: bool
    """Environments live in processes of their own."""
    envs_per_strand: int = 0
    """Environments that move on together, one trajectory for all of them; 0: all of an actor's."""
    warnings: tuple[str, ...] = ()
    """What was noticed while looking at the environment and the settings."""
    run_dir: Path = Path()
    token: int = 0
    """Fencing token of the run directory: only the newest holder may save."""

    @cached_property
    def agent(self) -> Agent:
        return get_agent(self.config.agent_name)

    @cached_property
    def agent_spec(self) -> AgentSpec:
        return self.agent.spec(self.config.agent, self.env)

    @cached_property
    def lane_map(self) -> LaneMap:
        workflow = self.config.workflow
        return LaneMap.from_resources(self.config.resources, workflow.trajectories_per_update, self.envs_per_strand)

    @property
    def takers(self) -> int:
        """Those whom actors hand over to, and who wait for ever without any: the replays, or else the learners."""
        return self.config.workflow.replay_shards or self.lane_map.learners

    def acting(self, count: int) -> list[int]:
        """The actors that act when so many do."""
        return self.lane_map.acting(count, self.takers)

    def to_plain(self) -> dict[str, Any]:
        """As msgpack types."""
        return {
            "config": to_plain(self.config),
            "env": spec_to_json(self.env),
            "run_dir": str(self.run_dir),
            "log_dir": str(self.run_dir / "logs"),
            "token": self.token,
            "hosted": self.hosted,
            "envs_per_strand": self.envs_per_strand,
        }

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Job:
        """The inverse of ``to_plain``."""
        agent = get_agent(plain["config"]["agent"]["name"])
        return cls(
            config=from_plain(agent.config, plain["config"]),
            env=spec_from_json(plain["env"]),
            run_dir=Path(plain["run_dir"]),
            token=plain["token"],
            hosted=plain["hosted"],
            envs_per_strand=plain["envs_per_strand"],
        )
