"""Training on Breakout beside other libraries, and beside the most that the machine can do.

    whorl bench atari

- *PPO*: 8 games, 128 rows, 4 epochs of 4 minibatches, the Nature CNN, the same on all sides, with all cores. Peers are
  Stable-Baselines3, games in processes of their own, and a plain script of one file on ALE's vector environment.
- *IMPALA*: one pass over each batch of 512 rows, collected by 2 actors (workers, runners) of 8 games in fragments of
  32. Peers are RLlib's IMPALA and Sample Factory's APPO.

All take turns, each in fresh processes. The roofline is measured in every turn as well (``roofline.py``), in seconds
for each env step:

    PPO      1 / (environment + inference + values + 4 x learning), each with all cores at once
    IMPALA   cores / (environment + inference + learning), each on one core, while the other cores do the same
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from whorl.bench.peers import peer_python
from whorl.bench.report import Measure, Report
from whorl.bench.sides import RUN_TIMEOUT_S, SB3, SB3_VERSION, add, steady_rate, timed, train_command
from whorl.bench.slow import RLLIB, RLLIB_VERSION
from whorl.errors import WhorlError

CORES = os.cpu_count() or 1
GAME = "atari/Breakout-v0"
ALE, OPENCV = "ale-py==0.12.1", "opencv-python-headless==5.0.0.93"
PLAIN, SAMPLE_FACTORY, SAMPLE_FACTORY_VERSION = "plain script", "sample-factory", "2.1.1"
SCRIPTS = Path(__file__).parent / "peer_scripts"

PPO_WARM_UP, PPO_MEASURED = 4_096, 12_288
IMPALA_WARM_UP_S, IMPALA_MEASURED_S = 20.0, 30.0
EPOCHS = 4
ROOFLINE_S = 1.5

PPO_SETTINGS = (f"resources.learner_threads={CORES}", f"env.kwargs.threads={CORES}")
"""Beside those of the preset, which are the peers'."""
IMPALA_SETTINGS = (
    "resources.actors=2",
    "resources.envs_per_actor=8",
    "workflow.trajectories_per_update=2",
    "agent.rows=32",
)


def run(repeats: int, directory: Path) -> Report:
    """Alternate all sides; ``directory`` keeps the peers' environments."""
    ppo = Measure(
        "PPO",
        "environment steps/s",
        "higher",
        f"{PPO_MEASURED:,} environment steps with learning, after {PPO_WARM_UP:,} of warm-up",
    )
    impala = Measure(
        "IMPALA",
        "environment steps/s",
        "higher",
        f"at least {IMPALA_MEASURED_S:.0f} s after a warm-up; whorl learns from all of them",
    )
    roofline = Measure("roofline", "environment steps/s", "higher", "arithmetic and emulator alone, in the same turns")
    share = Measure("whorl's share of the roofline", "%", "higher", "of the same turn")
    report = Report(f"Training on Breakout, {repeats} runs each, alternating", [ppo, impala, roofline, share])
    sides = [(ppo, *side) for side in _ppo_peers(directory, report)]
    sides += [(impala, *side) for side in _impala_peers(directory, report)]
    with tempfile.TemporaryDirectory() as runs:
        for seed in range(1, repeats + 1):
            for measure, name, rate in sides:
                add(measure, name, seed, rate(seed))
            add(ppo, "whorl", seed, whorl_rate("ppo", PPO_SETTINGS, Path(runs) / f"ppo-{seed}", seed))
            add(impala, "whorl", seed, whorl_rate("impala", IMPALA_SETTINGS, Path(runs) / f"impala-{seed}", seed))
            for measure, most in zip((ppo, impala), rooflines(report), strict=True):
                add(roofline, measure.name, seed, most)
                add(share, measure.name, seed, 100 * measure.values["whorl"][-1] / most)
    for measure in (ppo, impala):
        report.notes += [
            f"{measure.name}: whorl is {measure.advantage('whorl', peer):.2f} times as fast as {peer}"
            for peer in measure.values
            if peer != "whorl"
        ]
    return report


def whorl_rate(agent: str, settings: tuple[str, ...], run_dir: Path, seed: int) -> float:
    """Environment steps per second of a run after its warm-up."""
    steps = PPO_WARM_UP + PPO_MEASURED if agent == "ppo" else 60_000
    options = ["--steps", str(steps), *(word for setting in settings for word in ("--set", setting))]
    timed(train_command(agent, GAME, run_dir, seed, *options))
    return steady_rate(run_dir / "metrics.jsonl", PPO_WARM_UP if agent == "ppo" else steps // 3)


def rooflines(report: Report) -> tuple[float, float]:
    """Environment steps per second that PPO and IMPALA could reach at most."""
    together, *_ = _parts(CORES, 1)
    apart = _parts(1, CORES)
    alone = {name: sum(part[name] for part in apart) / len(apart) for name in together}
    told = ", ".join(f"{name} {1e6 * together[name]:.0f} ({1e6 * alone[name]:.0f})" for name in together)
    report.notes.append(f"us for each env step with {CORES} threads (with one, {CORES} at once): {told}")
    learning = together["values"] + EPOCHS * together["learning"]
    ppo = 1 / (together["environment"] + together["inference"] + learning)
    return ppo, CORES / (alone["environment"] + alone["inference"] + alone["learning"])


def _parts(threads: int, processes: int) -> list[dict[str, float]]:
    """What each of some processes at once measured."""
    command = [sys.executable, "-m", "whorl.bench.roofline", str(threads), str(ROOFLINE_S)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(processes)]
    return [json.loads(process.communicate(timeout=RUN_TIMEOUT_S)[0].splitlines()[-1]) for process in started]


Side = tuple[str, Callable[[int], float]]


def _ppo_peers(directory: Path, report: Report) -> list[Side]:
    def script(name: str) -> Callable[[int], float]:
        def rate(seed: int) -> float:
            return _told([str(python), str(SCRIPTS / name), *map(str, (PPO_WARM_UP, PPO_MEASURED, seed))])

        return rate

    python = peer_python(directory, "sb3-atari", (f"{SB3}=={SB3_VERSION}", ALE, OPENCV))
    report.notes.append(f"{SB3} {SB3_VERSION}; the {PLAIN} runs in its environment")
    return [(SB3, script("sb3_ppo_atari.py")), (PLAIN, script("plain_ppo_atari.py"))]


def _impala_peers(directory: Path, report: Report) -> list[Side]:
    found: list[Side] = []
    wanted = {
        RLLIB: ((f"ray[rllib]=={RLLIB_VERSION}", ALE, OPENCV), "rllib_impala_atari.py"),
        SAMPLE_FACTORY: ((f"sample-factory=={SAMPLE_FACTORY_VERSION}", ALE), "sample_factory_atari.py"),
    }
    for name, (requirements, script) in wanted.items():
        shared = ("torch", "numpy") if name == RLLIB else ("torch",)
        try:
            python = peer_python(directory, f"{name}-atari", requirements, shared)
        except WhorlError as error:
            report.notes.append(f"{name} is left out: {error}")
            continue
        report.notes.append(f"{requirements[0].replace('==', ' ')}")
        command = [str(python), str(SCRIPTS / script), str(IMPALA_WARM_UP_S), str(IMPALA_MEASURED_S)]
        found.append((name, lambda seed, command=command: _told([*command, str(seed)])))  # type: ignore[misc]
    return found


def _told(command: list[str]) -> float:
    output, _ = timed(command)
    return float(json.loads(output)["env_steps_per_s"])
