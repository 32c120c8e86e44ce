"""One config, one result: run again, split otherwise, on the other engine, with the shards shared out otherwise."""

from __future__ import annotations

import pytest

from .conftest import EVERYTHING, Hasher

SPLITS = (
    {"engine": "inline", "actors": 2, "envs_per_actor": 4},
    {"engine": "local", "actors": 1, "envs_per_actor": 8},
    {"engine": "local", "actors": 4, "envs_per_actor": 2},
)
LONG_SPLITS = (
    {"engine": "inline", "actors": 1, "envs_per_actor": 8},
    *({"engine": "local", "actors": actors, "envs_per_actor": 8 // actors} for actors in (1, 2, 4)),
)
PAIRS = [
    ("ppo", "CartPole-v1"),
    ("lstm ppo", "Pendulum-v1"),
    ("a2c", "LunarLander-v3"),
    ("dqn", "CartPole-v1"),
    ("lstm dqn", "CartPole-v1"),
    ("ddpg", "Pendulum-v1"),
    ("td3", "Pendulum-v1"),
    ("sac", "Pendulum-v1"),
    ("impala", "Pendulum-v1"),
]


def check_splits(final_hash: Hasher, kind: str, env: str, steps: int, splits: tuple[dict, ...], workflow: str) -> None:
    reference = final_hash(kind, env, steps=steps, workflow=workflow)
    for split in splits:
        assert final_hash(kind, env, steps=steps, workflow=workflow, **split) == reference, split


def check_learners(final_hash: Hasher, kind: str, env: str, steps: int, workflow: str) -> None:
    shards = {"resources.shards": 2, "actors": 2, "envs_per_actor": 4}
    reference = final_hash(kind, env, steps=steps, workflow=workflow, **shards)
    for engine in ("inline", "local") if steps < 50_000 else ("local",):
        assert final_hash(kind, env, steps=steps, workflow=workflow, engine=engine, learners=2, **shards) == reference


@pytest.mark.parametrize(("kind", "env"), PAIRS)
def test_the_split_over_actors_and_the_engine_do_not_matter(final_hash: Hasher, kind: str, env: str) -> None:
    check_splits(final_hash, kind, env, 3000, SPLITS, "sync")


def test_overlap_is_exact_and_another_result_than_sync(final_hash: Hasher) -> None:
    check_splits(final_hash, "ppo", "CartPole-v1", 3000, SPLITS, "overlap")
    sync, overlap = (final_hash("ppo", "CartPole-v1", steps=3000, workflow=name) for name in ("sync", "overlap"))
    assert sync != overlap


@pytest.mark.parametrize(("kind", "env"), PAIRS)
def test_learners_share_out_shards_without_changing_the_result(final_hash: Hasher, kind: str, env: str) -> None:
    check_learners(final_hash, kind, env, 2000, "sync")


def test_another_seed_is_another_result(final_hash: Hasher) -> None:
    assert final_hash("ppo", "CartPole-v1", steps=1000) != final_hash("ppo", "CartPole-v1", steps=1000, seed=8)


@pytest.mark.parametrize("restore", ["replay", "none"])
@pytest.mark.parametrize("hosting", ["inside", "process"])
def test_where_environments_live_does_not_matter(final_hash: Hasher, hosting: str, restore: str) -> None:
    settings = {"env.hosting": hosting, "env.restore": restore}
    hosted = final_hash("ppo", "Pendulum-v1", steps=1500, engine="local", **settings)
    assert hosted == final_hash("ppo", "Pendulum-v1", steps=1500)


def test_normalising_observations_and_rewards_is_exact(final_hash: Hasher) -> None:
    normalised = {"agent.normalise_observations": True, "agent.normalise_rewards": True}
    reference = final_hash("ppo", "Pendulum-v1", steps=3000, **normalised)
    assert (
        final_hash("ppo", "Pendulum-v1", steps=3000, engine="local", actors=4, envs_per_actor=2, **normalised)
        == reference
    )


@pytest.mark.verify
@pytest.mark.parametrize("workflow", ["sync", "overlap"])
@pytest.mark.parametrize(("kind", "env"), EVERYTHING)
def test_everything_at_length(final_hash: Hasher, kind: str, env: str, workflow: str) -> None:
    check_splits(final_hash, kind, env, 50_000, LONG_SPLITS, workflow)
    check_learners(final_hash, kind, env, 50_000, workflow)
