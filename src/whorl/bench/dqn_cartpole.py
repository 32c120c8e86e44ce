"""DQN on CartPole-v1 beside Stable-Baselines3: environment steps per second at the same settings.

All run in turn, each in a fresh process with one torch thread, with the network, the batch and the number of gradient
steps per environment step that rl-zoo3 tuned for the peer. Environment steps are counted, learning included, between
the first update after the warm-up and the end of the run, by the process's own clock. Whorl is compared with the peer
at the same number of environments, eight on both sides. The peer with one environment, as rl-zoo3 has it, is shown
beside it: the same rows in all and the same gradient steps, but each action is inferred alone.
"""

from __future__ import annotations

from pathlib import Path

from whorl.bench.report import Report
from whorl.bench.sides import SB3, speed_beside_sb3

PEER_SCRIPT = Path(__file__).parent / "peer_scripts" / "sb3_dqn_cartpole.py"
WARM_UP_ENV_STEPS = 5_120
MEASURED_ENV_STEPS = 25_600

ENVS = 8
PEERS = {
    f"{SB3}, {ENVS} environments": [str(PEER_SCRIPT), str(ENVS)],
    f"{SB3}, 1 environment": [str(PEER_SCRIPT), "1"],
}

TUNED = (
    f"resources.envs_per_actor={ENVS}",
    "resources.learner_threads=1",
    "agent.rows=32",
    "agent.gradient_steps=128",
    "agent.batch_size=64",
    "agent.learning_rate=0.0023",
    "agent.learning_starts=1000",
    "agent.discount=0.99",
    "agent.n_step=1",
    "agent.double=false",
    "agent.dueling=false",
    "agent.huber_delta=1.0",
    "agent.max_grad_norm=10",
    "agent.target_every=128",
    "agent.target_tau=1.0",
    "agent.epsilon_start=1.0",
    "agent.epsilon_end=0.04",
    "agent.epsilon_fraction=0.16",
    "agent.replay.capacity=100000",
    "agent.replay.prioritised=false",
    "agent.network.hidden=[256, 256]",
    "agent.network.activation=relu",
)
"""rl-zoo3's settings for CartPole-v1 (and the peer's defaults) in our words: 128 gradient steps for 256 rows. The peer
copies its target network every 10 environment steps, of which there are none during its 128 gradient steps: so once in
128 gradient steps, for any number of environments."""


def run(repeats: int, directory: Path) -> Report:
    """Run both forms of the peer and Whorl in turn; ``directory`` keeps the peer's environment."""
    return speed_beside_sb3(
        "dqn",
        "CartPole-v1",
        TUNED,
        PEERS,
        warm_up=WARM_UP_ENV_STEPS,
        measured=MEASURED_ENV_STEPS,
        repeats=repeats,
        directory=directory,
    )
