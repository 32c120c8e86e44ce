"""How many actors act while a run goes on: by its schedule, by ``whorl resize``, by ``Trainer.resize``.

Workflows without an order have actors come and go, each with its environments: one that leaves hands over what it has
begun, one that joins goes on where its environments stood. In exact workflows the same environments are shared out
over other numbers of actors, between two updates, so that the result stays what it is.
"""

from __future__ import annotations

from dataclasses import replace

from whorl.config.actors_schedule import actors_at, parse_schedule
from whorl.config.schema import Resources
from whorl.engines.contract import Cluster, RoleId
from whorl.errors import BadInputError, ConfigError
from whorl.job import Job
from whorl.workflows.mates import mates_of
from whorl.workflows.registry import get_workflow


def check_size(job: Job, actors: int) -> None:
    """Refuse (``BadInputError``) a number of actors that this run cannot go on with."""
    workflow, resources, lanes = get_workflow(job.config.workflow.name), job.config.resources, job.lane_map
    if workflow.learners_act:
        raise BadInputError(
            f"{workflow.name} has no actors, its learners act: stop the run and `whorl resume` it with --learners"
        )
    if actors < job.takers:
        who = "replays" if job.config.workflow.replay_shards else "learners"
        raise BadInputError(f"{actors} actors are too few: each of {job.takers} {who} needs one")
    if workflow.in_order:
        share_out(resources, actors)
    elif actors > resources.actors:
        raise BadInputError(
            f"the run was planned for at most {resources.actors} actors: begin one with --actors {actors} and "
            f'--actors-schedule "0:{resources.actors}" to leave room for more'
        )
    elif actors < (fewest := workflow.fewest_acting(job)):
        taken = lanes.learners * lanes.trajectories
        raise BadInputError(
            f"{actors} of {resources.actors} actors cannot hold the {taken} trajectories of an update: use at least "
            f"{fewest}, or begin a run with a smaller workflow.trajectories_per_update"
        )


def check_schedule(job: Job) -> None:
    """The same for every number that the schedule comes to."""
    for change in parse_schedule(job.config.resources.actors_schedule):
        try:
            check_size(job, change.actors)
        except BadInputError as error:
            raise ConfigError(f"resources.actors_schedule: {error}") from error


def share_out(resources: Resources, actors: int) -> Resources:
    """The same environments over so many actors."""
    lanes, possible = resources.actors * resources.envs_per_actor, _shares(resources)
    if actors not in possible:
        raise BadInputError(
            f"{lanes} environments cannot be shared out evenly over {actors} actors: "
            f"use one of {', '.join(map(str, possible))}"
        )
    return replace(resources, actors=actors, envs_per_actor=lanes // actors)


def most_actors(resources: Resources, at_most: int) -> int:
    """Over how many of those that are left the same environments can be shared out."""
    return max(actors for actors in _shares(resources) if actors <= at_most)


def _shares(resources: Resources) -> list[int]:
    lanes = resources.actors * resources.envs_per_actor
    return [actors for actors in range(1, lanes + 1) if lanes % actors == 0 and actors % resources.learners == 0]


def with_actors(job: Job, actors: int) -> Job:
    """The job of an exact workflow with its environments over so many actors, which all act: the schedule is the
    session's to follow."""
    resources = replace(share_out(job.config.resources, actors), actors_schedule="")
    return replace(job, config=replace(job.config, resources=resources))


class Crowd:
    """Which actors of a running cluster act, where they may come and go."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self.acting = actors_at(job.config.resources, 0)

    def become(self, cluster: Cluster, count: int) -> None:
        """Have so many act."""
        before, after = (set(self._job.acting(number)) for number in (self.acting, count))
        self.acting = count
        for actor in sorted(before - after):
            cluster.park(self._roles(actor))
            cluster.send(RoleId("actor", actor), "leave")
        for actor in sorted(after - before):
            cluster.start(self._roles(actor))

    def _roles(self, actor: int) -> list[RoleId]:
        """The actor after its environments' processes and ranks."""
        hosts = self._job.lane_map.lanes_of_actor(actor) if self._job.hosted else range(0)
        return [*(RoleId("env", lane) for lane in hosts), *mates_of(self._job, actor), RoleId("actor", actor)]
