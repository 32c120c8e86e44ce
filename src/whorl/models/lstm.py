"""An LSTM unrolled over rows, its state zeroed where an episode begins; forward and backward written out.

Autograd would record a dozen small operations per row. Here the input's share of the gates comes in as one product of
all rows, and the gradients of the weights leave as one, so that a row costs one product each way.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from whorl.ops.checks import has_shape


def unroll_lstm(
    gates_x: Tensor, recurrent: Tensor, first: Tensor, h: Tensor, c: Tensor
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Outputs [rows, lanes, size] and the state (h, c) after the last row (which carries no gradient).

        i, f, g, o = split(gates_x_t + h_{t-1} recurrent)        h_{t-1} = c_{t-1} = 0 where first_t
        c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)            h_t = sigmoid(o) tanh(c_t)

    ``gates_x`` is [rows, lanes, 4 size] (bias included), ``recurrent`` [size, 4 size], ``first`` [rows, lanes] bool,
    ``h`` and ``c`` [lanes, size] before the first row.
    """
    rows, lanes, width = gates_x.shape
    size = width // 4
    has_shape("recurrent", recurrent, size, 4 * size)
    has_shape("first", first, rows, lanes)
    has_shape("h", h, lanes, size)
    has_shape("c", c, lanes, size)
    outputs, last_c = _Unroll.apply(gates_x, recurrent, (~first).to(gates_x.dtype)[:, :, None], h, c)  # type: ignore[no-untyped-call]
    return outputs, (outputs[-1].detach(), last_c)


class _Unroll(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gates_x: Tensor, recurrent: Tensor, keep: Tensor, h: Tensor, c: Tensor) -> Any:
        rows, lanes, width = gates_x.shape
        size = width // 4
        gates = gates_x.clone()
        hs, cs, tanh_cs = (gates.new_empty(rows, lanes, size) for _ in range(3))
        h_before, c_before = (gates.new_empty(rows, lanes, size) for _ in range(2))
        for t in range(rows):
            torch.mul(h, keep[t], out=h_before[t])
            torch.mul(c, keep[t], out=c_before[t])
            gate = gates[t].addmm_(h_before[t], recurrent)
            i, f, g, o = gate.chunk(4, 1)
            torch.sigmoid_(gate[:, : 2 * size])
            g.tanh_()
            o.sigmoid_()
            torch.mul(f, c_before[t], out=cs[t]).addcmul_(i, g)
            torch.tanh(cs[t], out=tanh_cs[t])
            torch.mul(o, tanh_cs[t], out=hs[t])
            h, c = hs[t], cs[t]
        ctx.save_for_backward(gates, tanh_cs, h_before, c_before, keep, recurrent)
        last_c = cs[-1].clone()
        ctx.mark_non_differentiable(last_c)
        return hs, last_c

    @staticmethod
    def backward(ctx: Any, d_hs: Tensor, d_last_c: Tensor) -> Any:
        del d_last_c
        gates, tanh_cs, h_before, c_before, keep, recurrent = ctx.saved_tensors
        rows, lanes, width = gates.shape
        i, f, g, o = gates.chunk(4, 2)
        # What does not depend on later rows is done for all rows at once.
        by_c = o * (1 - tanh_cs * tanh_cs)
        factors = torch.cat([g * i * (1 - i), c_before * f * (1 - f), i * (1 - g * g)], 2).view(rows, lanes, 3, -1)
        by_o = tanh_cs * o * (1 - o)
        d_gates = torch.empty_like(gates)
        d_h = torch.zeros_like(d_hs[0])
        d_c = torch.zeros_like(d_hs[0])
        size = width // 4
        back = recurrent.t()
        for t in range(rows - 1, -1, -1):
            d_h = d_h + d_hs[t]
            d_c = d_c.addcmul(d_h, by_c[t])
            torch.mul(factors[t], d_c[:, None, :], out=d_gates[t, :, : 3 * size].view(lanes, 3, size))
            torch.mul(d_h, by_o[t], out=d_gates[t, :, 3 * size :])
            d_h = torch.mm(d_gates[t], back).mul_(keep[t])
            d_c = (d_c * f[t]).mul_(keep[t])
        d_recurrent = torch.mm(h_before.view(rows * lanes, size).t(), d_gates.view(rows * lanes, width))
        return d_gates, d_recurrent, None, None, None
