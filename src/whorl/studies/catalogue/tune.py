"""Games x learning rates, trained side by side: what running trials in parallel saves."""

from __future__ import annotations

from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, probe
from whorl.studies.figures import Bars, Lines
from whorl.studies.findings import judge, plain_number, side_by_side
from whorl.studies.published import GAMES, RAY, STEPS
from whorl.studies.results import Results
from whorl.studies.stats import estimate, ratio

SIZES: dict[Scale, tuple[tuple[str, ...], tuple[float, ...], int, tuple[int, ...], int]] = {
    "smoke": (("CartPole-v1", "Acrobot-v1"), (0.0003, 0.003), 2_500, (1, 2), 1),
    "small": (("CartPole-v1", "Acrobot-v1"), (0.0001, 0.0003, 0.001, 0.003), 20_000, (1, 2), 3),
    "paper": (tuple(f"atari/{game}-v0" for game in GAMES), (0.00005, 0.0001, 0.00025, 0.0005), STEPS, (1, 16), 3),
}
"""Environments, learning rates, environment steps of each trial, trials at a time, seeds."""

NODES = (
    "All trials fit on one node at a time. Over several nodes, a search of one's own goes by whorl slurm -- tune FILE."
)


def cells(scale: Scale, engine: str) -> list[Cell]:
    """The same search with more and more trials at a time."""
    del engine  # each trial is a run of its own, in one process
    envs, rates, steps, numbers, seeds = SIZES[scale]
    return [
        probe(
            "whorl.studies.searches:probe",
            {"parallel": parallel},
            seed,
            envs=list(envs),
            learning_rates=list(rates),
            steps=steps,
            parallel=parallel,
            seed=seed,
        )
        for seed in range(1, seeds + 1)
        for parallel in numbers
    ]


def report(results: Results) -> Report:
    """Time by trials at a time, scores by learning rate."""
    seconds = {int(parallel): group.numbers("found.seconds") for parallel, group in results.by("parallel").items()}
    one, many = min(seconds), max(seconds)
    shown = side_by_side({f"{parallel} at a time": values for parallel, values in seconds.items()})
    faster = judge(
        "parallel_trials_save_time",
        f"{many} trials at a time take less time than {one}",
        ratio(seconds[one], seconds[many]) if many > one else None,
        above=1.2,
        since="a fifth faster is worth it: a convention",
        unit="times as fast",
        published="grids of games x learning rates in parallel (no figure)",
        seen=f"Seconds: {shown}, on {results.cores_shown}.",
        because="Trials share nothing else.",
        otherwise="Likely: trials share the cores, and starting a trial takes a share of a short one.",
    )
    scores: dict[str, dict[float, list[float]]] = {}
    for cell in results.where(parallel=many):  # trials of the other searches are the same once more
        for trial in cell.values["found"]["trials"]:
            if trial["score"] is not None:
                scores.setdefault(trial["env"], {}).setdefault(trial["learning_rate"], []).append(trial["score"])
    rows = [
        (env, f"{max(by_rate, key=lambda rate: sum(by_rate[rate]) / len(by_rate[rate])):g}")
        for env, by_rate in scores.items()
    ]
    pictures = [
        Lines(
            name=f"scores-{env.rpartition('/')[2]}",
            title=f"{env}: score by learning rate",
            caption=f"Best: {_best(by_rate)}. By learning rate: "
            f"{side_by_side({f'{rate:g}:': by_rate[rate] for rate in sorted(by_rate)})}.",
            x="learning rate",
            y="mean return of 100 episodes",
            groups={"ppo": by_rate},
            log_x=True,
        )
        for env, by_rate in scores.items()
    ]
    return Report(
        [faster],
        [
            Bars(
                name="time",
                title="Time of the whole search",
                caption=f"{faster.claim}: {faster.shown}, {faster.state}.",
                x="trials at a time",
                y="seconds",
                groups={str(parallel): values for parallel, values in seconds.items()},
            ),
            *pictures,
        ],
        [Table("Best learning rate of each environment", ("environment", "learning rate"), rows)],
        [] if results.scale == "paper" else [f"{' and '.join(SIZES[results.scale][0])} stand in for games here."],
    )


def _best(by_rate: dict[float, list[float]]) -> str:
    """The learning rate with the highest score, and that."""
    scores = {rate: estimate(values).value for rate, values in by_rate.items()}
    rate = max(scores, key=scores.__getitem__)
    return f"{plain_number(scores[rate])} with {rate:g}"


STUDY = Study(
    name="tune",
    title="Games x learning rates searched in parallel",
    source=f"{RAY}: Tune",
    engines=("inline",),
    cells=cells,
    report=report,
    needs=("tune",),
    machine=Machine(cpus=16),
    paper_notes=(NODES,),
    paper_needs=("atari",),
)
