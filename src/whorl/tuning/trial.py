"""What a user's own function is given for a trial.

def train(trial: whorl.tuning.trial.Trial) -> float:
    with trial.trainer() as trainer:
        while not trainer.done:
            trainer.step()
        return trainer.evaluate(episodes=20)["return_mean"]
"""

from __future__ import annotations

import shutil
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whorl.config.layers import Layer
from whorl.config.schema import Config
from whorl.resolve import config_from
from whorl.tuning.executor import Order

if TYPE_CHECKING:
    from whorl.trainer import Trainer


class Trial:
    """One trial, in its own process."""

    def __init__(self, order: Order) -> None:
        self._order = order

    @property
    def number(self) -> int:
        """From 0, within the study."""
        return self._order.number

    @property
    def run_dir(self) -> Path:
        """Where its run is kept. Pruning reads the metrics there."""
        return Path(self._order.run_dir)

    @property
    def tables(self) -> dict[str, Any]:
        """The file of this trial: values in the place of spaces."""
        return self._order.layer

    @cached_property
    def config(self) -> Config:
        """The same, resolved."""
        return config_from(None, None, file=Layer(self._order.source, self._order.layer))

    def trainer(self) -> Trainer:
        """A ``whorl.Trainer`` of this trial's settings; of a trial that was stopped, it goes on where that was."""
        from whorl.trainer import Trainer

        if is_begun(self.run_dir):
            return Trainer.resume(self.run_dir)
        return Trainer.of_config(self.config, self.run_dir)


def is_begun(run_dir: Path) -> bool:
    """Whether there is a run to go on with. What a process left that was killed before it wrote its config is not."""
    if (run_dir / "config.toml").is_file():
        return True
    shutil.rmtree(run_dir, ignore_errors=True)
    return False
