"""What the documents report, as typed constants. Everything here is theirs; nothing was measured by us.

RAY       Ray and RLlib on Cray XC systems (PPO, A2C, IMPALA, Ape-X on Atari)
EXARL     the workflows and agents of EXARL for scientific control
TETRIS    parallel PPO for Tetris with a libtorch learner
"""

from __future__ import annotations

from dataclasses import dataclass

from whorl.studies.contract import Machine

RAY = "Ray and RLlib on Cray XC"
EXARL = "EXARL for scientific control"
TETRIS = "parallel PPO for Tetris"

STEPS = 10_000_000
"""Environment steps of every Atari run of RAY."""
GAMES = ("Breakout", "BeamRider", "Qbert", "SpaceInvaders")


@dataclass(frozen=True)
class Row:
    """A row of Tables I to IV of RAY: how a run was laid out."""

    agent: str
    workers: int
    envs_per_worker: int
    cpus_per_worker: int
    fragment: int = 0
    """Rows of a trajectory; 0: not given."""
    batch: int = 0
    """Env steps of an update (of Ape-X: drawn from its memory); 0: not given."""
    learner_gpus: int = 0
    """0: not given."""
    gpus_per_worker: int = 0
    """0: not given."""


TABLE_I = (
    Row("impala", workers=32, envs_per_worker=5, cpus_per_worker=1, fragment=50, batch=500, learner_gpus=1),
    Row("apex", workers=16, envs_per_worker=8, cpus_per_worker=8, fragment=20, batch=512, learner_gpus=1),
)
"""IMPALA and Ape-X on four games, 10 M steps."""
TABLE_I_CPUS, TABLE_I_PROCESSORS, TABLE_I_GPUS = 36, "36 Xeon cores", "P100"
"""Of a node."""
TABLE_I_IMPALA_NODES = 2
"""The text gives it, and none for Ape-X."""
TABLE_I_MINUTES = {"impala": 30.0, "apex": 60.0}
"""Under 30 minutes, and about an hour with a higher reward."""


@dataclass(frozen=True)
class Platform:
    """A result of Fig. 6: Qbert, 10 M steps, laid out as in Table II."""

    platform: str
    agent: str
    reward: float
    minutes: float


TABLE_II = tuple(
    Row(agent, 7, 9, cpus_per_worker=9, fragment=100, batch=7000, learner_gpus=1, gpus_per_worker=1)
    for agent in ("a2c", "ppo")
)
"""The same on both platforms: "1 GPU to head and 7 to workers". The caption names PPO alone."""
TABLE_II_CS, TABLE_II_XC = Machine(nodes=1, cpus=72, gpus=8), Machine(nodes=8, cpus=36, gpus=1)
TABLE_II_RESULTS = (
    Platform("CS: one node with 8 GPUs", "a2c", 15_101, 95 + 54 / 60),
    Platform("CS: one node with 8 GPUs", "ppo", 12_775, 144 + 15 / 60),
    Platform("XC: 8 nodes", "a2c", 4_193, 71 + 48 / 60),
    Platform("XC: 8 nodes", "ppo", 6_998, 121 + 40 / 60),
)
TABLE_III = tuple(
    Row("ppo", workers, envs_per_worker=cpus, cpus_per_worker=cpus)
    for workers, cpus in ((1, 32), (2, 16), (4, 8), (8, 4), (16, 2))
)
"""One node, workers x CPUs of each; SpaceInvaders. 16 and 8 workers alike, 1 worker slowest (Fig. 8)."""
TABLE_IV = tuple(
    Row(agent, workers, envs_per_worker=cpus, cpus_per_worker=cpus, batch=32_000, gpus_per_worker=1)
    for agent in ("ppo", "a2c")
    for workers, cpus in ((1, 36), (2, 36), (4, 36), (8, 36), (16, 20))
)
"""Batches of up to 32,000. Near-linear to 4 workers, tapering past 8 (Figs. 9 to 11)."""

TASKS, TASK_S = 72, 1.0
TASKS_REMOTE_S, TASKS_LOCAL_S = 1.0508, 72.07
"""72 tasks of one second on 72 CPUs of two nodes, and one after the other."""

ELASTIC_WORKERS = (128, 64, 32)
ELASTIC_PHASES = (2_000_000, 5_000_000, 5_000_000)
ELASTIC_MINUTES = (15.0, 24.0, 44.0)
"""Fig. 3: PPO on Qbert, resized by checkpoint and restart."""

QUEUE_FASTER_PERCENT = 25.0
"""EXARL: one learner, the queue against blocking async, 4 nodes."""
MANY_LEARNERS_SAVED_PERCENT = 77.0
"""EXARL: 20 learners and 120 actors against 1 learner with the same 140 processes."""
LEARNERS_THROUGHPUT_PERCENT = 43.4
"""EXARL: multi-learner async, 8 learners and 8 actors: so much more throughput."""
LEARNERS_TIME_PERCENT = 31.0
"""EXARL: 8 learners and 16 actors: so much less time."""
WINDOW_ACTORS, NOTICEABLE_SHARE = 120, 0.25
"""EXARL: random windows clash noticeably once learners are such a share of the actors; 120 of these in its largest."""
DATA_GENERATION_SPEED_UP, DATA_GENERATION_PROCESSES = 3.30, 4
"""EXARL: Bellman targets spread over 4 processes."""
BOOSTER_EPISODES, BOOSTER_EPISODE_STEPS = 1000, 200
"""EXARL: its Booster studies."""
CARTPOLE_SOLVED = 200.0
"""EXARL: A2C and A3C come to it on CartPole with the off-policy correction and not without."""

TETRIS_WEIGHTS = 1_548_352
"""TETRIS: of its CNN."""


def redundant_share(learners: int, actors: int) -> float:
    """EXARL's random windows: the share that is read twice when L learners draw one of A windows each."""
    return 1 - actors / learners * (1 - (1 - 1 / actors) ** learners)
