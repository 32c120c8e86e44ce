"""The ``whorl`` command: finds the command's module, runs it, and turns every error into one line and an exit code.

A command is a module with ``configure(parser)`` and ``run(arguments) -> exit code``, imported only when it is called,
so that help stays quick.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple, NoReturn

from whorl import __version__
from whorl.errors import EXIT_DONE, EXIT_FAILED, BadInputError, WhorlError, last_line

EXIT_INTERRUPTED = 130
_LONGEST_LINE = 1000


class Command(NamedTuple):
    """Where a command lives, and one line about it."""

    module: str
    summary: str


COMMANDS = {
    "train": Command("whorl.cli.train", "Train an agent on an environment, or from a TOML file."),
    "resume": Command("whorl.cli.resume", "Go on with a run that was stopped, exactly where it was."),
    "resize": Command("whorl.cli.resize", "Have another number of actors act in a run that goes on."),
    "eval": Command("whorl.cli.evaluate", "Let a trained policy act, and report its returns."),
    "plot": Command("whorl.cli.plot", "Draw the learning curves of one or more runs."),
    "export": Command("whorl.cli.export", "Write a trained policy as ONNX or TorchScript."),
    "tune": Command("whorl.cli.tune", "Search for good settings: many runs of one file."),
    "slurm": Command("whorl.cli.slurm", "Train on the nodes of a Slurm job, or have nodes join one."),
    "pbs": Command("whorl.cli.pbs", "Train on the nodes of a PBS job."),
    "study": Command(
        "whorl.cli.study", "Run experiments that others have published, and set the results beside theirs."
    ),
    "list": Command("whorl.cli.listing", "List agents, envs, workflows, engines or presets."),
    "check-env": Command("whorl.cli.check_env", "Say what is wrong with an environment, or how fast and exact it is."),
    "env": Command("whorl.cli.env", "Serve an environment to other processes and machines, or make keys for that."),
    "booster": Command("whorl.cli.booster", "Fit a surrogate of the Booster to records of it, or make up records."),
    "doctor": Command("whorl.cli.doctor", "Look at this machine and say what works and what is missing."),
    "bench": Command("whorl.cli.bench", "Measure speed here, beside a peer."),
}

WRAPPERS = ("slurm", "pbs")
"""They take another command, behind ``--``."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code."""
    if arguments is None:
        _find_modules_here()
        _warn_in_one_line()
        return _leave(main(sys.argv[1:]))
    arguments = list(arguments)
    # Before numpy is imported: one thread for its small products, as every process of the local engine has.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = _dispatch(arguments)
        if sys.stdout is not None and not sys.stdout.closed:  # an environment may have closed it
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader has gone; without this Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except KeyboardInterrupt:
        return _complain("interrupted", EXIT_INTERRUPTED)
    except SystemExit:
        raise
    except BaseException as error:
        if "--debug" in arguments:
            import traceback

            traceback.print_exc()
        if isinstance(error, WhorlError):
            return _complain(f"error: {error}", error.exit_code)
        if isinstance(error, MemoryError):
            return _complain(f"error: out of memory: {error or 'nothing is left'}", EXIT_FAILED)
        return _complain(f"error: unexpected {last_line(error)}; run again with --debug", EXIT_FAILED)


def _leave(code: int) -> int:
    """Threads that an environment has left behind must not keep the command from ending."""
    import threading

    others = [thread for thread in threading.enumerate() if thread is not threading.main_thread() and not thread.daemon]
    if others:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)
    return code


def _find_modules_here() -> None:
    """Let ``whorl train ppo my_envs:Env-v0`` find my_envs.py in the working directory, behind all that is installed."""
    with contextlib.suppress(OSError):
        here = os.getcwd()  # noqa: PTH109 (pathlib would slow down --help)
        if here not in sys.path and "" not in sys.path:
            sys.path.append(here)


def _warn_in_one_line() -> None:
    """What Whorl itself warns of; a place in its source says nothing to its user."""
    import warnings

    usual, own = warnings.formatwarning, os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120

    def told(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if filename.startswith(own):
            return f"whorl: warning: {message}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = told


def _dispatch(arguments: list[str]) -> int:
    position = next((index for index, argument in enumerate(arguments) if argument[:1] != "-"), len(arguments))
    before, rest = arguments[:position], arguments[position:]
    from whorl.cli.parser import Parser

    own_parser = Parser("whorl", "Scalable reinforcement learning for real environments.")
    _configure(own_parser)
    own_parser.parse_strictly(before)
    if not rest:
        own_parser.print_help()
        return EXIT_DONE
    name = rest[0]
    if name not in COMMANDS:
        _refuse_command(name)
    if name in ("train", "resume") and not {"-h", "--help"} & {*rest}:
        from whorl.engines.mpi.launched import be_a_rank, rank_of_launcher

        if (place := rank_of_launcher()) is not None:
            return be_a_rank(place)
    command = COMMANDS[name]
    module = import_module(command.module)
    parser = Parser(f"whorl {name}", command.summary)
    module.configure(parser)
    own, words = _cut(rest[1:]) if name in WRAPPERS else (rest[1:], [])
    given = parser.parse_strictly([*before, *own])
    given.words = words
    code: int = module.run(given)
    return code


def _cut(arguments: list[str]) -> tuple[list[str], list[str]]:
    """What stands before ``--``, and the command behind it."""
    position = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:position], arguments[position + 1 :]


def _configure(parser: argparse.ArgumentParser) -> None:
    """What ``whorl`` takes before a command, and the list of commands."""
    width = max(map(len, COMMANDS))
    parser.usage = "whorl COMMAND ..."
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--version", action="version", help="Show the version.", version=f"whorl {__version__}")
    parser.epilog = "\n".join(
        [
            "commands:",
            *(f"  {name:<{width}}  {command.summary}" for name, command in COMMANDS.items()),
            "",
            "whorl COMMAND --help says more. To begin: whorl train ppo CartPole-v1",
        ]
    )


def _refuse_command(name: str) -> NoReturn:
    from whorl.config.suggest import did_you_mean, nearest

    end = did_you_mean(nearest(name, COMMANDS)) or f"; there are {', '.join(COMMANDS)}"
    raise BadInputError(f"there is no command {name!r}{end}")


def _complain(message: str, code: int) -> int:
    """One line on stderr, whatever the message holds."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in message[:_LONGEST_LINE]).split())
    print(f"whorl: {line}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
