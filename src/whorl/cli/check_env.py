"""``whorl check-env ENV``."""

from __future__ import annotations

import argparse

from whorl.cli.parser import add_set_option, positive_integer
from whorl.errors import EXIT_DONE, EXIT_FAILED


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("env", metavar="ENV", help="An environment: a Gymnasium id, or module:Env-v0.")
    parser.add_argument("--timeout", metavar="S", default="60", help="Seconds the whole check may take. Default: 60.")
    add_set_option(parser, "A setting of the environment: --set env.kwargs.gravity=9.8. May be repeated.")


def run(arguments: argparse.Namespace) -> int:
    """Check the environment; 0 when it is good, 1 when something is wrong with it."""
    timeout_s = positive_integer(arguments.timeout, "--timeout")
    from whorl.envs.check import check_env
    from whorl.resolve import env_config_from

    report = check_env(env_config_from(arguments.env, arguments.assignments), timeout_s)
    print("\n".join(report.lines()))
    return EXIT_DONE if report.is_good else EXIT_FAILED
