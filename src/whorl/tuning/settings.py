"""What ``[tune]`` holds, next to the ordinary settings of a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field
from typing import Annotated, Any, Literal

from whorl.config.bounds import AtLeast, AtMost, MoreThan
from whorl.config.fields import settings_of
from whorl.config.suggest import did_you_mean, nearest
from whorl.config.values import check
from whorl.errors import ConfigError

DEFAULT_TRIALS = 20
DEFAULT_MEMBERS = 8


@dataclass(frozen=True)
class TuneConfig:
    """How ``whorl tune`` searches. Where a setting of the file is searched over, a space stands in the place of its
    value: ``{ choices = [...] }``, or ``{ low = ..., high = ... }`` with ``log``, ``step`` or ``start``."""

    method: Literal["grid", "random", "tpe", "pbt"] = "tpe"
    """``grid``: every combination. ``random``: drawn independently. ``tpe``: drawn near what did well so far (the
    tree-structured Parzen estimator). ``pbt``: population-based training."""
    trials: Annotated[int, AtLeast(1)] | None = None
    """How many trials; in ``pbt`` how many members a population has. Empty: every combination of a grid, 8 members,
    otherwise 20. May be raised when a study goes on."""
    parallel: Annotated[int, AtLeast(0)] = 0
    """Trials at a time. 0: as many as there are CPUs and GPUs for. May change when a study goes on."""
    cpus_per_trial: Annotated[float, MoreThan(0)] = 1.0
    """CPUs a trial is counted with for ``parallel = 0``."""
    gpus_per_trial: Annotated[float, AtLeast(0)] = 0.0
    """GPUs each trial is given (it sees no others); with 0.5, two trials share one."""
    engine: Literal["local", "ray"] = "local"
    """Where trials run: as processes of this machine, or on the nodes of a Ray cluster (what a trial's own roles run on
    is ``engine.name``, as always)."""
    address: str = ""
    """``ray``: the cluster, ``HOST:PORT`` of its head. Empty: that of the batch job; outside of one, a private
    one on this machine."""
    token_file: str = ""
    """``ray``: the file with that cluster's token, readable by its owner alone. Empty: where Ray looks."""
    resources_per_trial: dict[str, Any] = field(default_factory=dict)
    """``ray``: custom resources that each trial asks for: ``resources_per_trial = { bigmem = 1 }``."""
    metric: str = "return_mean"
    """What is compared: a name in the lines of ``metrics.jsonl``."""
    goal: Literal["maximise", "minimise"] = "maximise"
    """Which end of the metric is good."""
    score: Literal["last", "best", "mean"] = "last"
    """What of a trial's curve counts: its end, its best point, or the mean of all of it (quick learners score higher).
    ``pbt`` compares ends."""
    seed: Annotated[int, AtLeast(0)] = 1
    """Of the search. What trials learn follows from ``run.seed``, as always."""
    pruning: Literal["none", "asha"] = "none"
    """``asha``: end trials early that are not among the best at a rung. Rungs are at ``prune_first_steps``, then each
    ``prune_factor`` times as far."""
    prune_first_steps: Annotated[int, AtLeast(0)] = 0
    """Environment steps before the first rung. 0: a ninth of ``run.steps``."""
    prune_factor: Annotated[int, AtLeast(2)] = 3
    """One in so many goes on past a rung."""
    exploit_every_steps: Annotated[int, AtLeast(0)] = 0
    """``pbt``: environment steps of a generation, after which the worst members go on from copies of the best. 0: a
    tenth of ``run.steps``."""
    exploit_share: Annotated[float, MoreThan(0), AtMost(0.5)] = 0.25
    """``pbt``: the share of members that is replaced after a generation, and the share of the best they come from."""
    perturb_factor: Annotated[float, MoreThan(1)] = 1.2
    """``pbt``: a copied number is multiplied or divided by this; a choice moves to a neighbour."""
    function: str = ""
    """``module:function`` to run as a trial, in place of plain training: it is given a trial with ``trainer()``, and
    may return a score."""


MAY_CHANGE = frozenset(
    ("trials", "parallel", "cpus_per_trial", "gpus_per_trial", "resources_per_trial", "engine", "address", "token_file")
)
"""When a study goes on."""


def read_settings(table: Any, source: str) -> TuneConfig:
    """The checked ``[tune]`` of a file."""
    if not isinstance(table, Mapping):
        raise ConfigError(f"tune in {source}: expected a table; write [tune] and settings below it")
    known = {setting.name.removeprefix("tune."): setting for setting in settings_of(TuneConfig, "tune")}
    values = {}
    for name, value in table.items():
        where = f"tune.{name} in {source}"
        if name not in known:
            end = did_you_mean(nearest(name, known)) or f"; there are {', '.join(known)}"
            raise ConfigError(f"{where}: there is no such setting{end}")
        values[name] = check(known[name].kind, value, where)
    assert all(setting.default is not MISSING for setting in known.values())
    return TuneConfig(**values)
