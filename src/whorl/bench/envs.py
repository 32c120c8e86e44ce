"""Environments without an agent: random actions, and the rows that an actor would get.

    whorl bench envs

- *Atari*: 8 games of Breakout as actors step them, beside ``AtariVectorEnv``, ale-py's own, with the same threads.
  Games end and begin again on both sides.
- *remote*: 16 copies of CartPole-v1 behind ``whorl env serve`` at an ``ipc://`` address, all stepped by one message.
- *NES*: 4 copies of whorl/Tetris-v0, frames of 240 x 256 in colour, inside this process and served at ``ipc://``.
- *Booster*: 4,096 copies of whorl/Booster-v0 in this process.

The sides of a comparison take turns of some seconds; every value is one turn.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from whorl.bench.report import Measure, Report
from whorl.bench.sides import add
from whorl.config.schema import EnvConfig
from whorl.envs.atari.copies import Copies
from whorl.envs.atari.settings import STEPS_PER_LOAD, Settings
from whorl.envs.contract import LaneState
from whorl.envs.lanes import make_lanes
from whorl.envs.probe import probe_env
from whorl.envs.spaces import random_actions

CORES = os.cpu_count() or 1
TURN_S = 5.0
ACTION_ROWS = 512
GAMES, SMALL, FRAMES, BOOSTERS = 8, 16, 4, 4096
ALE = "ale-py's AtariVectorEnv"

Stepper = Callable[[], object]


def run(repeats: int, directory: Path) -> Report:
    """Every side ``repeats`` times, in turn."""
    del directory
    per_s = "environment steps/s"
    atari = {
        threads: Measure(f"Atari, {threads} threads", per_s, "higher", f"{GAMES} games of Breakout, random actions")
        for threads in sorted({1, CORES})
    }
    remote = Measure("remote, small", per_s, "higher", f"CartPole-v1 over ipc://, {SMALL} copies to a message")
    nes = Measure("NES frames", per_s, "higher", f"{FRAMES} copies of whorl/Tetris-v0, 184,320 bytes a frame")
    booster = Measure("Booster", "ticks/s", "higher", f"{BOOSTERS:,} copies of whorl/Booster-v0, resets included")
    report = Report(f"Environments, {repeats} turns of {TURN_S:.0f} s each", [*atari.values(), remote, nes, booster])
    with contextlib.ExitStack() as stack:
        sides: list[tuple[Measure, str, Stepper, int]] = []
        for threads, measure in atari.items():
            whorl = EnvConfig(id="atari/Breakout-v0", kwargs={"threads": threads})
            sides += [
                (measure, ALE, ale_stepper(threads), GAMES),
                (measure, "whorl", stack.enter_context(stepper(whorl, GAMES)), GAMES),
            ]
        small = stack.enter_context(served("CartPole-v1", SMALL))
        frames = stack.enter_context(served("whorl/Tetris-v0", FRAMES))
        sides += [
            (remote, "whorl", stack.enter_context(stepper(EnvConfig(id=small), SMALL)), SMALL),
            (nes, "inside", stack.enter_context(stepper(EnvConfig(id="whorl/Tetris-v0"), FRAMES)), FRAMES),
            (nes, "served", stack.enter_context(stepper(EnvConfig(id=frames), FRAMES)), FRAMES),
            (booster, "whorl", stack.enter_context(stepper(EnvConfig(id="whorl/Booster-v0"), BOOSTERS)), BOOSTERS),
        ]
        for turn in range(1, repeats + 1):
            for measure, name, step, copies in sides:
                add(measure, name, turn, copies * calls_per_s(step))
    for measure in atari.values():
        report.notes.append(f"{measure.name}: {100 * measure.advantage('whorl', ALE):.0f} % of {ALE}")
    report.notes.append(_about_loads(atari[1].median("whorl")))
    report.notes.append(f"NES frames: served at {100 * nes.advantage('served', 'inside'):.0f} % of the rate inside")
    return report


def calls_per_s(step: Stepper) -> float:
    """Over one turn, after some calls to warm up."""
    for _ in range(5):
        step()
    begin, calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - begin) < TURN_S:
        step()
        calls += 1
    return calls / passed


def _about_loads(env_steps_per_s: float) -> str:
    """What loading consoles costs in the long run: too seldom to be met in a few turns."""
    copies = Copies(Settings("breakout"), np.zeros((1, 4, 84, 84), np.uint8))
    copies.restart({0: 1})
    begin = time.perf_counter()
    copies.restart({0: 2})
    load_s = time.perf_counter() - begin
    copies.close()
    share = 100 * load_s * env_steps_per_s / STEPS_PER_LOAD
    return (
        f"a console is loaded once in {STEPS_PER_LOAD:,} steps, which takes {1e3 * load_s:.0f} ms: {share:.1f} % more"
    )


@contextlib.contextmanager
def stepper(config: EnvConfig, copies: int) -> Iterator[Stepper]:
    """Lanes as an actor has them; a call steps them all."""
    spec = probe_env(config).spec
    actions = random_actions(spec.action, ACTION_ROWS * copies, 1).reshape(ACTION_ROWS, copies, *spec.action.shape)
    lanes = make_lanes(config, spec, range(copies), 1)
    rows = iter(range(10**12))

    def step() -> object:
        lanes.send(actions[next(rows) % ACTION_ROWS])
        for _ in lanes.arrival():
            pass
        return lanes.receive()

    try:
        for _ in lanes.start([LaneState(lane) for lane in range(copies)]):
            pass
        yield step
    finally:
        lanes.close()


def ale_stepper(threads: int) -> Stepper:
    """ale-py's own vector environment with the same preprocessing."""
    from ale_py.vector_env import AtariVectorEnv

    games: Any = AtariVectorEnv("breakout", num_envs=GAMES, num_threads=threads)
    games.reset(seed=1)
    actions = np.random.default_rng(1).integers(0, int(games.single_action_space.n), (ACTION_ROWS, GAMES))
    rows = iter(range(10**12))
    return lambda: games.step(actions[next(rows) % ACTION_ROWS])


@contextlib.contextmanager
def served(env: str, copies: int) -> Iterator[str]:
    """The address of a server in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        address = f"ipc://{folder}/env"
        command = [sys.executable, "-m", "whorl.cli.main", "env", "serve", env, "--bind", address]
        server = subprocess.Popen([*command, "--copies", str(copies + 1), "--quiet"])
        try:
            yield address
        finally:
            server.terminate()
            server.wait(timeout=30)
