"""Trains on the head of some machines while the cable of another one is cut; prints what came of it as JSON.

python cut_links.py RUN_DIR SETTINGS CABLES WORKFLOW CUT_S FOR_GOOD
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import whorl
from whorl.engines.contract import RoleId
from whorl.engines.ray.cluster import RayCluster

ACTOR = RoleId("actor", 1)


def main() -> None:
    run_dir, settings, cables, workflow, cut_s, for_good = (json.loads(word) for word in sys.argv[1:])
    agent, steps = ("impala", 10**6) if workflow == "async" else ("ppo", 3000)
    job: dict[str, Any] = {"workflow": workflow, "engine": "ray", "actors": 2, "envs_per_actor": 2, "steps": steps}
    found: dict[str, Any] = {}
    env = "counted:Tallied-v0" if "env.kwargs.folder" in settings else "whorl/Slow-v0"
    with whorl.Trainer(agent, env, run_dir=Path(run_dir), set=settings, **job) as trainer:
        trainer.step(3)
        cluster: Any = trainer._session.cluster
        assert isinstance(cluster, RayCluster)
        role = cluster._roles[ACTOR]
        first_node = cluster.nodes[ACTOR]
        cable = cables[cluster.addresses[ACTOR]]
        if cut_s:
            subprocess.run([*cable, "down"], check=True)
            mending = threading.Timer(cut_s, subprocess.run, ([*cable, "up"],))
            mending.start()
            while mending.is_alive():
                trainer.step()  # in lockstep the first of these waits for the link
            before = role.counted_so_far
            end = time.monotonic() + 30
            while role.counted_so_far < before + 100 and not trainer.done and time.monotonic() < end:
                trainer.step()
            found["went_on_by"] = role.counted_so_far - before
            found["rode_it_out"] = role.incarnation == 0 and cluster.nodes[ACTOR] == first_node
        if for_good:
            subprocess.run([*cable, "down"], check=True)
            cut_at = time.monotonic()
            incarnation = role.incarnation
            while not (role.incarnation > incarnation and role.alive) and time.monotonic() < cut_at + 100:
                trainer.step()
            found["replaced_after_s"] = time.monotonic() - cut_at
            found["moved"] = cluster.nodes.get(ACTOR) not in (None, first_node)
            for _ in range(20):
                trainer.step()
        while workflow != "async" and not trainer.done:
            trainer.step()
        found["ended_at"] = time.time()
        found["warnings"] = trainer._session.journal._warnings
    print(json.dumps(found))


if __name__ == "__main__":
    main()
