"""Which images are stacks of frames: what a memory need not store once per stack.

Gymnasium's ``FrameStackObservation`` is recognised. An environment that stacks by itself says so with two attributes of
the unwrapped object: ``frame_stack``, the number of frames (oldest first along the first axis), and
``frame_stack_padding``, ``"reset"`` or ``"zero"``: what stands before the first frame of an episode.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gymnasium
from gymnasium.wrappers import FrameStackObservation

from whorl.types import ObservationLeaf

PADDINGS = ("reset", "zero")


def with_frames(env: Any, leaves: tuple[ObservationLeaf, ...]) -> tuple[ObservationLeaf, ...]:
    """The leaves of an environment's observation; a stacked image knows its frames."""
    frames, padding = _stack_of(env)
    if frames < 2 or len(leaves) != 1 or leaves[0].kind != "image":
        return leaves
    space = env.observation_space
    if padding not in PADDINGS or leaves[0].shape[0] % frames or space.shape[0] != leaves[0].shape[0]:
        return leaves  # stacked in another way: stored as it is
    return (replace(leaves[0], frames=frames, padding=padding),)


def _stack_of(env: Any) -> tuple[int, Any]:
    """Number of frames and padding; one frame where nothing is stacked."""
    for layer in _layers(env):
        if isinstance(layer, FrameStackObservation):
            return int(layer.stack_size), layer.padding_type
        if isinstance(layer, gymnasium.ObservationWrapper):
            return 1, ""  # it may do anything with a stack below
    frames = getattr(env.unwrapped, "frame_stack", 1)
    return (frames if isinstance(frames, int) else 1), getattr(env.unwrapped, "frame_stack_padding", "reset")


def _layers(env: Any) -> Iterator[Any]:
    while isinstance(env, gymnasium.Wrapper):
        yield env
        env = env.env
