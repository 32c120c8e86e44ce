"""Sync on mpi comes to the weights of inline, however many ranks there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.mpi.conftest import require

import whorl
from whorl.trainer import resume_training

LANES = 4


def settings_of(actors: int, learners: int, **more: object) -> dict[str, Any]:
    """Four environments, shared out."""
    small = {"agent.rows": 16, "agent.epochs": 2, "agent.minibatches": 2, "agent.network.hidden": (16,)}
    fixed = {"resources.shards": 2, "run.checkpoint_every_s": 1000.0}
    sizes = {"actors": actors, "envs_per_actor": LANES // actors, "learners": learners, "steps": 600}
    return {**sizes, "set": {**small, **fixed, **more}}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory):
    known: dict[tuple[object, ...], str] = {}

    def train(engine: str, actors: int, learners: int, **more: object) -> str:
        key = (engine, actors, learners, *more.items())
        if key not in known:
            folder = tmp_path_factory.mktemp("run") / "run"
            run = whorl.train(
                "ppo", "CartPole-v1", engine=engine, run_dir=folder, **settings_of(actors, learners, **more)
            )
            assert run.result.exact
            known[key] = run.result.weights_sha256
        return known[key]

    return train


@pytest.mark.parametrize(("actors", "learners"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_the_same_weights_as_inline(weights, actors: int, learners: int) -> None:
    """On 2, 3, 5, 4 and 6 ranks."""
    assert weights("mpi", actors, learners) == weights("inline", 1, 1)


@pytest.mark.parametrize("ranks", [2, *(pytest.param(ranks, marks=pytest.mark.verify) for ranks in (1, 4))])
def test_all_reduce_comes_to_the_same_weights_on_any_number_of_ranks(tmp_path: Path, ranks: int) -> None:
    """The batch partitioned, backward on each rank, gradients summed: with the same shards as in one process."""

    def train(engine: str, ranks: int) -> str:
        settings = settings_of(ranks, ranks, **{"resources.shards": LANES})
        run = whorl.train(
            "ppo", "CartPole-v1", workflow="allreduce", engine=engine, run_dir=tmp_path / engine, **settings
        )
        return run.result.weights_sha256

    assert train("mpi", ranks) == train("inline", 1)


@pytest.mark.verify
@pytest.mark.parametrize("mpi", ["mpich", "openmpi"])
@pytest.mark.parametrize("one_sided", ["always", "never"])
@pytest.mark.parametrize(("actors", "learners"), [(1, 1), (2, 1), (4, 1), (2, 2), (4, 2)])
def test_the_same_weights_on_every_mpi(weights, mpi: str, one_sided: str, actors: int, learners: int) -> None:
    require(mpi)
    settings = {"engine.mpi": mpi, "engine.one_sided": one_sided}
    assert weights("mpi", actors, learners, **settings) == weights("local", actors, learners)


def test_a_run_goes_on_with_another_number_of_ranks(weights, tmp_path: Path) -> None:
    """Begun on 3 ranks, finished on 2."""
    with whorl.Trainer("ppo", "CartPole-v1", engine="mpi", run_dir=tmp_path / "run", **settings_of(2, 1)) as trainer:
        trainer.step(3)
    assert resume_training(tmp_path / "run", actors=1, console=False) == 0
    result = whorl.load(tmp_path / "run").result
    assert result.engine == "mpi"
    assert result.weights_sha256 == weights("inline", 1, 1)
