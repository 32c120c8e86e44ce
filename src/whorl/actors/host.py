"""An environment in a light process of its own: it may be slow, hang or crash without hurting its neighbours."""

from __future__ import annotations

from whorl.engines.contract import Channel, Role, RoleGenerator
from whorl.envs.hosted import run_host
from whorl.job import Job


def run_env(role: Role, commands: Channel, answers: Channel) -> RoleGenerator:
    """Serve one lane until the run ends."""
    job = Job.from_plain(role.job)
    config = job.config
    yield from run_host(
        config.env, job.env, role.id.index, config.run.seed, commands, answers, role.incarnation, role.clock
    )
