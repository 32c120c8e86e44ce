"""One-second tasks that only sleep, as many as published, on every engine: percent of the ideal."""

from __future__ import annotations

from whorl.studies.contract import EVERY_ENGINE, Cell, Machine, Report, Scale, Study, Table, probe
from whorl.studies.figures import Bars
from whorl.studies.findings import judge
from whorl.studies.published import RAY, TASK_S, TASKS, TASKS_LOCAL_S, TASKS_REMOTE_S
from whorl.studies.results import Results
from whorl.studies.stats import estimate

ENGINES = ("local", "inline", "mpi", "ray")
ALONE = {"local": ("local", "inline")}
"""What is run where one engine is asked for: itself, if nothing stands here."""
SIZES: dict[Scale, tuple[int, float, int, int]] = {
    "smoke": (8, 0.5, 2, 1),
    "small": (TASKS, TASK_S, 5, 3),
    "paper": (TASKS, TASK_S, 10, 5),
}
"""Tasks, seconds of each, rounds, and how often all of it is begun anew."""
IDEAL = 100 * TASK_S / TASKS_REMOTE_S
COSTS = {
    "local": "Likely: the driver writes to each process in turn, and each is woken by its own descriptor.",
    "mpi": "Likely it is looking for messages: MPI's own waiting spins, so a waiting rank here looks, sleeps, and "
    "looks again after at most 5 ms, and on few cores all of them take time from those who have something to say. "
    "What is added grows faster than the number of ranks.",
    "ray": "Likely it is the way of a word: from the driver to its envoy, by a call of Ray to the role's station, and "
    "from there to the role; and all of it back. On few cores as many stations as roles want a turn.",
}
"""What most of the added time is."""
NODES = (
    "Published on two nodes. Here all of it is on the first node of the job: tasks are started by a measuring "
    "function, which whorl slurm does not spread. Tasks sleep and fit on one node; what messages between nodes cost is "
    "not in it."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Every engine, or the one that was asked for."""
    tasks, task_s, rounds, times = SIZES[scale]
    chosen = ENGINES if engine == EVERY_ENGINE else ALONE.get(engine, (engine,))
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
    asked = dict.fromkeys(str(cell.labels["engine"]) for cell in cells(results.scale, results.engine))
    tasks, task_s, *_ = SIZES[results.scale]
    findings = [
        judge(
            f"{name}_adds_little",
            f"{tasks} tasks of {task_s:g} s at once on {name} come as near to the ideal as published",
            estimate(percents[name]) if percents.get(name) else None,
            above=IDEAL,
            since="what was published",
            unit="% of ideal",
            published=f"{IDEAL:.1f} % ({TASKS_REMOTE_S} s) with Ray on {TASKS} CPUs of two nodes",
            because="Starting a task takes far less than the task.",
            otherwise=COSTS[name],
        )
        for name in asked
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
                caption=f"{best}. Ideal are {task_s:g} s, all at once; of inline, which does them one after the other, "
                f"{tasks * task_s:g} s.",
                x="engine",
                y="% of ideal",
                groups=percents,
                published={"ray": IDEAL},
            )
        ],
        [Table("Seconds for all tasks", ("engine", "seconds", "ideal"), rows)],
        [
            f"Processes that sleep take no core: {tasks} of them fit on this machine. Start-up is not counted.",
            *([NODES] if results.scale == "paper" else []),
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
    compares_engines=True,
    machine=Machine(nodes=1),
    paper_notes=(NODES,),
)
