"""Optimisers on one flat tensor: a handful of operations for any number of parameters, and state that is two arrays."""

from __future__ import annotations

import torch
from torch import Tensor

from whorl.ops.checks import same_shape


def adam_(
    parameters: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    count: Tensor,
    learning_rate: float,
    eps: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
) -> None:
    """One step of Adam (Kingma and Ba 2015), in place: torch's fused kernel, which reads and writes everything once.

    ``count`` is the number of this step, from 1, as a float32 tensor of shape () on the parameters' device.
    """
    same_shape(parameters=parameters, gradient=gradient, mean=mean, square=square)
    torch._fused_adam_(
        [parameters],
        [gradient],
        [mean],
        [square],
        [],
        [count],
        lr=learning_rate,
        beta1=beta_1,
        beta2=beta_2,
        weight_decay=0.0,
        eps=eps,
        amsgrad=False,
        maximize=False,
    )


def rmsprop_(
    parameters: Tensor, gradient: Tensor, square: Tensor, learning_rate: float, eps: float, decay: float = 0.99
) -> None:
    """One step of RMSprop (Tieleman and Hinton 2012), in place, with eps inside the root as in Mnih et al. 2016."""
    same_shape(parameters=parameters, gradient=gradient, square=square)
    square.mul_(decay).addcmul_(gradient, gradient, value=1 - decay)
    parameters.addcdiv_(gradient, torch.sqrt(square + eps), value=-learning_rate)
