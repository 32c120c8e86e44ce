"""What other packages bring along: found by the name of an entry point, or by naming it as ``module:NAME``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from typing import Protocol, TypeVar

from whorl.config.suggest import did_you_mean, nearest
from whorl.errors import BadInputError, last_line

Part = TypeVar("Part")


class HasSummary(Protocol):
    """An agent or a workflow."""

    @property
    def summary(self) -> str: ...


def plugin_names(group: str) -> list[str]:
    """The names that installed packages offer in this entry-point group."""
    return [point.name for point in entry_points(group=group)]


def find_part(what: str, name: str, kind: type[Part], own: Mapping[str, str], group: str) -> Part:
    """The agent or workflow of that name. ``own`` maps our own names, which take precedence, to ``module:NAME``."""
    place = own.get(name) or next((point.value for point in entry_points(group=group) if point.name == name), "")
    place = place or (name if ":" in name else "")
    if not place:
        raise unknown(what, name, [*own, *plugin_names(group)])
    return _load(place, kind, f"the entry point {name!r} of {group}" if place != name else f"the {what} {name!r}")


def summary_of(find: Callable[[str], HasSummary], name: str) -> str:
    """For a list: a part that cannot be loaded says why, and does not hide the others."""
    try:
        return find(name).summary
    except BadInputError as error:
        return f"cannot be used: {error}"


def unknown(what: str, name: str, known: Iterable[str]) -> BadInputError:
    """The refusal of a name, with the nearest one there is."""
    names = sorted(known)
    end = did_you_mean(nearest(name, names)) or f"; there are {', '.join(names)} (or name yours as module:NAME)"
    return BadInputError(f"there is no {what} {name!r}{end}")


def _load(place: str, kind: type[Part], who: str) -> Part:
    """Import it; whatever goes wrong in somebody else's module is one line that names the module."""
    module_name, _, attribute = place.partition(":")
    try:
        found = getattr(import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise BadInputError(f"{who}: {module_name} needs the module {error.name!r}; install it") from error
        raise BadInputError(f"{who}: no module {error.name!r}; install it or set PYTHONPATH to where it is") from None
    except AttributeError as error:
        raise BadInputError(f"{who}: {error}") from error
    except Exception as error:
        raise BadInputError(f"{who}: importing {module_name} failed: {last_line(error)}") from error
    if not isinstance(found, kind):
        raise BadInputError(f"{who} must be a whorl {kind.__name__}, and is {type(found).__name__}")
    return found
