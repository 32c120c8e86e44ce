"""Optimisers on one flat tensor: a handful of operations for any number of parameters, and state that is two arrays."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from whorl.ops.checks import same_shape


def adam_(
    parameters: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    count: int,
    learning_rate: float,
    eps: float,
    scratch: Tensor,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
) -> None:
    """One step of Adam (Kingma and Ba 2015), in place, in the quicker order of operations of its section 2.

    ``count`` is the number of this step, from 1. ``scratch`` is overwritten.
    """
    same_shape(parameters=parameters, gradient=gradient, mean=mean, square=square, scratch=scratch)
    root = math.sqrt(1 - beta_2**count)
    mean.lerp_(gradient, 1 - beta_1)
    square.lerp_(torch.mul(gradient, gradient, out=scratch), 1 - beta_2)
    torch.sqrt(square, out=scratch).add_(eps * root)
    parameters.addcdiv_(mean, scratch, value=-learning_rate * root / (1 - beta_1**count))


def rmsprop_(
    parameters: Tensor, gradient: Tensor, square: Tensor, learning_rate: float, eps: float, decay: float = 0.99
) -> None:
    """One step of RMSprop (Tieleman and Hinton 2012), in place, with eps inside the root as in Mnih et al. 2016."""
    same_shape(parameters=parameters, gradient=gradient, square=square)
    square.mul_(decay).addcmul_(gradient, gradient, value=1 - decay)
    parameters.addcdiv_(gradient, torch.sqrt(square + eps), value=-learning_rate)
