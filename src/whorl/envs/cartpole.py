"""CartPole as a vector form of our own: one numpy call for all lanes, each lane with its own generator.

Gymnasium's vector form shares one generator among its copies, so a lane's episodes would depend on its neighbours.
This one is bit for bit Gymnasium's scalar CartPole: the same float64 operations in the same order (numpy rounds a
sine the same way alone and in an array), so that it may be used whenever the environment has its default arguments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from whorl.config.schema import EnvConfig
from whorl.envs.door import ObservationDoor
from whorl.types import Array

IDS = frozenset({"CartPole-v0", "CartPole-v1"})

GRAVITY = 9.8
POLE_MASS = 0.1
TOTAL_MASS = POLE_MASS + 1.0
HALF_LENGTH = 0.5
POLE_MASS_LENGTH = POLE_MASS * HALF_LENGTH
FORCE = 10.0
STEP_S = 0.02
MAX_ANGLE = 12 * 2 * math.pi / 360
MAX_POSITION = 2.4


def applies(config: EnvConfig) -> bool:
    """Whether this form stands for the environment: CartPole with no arguments of its own."""
    return config.id in IDS and not config.kwargs


class CartPoleForm:
    """The state of all copies as [4, lanes] float64: position, velocity, angle, angular velocity."""

    def __init__(self, blocks: Sequence[Array]) -> None:
        (self._block,) = blocks
        lanes = len(self._block)
        self._state = np.zeros((4, lanes))
        self._places, self._speeds = self._state[0::2], self._state[1::2]
        self._changes = np.zeros((4, lanes))
        self._truncated = np.zeros(lanes, np.bool_)
        self._limits = np.array([[MAX_POSITION], [MAX_ANGLE]])
        self.metrics = np.zeros((lanes, 0))
        self.raised: dict[int, str] = {}
        self.door = ObservationDoor(CartPoleEnv().observation_space, "CartPole", max_bytes=1024)

    def restart(self, seeds: Mapping[int, int]) -> None:
        """Reset some copies as ``CartPoleEnv.reset`` does."""
        for index, seed in seeds.items():
            generator = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed)))
            self._state[:, index] = generator.uniform(low=-0.05, high=0.05, size=(4,))
            self._block[index] = self._state[:, index]

    def step(self, actions: Array, seeds: Mapping[int, int]) -> tuple[list[float], Array, Array]:
        """One Euler step of every copy (see ``CartPoleEnv.step`` for the equations and their source)."""
        state, changes = self._state, self._changes
        _, _, angle, angular_velocity = state
        force = np.where(actions == 1, FORCE, -FORCE)
        cosine, sine = np.cos(angle), np.sin(angle)
        push = (force + POLE_MASS_LENGTH * np.square(angular_velocity) * sine) / TOTAL_MASS
        angular = (GRAVITY * sine - cosine * push) / (
            HALF_LENGTH * (4.0 / 3.0 - POLE_MASS * np.square(cosine) / TOTAL_MASS)
        )
        changes[0::2] = self._speeds
        changes[1] = push - POLE_MASS_LENGTH * angular * cosine / TOTAL_MASS
        changes[3] = angular
        changes *= STEP_S
        state += changes
        self._block[...] = state.T
        over = np.abs(self._places) > self._limits
        self._truncated.fill(False)
        if seeds:
            self.restart(seeds)
        return [1.0] * len(self._block), over[0] | over[1], self._truncated

    def close(self) -> None:
        """Nothing to close."""
