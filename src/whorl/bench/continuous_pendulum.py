"""TD3 and DDPG on Pendulum-v1 beside Stable-Baselines3: environment steps per second at the same settings.

Both run alternately (peer, whorl, peer, whorl, ...), each in a fresh process with one torch thread: one environment,
networks of 256 x 256, and after every environment step one gradient step on a batch of 256, as in the papers.
Environment steps are counted, learning included, between the end of the warm-up and the end of the run, by the
process's own clock.
"""

from __future__ import annotations

from pathlib import Path

from whorl.bench.report import Report
from whorl.bench.sides import SB3, speed_beside_sb3

PEER_SCRIPT = Path(__file__).parent / "peer_scripts" / "sb3_continuous_pendulum.py"
WARM_UP_ENV_STEPS = 1_200
MEASURED_ENV_STEPS = 2_000

SETTINGS = (
    "resources.envs_per_actor=1",
    "resources.learner_threads=1",
    "agent.policy_learning_rate=0.001",
    "agent.critic_learning_rate=0.001",
    "agent.rows=1",
    "agent.gradient_steps=1",
    "agent.batch_size=256",
    "agent.learning_starts=1000",
    "agent.random_env_steps=1000",
    "agent.discount=0.99",
    "agent.n_step=1",
    "agent.tau=0.005",
    "agent.noise.kind=gaussian",
    "agent.noise.sigma=0.1",
    "agent.replay.capacity=1000000",
    "agent.replay.prioritised=false",
    "agent.network.hidden=[256, 256]",
    "agent.network.activation=relu",
)
"""What the peer script says, in our words. The peer's own defaults for TD3 (delay 2, target noise 0.2 up to 0.5) are
ours too."""


def run_td3(repeats: int, directory: Path) -> Report:
    """Alternate the peer's TD3 and ours; ``directory`` keeps the peer's environment."""
    return _run("td3", repeats, directory)


def run_ddpg(repeats: int, directory: Path) -> Report:
    """Alternate the peer's DDPG and ours; ``directory`` keeps the peer's environment."""
    return _run("ddpg", repeats, directory)


def _run(agent: str, repeats: int, directory: Path) -> Report:
    return speed_beside_sb3(
        agent,
        "Pendulum-v1",
        SETTINGS,
        {SB3: [str(PEER_SCRIPT), agent]},
        warm_up=WARM_UP_ENV_STEPS,
        measured=MEASURED_ENV_STEPS,
        repeats=repeats,
        directory=directory,
    )
