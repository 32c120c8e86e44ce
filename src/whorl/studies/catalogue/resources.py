"""CPU, memory, network and storage of each role, for each workflow and agent: what to ask a cluster for."""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.figures import Bars
from whorl.studies.findings import judge
from whorl.studies.published import RAY
from whorl.studies.results import CellResult, Results
from whorl.studies.stats import ratio

PAIRS: tuple[tuple[str, str], ...] = (
    ("ppo", "sync"),
    ("ppo", "overlap"),
    ("ppo", "allreduce"),
    ("impala", "async"),
    ("impala", "window"),
    ("impala", "queue"),
    ("impala", "seed"),
    ("a3c", "gradients"),
    ("dqn", "async"),
    ("dqn", "replay"),
)
OWN: dict[str, dict[str, Any]] = {"dqn": {"agent.learning_starts": 500, "agent.gradient_steps": 4}}
MORE_PAIRS = (
    ("a2c", "sync"),
    ("impala", "sync"),
    ("dqn", "sync"),
    ("apex", "replay"),
    ("ddpg", "sync"),
    ("ddpg", "replay"),
    ("td3", "sync"),
    ("td3", "replay"),
    ("sac", "sync"),
    ("sac", "replay"),
)
"""Beyond smoke scale."""
CONTINUOUS = ("ddpg", "td3", "sac")
CONTINUOUS_SLOWER = 10
"""They learn so much more from each environment step, and get so many times fewer of them."""
ACTORS, ENVS_PER_ACTOR = 2, 8
SIZES: dict[Scale, tuple[int, int]] = {"smoke": (1, 6_000), "small": (3, 20_000), "paper": (3, 1_000_000)}
"""Seeds and environment steps."""
MIB = 2**20


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every pair."""
    seeds, steps = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for agent, workflow in PAIRS if scale == "smoke" else PAIRS + MORE_PAIRS:
            sizes = {"learners": ACTORS} if workflow == "allreduce" else {"actors": ACTORS}
            options = {"workflow": workflow, "engine": engine, "envs-per-actor": ENVS_PER_ACTOR, **sizes}
            env, length = ("Pendulum-v1", steps // CONTINUOUS_SLOWER) if agent in CONTINUOUS else ("CartPole-v1", steps)
            training = Training(agent, env, length, options, OWN.get(agent, {}))
            found.append(training.cell({"agent": agent, "workflow": workflow}, seed))
    return found


def of_roles(one: CellResult, name: str) -> dict[str, float]:
    """Something of every kind of role of a run."""
    roles = one.values.get("result", {}).get("resources", {})
    return {role: float(row.get(name) or 0.0) for role, row in roles.items()}


def bytes_per_step(one: CellResult) -> float:
    """Sent by all roles, for each environment step."""
    return sum(of_roles(one, "bytes_sent").values()) / max(1.0, one.number("result.transitions.collected") or 1.0)


def cpu_ms_per_step(one: CellResult) -> float:
    """Of all roles, for each environment step."""
    cpu_s = sum(of_roles(one, "cpu_share").values()) * (one.number("result.wall_s") or 0.0)
    return 1000 * cpu_s / max(1.0, one.number("result.transitions.collected") or 1.0)


def report(results: Results) -> Report:
    """A table of roles, and bars of runs."""
    runs = {f"{agent}, {workflow}": group for (agent, workflow), group in results.by("agent", "workflow").items()}
    sent = {name: [bytes_per_step(one) for one in group] for name, group in runs.items()}
    gradients, trajectories = sent.get("a3c, gradients", []), sent.get("impala, async", [])
    heavier = judge(
        "gradients_cost_more_network",
        "Sending gradients takes more network than sending trajectories, where observations are small",
        ratio(gradients, trajectories) if gradients and trajectories else None,
        above=1.0,
        unit="times the bytes for each environment step",
        because="A trajectory of CartPole is smaller than the network that learns from it.",
    )
    rows = []
    for name, group in runs.items():
        for role in of_roles(group.cells[0], "cpu_share"):
            columns = [
                [of_roles(one, what).get(role, 0.0) for one in group]
                for what in ("cpu_share", "memory_bytes", "bytes_sent")
            ]
            share, memory, network = (sum(column) / len(column) for column in columns)
            wall_s = sum(group.numbers("result.wall_s")) / len(group.cells)
            rows.append(
                (name, role, f"{100 * share:.0f} %", f"{memory / MIB:.0f}", f"{network / MIB / max(wall_s, 1e-9):.2f}")
            )
    storage = {name: [value / MIB for value in group.numbers("storage_bytes")] for name, group in runs.items()}
    memory_of = {
        name: [sum(of_roles(one, "memory_bytes").values()) / MIB for one in group] for name, group in runs.items()
    }
    header = ("run", "role", "CPU, of a core", "memory, MiB", "sent, MiB/s")
    cpu = {name: [cpu_ms_per_step(one) for one in group] for name, group in runs.items()}
    return Report(
        [heavier],
        [
            Bars(
                name="cpu",
                title="CPU time",
                caption=f"Least: {_least(cpu)}. Of all processes together, start included.",
                x="agent, workflow",
                y="ms of CPU for each environment step",
                groups=cpu,
            ),
            Bars(
                name="memory",
                title="Memory",
                caption=f"Least: {_least(memory_of)}. Proportional, of all processes together.",
                x="agent, workflow",
                y="MiB of memory",
                groups=memory_of,
            ),
            Bars(
                name="network",
                title="Network",
                caption=f"Least: {_least(sent)}. Gradients against trajectories: {heavier.shown}.",
                x="agent, workflow",
                y="bytes sent for each environment step",
                groups=sent,
            ),
            Bars(
                name="storage",
                title="Storage",
                caption=f"Least: {_least(storage)}. The run directory at its end, with its checkpoints.",
                x="agent, workflow",
                y="MiB on disk",
                groups=storage,
            ),
        ],
        [Table("Each kind of role, all of its processes together", header, rows)],
        ["The document's motive: reinforcement learning asks for unlike resources in each of its parts."],
    )


def _least(groups: dict[str, list[float]]) -> str:
    """Who needs least."""
    return min(
        (name for name, values in groups.items() if values), key=lambda name: sum(groups[name]), default="nobody"
    )


STUDY = Study(
    name="resources",
    title="CPU, memory, network and storage of each role, by workflow and agent",
    source=f"{RAY}: its motive",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
)
