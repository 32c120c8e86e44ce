"""From a name to an environment: Gymnasium ids, ``module:Env-v0``, ``module:ClassName``, ``whorl/...``, ``atari/...``,
and the address of a server (``tcp://HOST:PORT``, ``ipc://PATH``).

A lab's own package plugs in with an entry point of the group ``whorl.envs``: a callable that registers its
environments with Gymnasium. It is called only when an id is not known yet, so nothing happens at import.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import re
import warnings
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

import gymnasium

from whorl.envs.atari import games
from whorl.envs.containment import CONTAINED, is_users_interrupt
from whorl.envs.remote.address import is_address
from whorl.errors import BadInputError, MissingExtraError, WhorlError, last_line

ENTRY_POINTS = "whorl.envs"
OWN_EXTRAS = frozenset({"box2d"})
"""Extras of Whorl that bring an environment's packages along; other names are Gymnasium's own extras."""

Env = gymnasium.Env[Any, Any]


def make_env(env_id: str, kwargs: Mapping[str, Any] | None = None) -> Env:
    """Make an environment; whatever goes wrong is a ``BadInputError`` of one line.

    Gymnasium's passive checker is left out: the actor's door checks every row instead of the first.
    """
    kwargs = dict(kwargs or {})
    name, creator = find_env(env_id)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice for people who write environments: `whorl check-env` gives it
            env = creator(**kwargs) if creator else gymnasium.make(name, disable_env_checker=True, **kwargs)
    except CONTAINED as error:
        if is_users_interrupt(error) or (is_address(env_id) and isinstance(error, WhorlError)):
            raise
        if isinstance(error, MissingExtraError):
            raise  # it has the install line already
        raise explain_failure(env_id, kwargs, error) from error
    if not isinstance(env, gymnasium.Env):
        raise BadInputError(f"{env_id}: made a {type(env).__name__}, which is not a gymnasium.Env")
    return env


def find_env(env_id: str) -> tuple[str, Any]:
    """The registered id, and a callable that makes the environment where it is not registered.

    ``BadInputError`` with the nearest names where it is neither.
    """
    if is_address(env_id):
        from whorl.envs.remote.env import connect

        return env_id, functools.partial(connect, env_id)
    module_name, separator, name = env_id.rpartition(":")
    if separator:
        module = _import_module(env_id, module_name)
        if name in gymnasium.registry:
            return name, None
        creator = getattr(module, name, None)
        if callable(creator):
            return name, creator
        members = [key for key, value in vars(module).items() if _is_env_class(value)]
        raise _unknown(env_id, [f"{module_name}:{known}" for known in (*members, *gymnasium.registry)])
    if env_id.startswith("whorl/"):
        from whorl.envs import library

        library.register()
    if games.is_atari(env_id):
        games.register(env_id)
    if env_id not in gymnasium.registry:
        register_plugins()
    if env_id not in gymnasium.registry:
        raise _unknown(env_id, list(gymnasium.registry))
    return env_id, None


def register_plugins() -> None:
    """Call every ``whorl.envs`` entry point; one that fails is named and does not hide the others."""
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.value in _registered_plugins:
            continue
        _registered_plugins.add(entry.value)
        try:
            entry.load()()
        except Exception as error:
            warnings.warn(f"entry point {entry.name} = {entry.value} failed: {last_line(error)}", stacklevel=2)


_registered_plugins: set[str] = set()


def explain_failure(env_id: str, kwargs: Mapping[str, Any], error: BaseException) -> BadInputError:
    """Why an environment could not be made, in one line with what to do."""
    if isinstance(error, gymnasium.error.DependencyNotInstalled):
        extra = re.search(r"gymnasium\[([\w,-]+)\]", str(error))
        if extra is None:
            return MissingExtraError(f"{env_id}: {' '.join(str(error).split())}")
        package = "whorl" if extra[1] in OWN_EXTRAS else "gymnasium"
        return MissingExtraError(f"{env_id} needs more packages: pip install '{package}[{extra[1]}]'")
    if isinstance(error, ModuleNotFoundError) and error.name:
        missing = error.name.partition(".")[0]
        return MissingExtraError(f"{env_id} needs the package {missing!r}: pip install {missing}")
    given = f" with {dict(kwargs)}" if kwargs else ""
    return BadInputError(f"{env_id} could not be made{given}: {last_line(error)}")


def _import_module(env_id: str, module_name: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and module_name.startswith(error.name):
            raise BadInputError(
                f"{env_id}: no module {error.name!r}; install it or set PYTHONPATH to where it is"
            ) from None
        raise explain_failure(env_id, {}, error) from error
    except CONTAINED as error:
        if is_users_interrupt(error):
            raise
        raise BadInputError(f"{env_id}: importing {module_name!r} failed: {last_line(error)}") from error


def _is_env_class(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, gymnasium.Env)


def _unknown(env_id: str, known: list[str]) -> BadInputError:
    from whorl.envs import library

    if gymnasiums := re.fullmatch(r"ALE/(\w+)-v\d+", env_id):
        return BadInputError(
            f"no environment {env_id!r} before its package is imported: ale_py:{env_id}, or with this package's "
            f"preprocessing and presets atari/{gymnasiums[1]}-v0"
        )
    names = sorted({*known, *(name for name, _ in library.catalogue())})
    lowered = {name.lower(): name for name in names}
    near = [lowered[name] for name in difflib.get_close_matches(env_id.lower(), lowered, n=3, cutoff=0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else "`whorl list envs` shows what there is"
    module = "" if ":" in env_id or "/" in env_id else f" (one that a module of yours registers: MODULE:{env_id})"
    return BadInputError(f"no environment {env_id!r}; {hint}{module}")
