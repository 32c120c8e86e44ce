"""``whorl eval RUN_DIR``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import natural_number, positive_integer
from whorl.errors import EXIT_DONE


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("run_dir", metavar="RUN_DIR", type=Path, help="The directory of the run.")
    parser.add_argument("--episodes", metavar="N", default="10", help="Episodes to play. Default: 10.")
    parser.add_argument("--seed", metavar="N", default="0", help="Seed of the episodes. Default: 0.")
    parser.add_argument("--video", action="store_true", help="Also film the first episode (needs whorl[video]).")


def run(arguments: argparse.Namespace) -> int:
    """Play the episodes and print what they returned."""
    episodes = positive_integer(arguments.episodes, "--episodes")
    seed = natural_number(arguments.seed, "--seed")
    from whorl.trainer import evaluate_run

    evaluation = evaluate_run(arguments.run_dir, episodes=episodes, seed=seed, video=arguments.video)
    found = evaluation.summary()
    print(
        f"{episodes} episode{'s' * (episodes > 1)}: return mean {found['return_mean']:.2f}, "
        f"standard deviation {found['return_std']:.2f}, min {found['return_min']:.2f}, max {found['return_max']:.2f}; "
        f"length mean {found['length_mean']:.1f}"
        + "".join(
            f"; {name} mean {found[f'{name}_mean']:.3g}" for name in evaluation.metrics if f"{name}_mean" in found
        )
    )
    if evaluation.video is not None:
        print(f"film: {evaluation.video}")
    return EXIT_DONE
