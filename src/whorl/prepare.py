"""From a config to a job: look at the environment once, choose the engine, and refuse what cannot work.

Everything that can be refused is refused here, before any process starts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, replace

import gymnasium

from whorl.agents.contract import AgentSpec, Draws
from whorl.agents.off_policy.memory import check_draws
from whorl.agents.registry import get_agent
from whorl.config.schema import Config, EnvConfig, Resources, WorkflowConfig
from whorl.elastic import check_schedule
from whorl.engines.local.limits import available_memory_bytes
from whorl.engines.mpi.finding import has_ranks
from whorl.envs.check import probe_apart
from whorl.envs.probe import EnvProbe, probe_env
from whorl.envs.registry import find_env
from whorl.envs.remote.address import is_address
from whorl.errors import ConfigError
from whorl.job import Job
from whorl.models.precision import resolve_precision
from whorl.runs.tensorboard import require_tensorboard
from whorl.trajectory.lanes import LaneMap, check_groups, strand_width
from whorl.types import EnvSpec
from whorl.workflows.contract import Workflow
from whorl.workflows.registry import get_workflow


def prepare(config: Config, probe: EnvProbe | None = None) -> Job:
    """The job of a config, with the engine chosen where the user left it open. Touches no file. ``probe`` is what
    ``look_at`` found, where the same environment was looked at before."""
    if config.run.replay_schedule:  # in one thread, wherever the environments of the recorded run lived
        config = replace(config, env=replace(config.env, hosting="inside"))
    workflow = get_workflow(config.workflow.name)
    if workflow.even_groups:
        check_groups(config.resources)
    LaneMap.from_resources(config.resources, config.workflow.trajectories_per_update)
    _check_ranks(config)
    probe = probe or look_at(config)
    if config.resources.ranks_per_env > 1 and not probe.spans_ranks:
        raise ConfigError(
            f"{config.env.id} is stepped by one rank: leave out --ranks-per-env, or make it a "
            "whorl.envs.parallel.ParallelEnv"
        )
    _check_copies(config, probe)
    agent_spec = get_agent(config.agent_name).spec(config.agent, probe.spec)
    workflow.check(config, agent_spec)
    _check_settings(config, workflow)
    _check_survival(config, workflow)
    tolerance = ("strict", "correctable", "any")
    bears = tolerance.index(agent_spec.staleness) >= tolerance.index(workflow.staleness)
    if not bears and not config.workflow.accept_stale:
        correct = "--set agent.vtrace=true to correct for it, or " if hasattr(config.agent, "vtrace") else ""
        raise ConfigError(
            f"{config.agent_name} learns from fresh data only, and {workflow.name} brings stale data: "
            f"use {correct}--workflow {get_agent(config.agent_name).workflow}"
        )
    if not workflow.in_order and agent_spec.lead_rows >= agent_spec.rows:
        raise ConfigError(
            f"agent.burn_in = {agent_spec.lead_rows}: in {workflow.name} a sequence lies within one trajectory: its "
            f"burn-in must be shorter than agent.rows = {agent_spec.rows}"
        )
    draws = agent_spec.draws
    if not workflow.in_order and draws is not None and draws.n_step > agent_spec.rows:
        raise ConfigError(
            f"agent.n_step = {draws.n_step}: in {workflow.name} returns end with their trajectory, and one has "
            f"agent.rows = {agent_spec.rows}: use at least {draws.n_step} rows, or a smaller n_step"
        )
    pace = config.workflow
    if workflow.in_order and (
        pace.trajectories_per_update or pace.max_staleness is not None or pace.publish_every > 1 or pace.accept_stale
    ):
        raise ConfigError(
            f"{workflow.name} always learns from one trajectory of each actor, none of them too stale: leave out "
            "workflow.trajectories_per_update, max_staleness, publish_every and accept_stale, or use --workflow async"
        )
    _check_schedule(config, workflow)
    _check_replay(config, agent_spec)
    engine, hosted = _place(config, probe)
    recorded = config.run.record_schedule or config.run.replay_schedule  # by actor, each trajectory with one version
    apart = hosted and workflow.has_strands and not recorded
    precision = resolve_precision(config.run.precision, config.resources.device, images=_has_images(probe.spec))
    env = config.env
    if workflow.has_strands and engine != "inline":
        # What a trajectory holds depends on it: a resume must not come to another choice by measuring again.
        env = replace(env, hosting="process" if hosted else "inside")
    job = Job(
        config=replace(
            config, env=env, engine=replace(config.engine, name=engine), run=replace(config.run, precision=precision)
        ),
        env=probe.spec,
        hosted=hosted,
        envs_per_strand=strand_width(config.resources.envs_per_actor) if apart else 0,
        warnings=tuple(_warnings(config, probe, engine, draws)),
    )
    check_schedule(job)
    _check_lanes(job)
    if draws is not None:
        lanes = job.lane_map
        check_draws(draws, lanes=lanes.batch_lanes, shards=lanes.shards, contiguous=workflow.in_order)
    return job


def check_machine(config: Config) -> None:
    """Refuse what this machine lacks to train with (a trained policy acts without it)."""
    if config.run.tensorboard:
        require_tensorboard()
    device = config.resources.device
    if device == "cpu":
        return
    if not re.fullmatch(r"cuda(:\d{1,4})?", device):
        raise ConfigError(f"resources.device: expected cpu, cuda or cuda:N; got {device!r}")
    import torch

    count = torch.cuda.device_count()
    if int(device.partition(":")[2] or 0) >= count:
        found = f"{count} GPU{'s' * (count > 1)}" if count else "no GPU"
        raise ConfigError(f"resources.device: there is no {device}, PyTorch sees {found} here; use --device cpu")


def _check_ranks(config: Config) -> None:
    """Environments of several ranks need ranks, which one engine has."""
    ranks, engine = config.resources.ranks_per_env, config.engine.name
    if ranks > 1 and engine != "mpi":
        where = f"{engine} has no ranks" if engine else "they are those of MPI"
        raise ConfigError(f"--ranks-per-env {ranks}: {where}; use --engine mpi")
    if ranks > 1 and config.env.hosting == "process":
        raise ConfigError(
            f"--ranks-per-env {ranks}: an environment's first rank is its actor's; leave out env.hosting = 'process'"
        )


def _check_survival(config: Config, workflow: Workflow) -> None:
    """Only some runs can go on without a rank."""
    if not config.engine.ulfm:
        return
    if config.engine.name != "mpi":
        raise ConfigError("engine.ulfm is for --engine mpi; other engines replace what is lost anyway")
    if workflow.learners_act:
        raise ConfigError(
            f"engine.ulfm: every rank of {workflow.name} is a learner, and none can be spared; leave it out and resume "
            "after a loss, or use --workflow sync"
        )
    if config.resources.ranks_per_env > 1:
        raise ConfigError("engine.ulfm: environments of several ranks do not survive the loss of one; leave it out")


def _check_settings(config: Config, workflow: Workflow) -> None:
    """A setting that means nothing here was meant for another workflow."""
    for field in fields(WorkflowConfig):
        changed = getattr(config.workflow, field.name) != field.default
        if changed and field.name != "name" and field.name not in workflow.settings:
            raise ConfigError(
                f"workflow.{field.name} means nothing in {workflow.name}: leave it out, or use a --workflow that has it"
            )


def _check_schedule(config: Config, workflow: Workflow) -> None:
    """Not every workflow has a schedule, and one is repeated in one thread."""
    run = config.run
    if (run.record_schedule or run.replay_schedule) and not workflow.has_schedule:
        raise ConfigError(
            f"{workflow.name} has no schedule to record or to replay; --workflow async has, and exact workflows "
            "can be repeated as they are"
        )
    if run.replay_schedule and config.engine.name != "inline":
        raise ConfigError("run.replay_schedule: a run is repeated on the inline engine: add --engine inline")


def _check_copies(config: Config, probe: EnvProbe) -> None:
    """A server that has too few would keep actors waiting for each other's."""
    actors, each = config.resources.actors, config.resources.envs_per_actor
    if probe.most_copies is not None and actors * each > probe.most_copies:
        raise ConfigError(
            f"{config.env.id}: {actors * each} environments are wanted ({actors} actors with {each} each) and "
            f"{probe.most_copies} copies are served: serve it with --copies {actors * each}, or use fewer"
        )


def _check_lanes(job: Job) -> None:
    """No minibatch of a shard may be empty."""
    lanes, fewest = job.lane_map.batch_lanes // job.lane_map.shards, job.agent_spec.fewest_lanes
    if lanes < fewest:
        raise ConfigError(
            f"agent.minibatches: so many need {fewest} environments in each shard of a batch, and there are {lanes}: "
            "use more environments or fewer minibatches"
        )


def _check_replay(config: Config, agent: AgentSpec) -> None:
    """A replay that outgrows the memory would end the run hours later."""
    available, bound = available_memory_bytes()
    if agent.replay_bytes > available:
        fits = 0 if agent.draws is None else int(agent.draws.capacity * available / agent.replay_bytes * 0.8)
        smaller = f"agent.replay.capacity = {fits} or less" if fits else "a smaller one"
        raise ConfigError(
            f"the replay of {config.agent_name} takes {agent.replay_bytes / 1e9:.1f} GB and {bound} has "
            f"{available / 1e9:.1f} GB left: use {smaller}"
        )


def _has_images(env: EnvSpec) -> bool:
    return any(leaf.kind == "image" for leaf in env.observation)


def look_at(config: Config) -> EnvProbe:
    """Try the environment: Gymnasium's own ones here, others in a process of their own, which they may kill."""
    name, creator = find_env(config.env.id)
    own = creator is None and str(gymnasium.registry[name].entry_point).startswith("gymnasium.")
    return probe_env(config.env) if own or config.engine.name == "inline" else probe_apart(config.env)


def _place(config: Config, probe: EnvProbe) -> tuple[str, bool]:
    """Which engine, and whether environments get processes of their own."""
    hosting, engine = config.env.hosting, config.engine.name
    is_slow = probe.step_time_s > config.env.slow_step_s and not is_address(config.env.id)  # that has one elsewhere
    if not engine and has_ranks():
        engine = "mpi"
    # On mpi an actor has a rank to itself already, and ranks are not to be had by the dozen.
    wants_process = hosting == "process" or (hosting == "auto" and is_slow and engine != "mpi")
    if not engine:
        alone = config.resources.actors == 1 and config.resources.learners == 1
        apart = wants_process or _has_time_limit(config.env)
        engine = "inline" if alone and not apart and config.workflow.name == "sync" else "local"
    if engine == "inline":
        if hosting == "process":
            raise ConfigError(
                'env.hosting = "process" needs an engine with processes, and inline has none: use --engine local'
            )
        return engine, False
    return engine, wants_process


def _has_time_limit(env: EnvConfig) -> bool:
    """Whether somebody is to end steps that take too long. Of a served environment its client sees to that."""
    return env.step_timeout_s > 0 and not is_address(env.id)


def _warnings(config: Config, probe: EnvProbe, engine: str, draws: Draws | None) -> Iterator[str]:
    """What was noticed, and what was asked for and will not be. The same words hold for every engine, so that they are
    not refused."""
    if probe.warning:
        yield probe.warning
    steps = config.run.steps
    if draws is not None and draws.learning_starts >= steps:
        yield (
            f"agent.learning_starts = {draws.learning_starts} is not below run.steps = {steps}, and until then nothing "
            "is learnt: set a smaller one, or more --steps"
        )
    if engine == "inline" and _has_time_limit(config.env):
        yield "env.step_timeout_s is not heeded on inline, which has no process to replace; use --engine local"
    if engine != "ray":
        for name in ("cpus_per_actor", "gpus_per_actor"):
            if getattr(config.resources, name) != getattr(Resources, name):
                flag = f"--{name.replace('_', '-')}"
                yield f"{flag} sets nothing aside on {engine}; leave it out, or use --engine ray"
