"""One tree of exceptions, so that users can catch at any level.

The command line turns each into one line and an exit code; ``--debug`` shows the traceback.
"""

from __future__ import annotations

import os

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
EXIT_PREEMPTED = 75


class WhorlError(Exception):
    """Anything Whorl raises on purpose. ``str(error)`` says what, where, and what to do."""

    exit_code = EXIT_FAILED


class BadInputError(WhorlError):
    """The user asked for something that cannot be: refused before any process starts."""

    exit_code = EXIT_BAD_INPUT


class ConfigError(BadInputError):
    """A setting is unknown, of the wrong type or out of range."""


class MissingExtraError(BadInputError):
    """An optional part is not installed; the message holds the exact install line."""


class EnvironmentFault(WhorlError):
    """The environment raised, died, hung or returned something its spaces forbid."""


class CheckpointError(WhorlError):
    """A checkpoint could not be written, or is damaged, foreign or hostile."""


class RunBusyError(BadInputError):
    """Another process holds the run directory."""


class PreemptedError(WhorlError):
    """A signal came before there was anything to save. Starting again is all there is to do."""

    exit_code = EXIT_PREEMPTED


class StalledError(WhorlError):
    """A wait expired; the message names who was waited for."""


class RoleLostError(WhorlError):
    """A process died too often, or cannot be replaced."""


def last_line(error: BaseException) -> str:
    """An exception as the last line of its traceback, with the place in the code that raised it."""
    where = ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is not None:
        name = os.path.basename(trace.tb_frame.f_code.co_filename)  # noqa: PTH119
        where = f" ({name}:{trace.tb_lineno} in {trace.tb_frame.f_code.co_name})"
    text = " ".join(message_of(error)[:2000].split())
    return f"{type(error).__name__}: {text[:300]}{where}" if text else f"{type(error).__name__}{where}"


def message_of(error: BaseException) -> str:
    """What it says, as text that can be written anywhere; somebody else's code may run here."""
    try:
        text = str(error)
    except Exception as failure:
        return f"(its message cannot be read: {type(failure).__name__})"
    return text[:10_000].encode(errors="replace").decode()
