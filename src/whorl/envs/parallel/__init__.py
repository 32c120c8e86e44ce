"""Environments that several MPI ranks step together.

    env.py      ``ParallelEnv``: the base class of such an environment; with one rank it is an ordinary one
    crew.py     the ranks of one actor's environments: the first says what is done, the others do it with it
    waiting.py  waiting for MPI without burning a core

``mpiexec -n 4 python -m whorl.envs.parallel whorl/Heat-v0`` tries one, with no actor and no learner.
"""

from whorl.envs.parallel.env import ParallelEnv, together

__all__ = ["ParallelEnv", "together"]
