"""The parts of a replay: its pace, its news, priorities by generation, what is saved of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from whorl.errors import CheckpointError
from whorl.job import Job
from whorl.learners.pieces import Pieces
from whorl.learners.replay.news import News, news_tally_layout
from whorl.learners.replay.pace import Pace
from whorl.learners.replay.rations import BatchForm, Rations, samples_per_insert
from whorl.learners.replay.store import Store, actors_of_store
from whorl.learners.tally import MAX_COUNTED_STALENESS, count_staleness
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords
from whorl.runs.checkpoint import CheckpointMeta, CheckpointWriter, SpoiltPieceError, load, load_latest
from whorl.trajectory.episodes import EpisodeEnd
from whorl.types import Arrays
from whorl.workflows.replay import _with_priorities
from whorl.workflows.wiring import layout_of_trajectories

SMALL = {
    "agent.rows": 4,
    "agent.n_step": 1,
    "agent.batch_size": 8,
    "agent.gradient_steps": 2,
    "agent.learning_starts": 0,
    "agent.replay.capacity": 60,
    "agent.replay.prioritised": True,
    "workflow.samples_per_insert": 2.0,
}


def job_of(more: dict[str, Any] | None = None, **flags: Any) -> Job:
    flags = {"actors": 2, "envs_per_actor": 2, **flags}
    keywords = {"workflow": "replay", "set": {**SMALL, **(more or {})}, **flags}
    return prepare(config_from_keywords("dqn", "CartPole-v1", keywords))


def trajectory_of(job: Job, number: int, priority: float = 1.0) -> Arrays:
    """Four rows of two lanes, whose rewards are 100 * number + row; the first lane's episode ends with the last row."""
    layout = _with_priorities(layout_of_trajectories(job), job.agent_spec, 2)
    out = layout.views(layout.allocate())
    out["valid"][:] = True
    out["first"][0] = number == 0
    out["reward"][:] = 100 * number + np.arange(4)[:, None]
    out["truncated"][3, 0] = True
    out["valid"][4, 0] = False
    out["number"][0] = number
    out["end/exact"][0] = True
    out["env_steps"][0] = 8
    out["priority"][:] = priority
    return out


def filled(job: Job, trajectories: int) -> Store:
    store = Store(job, 0, learners=1)
    for number in range(trajectories):
        store.insert(0, trajectory_of(job, number), 0)
    return store


def blank_batch(job: Job) -> Arrays:
    layout = BatchForm(job).layout
    return layout.views(layout.allocate())


def test_the_pace_lets_one_of_both_go_on_and_keeps_the_ratio() -> None:
    """10 env steps a trajectory, 4 samples for each, 8 in a batch, learning from env step 20 on."""
    pace = Pace(samples_per_insert=4.0, starts_at=20, draws=8)
    handed_out = []
    for _ in range(500):
        assert pace.may_insert != pace.may_draw
        if pace.may_draw:
            pace.drawn += 8
            handed_out.append(pace.inserted)
        else:
            pace.inserted += 10
        assert pace.inserted < 20 or 0 <= pace.owed < 8 + 4 * 10
    assert handed_out[:6] == [30, 30, 30, 30, 30, 40]  # 40 samples for 10 env steps
    assert pace.drawn == pytest.approx(4 * (pace.inserted - 20), abs=48)


def test_without_a_ratio_nobody_waits() -> None:
    pace = Pace(samples_per_insert=0.0, starts_at=20, draws=8)
    assert (pace.may_insert, pace.may_draw) == (True, False)
    pace.inserted = 20
    assert (pace.may_insert, pace.may_draw) == (True, True)


def test_the_ratio_is_that_of_sync_unless_set() -> None:
    """8 draws of 2 gradient steps come to 4 rows of 2 actors with 2 environments."""
    assert samples_per_insert(job_of({"workflow.samples_per_insert": None})) == 8 * 2 / (4 * 4)
    assert samples_per_insert(job_of()) == 2.0
    assert samples_per_insert(job_of({"workflow.samples_per_insert": 0.0})) == 0.0


@pytest.mark.parametrize(
    ("steps", "flags", "expected"),
    [
        (2, {}, Rations(share=8, gradient_steps=2, steps_per_batch=1, batches=2)),
        (2, {"learners": 2}, Rations(share=4, gradient_steps=2, steps_per_batch=1, batches=2)),
        (100, {}, Rations(share=8, gradient_steps=100, steps_per_batch=4, batches=25)),
        (33, {}, Rations(share=8, gradient_steps=33, steps_per_batch=2, batches=17)),
    ],
)
def test_an_update_takes_a_bounded_number_of_batches(steps: int, flags: dict[str, Any], expected: Rations) -> None:
    assert Rations.of(job_of({"agent.gradient_steps": steps}, **flags)) == expected


def test_actors_are_shared_out_over_replays() -> None:
    job = job_of({"workflow.replay_shards": 3, "agent.replay.capacity": 300}, actors=8)
    assert [list(actors_of_store(job, index)) for index in range(3)] == [[0, 1], [2, 3, 4], [5, 6, 7]]


def test_news_arrive_once_and_all_episodes_are_counted() -> None:
    news = News()
    news.counts["env_steps"] += 30
    news.staleness[2] += 30
    news.ended([EpisodeEnd(0, 0, float(i), i) for i in range(200)])
    layout = news_tally_layout(learners=2, metrics=0)
    tally = layout.views(layout.allocate())
    other = News()
    other.ended([EpisodeEnd(0, 0, 7.0, 9)])
    News.read(news.save(0)).write_tally(tally, 0)
    News.read(other.save(0)).write_tally(tally, 1)
    assert (tally["env_steps"][0], tally["episodes"][0], tally["staleness"][2]) == (30, 201, 30)
    assert tally["ended"].sum() == 128 + 1
    assert tally["episode_return"][:128, 0].tolist() == list(range(72, 200))  # the newest
    assert (tally["episode_return"][0, 1], tally["episode_length"][0, 1]) == (7.0, 9)


def test_a_batch_holds_rows_of_one_lane_and_their_returns() -> None:
    job = job_of({"agent.n_step": 2, "agent.discount": 0.5})
    store = filled(job, 2)
    batch = blank_batch(job)
    store.fill(batch, 0, 0)
    drawn = BatchForm(job).read(batch)
    number, row = np.divmod(drawn.transitions.reward, 100)
    assert set(drawn.transitions.discount.tolist()) <= {0.25, 0.5}
    # 0 + 0.5 * 1, 1 + 0.5 * 2, 2 + 0.5 * 3, and alone where the trajectory ends; 150 more for the second
    assert set(drawn.transitions.reward.tolist()) <= {0.5, 2.0, 3.5, 3.0, 150.5, 152.0, 153.5, 103.0}
    assert len(number) == len(row) == 8


def test_what_is_drawn_again_is_counted() -> None:
    job = job_of()
    store = filled(job, 1)  # 8 valid rows; the last two wait for a successor
    batch = blank_batch(job)
    total = 0
    for _ in range(3):
        store.fill(batch, 0, 0)
        total += News.read(batch).counts["reused"]
    assert 24 - 8 <= total <= 24 - 6


def test_what_is_drawn_again_after_a_resume_is_counted() -> None:
    job = job_of()
    store, again = filled(job, 1), Store(job, 0, learners=1)
    batch = blank_batch(job)
    for _ in range(10):  # 8 of 6 places each time: all have been drawn
        store.fill(batch, 0, 0)
    saved = {**store.save([0]), "ledger": store.saved_ledger()}
    again.load(saved)
    again.fill(batch, 0, 0)
    assert News.read(batch).counts["reused"] == 8
    del saved["replay-0-shard"]["drawn_before"]  # as older checkpoints
    Store(job, 0, learners=1).load(saved)


@pytest.mark.parametrize("versions", [[7, 7, 7], [5, 6, 7]])
def test_weights_that_are_newer_than_known_count_as_fresh(versions: list[int]) -> None:
    trajectory = {"version": np.array(versions), "valid": np.ones((4, 2), np.bool_)}
    counts = np.zeros(MAX_COUNTED_STALENESS + 1, np.int64)
    count_staleness(5, trajectory, 6, counts)
    assert (counts[0], counts.sum()) == (6, 6)


def test_initial_priorities_decide_what_is_drawn() -> None:
    job = job_of({"agent.replay.alpha": 1.0})
    store = Store(job, 0, learners=1)
    trajectory = trajectory_of(job, 0, priority=0.0)
    trajectory["priority"][2, 1] = 5.0  # row 2 of the second lane
    store.insert(0, trajectory, 0)
    batch = blank_batch(job)
    store.fill(batch, 0, 0)
    assert set(batch["indices"].tolist()) == {5 + 2}  # five rows of the first lane, the cut among them, come before it
    assert set(batch["drawn/reward"].tolist()) == {2.0}


def test_priorities_for_overwritten_entries_are_ignored_and_counted() -> None:
    """60 rows hold six trajectories; the first is overwritten by the seventh."""
    job = job_of({"agent.replay.alpha": 1.0})
    store = filled(job, 5)
    batch = blank_batch(job)
    store.fill(batch, 0, 0)
    message = {
        "count": np.array([3]),
        "indices": np.array([0, 1, 20, 99]),
        "generations": np.array([0, 0, 0, 0]),
        "errors": np.array([50.0, 60.0, 70.0, 99.0], np.float32),
    }
    for number in range(5, 8):
        store.insert(0, trajectory_of(job, number), 0)
    store.take_priorities(message)
    priorities = store._memory.save()["state"]["priorities"]
    assert priorities[[0, 1]].tolist() == pytest.approx([1.0, 1.0], abs=1e-5)  # of the new rows there
    assert priorities[20] == pytest.approx(70.0, abs=1e-5)
    store.fill(batch, 0, 0)
    assert News.read(batch).counts["late_priorities"] == 2


def test_what_no_learner_has_learnt_from_is_saved_as_if_never_drawn(tmp_path: Path) -> None:
    job = job_of()
    store = filled(job, 3)
    batches = [blank_batch(job) for _ in range(3)]
    store.fill(batches[0], 0, unreleased=0)
    store.insert(0, trajectory_of(job, 3), 0)
    store.fill(batches[1], 0, unreleased=1)
    store.fill(batches[2], 0, unreleased=2)
    store.insert(0, trajectory_of(job, 4), 0)
    heard = News.read(batches[0]).counts  # the learner has learnt from the first, and given it back
    pieces = {name: {key: np.array(array) for key, array in piece.items()} for name, piece in store.save([2]).items()}
    ledger = {name: np.array(array) for name, array in store.saved_ledger().items()}
    again = Store(job, 0, learners=1)
    again.load({**pieces, "ledger": ledger})
    assert again._pace.inserted == store._pace.inserted == 40
    assert again._pace.drawn == store._pace.drawn - 2 * 8
    assert again._news.counts["env_steps"] + heard["env_steps"] == 40
    assert again._news.counts["episodes"] + heard["episodes"] == 5
    assert again.ledgers[0].number == 5
    assert len(again._memory) == len(store._memory)
    assert again._memory.total_priority == store._memory.total_priority


def test_another_number_of_replays_is_refused() -> None:
    job = job_of()
    saved = filled(job, 2).save([0])
    other = Store(job_of({"workflow.replay_shards": 2, "agent.replay.capacity": 120}), 1, learners=1)
    with pytest.raises(CheckpointError, match="cannot go on with 2: put workflow"):
        other.load(saved)


def test_a_piece_is_taken_over_only_from_a_checkpoint_that_holds_it(tmp_path: Path) -> None:
    """A draft that never became a checkpoint leaves nothing to take over."""
    writer = CheckpointWriter(tmp_path, keep=3, token=1)
    pieces = Pieces()

    def save(update: int, value: float, stamp: int, newest: Path | None, commit: bool) -> Path | None:
        draft = writer.begin(update)
        message = {"draft": str(draft.path), "newest": str(newest or "")}
        content = {"part": {"stamp": np.array(stamp), "value": np.array([value])}}
        parts = pieces.write(content, message)
        if not commit:
            draft.discard()
            return newest
        return draft.commit(CheckpointMeta(update, tuple(parts)))

    first = save(1, 1.0, 10, None, commit=True)
    same = save(2, 2.0, 20, first, commit=False)
    assert save(3, 2.0, 20, same, commit=True) != first
    found = load_latest(tmp_path)
    assert found is not None
    assert found.arrays["part"]["value"].tolist() == [2.0]
    newest = save(4, -1.0, 20, found.path, commit=True)  # not written: its stamp says that it is the same
    assert newest is not None
    assert load_latest(tmp_path).arrays["part"]["value"].tolist() == [2.0]  # type: ignore[union-attr]


def test_a_piece_that_was_damaged_on_the_disk_does_not_become_part_of_another_checkpoint(tmp_path: Path) -> None:
    writer = CheckpointWriter(tmp_path, keep=3, token=1)
    pieces = Pieces()
    content = {"part": {"stamp": np.array(1), "value": np.array([1.0])}}

    def save(update: int, newest: Path | None) -> Path:
        draft = writer.begin(update)
        parts = pieces.write(content, {"draft": str(draft.path), "newest": str(newest or "")})
        return draft.commit(CheckpointMeta(update, tuple(parts)))

    first = save(1, None)
    second = save(2, first)
    assert (first / "part.safetensors").samefile(second / "part.safetensors")
    data = bytearray((second / "part.safetensors").read_bytes())
    data[-1] ^= 1
    (second / "part.safetensors").write_bytes(data)
    with pytest.raises(SpoiltPieceError, match=r"not saved: part\.safetensors is no longer what the checkpoint before"):
        save(3, second)
    third = save(3, None)
    assert load(third).arrays["part"]["value"].tolist() == [1.0]
    assert (third / "part.safetensors").samefile(save(4, third) / "part.safetensors")
