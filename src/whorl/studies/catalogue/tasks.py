"""One-second tasks that only sleep, as many as published, on every engine: percent of the ideal."""

from __future__ import annotations

from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, probe
from whorl.studies.figures import Bars
from whorl.studies.findings import judge
from whorl.studies.published import RAY, TASK_S, TASKS, TASKS_LOCAL_S, TASKS_REMOTE_S
from whorl.studies.results import Results
from whorl.studies.stats import estimate

ENGINES = ("local", "inline", "mpi", "ray")
SIZES: dict[Scale, tuple[int, float, int, int]] = {
    "smoke": (8, 0.5, 2, 1),
    "small": (TASKS, TASK_S, 5, 3),
    "paper": (TASKS, TASK_S, 10, 5),
}
"""Tasks, seconds of each, rounds, and how often all of it is begun anew."""
IDEAL = 100 * TASK_S / TASKS_REMOTE_S


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every engine, or the one that was asked for. ``inline`` by itself has nothing to be compared with."""
    tasks, task_s, rounds, times = SIZES[scale]
    chosen = ENGINES if engine == ENGINES[0] else (engine,)
    return [
        probe(
            "whorl.bench.tasks:probe",
            {"engine": name},
            number,
            engine=name,
            tasks=tasks,
            task_s=task_s,
            rounds=rounds if name != "inline" else 1,
        )
        for number in range(1, times + 1)
        for name in chosen
        if name != "inline" or number == 1  # one after the other: nothing to measure twice
    ]


def report(results: Results) -> Report:
    """Beside what Ray did on two Cray nodes."""
    percents = {str(name): group.numbers("found.percent") for name, group in results.by("engine").items()}
    tasks, task_s, *_ = SIZES[results.scale]
    findings = [
        judge(
            f"{name}_adds_little",
            f"{tasks} tasks of {task_s:g} s at once on {name} come as near to the ideal as published",
            estimate(values) if values else None,
            above=IDEAL,
            unit="% of ideal",
            published=f"{IDEAL:.1f} % ({TASKS_REMOTE_S} s) with Ray on {TASKS} CPUs of two nodes",
            because="Starting a task takes far less than the task.",
            otherwise="All processes are woken on the same few cores.",
        )
        for name, values in percents.items()
        if name != "inline"
    ]
    rows = [
        (str(name), f"{estimate(group.numbers('found.seconds')).value:.3f}", f"{group.numbers('found.ideal_s')[0]:g}")
        for name, group in results.by("engine").items()
    ]
    rows.append(("published: Ray, two nodes", f"{TASKS_REMOTE_S}", f"{TASK_S:g}"))
    rows.append(("published: one after the other", f"{TASKS_LOCAL_S}", f"{TASKS * TASK_S:g}"))
    best = ", ".join(f"{one.name.partition('_')[0]} {one.shown}" for one in findings)
    return Report(
        findings,
        [
            Bars(
                name="percent-of-ideal",
                title=f"{tasks} tasks of {task_s:g} s",
                caption=f"{best}. inline does them one after the other.",
                x="engine",
                y="% of ideal",
                groups=percents,
                published={"ray": IDEAL},
            )
        ],
        [Table("Seconds for all tasks", ("engine", "seconds", "ideal"), rows)],
        [
            f"Processes that sleep take no core: {tasks} of them fit on this machine. Start-up is not counted.",
            "On ray, a word to a role passes two more processes: the driver's envoy and the role's station. "
            "whorl doctor --engine ray measures bare calls of Ray instead, as was published.",
        ],
    )


STUDY = Study(
    name="tasks",
    title="One-second tasks on every engine: percent of ideal",
    source=f"{RAY}: 72 one-second tasks",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    needs=("mpi", "ray"),
    machine=Machine(nodes=2),
)
