"""Jobs on nodes that have addresses, host names and memory of their own."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster, roles_on
from tests.slurm.runs import await_updates, log_of, result_of, submitted, training, weights_of
from tests.slurm.separate import SeparateNodes

pytestmark = [pytest.mark.verify, pytest.mark.timeout(900)]

THREE = ("--nodes", 3, "--cpus-per-node", 2, "--time", 20)
STEPS = 3000
LONG = 12_000
"""Environment steps of ``SLOWLY``: 80 s at least, of which Slurm needs half to find a lost node out by itself."""
SLOWLY = ("--set", "env.kwargs.step_time_s=0.02", "--set", "run.checkpoint_every_s=1")


@pytest.fixture
def apart(request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """Three nodes, whose loss Slurm notices after so many seconds."""
    cluster = SeparateNodes(slurmd_timeout_s=getattr(request, "param", 300))
    cluster.patience_s = 600.0
    yield cluster
    cluster.end()


def nodes_of_roles(slurm: SlurmCluster, run_dir: Path, engine: str) -> dict[str, str]:
    """Where each is, while the run goes on; of MPI's ranks the job's log has a table."""
    if engine == "ray":
        return {role: node for node in slurm.nodes for role in roles_on(node)}
    return {role: node for node, role in re.findall(r"^ *\d+  (\S+) +([a-z]+-\d+) ", log_of(run_dir), re.MULTILINE)}


@pytest.mark.parametrize("engine", ["ray", "mpi"])
def test_a_job_trains_on_nodes_with_addresses_of_their_own(apart: SlurmCluster, tmp_path: Path, engine: str) -> None:
    run_dir = tmp_path / "run"
    job = submitted(apart, *THREE, *training(run_dir, engine, STEPS))
    await_updates(apart, run_dir, job, 3)
    places = nodes_of_roles(apart, run_dir, engine)
    assert set(places) == {"learner-0", "actor-0", "actor-1", "actor-2"}
    assert len(set(places.values())) > 1, places
    ended = apart.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    result = result_of(run_dir)
    counts = result["transitions"]
    assert counts["in_flight"] >= 0
    assert counts["collected"] == sum(counts[name] for name in ("used", "dropped", "lost", "in_flight"))
    assert result["engine"] == engine
    assert set(result["restarts"].values()) <= {0}
    assert result["weights_sha256"] == weights_of(STEPS)


def await_found_out(slurm: SlurmCluster, node: str) -> None:
    """Until Slurm calls a node down."""
    end = time.monotonic() + 100
    while not (state := slurm.run("sinfo", "-h", "-n", node, "-p", "low", "-o", "%T")).startswith("down"):
        assert time.monotonic() < end, f"{node} is {state}"
        time.sleep(0.5)


def await_requeued(slurm: SlurmCluster, run_dir: Path, job: int) -> None:
    """By Slurm, or by the batch process, after which Slurm waits for the node."""
    end = time.monotonic() + 200
    while slurm.job(job).state != "PENDING" and "whorl: requeued" not in log_of(run_dir):
        assert time.monotonic() < end, log_of(run_dir)
        time.sleep(0.5)


@pytest.mark.parametrize(
    ("apart", "engine", "more"),
    [
        (30, "ray", ()),
        (30, "mpi", ()),  # no connection breaks: it is Slurm that notices
        (300, "mpi", ("--set", "engine.patience_s=10")),  # it is the run that notices
    ],
    indirect=["apart"],
)
def test_a_node_loses_its_power_and_slurm_is_not_told(
    apart: SlurmCluster, tmp_path: Path, engine: str, more: tuple[str, ...]
) -> None:
    """On Ray the run goes on, on MPI the job comes back; neither is to be seen in the weights."""
    run_dir = tmp_path / "run"
    job = submitted(apart, *THREE, *training(run_dir, engine, LONG, *SLOWLY, *more))
    await_updates(apart, run_dir, job, 5)
    places = nodes_of_roles(apart, run_dir, engine)
    lost = max(places.values())
    assert lost != "n1", "the first node is another matter"
    apart.lose(lost, told=False)
    if engine == "ray":
        await_found_out(apart, lost)
        assert apart.job(job).state == "RUNNING", log_of(run_dir)
    else:
        await_requeued(apart, run_dir, job)
        apart.start_node(lost)  # or Slurm, where it has not noticed yet, would wait for it
    ended = apart.wait_for(job)
    assert (ended.state, ended.exit_code) == ("COMPLETED", 0), log_of(run_dir)
    assert ("a node does not answer" in log_of(run_dir)) == bool(more)
    assert (ended.fields["Restarts"] == "0") == (engine == "ray")
    result = result_of(run_dir)
    assert (sum(result["restarts"].values()) > 0) == (engine == "ray")
    assert result["weights_sha256"] == weights_of(LONG)
