"""Run under mpiexec by the tests: environments of several ranks that behave, and ones that raise.

Each scenario prints a line of JSON at the first rank.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import mpi4py
import numpy as np
from gymnasium.spaces import Box

mpi4py.rc.initialize, mpi4py.rc.finalize = False, True

from mpi4py import MPI  # noqa: E402

from whorl.envs.mpi_memory import initialise_nameless  # noqa: E402
from whorl.envs.parallel import ParallelEnv, together  # noqa: E402
from whorl.envs.parallel.crew import Crew  # noqa: E402


class Choir(ParallelEnv):
    """Observes the sum of what its ranks know; raises on the ranks it is told to."""

    observation_space = Box(-np.inf, np.inf, (3,), np.float64)
    action_space = Box(-1, 1, (2,), np.float64)

    def __init__(self, weak: tuple[int, ...] = ()) -> None:
        super().__init__()
        if self.rank in weak:
            raise ValueError(f"rank {self.rank} has no voice")
        self.closed = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        self.drawn = float(self.np_random.random())
        return self.sing(np.array([self.drawn, self.drawn])), {"options": options}

    def step(self, action: Any) -> Any:
        if self.rank in RAISES:
            raise ValueError(f"rank {self.rank} lost its voice")
        return self.sing(np.asarray(action)), 0.0, False, False, {}

    @together
    def count(self, start: int, *, by: int = 1) -> list[int]:
        ranks = np.zeros(self.size, np.int64)
        self.wait_for(self.comm.Iallgather(np.array([start + by * self.rank]), ranks))
        return ranks.tolist()

    def sing(self, given: Any) -> Any:
        """What was given, summed over the ranks; and the number of ranks as Fortran's communicator has it."""
        mine = np.array([*given, 1.0])
        total = np.zeros(3)
        self.wait_for(MPI.Comm.f2py(self.fcomm).Iallreduce(mine, total))
        return total

    def get_state(self) -> bytes:
        return np.array(self.count(10)).tobytes()

    def set_state(self, state: bytes) -> None:
        self.drawn = len(state)


RAISES: set[int] = set()


def attempt(call: Any) -> str:
    try:
        return str(call())
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def behave() -> dict[str, Any]:
    """Two environments of one crew, and a long argument."""
    one, two = Choir(), Choir()
    first, info = one.reset(seed=3, options={"name": "x"})
    unseeded, _ = two.reset()
    found = {
        "sum": first.tolist(),
        "options": info["options"],
        "same_entropy": bool(abs(unseeded[0] - two.drawn * two.size) < 1e-12),
        "step": one.step(np.array([0.5, -0.5]))[0].tolist(),
        "count": two.count(5, by=2),
        "state": len(one.get_state()),
    }
    one.set_state(bytes(5000))
    found["drawn"] = one.drawn
    one.close()
    found["after_close"] = two.count(0)
    two.close()
    return found


def faults() -> dict[str, Any]:
    """The ranks that raise do so before they send anything, and the others do not wait for them: see ``Mute``."""
    found = {"made": attempt(lambda: Mute((1,)).reset(seed=1)), "leader": attempt(lambda: Mute((0,)))}
    env = Mute()
    env.reset(seed=1)
    for raised in ("1", "0", "0 1"):
        found[raised] = attempt(lambda: env.speak(raised))  # noqa: B023
    found["then"] = attempt(lambda: env.speak(""))
    return found


class Mute(Choir):
    """Its ranks say nothing to each other."""

    def sing(self, given: Any) -> Any:
        return np.zeros(3)

    @together
    def speak(self, raised: str) -> str:
        if str(self.rank) in raised.split():
            raise ValueError(f"rank {self.rank} lost its voice")
        return "spoke"


def idle() -> dict[str, Any]:
    """CPU seconds that each rank burns while the leader does something else for a second."""
    env = Idle()
    env.reset(seed=1)
    env.burnt()
    time.sleep(1.0)
    return {"burnt": env.burnt()}


class Idle(Choir):
    """Tells the CPU time since it was last asked."""

    last = 0.0

    @together
    def burnt(self) -> list[float]:
        now = time.process_time()
        all_ranks = np.zeros(self.size)
        self.wait_for(self.comm.Iallgather(np.array([now - self.last]), all_ranks))
        self.last = time.process_time()
        return all_ranks.tolist()


def broken() -> dict[str, Any]:
    """One rank raises where the others wait for it."""
    env = Choir()
    env.reset(seed=1)
    env.step(np.zeros(2))
    return {}


def main() -> None:
    scenario, *raises = sys.argv[1:]
    RAISES.update(map(int, raises))
    kinds = {"behave": Choir, "faults": Mute, "idle": Idle, "broken": Choir}
    making = iter([(1,), (0,)] if scenario == "faults" else [])
    initialise_nameless(MPI.Init, MPI.COMM_WORLD.Barrier)
    crew = Crew(MPI.COMM_WORLD)
    try:
        with crew.present():
            if crew.leads:
                print(json.dumps(globals()[scenario]()), flush=True)
                crew.dismiss()
            else:
                while crew.obey(lambda: kinds[scenario](next(making, ()))):
                    pass
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)


if __name__ == "__main__":
    main()
