"""An environment in a light process of its own: it may be slow, hang or crash without hurting its neighbours."""

from __future__ import annotations

from whorl.engines.contract import Channel, Role, RoleGenerator
from whorl.envs.hosted import run_host
from whorl.envs.lane import Lane
from whorl.job import Job


def run_env(role: Role, commands: Channel, answers: Channel) -> RoleGenerator:
    """Serve one lane until the run ends."""
    job = Job.from_plain(role.job)
    lane = Lane(job.config.env, job.env, job.config.run.seed, role.id.index)
    yield from run_host(lane, commands, answers, role.incarnation, role.clock)
