"""``whorl train AGENT ENV`` and ``whorl train FILE.toml``."""

from __future__ import annotations

import argparse
from pathlib import Path

from whorl.cli.parser import add_set_option, add_setting_flags, given_flags
from whorl.config.parse import given_by_flags, given_by_text
from whorl.config.schema import Config
from whorl.errors import BadInputError


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whorl train AGENT ENV [options]\n       whorl train FILE.toml [options]"
    parser.add_argument("what", metavar="AGENT | FILE.toml", help="An agent (see whorl list agents), or a file.")
    parser.add_argument("env", metavar="ENV", nargs="?", help="An environment: a Gymnasium id, or module:Env-v0.")
    add_setting_flags(parser)
    add_set_option(parser, "Any setting by its dotted name: --set agent.learning_rate=0.001. May be repeated.")
    parser.add_argument(
        "--run-dir", metavar="DIR", type=Path, help="Where the run is kept. Default: runs/<agent>-<env>-<n>."
    )


def run(arguments: argparse.Namespace) -> int:
    """Resolve the config, then train."""
    config = config_of(arguments)
    from whorl.trainer import run_training

    return run_training(config, arguments.run_dir, console=not arguments.quiet)


def config_of(arguments: argparse.Namespace) -> Config:
    """What is to be trained, with all layers resolved."""
    from whorl.resolve import config_from, config_from_file

    given = [*given_by_flags(given_flags(arguments)), *given_by_text(arguments.assignments)]
    what: str = arguments.what
    if what.endswith(".toml") or "/" in what:
        if arguments.env is not None:
            raise BadInputError(
                f"{what} names its own environment; leave out {arguments.env!r}, or use --set env.id={arguments.env}"
            )
        return config_from_file(Path(what), given)
    if arguments.env is None:
        raise BadInputError(f"which environment? Try: whorl train {what} CartPole-v1 (whorl list envs shows more)")
    return config_from(what, arguments.env, given)
