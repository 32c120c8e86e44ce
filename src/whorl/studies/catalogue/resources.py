"""CPU, memory, network and storage of each role, for each workflow and agent: what to ask a cluster for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from whorl.studies.contract import Cell, Report, Scale, Study, Table, Training
from whorl.studies.findings import judge, plain_number, side_by_side
from whorl.studies.published import RAY
from whorl.studies.results import CellResult, Results
from whorl.studies.stacked import StackedBars
from whorl.studies.stats import estimate, ratio

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
ROLES = ("actor", "learner", "inference", "replay")
MARK = "*"
"""Behind agents of another environment than the others'."""
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


def per_step(one: CellResult, name: str) -> dict[str, float]:
    """Of each kind of role: ms of CPU time (``cpu_share``), or bytes sent, for each environment step."""
    steps = max(1.0, one.number("result.transitions.collected") or 1.0)
    factor = 1000 * (one.number("result.wall_s") or 0.0) if name == "cpu_share" else 1.0
    return {role: factor * value / steps for role, value in of_roles(one, name).items()}


def storage_mib(one: CellResult) -> dict[str, float]:
    """Of each kind of role, in the run directory."""
    by_role = one.values.get("storage") or {"run": one.number("storage_bytes") or 0.0}
    return {role: size / MIB for role, size in by_role.items()}


def report(results: Results) -> Report:
    """Bars of roles, and a table of them."""
    runs = {
        f"{agent}{MARK if agent in CONTINUOUS else ''}, {workflow}": group
        for (agent, workflow), group in results.by("agent", "workflow").items()
    }
    sent = {name: [bytes_per_step(one) for one in group] for name, group in runs.items()}
    gradients, trajectories = sent.get("a3c, gradients", []), sent.get("impala, async", [])
    both = side_by_side({"gradients (a3c)": gradients, "trajectories (impala, async)": trajectories})
    heavier = judge(
        "gradients_cost_more_network",
        "Sending gradients takes more network than sending trajectories, where observations are small",
        ratio(gradients, trajectories) if gradients and trajectories else None,
        above=1.0,
        since="as much",
        unit="times the bytes for each environment step",
        seen=f"Bytes per step: {both}.",
        because="A trajectory of CartPole is smaller than the network that learns from it.",
        otherwise="Likely a gradient is of more environment steps here.",
    )
    cpu = _stacks(runs, lambda one: per_step(one, "cpu_share"))
    memory = _stacks(runs, lambda one: {role: size / MIB for role, size in of_roles(one, "memory_bytes").items()})
    network = _stacks(runs, lambda one: per_step(one, "bytes_sent"))
    storage = _stacks(runs, storage_mib)
    marked = f"{MARK} on Pendulum-v1, with fewer steps; the others on CartPole-v1."
    figures = [
        StackedBars(
            name=name, title=title, caption=f"{_range(stacks, y)} {more} {marked}", x=x, y=y, groups=stacks, first=ROLES
        )
        for name, title, y, stacks, more in (
            ("cpu", "CPU time of each role", "ms of CPU for each environment step", cpu, "Start included."),
            ("memory", "Memory of each role", "MiB of memory", memory, "Proportional."),
            (
                "network",
                "Network of each role",
                "bytes sent for each environment step",
                network,
                f"Gradients against trajectories: {heavier.shown}.",
            ),
            (
                "storage",
                "Storage of each role",
                "MiB on disk",
                storage,
                "The run directory at its end: checkpoints are the learner's, or a replay's; logs each role's own.",
            ),
        )
        for x in ("agent, workflow",)
    ]
    header = ("run", "role", "CPU, of a core", "memory, MiB", "sent, MiB/s", "storage, MiB")
    return Report(
        [heavier],
        figures,
        [Table("Each kind of role, all of its processes together", header, _rows(runs))],
        ["The document's motive: reinforcement learning asks for unlike resources in each of its parts."],
    )


def _stacks(
    runs: Mapping[str, Results], measure: Callable[[CellResult], dict[str, float]]
) -> dict[str, dict[str, list[float]]]:
    """What each kind of role takes, by run; one number for each seed."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, group in runs.items():
        measured = [measure(one) for one in group]
        roles = sorted({role for one in measured for role in one})
        found[name] = {role: [one.get(role, 0.0) for one in measured] for role in roles}
    return found


def _range(stacks: Mapping[str, Mapping[str, list[float]]], unit: str) -> str:
    """Who takes least and most, with numbers, and which role takes most of it there."""
    sums = {name: sum(estimate(values).value for values in parts.values()) for name, parts in stacks.items() if parts}
    if not sums:
        return "Nothing was measured."
    least, most = min(sums, key=sums.__getitem__), max(sums, key=sums.__getitem__)
    parts = {role: estimate(values).value for role, values in stacks[most].items()}
    role = max(parts, key=parts.__getitem__)
    share = f"{100 * parts[role] / sums[most]:.0f} % of it {role}" if sums[most] else "none of it"
    ends = f"least: {least}, {plain_number(sums[least])}; most: {most}, {plain_number(sums[most])}, {share}."
    return f"{unit[0].upper()}{unit[1:]}, {ends}"


def _rows(runs: Mapping[str, Results]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name, group in runs.items():
        wall_s = max(sum(group.numbers("result.wall_s")) / len(group.cells), 1e-9)
        for role in sorted({*of_roles(group.cells[0], "cpu_share"), *storage_mib(group.cells[0])}):
            columns = [
                [of_roles(one, what).get(role, 0.0) for one in group]
                for what in ("cpu_share", "memory_bytes", "bytes_sent")
            ] + [[storage_mib(one).get(role, 0.0) for one in group]]
            share, memory, sent, stored = (sum(column) / len(column) for column in columns)
            measured = (f"{100 * share:.0f} %", f"{memory / MIB:.0f}", f"{sent / MIB / wall_s:.2f}", f"{stored:.3f}")
            rows.append((name, role, *measured))
    return rows


STUDY = Study(
    name="resources",
    title="CPU, memory, network and storage of each role, by workflow and agent",
    source=f"{RAY}: its motive",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
)
