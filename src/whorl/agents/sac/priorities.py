"""Priorities of a trajectory of SAC: values hold the entropy, too. No torch."""

from __future__ import annotations

import numpy as np

from whorl.agents.continuous.priorities import ContinuousPostprocess
from whorl.agents.sac.acting import LOG_TEMPERATURE, network
from whorl.agents.sac.config import SACConfig
from whorl.ops.bounded import squashed_gaussian
from whorl.ops.critics import soft_value
from whorl.types import Array, Arrays, EnvSpec


class SACPostprocess(ContinuousPostprocess):
    """Nothing is sampled: the entropy is taken from one deviation to either side of the mean."""

    def __init__(self, config: SACConfig, env: EnvSpec) -> None:
        super().__init__(config, network(config, env))
        self._start = config.temperature

    def value(self, weights: Arrays, outputs: Array, q: Array) -> Array:
        """min_k q_k + temperature * entropy"""
        size = outputs.shape[1] // 2
        one = np.ones((size, len(outputs)), np.float32)
        above, below = (squashed_gaussian(outputs.T, side).log_prob for side in (one, -one))
        temperature = self._start * float(np.exp(weights[LOG_TEMPERATURE][0]))
        soft: Array = soft_value(q, (above + below) / 2, temperature)
        return soft
