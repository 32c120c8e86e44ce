"""Fits the Booster's surrogate to records: the network of ``envs.library.booster.surrogate``, learnt in torch.

The last fifth of the records is held out. After each epoch the network is judged by how well it foretells that part,
and the best one is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from whorl.envs.library.booster.records import VARIABLES, Records
from whorl.envs.library.booster.surrogate import FORETOLD, Surrogate
from whorl.errors import BadInputError
from whorl.types import Array, Arrays

LOOK_BACK_TICKS = 150
HIDDEN = (256, 256, 256)
_HELD_OUT = 0.2
_KEPT_TICKS = 250_000
_JUDGED_AT_ONCE = 1024


@dataclass(frozen=True)
class FitSettings:
    """What the user may choose."""

    epochs: int = 10
    hidden: tuple[int, ...] = HIDDEN
    look_back: int = LOOK_BACK_TICKS
    seed: int = 1
    batch_size: int = 128
    learning_rate: float = 1e-3


@dataclass(frozen=True)
class Epoch:
    """How well the held-out part is foretold."""

    number: int
    errors: tuple[float, ...]
    """Mean absolute errors of VIMIN (A), IMINER (A) and LINFRQ (mHz)."""
    is_best: bool


def fit_surrogate(
    records: Records, settings: FitSettings, source: str, on_epoch: Callable[[Epoch], None] = lambda _: None
) -> Surrogate:
    """The surrogate that foretells the held-out records best after any of the epochs."""
    torch.manual_seed(settings.seed)
    windows = _Windows(records, settings.look_back)
    network = _Network(settings.look_back, settings.hidden)
    optimiser = torch.optim.Adam(network.parameters(), settings.learning_rate)
    generator = torch.Generator().manual_seed(settings.seed)
    best: tuple[float, int, tuple[float, ...], Arrays] | None = None
    for number in range(1, settings.epochs + 1):
        for places in _shuffled(windows.learnt, settings.batch_size, generator):
            inputs, targets = windows.at(places)
            loss = nn.functional.mse_loss(network(inputs), targets)
            optimiser.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
        loss_now, errors = windows.judge(network)
        is_best = best is None or loss_now < best[0]
        if is_best:
            best = loss_now, number, errors, network.arrays()
        on_epoch(Epoch(number, errors, is_best))
    assert best is not None
    _, epoch, errors, weights = best
    about = {
        "source": source,
        "ticks": len(records.values),
        "epoch": epoch,
        "seed": settings.seed,
        "held_out_error": dict(zip(FORETOLD, errors, strict=True)),
        "held_out_error_if_nothing_changed": dict(zip(FORETOLD, windows.standing_still(), strict=True)),
    }
    kept = records.newest(_KEPT_TICKS)
    return Surrogate(settings.look_back, settings.hidden, windows.means, windows.scales, weights, kept, about)


class _Network(nn.Module):
    """LSTM layers and a dense one."""

    def __init__(self, look_back: int, hidden: tuple[int, ...]) -> None:
        super().__init__()
        widths = (look_back, *hidden)
        self.lstms = [nn.LSTM(width, size) for width, size in zip(widths, hidden, strict=False)]
        self.layers = nn.ModuleList(self.lstms)
        self.dense = nn.Linear(hidden[-1], len(FORETOLD))

    def forward(self, sequence: Tensor) -> Tensor:
        """[5, batch, look_back] to [batch, 3]."""
        for layer in self.layers:
            sequence, _ = layer(sequence)
        out: Tensor = self.dense(sequence[-1])
        return out

    def arrays(self) -> Arrays:
        """The weights as a surrogate holds them: torch's two biases are one."""
        found = {"dense/weight": self.dense.weight.T, "dense/bias": self.dense.bias}
        for number, layer in enumerate(self.lstms):
            weights = dict(layer.named_parameters())
            found[f"lstm/{number}/input"] = weights["weight_ih_l0"].T
            found[f"lstm/{number}/recurrent"] = weights["weight_hh_l0"].T
            found[f"lstm/{number}/bias"] = weights["bias_ih_l0"] + weights["bias_hh_l0"]
        return {name: value.detach().numpy().copy(order="C") for name, value in found.items()}


class _Windows:
    """Inputs and targets out of scaled records, by the tick that is foretold."""

    def __init__(self, records: Records, look_back: int) -> None:
        self._look_back = look_back
        # A window, the tick that is foretold, and the set point of the one after it.
        places = records.starts(look_back + 2)
        cut = int(len(records.values) * (1 - _HELD_OUT))
        self.learnt = torch.from_numpy(places[places < cut - look_back - 1])
        self._held_out = torch.from_numpy(places[places >= cut])
        if not len(self.learnt) or not len(self._held_out):
            raise BadInputError(
                f"{len(records.values):,} ticks of records are too few, or have too many gaps: "
                f"{look_back + 2} without a gap are needed, and so many again in the last fifth"
            )
        five: Array = records.values[:, : len(VARIABLES)]
        self.means: Array = five[:cut].mean(axis=0)
        spread = five[:cut].std(axis=0)
        self.scales: Array = np.where(spread > 0, spread, 1.0)
        scaled = torch.from_numpy(((five - self.means) / self.scales).astype(np.float32))
        scaled[:-1, 0] = scaled[1:, 0].clone()  # the set point runs one tick ahead
        self._targets = scaled[:, : len(FORETOLD)].contiguous()
        self._windows = scaled.T.contiguous().unfold(1, look_back, 1)

    def at(self, places: Tensor) -> tuple[Tensor, Tensor]:
        """Inputs [5, batch, look_back] and targets [batch, 3]."""
        return self._windows[:, places], self._targets[places + self._look_back]

    def judge(self, network: nn.Module) -> tuple[float, tuple[float, ...]]:
        """Mean squared error, scaled, and mean absolute errors in units, of the held-out part."""
        with torch.inference_mode():
            missed = torch.cat(
                [
                    network(inputs) - targets
                    for inputs, targets in map(self.at, torch.split(self._held_out, _JUDGED_AT_ONCE))
                ]
            )
        return float(missed.square().mean()), self._in_units(missed)

    def standing_still(self) -> tuple[float, ...]:
        """Mean absolute errors of who foretells that nothing changes."""
        last = self._held_out + self._look_back
        return self._in_units(self._targets[last - 1] - self._targets[last])

    def _in_units(self, missed: Tensor) -> tuple[float, ...]:
        return tuple((missed.abs().mean(dim=0).double().numpy() * self.scales[: len(FORETOLD)]).tolist())


def _shuffled(places: Tensor, batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    order = torch.randperm(len(places), generator=generator)
    return iter(torch.split(places[order], batch_size))
