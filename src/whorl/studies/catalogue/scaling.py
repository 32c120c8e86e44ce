"""1 to 16 workers, PPO and A2C: weak and strong scaling, the terms that hold it back, and what batches that grow cost.

Weak: every worker brings its environments, and batches grow. Strong: the same batch over more workers. Both are
emulated on few cores; *real* is weak scaling on the cores there are, of CartPole and of two games. At paper scale
everything is Atari, and real.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

from whorl.studies.atari_rows import training_of
from whorl.studies.contract import Cell, Machine, Scale, Study, Training
from whorl.studies.emulation import says, slow_steps
from whorl.studies.published import RAY, TABLE_IV
from whorl.studies.scaling_report import GAMES, SIZES, STEP_S, report

WEAK_ROWS = 100
"""Rows that make the largest configuration's batch the published 32,000."""
ENVS = 2
STRONG_ROWS = 32
"""Of one worker; half for each doubling."""
UPDATES: dict[Scale, int] = {"smoke": 5, "small": 12, "paper": 0}
REAL_ENVS, REAL_ROWS = 8, {"ppo": 16, "a2c": 5}
REAL: dict[Scale, tuple[tuple[int, ...], int, int]] = {"smoke": ((1, 2, 4), 2_560, 1), "small": ((1, 2, 4), 20_480, 5)}
"""Workers (more would only share the few cores there are), environment steps of CartPole, seeds."""
GAME_ENVS, GAME_ROWS = 2, 16
PLAYED: dict[Scale, tuple[tuple[str, ...], tuple[int, ...], int, int]] = {
    "smoke": (GAMES[:1], (1, 2), 256, 1),
    "small": (GAMES, (1, 2, 4), 1_536, 3),
}
"""Games, workers, environment steps, seeds."""

Labelled = Iterator[tuple[dict[str, Any], Training, int]]
"""Labels, a training, and how many seeds."""


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Weak, strong and real; of games only where they can be played."""
    agents, numbers, seeds = SIZES[scale]
    if scale == "paper":
        made = [*_paper(engine, seeds)]
    else:
        made = [*_emulated(agents, numbers, UPDATES[scale], seeds, engine), *_cart_pole(scale, agents, engine)]
        made += _games(scale, agents, engine) if find_spec("ale_py") else ()
    return [
        training.cell(labels, seed, says(STEP_S) if "Slow" in training.env else "")
        for seed in range(1, 1 + max(count for _, _, count in made))
        for labels, training, count in made
        if seed <= count
    ]


def _paper(engine: str, seeds: int) -> Labelled:
    for game in GAMES:
        for row in TABLE_IV:
            lanes = row.workers * row.envs_per_worker
            for mode, rows in (("weak", WEAK_ROWS), ("strong", row.batch // lanes)):
                labels = {"mode": mode, "agent": row.agent, "game": game, "workers": row.workers}
                yield labels, training_of(row, game, engine, rows=rows), seeds


def _emulated(agents: tuple[str, ...], numbers: tuple[int, ...], updates: int, seeds: int, engine: str) -> Labelled:
    for agent in agents:
        own = {"agent.epochs": 2} if agent == "ppo" else {}
        for mode in ("weak", "strong"):
            for workers in numbers:
                rows = STRONG_ROWS // workers if mode == "strong" else STRONG_ROWS // 2
                settings = {**slow_steps(STEP_S), "agent.rows": rows, **own}
                labels = {"mode": mode, "agent": agent, "game": "Slow-v0", "workers": workers}
                steps, options = updates * rows * workers * ENVS, _options(engine, workers, ENVS)
                yield labels, Training(agent, "whorl/Slow-v0", steps, options, settings), seeds


def _cart_pole(scale: Scale, agents: tuple[str, ...], engine: str) -> Labelled:
    numbers, steps, seeds = REAL[scale]
    for agent in agents:
        own = {"agent.epochs": 4} if agent == "ppo" else {}
        for workers in numbers:
            labels = {"mode": "real", "agent": agent, "game": "CartPole-v1", "workers": workers}
            settings = {"agent.rows": REAL_ROWS[agent], **own}
            yield labels, Training(agent, "CartPole-v1", steps, _options(engine, workers, REAL_ENVS), settings), seeds


def _games(scale: Scale, agents: tuple[str, ...], engine: str) -> Labelled:
    games, numbers, steps, seeds = PLAYED[scale]
    for agent in agents:
        own = {"agent.epochs": 2} if agent == "ppo" else {}
        for game in games:
            for workers in numbers:
                labels = {"mode": "real", "agent": agent, "game": game, "workers": workers}
                options = _options(engine, workers, GAME_ENVS)
                settings = {"agent.rows": GAME_ROWS, **own}
                yield labels, Training(agent, f"atari/{game}-v0", steps, options, settings), seeds


def _options(engine: str, workers: int, envs: int) -> dict[str, Any]:
    return {"workflow": "sync", "engine": engine, "actors": workers, "envs-per-actor": envs}


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
