"""Who has which lanes: the run's environments cut over actors, strands, learners and shards, always in contiguous
ranges.

A *strand* is a number of lanes that move on together: a trajectory is of one strand. An actor has one, unless its
environments are slow and nobody waits for the slowest: then each has its own (see ``strand_width``).
"""

from __future__ import annotations

from dataclasses import dataclass

from whorl.config.schema import Resources
from whorl.errors import ConfigError

MOST_ACTORS = 2**16
MOST_LANES = 2**20
"""More than any machine runs; without a bound a slip of the keyboard would eat the memory before it is refused."""
MOST_STRANDS = 32
"""Of one actor: each needs slots of its channel."""


def group_of(actors: int, groups: int, index: int) -> range:
    """One of so many contiguous groups of actors: equally many in all, but for one more or less."""
    return range(index * actors // groups, (index + 1) * actors // groups)


def strand_width(envs_per_actor: int) -> int:
    """Lanes of a strand where each should move on alone: one, or the fewest that leave an actor few enough strands."""
    return next(
        width
        for width in range(1, envs_per_actor + 1)
        if envs_per_actor % width == 0 and envs_per_actor // width <= MOST_STRANDS
    )


@dataclass(frozen=True)
class LaneMap:
    """How ``actors * envs_per_actor`` lanes are cut.

    Shards, not learners, decide the result: learners share the shards out among themselves.
    """

    actors: int
    envs_per_actor: int
    learners: int
    shards: int
    trajectories: int
    """That each learner takes for an update."""
    envs_per_strand: int

    @classmethod
    def from_resources(cls, resources: Resources, trajectories: int = 0, envs_per_strand: int = 0) -> LaneMap:
        """Refuses numbers that do not divide, and names the nearest that do. An update takes this many trajectories,
        over all learners; 0: one for each strand, or as many more as give every learner the same. A strand of 0
        environments: all of an actor's."""
        shards = resources.shards or resources.learners
        width = envs_per_strand or resources.envs_per_actor
        strands = resources.actors * resources.envs_per_actor // width
        trajectories = trajectories or _next_multiple(strands, resources.learners)
        lanes = trajectories * width
        for what, count, most in (("actors", resources.actors, MOST_ACTORS), ("environments", lanes, MOST_LANES)):
            if count > most:
                raise ConfigError(f"{count} {what} are more than any machine runs: use at most {most}")
        if trajectories % resources.learners:
            raise ConfigError(
                f"{trajectories} trajectories cannot be shared out evenly over {resources.learners} learners: use "
                f"--set workflow.trajectories_per_update={_next_multiple(trajectories, resources.learners)}"
            )
        if shards % resources.learners:
            raise ConfigError(
                f"{shards} shards cannot be shared out evenly over {resources.learners} learners: "
                f"use --set resources.shards={_next_multiple(shards, resources.learners)}"
            )
        if lanes % shards:
            raise ConfigError(
                f"a batch of {lanes} environments cannot be cut into {shards} equal shards: "
                f"use a number of environments that {shards} divides, such as {_next_multiple(lanes, shards)}"
            )
        each = trajectories // resources.learners
        return cls(resources.actors, resources.envs_per_actor, resources.learners, shards, each, width)

    @property
    def lanes(self) -> int:
        """Environments."""
        return self.actors * self.envs_per_actor

    @property
    def batch_lanes(self) -> int:
        """Columns of a batch: the lanes of all its trajectories, side by side."""
        return self.learners * self.trajectories * self.envs_per_strand

    def lanes_of_actor(self, actor: int) -> range:
        """The lanes an actor steps."""
        return range(actor * self.envs_per_actor, (actor + 1) * self.envs_per_actor)

    @property
    def strands_per_actor(self) -> int:
        return self.envs_per_actor // self.envs_per_strand

    def strands_of_actor(self, actor: int) -> range:
        """The strands an actor has."""
        return range(actor * self.strands_per_actor, (actor + 1) * self.strands_per_actor)

    def lanes_of_strand(self, strand: int) -> range:
        """The lanes that move on together."""
        return range(strand * self.envs_per_strand, (strand + 1) * self.envs_per_strand)

    def actors_of_learner(self, learner: int) -> range:
        """The actors of this learner."""
        return group_of(self.actors, self.learners, learner)

    def learner_of_actor(self, actor: int) -> int:
        """The inverse of ``actors_of_learner``."""
        return ((actor + 1) * self.learners - 1) // self.actors

    def acting(self, count: int, groups: int) -> list[int]:
        """The actors that act when so many do: evenly many of each of so many groups, as far as that goes."""
        all_groups = [group_of(self.actors, groups, index) for index in range(groups)]
        by_turns = [group[place] for place in range(self.actors) for group in all_groups if place < len(group)]
        return by_turns[:count]

    def shards_of_learner(self, learner: int) -> range:
        """The shards this learner contributes."""
        each = self.shards // self.learners
        return range(learner * each, (learner + 1) * each)

    @property
    def lanes_per_shard(self) -> int:
        return self.batch_lanes // self.shards


def check_groups(resources: Resources) -> None:
    """Refuse actors that cannot be shared out evenly over the learners."""
    if resources.actors % resources.learners:
        raise ConfigError(
            f"{resources.actors} actors cannot be shared out evenly over {resources.learners} learners: "
            f"use --actors {_next_multiple(resources.actors, resources.learners)}"
        )


def _next_multiple(value: int, of: int) -> int:
    return -(-value // of) * of
