"""``ParallelEnv``: an environment that several MPI ranks step together."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import gymnasium
import numpy as np

from whorl.envs.parallel.crew import Crew, current_crew
from whorl.envs.parallel.waiting import wait_for
from whorl.errors import MissingExtraError

Method = TypeVar("Method", bound=Callable[..., Any])

ALL_RANKS = frozenset({"reset", "step", "render", "close", "get_state", "set_state"})
"""Methods that all ranks run whenever the first one does, without being marked."""


def together(method: Method) -> Method:
    """Marks a further method of a ``ParallelEnv``: all its ranks run it whenever the first one does.

    Arguments are plain values and arrays. What the first rank returns is the result.
    """
    if getattr(method, "_is_together", False):
        return method

    @functools.wraps(method)
    def run(self: ParallelEnv, *args: Any, **kwargs: Any) -> Any:
        crew = self._crew
        if crew is None or crew.busy:  # alone; or called by a method that all ranks are in already
            return method(self, *args, **kwargs)
        arguments = {"args": list(args), "kwargs": kwargs}
        try:
            return crew.call(self._number, method.__name__, lambda: method(self, *args, **kwargs), arguments)
        finally:
            if method.__name__ == "close":
                self._crew = None

    run._is_together = True  # type: ignore[attr-defined]
    return cast(Method, run)


class ParallelEnv(gymnasium.Env[Any, Any]):
    """An environment whose methods run on all its ranks. Write it as any other, for the rank that runs it.

    class Chamber(ParallelEnv):
        def __init__(self, cells=64):
            super().__init__()                                  # first: from here on there is self.comm
            self.solver = Solver(cells, self.fcomm)             # every rank makes its part
            self.observation_space, self.action_space = ...

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)                            # the same generator on every rank
            return self.solver.begin(self.np_random.random()), {}

        def step(self, action):                                 # the same action on every rank
            self.solver.advance(action)
            ...
            return observation, reward, terminated, truncated, {}   # what the first rank returns counts

    The first rank talks to the actor; the others wait, without burning their cores, until it calls a method, and then
    run it too. With one rank there is no MPI at all: ``comm`` is None, and nothing is sent.
    """

    comm: Any = None
    """The mpi4py communicator of the environment's ranks, for its own messages; None with one rank."""
    rank: int = 0
    size: int = 1
    _crew: Crew | None = None
    _number: int = -1

    def __init__(self) -> None:
        crew = current_crew()
        if crew is not None and crew.size > 1:
            self._crew, self.comm, self.rank, self.size = crew, crew.comm, crew.rank, crew.size
            self._number = crew.enlist(self)
            if not crew.leads:
                self._crew = None  # a mate is told what to call; what it calls itself it calls alone

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ALL_RANKS & set(vars(cls)):
            setattr(cls, name, together(vars(cls)[name]))

    @property
    def fcomm(self) -> int:
        """The communicator as Fortran and C know it (``MPI_Comm_f2c``); with one rank that of this process alone."""
        if self.comm is not None:
            return int(self.comm.py2f())
        try:
            from mpi4py import MPI
        except ImportError as missing:
            raise MissingExtraError("a communicator for Fortran needs mpi4py: pip install 'whorl[mpi]'") from missing
        return int(MPI.COMM_SELF.py2f())

    @together
    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Seed the generator, the same way on every rank. To be called by the ``reset`` of a subclass."""
        if seed is None and self._np_random is None and self.size > 1:
            seed = int(self._shared_entropy())
        return super().reset(seed=seed, options=options)

    @together
    def close(self) -> None:
        """Every rank closes its part; nothing to close here."""

    def wait_for(self, *requests: Any) -> None:
        """Until requests of ``comm`` (``Isend``, ``Irecv``, ...) are complete, without burning the core."""
        wait_for(*requests)

    def _shared_entropy(self) -> int:
        drawn = np.random.SeedSequence().generate_state(1, np.uint32).astype(np.int64)
        self.wait_for(self.comm.Ibcast(drawn, 0))
        return int(drawn[0])


def spans_ranks(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether an environment is a ``ParallelEnv``, or one of ours around one."""
    inner: Any = env.unwrapped
    while not isinstance(inner, ParallelEnv) and hasattr(inner, "inner"):
        inner = inner.inner.unwrapped
    return isinstance(inner, ParallelEnv)
