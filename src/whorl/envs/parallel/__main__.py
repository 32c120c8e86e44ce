"""Try an environment on the ranks of ``mpiexec``: random actions, and a hash that must not depend on their number.

    mpiexec -n 4 python -m whorl.envs.parallel whorl/Heat-v0 --steps 200 --seed 1

Without ``mpiexec`` it is tried on one rank, without MPI.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from whorl.envs.launchers import under_launcher
from whorl.envs.mpi_memory import initialise_nameless
from whorl.envs.parallel.crew import Crew
from whorl.envs.registry import make_env


def main(arguments: Sequence[str] | None = None) -> None:
    """Every rank comes here; the first one prints a line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m whorl.envs.parallel", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("env", help="its id, or module:Class")
    parser.add_argument("--kwargs", type=json.loads, default={}, metavar="JSON", help="its keyword arguments")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)

    def make() -> Any:
        return make_env(given.env, given.kwargs)

    if not under_launcher():
        print(json.dumps({"ranks": 1, **_try(make(), given.steps, given.seed)}))
        return
    import mpi4py

    mpi4py.rc.initialize, mpi4py.rc.finalize = False, True
    from mpi4py import MPI

    initialise_nameless(MPI.Init, MPI.COMM_WORLD.Barrier)
    try:
        crew = Crew(MPI.COMM_WORLD)
        with crew.present():
            if crew.leads:
                print(json.dumps({"ranks": crew.size, **_try(make(), given.steps, given.seed)}), flush=True)
                crew.dismiss()
            else:
                while crew.obey(make):
                    pass
    except BaseException:
        import traceback

        traceback.print_exc()
        MPI.COMM_WORLD.Abort(1)  # the other ranks would wait for ever


def _try(env: Any, steps: int, seed: int) -> dict[str, Any]:
    digest = hashlib.sha256()
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    total, episodes, began_s = 0.0, 1, time.perf_counter()
    for _ in range(steps):
        digest.update(np.asarray(observation).tobytes())
        observation, reward, terminated, truncated, _ = env.step(env.action_space.sample())
        digest.update(np.float64(reward).tobytes())
        total += float(reward)
        if terminated or truncated:
            observation, _ = env.reset(seed=seed + episodes)
            episodes += 1
    rate = steps / (time.perf_counter() - began_s)
    env.close()
    return {"sha256": digest.hexdigest(), "reward": total, "episodes": episodes, "steps_per_s": round(rate)}


if __name__ == "__main__":
    main()
