"""Environment specs and random observations for networks."""

import numpy as np

from whorl.types import ActionSpec, EnvSpec, ObservationLeaf

DISCRETE = ActionSpec("discrete", (), "int64", (3,))
MULTI = ActionSpec("multi_discrete", (2,), "int64", (3, 2))
BOX = ActionSpec("box", (3,), "float32", (), (-2.0, -1.0, -np.inf), (2.0, 3.0, np.inf))

VECTOR = ObservationLeaf("obs", "vector", (5,), "float32")
PLACE = ObservationLeaf("place", "discrete", (), "int64", 0, 3, 4)
MATRIX = ObservationLeaf("matrix", "vector", (2, 3), "float64")
IMAGE = ObservationLeaf("camera", "image", (3, 12, 10), "uint8", 0, 255)
NATURE = ObservationLeaf("screen", "image", (4, 84, 84), "uint8", 0, 255)


def env_spec(observation: tuple[ObservationLeaf, ...], action: ActionSpec = DISCRETE) -> EnvSpec:
    return EnvSpec("test", observation, action, "replay", False, 100)


def random_observation(env: EnvSpec, rows: int, seed: int = 0) -> dict[str, np.ndarray]:
    rng, observation = np.random.default_rng(seed), {}
    for leaf in env.observation:
        if leaf.kind == "vector":
            observation[leaf.name] = rng.standard_normal((rows, *leaf.shape)).astype(leaf.dtype)
        else:
            high = leaf.n if leaf.kind == "discrete" else 256
            observation[leaf.name] = rng.integers(0, high, (rows, *leaf.shape)).astype(leaf.dtype)
    return observation
