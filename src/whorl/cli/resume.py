"""``whorl resume RUN_DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from whorl.cli.parser import one_of, optional_number, positive_integer

COUNTS = {
    "steps": "Environment steps to train for in all.",
    "actors": "Actors. Actors times envs-per-actor must stay the same.",
    "envs_per_actor": "Environments of each actor.",
    "learners": "Learners. The parts a batch is cut into (resources.shards) stay as they are.",
}


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "Without options everything is as it was. With another engine or another number of actors or learners a run in "
        "an exact workflow goes on to the same weights. Changes are kept in config.toml."
    )
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of the run.")
    for name, text in COUNTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", metavar="N", help=f"{text} Default: as the run had.")
    parser.add_argument(
        "--stop-return",
        metavar="X",
        help="End early when the mean return of the last 100 episodes reaches this; none: do not. "
        "Default: as the run had.",
    )
    parser.add_argument("--engine", metavar="NAME", help="Where the processes live. Default: as the run had.")


def run(arguments: argparse.Namespace) -> int:
    """Go on with the run."""
    counts = {
        name: positive_integer(text, f"--{name.replace('_', '-')}")
        for name in COUNTS
        if (text := getattr(arguments, name)) is not None
    }
    changes: dict[str, Any] = {**counts, "engine": arguments.engine}
    if arguments.stop_return is not None:
        changes["stop_return"] = optional_number(arguments.stop_return, "--stop-return")
    if arguments.engine is not None:
        from whorl.engines.registry import engine_table

        one_of(arguments.engine, [name for name, _ in engine_table()], "--engine")
    from whorl.trainer import resume_training

    return resume_training(arguments.run_dir, **changes, console=not arguments.quiet)
