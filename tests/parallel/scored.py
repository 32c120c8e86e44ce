"""Run under mpiexec by the tests: what an agent says of a trajectory, shared out over ranks and computed alone."""

from __future__ import annotations

import json

import mpi4py
import numpy as np

mpi4py.rc.initialize, mpi4py.rc.finalize = False, True

from mpi4py import MPI  # noqa: E402

from whorl.actors.scoring import Scores, _Part  # noqa: E402
from whorl.agents.off_policy.settings import ReplayConfig  # noqa: E402
from whorl.agents.registry import get_agent  # noqa: E402
from whorl.envs.mpi_memory import initialise_nameless  # noqa: E402
from whorl.envs.parallel.crew import Crew  # noqa: E402
from whorl.models.config import NetworkConfig  # noqa: E402
from whorl.types import ActionSpec, Arrays, EnvSpec, ObservationLeaf  # noqa: E402

LANES, ROWS = 5, 7
DISCRETE = ActionSpec("discrete", (), "int64", nvec=(3,))
BOUNDED = ActionSpec("box", (2,), "float32", (), (-2.0, -1.0), (2.0, 3.0))
CASES = {
    "dqn": ("dqn", DISCRETE, NetworkConfig(hidden=(16,), activation="relu")),
    "lstm dqn": ("dqn", DISCRETE, NetworkConfig(hidden=(12,), core="lstm", lstm_size=8)),
    "sac": ("sac", BOUNDED, NetworkConfig(hidden=(16,), activation="relu")),
}


def trajectory_of(spec: object, action: ActionSpec, drawn: np.random.Generator) -> Arrays:
    rows = (ROWS + 1, LANES)
    continuous = action.kind != "discrete"
    made: Arrays = {
        "obs/obs": drawn.normal(size=(*rows, 4)).astype(np.float32),
        "first": drawn.random(rows) < 0.2,
        "valid": drawn.random(rows) < 0.9,
        "action": drawn.random((ROWS, LANES, 2)).astype(np.float32)
        if continuous
        else drawn.integers(0, 3, (ROWS, LANES)),
        "reward": drawn.normal(size=(ROWS, LANES)).astype(np.float32),
        "terminated": drawn.random((ROWS, LANES)) < 0.1,
        "truncated": np.zeros((ROWS, LANES), bool),
        "number": np.zeros(1, np.int64),
    }
    for field in spec.state:  # type: ignore[attr-defined]
        made[f"state/{field.name}"] = drawn.normal(size=(LANES, *field.shape)).astype(field.dtype)
    return made


def main() -> None:
    initialise_nameless(MPI.Init, MPI.COMM_WORLD.Barrier)
    drawn = np.random.default_rng(3)
    found = {}
    for case, (name, action, network) in CASES.items():
        crew = Crew(MPI.COMM_WORLD)
        env = EnvSpec("made-up", (ObservationLeaf("obs", "vector", (4,), "float32"),), action, "replay", False, 1000)
        agent = get_agent(name)
        config = agent.config(rows=ROWS, replay=ReplayConfig(capacity=4000, prioritised=True), network=network)
        spec, scores = agent.spec(config, env), agent.postprocess(config, env)
        with crew.present():
            if not crew.leads:
                _Part(crew, scores)
                while crew.obey(lambda: None):
                    pass
                continue
            together = Scores(scores, spec.parameters, shared=True)
            same = []
            for version in (0, 0, 1):  # the second time the weights are not sent again
                if version == 1 or not same:
                    weights = spec.parameters.allocate()
                    for array in spec.parameters.views(weights).values():
                        array[...] = drawn.normal(size=array.shape)
                views, trajectory = spec.parameters.views(weights), trajectory_of(spec, action, drawn)
                alone = scores(views, trajectory)
                same.append(together(weights, views, version, trajectory).tobytes() == alone.tobytes())
            found[case] = [*same, list(alone.shape), bool(np.ptp(alone) > 0)]
            crew.dismiss()
    if MPI.COMM_WORLD.rank == 0:
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
