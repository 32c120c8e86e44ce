"""1 to 16 workers, PPO and A2C: weak and strong scaling, and the terms that hold it back.

Weak: every worker brings its environments, and batches grow. Strong: the same batch over more workers. Both are
emulated on few cores; *real* is CartPole on the cores there are. At paper scale everything is Atari, and real.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from whorl.studies.atari_rows import training_of
from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Table, Training
from whorl.studies.emulation import says, slow_steps
from whorl.studies.figures import Lines
from whorl.studies.findings import judge
from whorl.studies.published import RAY, TABLE_IV
from whorl.studies.results import Results
from whorl.studies.stats import fit_speed_up, interquartile_mean, ratio

PAPER_GAMES = ("Qbert", "SpaceInvaders")
WEAK_ROWS = 100
"""Rows that make the largest configuration's batch the published 32,000."""
STEP_S, ENVS = 0.01, 2
SIZES: dict[Scale, tuple[tuple[str, ...], tuple[int, ...], int, int]] = {
    "smoke": (("ppo",), (1, 2, 4), 1, 5),
    "small": (("ppo", "a2c"), (1, 2, 4, 8, 16), 3, 12),
    "paper": (("ppo", "a2c"), (1, 2, 4, 8, 16), 3, 0),
}
"""Agents, workers, seeds, updates."""
MOST_REAL = 4
"""Workers that are not emulated: more would only share the few cores there are."""
STRONG_ROWS = 32
"""Of one worker; half for each doubling."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Weak, strong and real."""
    agents, numbers, seeds, updates = SIZES[scale]
    make = _paper(engine) if scale == "paper" else _emulated(agents, numbers, updates, engine)
    plain = list(make)
    return [
        training.cell(labels, seed, says(STEP_S) if "Slow" in training.env else "")
        for seed in range(1, seeds + 1)
        for labels, training in plain
    ]


def _paper(engine: str) -> Iterator[tuple[dict[str, Any], Training]]:
    for game in PAPER_GAMES:
        for row in TABLE_IV:
            lanes = row.workers * row.envs_per_worker
            for mode, rows in (("weak", WEAK_ROWS), ("strong", row.batch // lanes)):
                labels = {"mode": mode, "agent": row.agent, "game": game, "workers": row.workers}
                yield labels, training_of(row, game, engine, rows=rows)


def _emulated(
    agents: tuple[str, ...], numbers: tuple[int, ...], updates: int, engine: str
) -> Iterator[tuple[dict[str, Any], Training]]:
    for agent in agents:
        own = {"agent.epochs": 2} if agent == "ppo" else {}
        for mode in ("weak", "strong", "real"):
            for workers in numbers:
                if mode == "real" and workers > MOST_REAL:
                    continue
                rows = STRONG_ROWS // workers if mode == "strong" else STRONG_ROWS // 2
                env, slow = ("CartPole-v1", {}) if mode == "real" else ("whorl/Slow-v0", slow_steps(STEP_S))
                envs = 8 if mode == "real" else ENVS
                options = {"workflow": "sync", "engine": engine, "actors": workers, "envs-per-actor": envs}
                steps = updates * (5 if mode == "real" else 1) * rows * workers * envs
                yield (
                    {"mode": mode, "agent": agent, "game": env.rpartition("/")[2], "workers": workers},
                    Training(agent, env, steps, options, {**slow, "agent.rows": rows, **own}),
                )


def report(results: Results) -> Report:
    """Speed-ups and their fit."""
    rates: dict[tuple[str, str, str], dict[float, list[float]]] = {}
    for (mode, agent, game, workers), group in results.by("mode", "agent", "game", "workers").items():
        rates.setdefault((mode, agent, game), {})[float(workers)] = group.numbers("result.env_steps_per_s")
    speed_ups, theory, rows = {}, {}, []
    for (mode, agent, game), by_workers in rates.items():
        if not by_workers.get(1.0):
            continue
        one = float(interquartile_mean(by_workers[1.0]))
        name = (
            f"{mode}, {agent}" if len({key[2] for key in rates if key[0] == mode}) == 1 else f"{mode}, {agent}, {game}"
        )
        speed_ups[name] = {n: [value / one for value in values] for n, values in by_workers.items() if values}
        middle = {n: float(interquartile_mean(values)) for n, values in speed_ups[name].items()}
        fit = fit_speed_up(list(middle), list(middle.values()))
        if mode == "weak":
            grid = np.linspace(1, max(middle), 40)
            theory[f"fit: {name}"] = [(float(x), float(y)) for x, y in zip(grid, fit.at(grid), strict=True)]
        shown = ", ".join(f"{n:.0f}: {value:.2f}" for n, value in middle.items())
        rows.append((name, shown, f"{100 * fit.contention:.2f} %", f"{100 * fit.coherence:.3f} %"))
    largest = max((n for by_workers in rates.values() for n in by_workers), default=1.0)
    theory["ideal"] = [(1.0, 1.0), (largest, largest)]
    weak = next((by_workers for key, by_workers in rates.items() if key[0] == "weak"), {})
    linear = judge(
        "near_linear_to_four_workers",
        "Scaling is near-linear to 4 workers (weak)",
        ratio(weak[4.0], weak[1.0]) if weak.get(4.0) and weak.get(1.0) else None,
        above=3.0,
        unit="times the rate of one worker",
        published="near-linear to 4 workers",
        because="Workers collect side by side; only the update is done by one.",
        otherwise="The update, which is done by one, takes too large a share.",
    )
    tapering = judge(
        "tapers_past_eight_workers",
        "It tapers past 8 workers (weak)",
        ratio([value / 2 for value in weak[16.0]], weak[8.0]) if weak.get(16.0) and weak.get(8.0) else None,
        below=1.0,
        unit="of the rate of 8 workers, for each of 16",
        published="tapering past 8",
        because="The update grows with the batch, and is done by one.",
    )
    findings = [linear, tapering] if weak.get(16.0) else [linear]
    emulated = "" if results.scale == "paper" else f"{says(STEP_S)} (weak, strong)"
    return Report(
        findings,
        [
            Lines(
                name="speed-up",
                title="Speed-up over one worker",
                caption=f"{linear.claim}: {linear.shown}, {linear.state}. Grey: Gunther's law, fitted, and the ideal.",
                x="workers",
                y="times the rate of one worker",
                groups=speed_ups,
                theory=theory,
                log_x=True,
                log_y=True,
                emulated=emulated,
            )
        ],
        [
            Table(
                "Speed-ups, and the terms of the fit N / (1 + contention (N - 1) + coherence N (N - 1))",
                ("series", "speed-up by workers", "contention", "coherence"),
                rows,
            )
        ],
        ["Batches of the published runs grow up to 32,000 environment steps with the number of workers: weak scaling."],
    )


STUDY = Study(
    name="scaling",
    title="1 to 16 workers, weak and strong, with fitted contention and coherence",
    source=f"{RAY}: Table IV, Figs. 9 to 11",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    machine=Machine(nodes=16, gpus=1),
    paper_engine="ray",
    paper_needs=("atari",),
    paper_notes=(
        "Published on Xeon CPUs with P100 GPUs; name yours by --constraint or --gres.",
        "The GPU of each worker is set aside for it; actors compute on CPUs here. The table gives the learner none.",
    ),
)
