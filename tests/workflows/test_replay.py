"""``replay``: every agent with a memory, everything accounted for, nobody runs away, and what dies comes back."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

import whorl
from accounts import check_account
from whorl.engines.contract import RoleId
from whorl.engines.waits import TURN
from whorl.errors import CheckpointError, ConfigError
from whorl.learners.replay.learner import ReplayLearner
from whorl.learners.replay.news import News
from whorl.ops.keys import reset_seed
from whorl.runs.checkpoint import find_checkpoints, load, load_latest
from whorl.runs.result import Result
from whorl.session import Session
from whorl.trainer import resume_training

SMALL = {
    "agent.network.hidden": (16,),
    "agent.rows": 8,
    "agent.learning_starts": 200,
    "agent.batch_size": 32,
    "agent.gradient_steps": 4,
    "agent.replay.capacity": 2000,
    "run.checkpoint_every_s": 1000.0,
}
PRIORITISED = {"agent.replay.prioritised": True}
LSTM = {"agent.network.core": "lstm", "agent.network.lstm_size": 8}
JOBS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "dqn": ("dqn", "CartPole-v1", {**PRIORITISED, "agent.n_step": 3, "agent.dueling": True}),
    "uniform dqn": ("dqn", "CartPole-v1", {}),
    "lstm dqn": ("dqn", "CartPole-v1", {**PRIORITISED, **LSTM, "agent.burn_in": 2}),
    "uniform lstm dqn": ("dqn", "CartPole-v1", {**LSTM, "agent.n_step": 2}),
    "ddpg": ("ddpg", "Pendulum-v1", {**PRIORITISED, "agent.noise.kind": "ou"}),
    "td3": ("td3", "Pendulum-v1", {**PRIORITISED, "agent.gradient_steps": 0}),
    "uniform td3": ("td3", "Pendulum-v1", {"agent.gradient_steps": 0, "agent.n_step": 2}),
    "sac": ("sac", "Pendulum-v1", PRIORITISED),
    "uniform sac": ("sac", "Pendulum-v1", {}),
}
KEYWORDS: dict[str, Any] = {"workflow": "replay", "engine": "local", "actors": 2, "envs_per_actor": 2, "steps": 1200}


def settings_of(job: str, more: dict[str, Any] | None = None) -> dict[str, Any]:
    return {**SMALL, **JOBS[job][2], **(more or {})}


def checked(result: Result) -> Result:
    assert result.status == "completed"
    assert not result.exact
    assert result.transitions.balanced
    assert min(vars(result.transitions).values()) >= 0
    assert result.transitions.used == result.env_steps >= 1200
    assert result.transitions.dropped == 0
    return result


def train(folder: Path, job: str = "dqn", *, more: dict[str, Any] | None = None, **flags: Any) -> Result:
    agent, env, _ = JOBS[job]
    run = whorl.train(agent, env, run_dir=folder / "run", set=settings_of(job, more), **{**KEYWORDS, **flags})
    return checked(run.result)


def metrics_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("job", JOBS)
def test_every_agent_with_a_memory_runs(tmp_path: Path, job: str) -> None:
    engine = "inline" if list(JOBS).index(job) % 2 else "local"
    result = train(tmp_path, job, engine=engine)
    assert result.episodes > 0
    assert result.transitions.lost == 0
    assert result.transitions.reused > 0
    assert {"learner", "actor", "replay"} <= result.time_share.keys()


def test_agents_of_others_run_whatever_their_settings_are_called(tmp_path: Path) -> None:
    flags = {**KEYWORDS, "engine": "inline"}
    checked(whorl.train("plugged_agent:AGENT", "CartPole-v1", run_dir=tmp_path / "run", **flags).result)
    with pytest.raises(ConfigError, match=r"needs Agent\.memory, AgentSpec\.draws .* draw_from: use --workflow async"):
        whorl.train("plugged_agent:HIDES_MEMORY", "CartPole-v1", run_dir=tmp_path / "other", **flags)


@pytest.mark.parametrize("job", ["dqn", "uniform sac"])
def test_several_replays_and_learners_share_the_work(tmp_path: Path, job: str) -> None:
    result = train(tmp_path, job, actors=4, learners=2, more={"workflow.replay_shards": 3})
    assert result.resources["replay"]["bytes_sent"] > 0
    assert 14 <= result.updates <= 18  # 4 gradient steps for 8 rows of 8 environments, after the first 200


@pytest.mark.parametrize("wanted", [0.5, 4.0])
def test_samples_per_insert_are_kept(tmp_path: Path, wanted: float) -> None:
    """Draws of each update, over the env steps that learners know of: within a batch, a trajectory and the prefetch."""
    result = train(tmp_path, more={"workflow.samples_per_insert": wanted, "workflow.replay_shards": 1})
    drawn, allowed = result.updates * 4 * 32, wanted * (result.env_steps - 200)
    worth_of_a_trajectory = wanted * 8 * 2
    assert drawn <= allowed + 32
    assert drawn >= allowed - 32 - worth_of_a_trajectory - 8 * 32  # the prefetch: two updates of four batches


def test_a_slow_learner_holds_the_actors_back_and_slow_actors_the_learner(tmp_path: Path) -> None:
    """Nobody runs away though one side could go hundreds of times faster; and waiting takes no CPU."""
    slow = {"env.kwargs.env": "CartPole-v1", "env.kwargs.step_time_s": 0.004, "env.hosting": "inside"}
    run = whorl.train(
        "dqn", "whorl/Slow-v0", run_dir=tmp_path / "slow", set=settings_of("dqn", slow), **{**KEYWORDS, "steps": 600}
    )
    check_account(run.path)
    assert run.result.updates <= (run.result.env_steps - 200) / (8 * 4) + 1
    assert run.result.resources["replay"]["cpu_share"] < 0.5
    result = train(tmp_path, more={"agent.gradient_steps": 16})
    assert result.transitions.in_flight < 600


def test_without_a_limit_actors_do_not_wait(tmp_path: Path) -> None:
    result = train(tmp_path, more={"workflow.samples_per_insert": 0.0, "agent.gradient_steps": 64}, steps=3000)
    assert result.updates * 32 * 64 / result.env_steps < 64 * 32 / (8 * 4)


def test_staleness_is_that_of_what_is_taken_in(tmp_path: Path) -> None:
    result = train(tmp_path, engine="inline")
    assert result.staleness.mean is not None
    assert 0 < result.staleness.mean <= result.staleness.max < 20


def test_priorities_of_overwritten_entries_are_counted(tmp_path: Path) -> None:
    """A memory that is overwritten many times while batches wait."""
    tiny = {"agent.replay.capacity": 200, "agent.learning_starts": 100, "workflow.samples_per_insert": 0.5}
    train(tmp_path, engine="inline", more=tiny, steps=3000)
    last = metrics_of(tmp_path)[-1]
    assert last["late_priorities"] > 0
    assert last["reused"] > 0


def test_a_lost_actor_is_replaced_and_a_lost_replay_or_learner_goes_on_from_the_checkpoint(tmp_path: Path) -> None:
    agent, env, _ = JOBS["dqn"]
    settings = settings_of("dqn", {"run.checkpoint_every_s": 0.0, "workflow.replay_shards": 2})
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings, **{**KEYWORDS, "steps": 2500}) as trainer:
        for victim in (("actor", 1), ("replay", 1), ("actor", 0), ("learner", 0)):
            trainer.step(8)
            os.kill(trainer._session.cluster.pids[RoleId(*victim)], signal.SIGKILL)
        while not trainer.done:
            trainer.step(10)
    result = checked(whorl.load(tmp_path / "run").result)
    assert (result.restarts["replay"], result.restarts["learner"]) == (1, 1)
    assert result.restarts["actor"] >= 2
    updates = [line["update"] for line in metrics_of(tmp_path)]
    assert updates == sorted(set(updates))


def test_actors_may_be_lost_before_their_replay_knows_where_to_begin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_session = Session.open

    def kill_and_open(self: Session) -> None:
        for actor in range(2):
            os.kill(self.cluster.pids[RoleId("actor", actor)], signal.SIGKILL)
        open_session(self)

    monkeypatch.setattr(Session, "open", kill_and_open)
    agent, env, _ = JOBS["uniform dqn"]
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings_of("uniform dqn"), **KEYWORDS) as trainer:
        trainer.step(10**9)
    result = checked(whorl.load(tmp_path / "run").result)
    assert (result.restarts["actor"], result.transitions.lost) == (2, 0)


@pytest.mark.parametrize("fault", ["actor:1:env_step=60:kill", "replay:0:insert=40:raise", "replay:1:insert=30:stop"])
def test_faults_are_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    monkeypatch.setenv("WHORL_FAULT", fault)
    kind = fault.partition(":")[0]
    result = train(
        tmp_path,
        more={"run.checkpoint_every_s": 0.0, "workflow.replay_shards": 2, "engine.response_s": 1.0},
    )
    assert result.restarts[kind] >= 1


@pytest.mark.parametrize("job", ["dqn", "uniform lstm dqn"])
def test_a_stopped_run_goes_on_with_its_memory_also_with_other_actors(tmp_path: Path, job: str) -> None:
    agent, env, _ = JOBS[job]
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings_of(job), **KEYWORDS) as trainer:
        trainer.step(6)
        trainer.save()
        trainer.step(3)
        env_steps = trainer.env_steps
    assert 200 < env_steps < 1200
    assert resume_training(tmp_path / "run", console=False, actors=4) == 0
    checked(whorl.load(tmp_path / "run").result)
    lines = metrics_of(tmp_path)
    assert [line["update"] for line in lines] == sorted({line["update"] for line in lines})
    # The memory was there: the resumed run learnt at once, and did not wait for learning_starts again.
    resumed = next(line for line in lines if line["update"] == 10)
    assert resumed["env_steps"] - env_steps < 150


def flip_a_bit(checkpoint: Path) -> None:
    """In the oldest rows, which no later save writes again."""
    path = checkpoint / "replay-0-rows-000.safetensors"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_rows_that_were_damaged_on_the_disk_are_written_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next save says so, and the one after it, or the same one where it is the last, takes nothing over."""
    monkeypatch.setattr("whorl.replay.rows.SEGMENT_BYTES", 2048)
    agent, env, _ = JOBS["dqn"]
    flags = {**KEYWORDS, "engine": "inline"}
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings_of("dqn"), **flags) as trainer:
        trainer.step(6)
        flip_a_bit(trainer.save())
        trainer.step()
        with pytest.raises(CheckpointError, match=r"replay-0-rows-000\.safetensors is no longer what"):
            trainer.save()
        flip_a_bit(trainer.save())
        trainer.step()
    result = whorl.load(tmp_path / "run").result
    assert (result.status, result.failed_saves) == ("stopped", 2)
    newest = load_latest(tmp_path / "run" / "checkpoints")
    assert newest is not None
    assert (newest.update, newest.warnings) == (8, [])


IN_FLIGHT = 300
"""Env steps at most that are under way in these small runs: in slots, in batches that wait, in what is being filled."""


def fill_memory(trainer: whorl.Trainer, env_steps: int) -> None:
    """Let the actors collect, though the run may not go on to the first update."""
    session = trainer._session
    session.run(lambda: session.cluster.counted("actor") >= env_steps, timeout_s=30)


def test_what_learners_had_not_heard_of_is_in_the_account_of_a_resumed_run(tmp_path: Path) -> None:
    agent, env, _ = JOBS["dqn"]
    settings = settings_of("dqn", {"agent.learning_starts": 600})
    flags = {**KEYWORDS, "engine": "inline"}
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings, **flags) as trainer:
        fill_memory(trainer, 500)
    stopped = whorl.load(tmp_path / "run").result
    assert (stopped.updates, stopped.env_steps) == (0, 0)
    assert resume_training(tmp_path / "run", console=False) == 0
    transitions = checked(whorl.load(tmp_path / "run").result).transitions
    assert transitions.lost == 0
    assert transitions.in_flight <= IN_FLIGHT


def test_what_learners_had_not_heard_of_is_not_lost_with_one_of_them(tmp_path: Path) -> None:
    agent, env, _ = JOBS["dqn"]
    settings = settings_of("dqn", {"agent.learning_starts": 600})
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings, **KEYWORDS) as trainer:
        fill_memory(trainer, 500)
        trainer.save()
        os.kill(trainer._session.cluster.pids[RoleId("learner", 0)], signal.SIGKILL)
        trainer.step(10**9)
    result = checked(whorl.load(tmp_path / "run").result)
    assert result.restarts["learner"] == 1
    assert result.transitions.lost <= IN_FLIGHT
    assert result.transitions.in_flight <= IN_FLIGHT


@pytest.mark.parametrize("every_s", [0.0, 1000.0])
def test_no_save_comes_before_all_learners_have_given_their_batches_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_s: float
) -> None:
    """What replays have taken in is what learners have counted, and what they have not heard of: nothing twice."""
    write_back = ReplayLearner._write_back

    def dawdle(self: ReplayLearner) -> Generator[Any, None, None]:
        for _ in range(20 * self.rank):
            yield TURN
        yield from write_back(self)

    monkeypatch.setattr(ReplayLearner, "_write_back", dawdle)
    more = {"run.checkpoint_every_s": every_s, "run.keep_checkpoints": 100, "workflow.replay_shards": 2}
    train(tmp_path, engine="inline", learners=2, more=more)
    for found in find_checkpoints(tmp_path / "run" / "checkpoints"):
        checkpoint = load(found.path)
        stores = [checkpoint.arrays[f"replay-{index}-shard"] for index in range(2)]
        untold = sum(News.read(store).counts["env_steps"] for store in stores)
        counts = checkpoint.values["state"]
        assert counts["untold_env_steps"] == untold
        assert sum(int(store["inserted"]) for store in stores) == counts["env_steps"] + untold


def test_a_signal_saves_and_the_run_goes_on(tmp_path: Path) -> None:
    """SIGTERM to every process, as a batch system sends it."""
    words = [word for name, value in settings_of("td3").items() for word in ("--set", f"{name}={json.dumps(value)}")]
    command = [sys.executable, "-m", "whorl", "train", "td3", "Pendulum-v1", "--workflow", "replay", "--actors", "2"]
    command += ["--envs-per-actor", "2", "--steps", "100000", "--run-dir", str(tmp_path / "run"), *words]
    source = str(Path(whorl.__file__).parents[1])
    environ = {**os.environ, "PYTHONPATH": source}
    metrics = tmp_path / "run" / "metrics.jsonl"
    with subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL, start_new_session=True) as process:
        end = time.monotonic() + 60
        while time.monotonic() < end and not (metrics.exists() and metrics.stat().st_size):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)
        assert process.wait(timeout=20) == 75
    preempted = whorl.load(tmp_path / "run").result
    assert preempted.status == "preempted"
    check_account(tmp_path / "run")
    assert resume_training(tmp_path / "run", console=False, steps=preempted.env_steps + 200) == 0
    assert 0 <= whorl.load(tmp_path / "run").result.transitions.in_flight <= 2 * IN_FLIGHT


@pytest.mark.parametrize("engine", ["inline", "local"])
def test_actors_come_and_go(tmp_path: Path, engine: str) -> None:
    """All but one of each replay's."""
    result = train(
        tmp_path, actors=4, engine=engine, actors_schedule="0:3,500:2,800:4", more={"workflow.replay_shards": 2}
    )
    assert result.transitions.lost == 0
    assert result.restarts["actor"] == 0


def test_a_slow_environment_holds_up_nobody(tmp_path: Path) -> None:
    """Each lane has trajectories and an epsilon of its own, and says how surprising they were."""
    slow = {"env.kwargs.slow_seeds": [reset_seed(3, 1, 0)], "env.hosting": "process", "agent.rows": 4}
    run = whorl.train(
        "dqn",
        "uneven_env:Uneven-v0",
        run_dir=tmp_path / "run",
        set=settings_of("dqn", {**slow, "agent.learning_starts": 50}),
        **{**KEYWORDS, "actors": 1, "envs_per_actor": 4, "steps": 400, "seed": 3},
    )
    assert run.status == "completed"
    check_account(run.path)
    checkpoint = load_latest(tmp_path / "run" / "checkpoints")
    assert checkpoint is not None
    slowest, *others = sorted(checkpoint.arrays["ledger"]["number"].tolist())
    assert min(others) > 3 * slowest


def test_apex_is_a_name_for_it(tmp_path: Path) -> None:
    run = whorl.train("apex", "Acrobot-v1", run_dir=tmp_path / "run", steps=300, engine="inline", set=SMALL)
    assert (run.result.agent, run.result.workflow) == ("dqn", "replay")
    config = (tmp_path / "run" / "config.toml").read_text()
    assert all(
        line in config for line in ("epsilon_end = 0.4", "n_step = 3", "prioritised = true", "replay_shards = 1")
    )


@pytest.mark.parametrize(
    ("agent", "settings", "flags", "says"),
    [
        ("ppo", {}, {}, "use dqn, ddpg, td3 or sac, or --workflow sync"),
        ("impala", {}, {}, "use dqn, ddpg, td3 or sac"),
        ("dqn", {"workflow.replay_shards": 3}, {}, "each replay has actors of its own, and there are 2: use at most 2"),
        ("dqn", {"agent.replay.capacity": 39, "agent.learning_starts": 10}, {}, "use a capacity of at least"),
        ("dqn", {"workflow.max_staleness": 3}, {}, "max_staleness means nothing in replay"),
        ("dqn", {"workflow.trajectories_per_update": 2}, {}, "trajectories_per_update means nothing in replay"),
        ("dqn", {"workflow.samples_per_insert": -1.0}, {}, "samples_per_insert"),
        ("dqn", {"run.record_schedule": True}, {}, "replay has no schedule to record"),
        ("dqn", {"workflow.replay_shards": 1}, {"workflow": "async"}, "replay_shards means nothing in async"),
        ("dqn", {**LSTM, "agent.burn_in": 8}, {}, "must be shorter than agent.rows = 8"),
        (
            "dqn",
            {"agent.batch_size": 33},
            {"learners": 2},
            "evenly over 2 shards: use a multiple such as 32",
        ),
    ],
)
def test_what_cannot_work_is_refused(
    tmp_path: Path, agent: str, settings: dict[str, Any], flags: dict[str, Any], says: str
) -> None:
    small = SMALL if agent == "dqn" else {}
    with pytest.raises(ConfigError, match=says):
        whorl.train(agent, "CartPole-v1", run_dir=tmp_path / "run", set={**small, **settings}, **{**KEYWORDS, **flags})
    assert not (tmp_path / "run").exists()


def test_replays_and_light_actors_import_no_torch(tmp_path: Path) -> None:
    agent, env, _ = JOBS["dqn"]
    with whorl.Trainer(agent, env, run_dir=tmp_path / "run", set=settings_of("dqn"), **KEYWORDS) as trainer:
        trainer.step(2)
        pids = trainer._session.cluster.pids
        for role in (("actor", 0), ("replay", 0)):
            assert "libtorch" not in Path(f"/proc/{pids[RoleId(*role)]}/maps").read_text()
