"""Where the environment steps of a run went, beside what its plan has room for.

``in_flight`` is what is left over when everything else is counted, so that the sum comes out whatever happened. What
can be wrong is its size: below nothing, or more than lies anywhere between actors and learners.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from made_up_rows import ENV
from whorl.config.schema import Config
from whorl.job import Job
from whorl.runs.directory import RunDirectory
from whorl.runs.result import Result, Transitions
from whorl.trainer import stored_config
from whorl.trajectory.lanes import strand_width
from whorl.workflows import first_come, queue
from whorl.workflows.registry import get_workflow

UNBOUNDED = ("window", "replay")
"""A window is overwritten before a learner looks, and replays tell learners of what they hold when a batch is due."""
SLOTS: dict[str, Callable[[Job], int]] = {
    "async": first_come.slots,
    "seed": first_come.slots,
    "queue": queue.slots,
}
OTHER_SLOTS = 2


def check_account(run_dir: Path) -> Transitions:
    """Those of a run that has ended."""
    result = Result.read(run_dir / "result.json")
    check_transitions(result.transitions, run_dir, sum(result.restarts.values()))
    return result.transitions


def check_transitions(transitions: Transitions, run_dir: Path, restarts: int = 0) -> None:
    """What an incarnation had begun counts as in flight until the next one has handed something over."""
    assert transitions.balanced, transitions
    assert min(vars(transitions).values()) >= 0, transitions
    assert transitions.used + transitions.dropped + transitions.lost <= transitions.collected, transitions
    most = most_in_flight(stored_config(RunDirectory.open(run_dir))) * (1 + restarts)
    assert transitions.in_flight <= most, f"{transitions}: at most {most} can be in flight"


def most_in_flight(config: Config) -> float:
    """A safe bound. Channels are counted twice: what was dropped as too old is told with the next update only. So is
    the batch of an update: one that is learnt from, and one that comes together."""
    name = config.workflow.name
    if name in UNBOUNDED:
        return math.inf
    job = job_of(config)
    lanes = job.lane_map
    slots = SLOTS.get(name, lambda _: OTHER_SLOTS)(job)
    strands, batch = lanes.actors * lanes.strands_per_actor, lanes.learners * lanes.trajectories
    trajectories = 2 * lanes.actors * slots + strands + 2 * batch
    sides = 2 if config.engine.name in ("mpi", "ray") else 1  # a channel may lie on its writer's node and its reader's
    return trajectories * lanes.envs_per_strand * config.agent.rows * sides


def job_of(config: Config) -> Job:
    """With the layout of the run, and made-up spaces."""
    return Job(config, ENV, config.env.hosting == "process", _envs_per_strand(config))


def _envs_per_strand(config: Config) -> int:
    """As when the run was prepared."""
    recorded = config.run.record_schedule or config.run.replay_schedule
    apart = config.env.hosting == "process" and get_workflow(config.workflow.name).has_strands and not recorded
    return strand_width(config.resources.envs_per_actor) if apart else 0
