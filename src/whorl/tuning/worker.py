"""A trial's own process: reads an order from standard input and carries it out in the order's run directory.

A directory that holds a run already is gone on with: from its newest checkpoint, or from its start where there is none
yet. Exit codes are those of ``whorl train``.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType

import msgspec

from whorl.engines.local.nursery import STOP_SIGNALS, die_with_parent
from whorl.errors import EXIT_DONE, EXIT_FAILED, EXIT_PREEMPTED, WhorlError, last_line
from whorl.runs.files import write_atomic
from whorl.signals import WARNINGS
from whorl.tuning.executor import Order
from whorl.tuning.trial import Trial, is_begun

SCORE = "score.json"
"""In a trial's run directory: what the user's function returned."""


def main() -> int:
    """Carry out one order; returns the exit code."""
    die_with_parent(int(sys.argv[1]))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)  # workers of Ray have SIGINT blocked, and children inherit
    sys.path.append(os.getcwd())  # noqa: PTH109 (modules of the user's own, behind all that is installed)
    order = msgspec.json.decode(sys.stdin.buffer.read(), type=Order)
    carry_out: Callable[[Order], int] = _train
    if order.function:
        carry_out = _call
    elif order.until_env_steps:
        carry_out = _train_until
    return carry_out(order)


def _train(order: Order) -> int:
    from whorl.trainer import resume_training, run_training

    run_dir = Path(order.run_dir)
    if is_begun(run_dir):
        return resume_training(run_dir, console=False)
    return run_training(Trial(order).config, run_dir, console=False)


def _train_until(order: Order) -> int:
    """Update by update, so that where it stops depends on nothing but the config."""
    from whorl.signals import StopSignals

    with StopSignals() as signals, Trial(order).trainer() as trainer:
        signals.hold()
        while trainer.env_steps < order.until_env_steps and not trainer.done and signals.received is None:
            trainer.step()
        reached = trainer.done or trainer.env_steps >= order.until_env_steps
    return EXIT_DONE if reached else EXIT_PREEMPTED


def _call(order: Order) -> int:
    """A warning becomes a Ctrl-C: ``Trainer.step`` raises it between updates, and leaving the trainer saves."""
    module_name, _, name = order.function.partition(":")
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in WARNINGS:
            signal.signal(number, _interrupt)
        score = getattr(import_module(module_name), name)(Trial(order))
        if score is not None:
            _write_score(Path(order.run_dir), float(score))
    except KeyboardInterrupt:
        return EXIT_PREEMPTED
    return EXIT_DONE


def _write_score(run_dir: Path, score: float) -> None:
    run_dir.mkdir(parents=True, exist_ok=True)  # a function need not train
    plain = score if math.isfinite(score) else str(score)  # JSON has no word for nan and inf
    write_atomic(run_dir / SCORE, msgspec.json.encode(plain))


def read_score(run_dir: Path) -> float | None:
    """What the function returned; None where it returned nothing."""
    try:
        plain = msgspec.json.decode((run_dir / SCORE).read_bytes())
    except FileNotFoundError:
        return None
    return math.nan if plain is None else float(plain)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)


if __name__ == "__main__":
    try:
        code = main()
    except WhorlError as error:
        print(f"whorl: error: {error}")
        code = error.exit_code
    except BaseException as error:  # somebody else's: where it came from is worth the lines
        traceback.print_exc(file=sys.stdout)
        print(f"whorl: error: {last_line(error)}")
        code = EXIT_FAILED
    sys.stdout.flush()
    os._exit(code)  # threads that an environment has left behind must not keep a trial from ending
