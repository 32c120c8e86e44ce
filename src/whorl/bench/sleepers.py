"""What the machine itself allows: processes that only wait, as long as the steps of slow environments take.

    python -m whorl.bench.sleepers PROCESSES STEP_S DISTRIBUTION CV WARM_UP_S MEASURED_S

Whoever is woken late (by a busy host of a virtual machine, by timers) waits longer than it meant to; nothing that runs
on the same machine can take more steps than these do. Prints the share of their time that they meant to wait, as a line
of JSON.
"""

from __future__ import annotations

import json
import mmap
import os
import signal
import sys
import time

import numpy as np

from whorl.envs.library.slow import Slow

_LEEWAY_S = 30.0


def share_meant(processes: int, kwargs: dict[str, object], warm_up_s: float, measured_s: float) -> float:
    """Of all processes together."""
    sums_s = np.frombuffer(mmap.mmap(-1, 8 * processes), np.float64)
    env = Slow("CartPole-v1", **kwargs)  # type: ignore[arg-type]
    children = []
    for index in range(processes):
        pid = os.fork()
        if pid == 0:
            env.reset(seed=index)
            stop_s = time.perf_counter() + warm_up_s + measured_s + _LEEWAY_S
            env.wait_until(time.perf_counter() + env.draw_duration() * index / processes)  # not all at once
            while time.perf_counter() < stop_s:  # also where nobody is left to end it
                duration_s = env.draw_duration()
                env.wait_until(time.perf_counter() + duration_s)
                sums_s[index] += duration_s
            os._exit(0)
        children.append(pid)
    try:
        time.sleep(warm_up_s)
        before_s, begin = float(sums_s.sum()), time.perf_counter()
        time.sleep(measured_s)
        return (float(sums_s.sum()) - before_s) / (time.perf_counter() - begin) / processes
    finally:
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    count, step, name, *rest = sys.argv[1:]
    variation, before_s, during_s = map(float, rest)
    steps = {"step_time_s": float(step), "distribution": name, "cv": variation}
    print(json.dumps({"in_steps": share_meant(int(count), steps, before_s, during_s)}))
