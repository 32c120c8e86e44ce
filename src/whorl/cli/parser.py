"""An argument parser whose refusals are one line with a suggestion, and options made from settings."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from typing import NoReturn, TypeVar

from whorl.config.bounds import AtLeast
from whorl.config.fields import Setting, settings_of
from whorl.config.kinds import Kind
from whorl.config.parse import FLAGS
from whorl.config.schema import EngineConfig, Resources, RunConfig, WorkflowConfig
from whorl.config.suggest import did_you_mean, nearest
from whorl.config.values import parse
from whorl.errors import BadInputError

Choice = TypeVar("Choice", bound=str)

_METAVARS = {"integer": "N", "number": "X", "text": "NAME"}


class Parser(argparse.ArgumentParser):
    """Raises instead of printing usage and leaving; takes no abbreviations, which break when options are added."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, add_help=False)
        self.add_argument("-h", "--help", action="help", help="Show this help.")
        self.add_argument("--debug", action="store_true", help="Show the traceback of an error.")
        self.add_argument("--quiet", action="store_true", help="Print errors and results only.")

    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message}; see {self.prog} --help")

    def parse_strictly(self, arguments: Sequence[str]) -> argparse.Namespace:
        """Options and positionals in any order; whatever is left over is refused with the nearest option."""
        known = [option for option in self._option_string_actions if option.startswith("--")]
        for argument in arguments:
            # First of all, since a misspelt option also looks like a missing or a surplus argument.
            name, _, value = argument.partition("=")
            if name == "--":
                break
            if name.startswith("--") and name not in known:
                suggestion = did_you_mean(nearest(name, known)) or f"; see {self.prog} --help"
                raise BadInputError(f"unknown option {name}{suggestion}")
            if name.startswith("--") and value == "--":  # argparse would drop it and give an empty list
                raise BadInputError(f"{name}: expected a value; got '--'")
        namespace, extras = self.parse_known_intermixed_args(arguments)
        if extras:
            self.error(f"unexpected argument {extras[0]!r}")
        return namespace


def add_setting_flags(parser: argparse.ArgumentParser) -> None:
    """One flag for each short name of a setting; its docstring is the help, its text is checked with all layers."""
    sections = (("workflow", WorkflowConfig), ("engine", EngineConfig), ("resources", Resources), ("run", RunConfig))
    settings = {setting.name: setting for prefix, cls in sections for setting in settings_of(cls, prefix)}
    for flag, name in FLAGS.items():
        setting = settings[name]
        option = f"--{flag.replace('_', '-')}"
        if setting.kind.base == "boolean":
            parser.add_argument(
                option, dest=flag, action="store_const", const="true", default=argparse.SUPPRESS, help=_help(setting)
            )
        else:
            metavar = _METAVARS.get(setting.kind.base, "VALUE")
            parser.add_argument(option, dest=flag, metavar=metavar, default=argparse.SUPPRESS, help=_help(setting))


def add_set_option(parser: argparse.ArgumentParser, help_text: str) -> None:
    """``--set NAME=VALUE``, repeatable."""
    parser.add_argument("--set", dest="assignments", metavar="NAME=VALUE", action="append", default=[], help=help_text)


def given_flags(arguments: argparse.Namespace) -> dict[str, str]:
    """The setting flags that were given, as text."""
    return {flag: getattr(arguments, flag) for flag in FLAGS if hasattr(arguments, flag)}


def positive_integer(text: str, option: str) -> int:
    """A count given to an option of a command, checked like a setting."""
    value: int = parse(Kind("integer", bounds=(AtLeast(1),)), text, option)
    return value


def natural_number(text: str, option: str) -> int:
    """An integer from 0 given to an option of a command."""
    value: int = parse(Kind("integer", bounds=(AtLeast(0),)), text, option)
    return value


def optional_number(text: str, option: str) -> float | None:
    """A number given to an option of a command, or ``none``."""
    value: float | None = parse(Kind("number", optional=True), text, option)
    return value


def one_of(text: str, choices: Iterable[Choice], what: str) -> Choice:
    """A choice, or a refusal with the nearest one."""
    names = list(choices)
    for name in names:
        if name == text:
            return name
    raise BadInputError(f"{what}: expected one of {', '.join(names)}; got {text!r}{did_you_mean(nearest(text, names))}")


def _help(setting: Setting) -> str:
    default = "" if setting.default in ("", None) else f" Default: {setting.default}."
    return f"{setting.help}{default}".replace("``", "").replace("%", "%%")
