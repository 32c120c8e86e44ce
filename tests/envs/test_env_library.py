"""Every ``whorl/...`` environment does what its docstring says."""

import math
import os
import statistics
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.envs import library
from whorl.envs.library import slow
from whorl.envs.registry import make_env

WELL_BEHAVED = [
    "Slow", "Identity", "IdentityBox", "Chain", "Reach", "Cliff", "DelayedReward", "Recall", "Dict", "Image", "Catch",
    "Endless", "Empty",
    "Crash",
]  # fmt: skip


@pytest.mark.parametrize("name", WELL_BEHAVED)
def test_gymnasium_finds_no_fault(name: str) -> None:
    env = make_env(f"whorl/{name}-v0", {"step_time_s": 0.0} if name == "Slow" else {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(env.unwrapped, skip_render_check=True)
    env.close()


def test_the_catalogue_has_a_line_for_each() -> None:
    entries = library.catalogue()
    assert len(entries) == 25
    assert all(env_id.startswith("whorl/") and 20 < len(summary) < 120 for env_id, summary in entries)


def play(env, policy, episodes: int = 1, seed: int = 0) -> float:
    """Mean return of a policy ``(observation, memory) -> action``; memory is a dict per episode."""
    total = 0.0
    for episode in range(episodes):
        observation, _ = env.reset(seed=seed + episode)
        memory: dict = {}
        over = False
        while not over:
            observation, reward, terminated, truncated, _ = env.step(policy(observation, memory))
            total += reward
            over = terminated or truncated
    return total / episodes


def test_identity_chain_and_delayed_reward_pay_exactly() -> None:
    assert play(make_env("whorl/Identity-v0"), lambda o, m: o) == 10.0
    assert play(make_env("whorl/IdentityBox-v0"), lambda o, m: o) == 0.0
    assert play(make_env("whorl/IdentityBox-v0"), lambda o, m: -o) < -1.0
    assert play(make_env("whorl/Chain-v0", {"n": 6}), lambda o, m: 1) == 1.0
    assert play(make_env("whorl/Chain-v0"), lambda o, m: 0) == 0.0
    assert play(make_env("whorl/Reach-v0", {"n": 6}), lambda o, m: np.ones(1, np.float32)) == 1.0
    assert play(make_env("whorl/Reach-v0"), lambda o, m: -np.ones(1, np.float32)) == 0.0
    assert play(make_env("whorl/Cliff-v0"), lambda o, m: 1 - o % 2) == 1.0
    assert play(make_env("whorl/Cliff-v0"), lambda o, m: 1) == 0.0
    assert play(make_env("whorl/DelayedReward-v0"), lambda o, m: int(o[0] == 0)) == 1.0
    assert play(make_env("whorl/DelayedReward-v0"), lambda o, m: int(o[0] > 0)) == 0.0
    assert play(make_env("whorl/Dict-v0"), lambda o, m: o["pair"][1]) == 10.0


def test_images_show_the_quarter() -> None:
    def look(image, memory) -> int:
        row, column = np.argwhere(image[..., 0]).mean(axis=0) // 18
        return int(2 * row + column)

    assert play(make_env("whorl/Image-v0"), look, episodes=5) == 10.0

    def follow(image, memory):
        rows, columns = np.nonzero(image[:-4, :, 0])
        paddle = np.nonzero(image[-1, :, 0] == 128)[0].mean() // 4
        return 1 + int(np.sign(columns.mean() // 4 - paddle)) if len(rows) else 1

    assert play(make_env("whorl/Catch-v0"), follow, episodes=30) == 1.0
    assert play(make_env("whorl/Catch-v0"), lambda o, m: 0, episodes=300) < 0.0


@pytest.mark.parametrize(("cues", "delay"), [(2, 1), (2, 4), (3, 2)])
def test_recall_needs_memory(cues: int, delay: int) -> None:
    env = make_env("whorl/Recall-v0", {"cues": cues, "delay": delay})

    def remember(observation, memory) -> int:
        return memory.setdefault("cue", int(np.argmax(observation)))

    assert play(env, remember, episodes=20) == 1.0
    # All observations but the first are the same whatever the cue: a policy without memory must guess.
    later: dict[int, list[bytes]] = {}
    for seed in range(30):
        first, _ = env.reset(seed=seed)
        shown = [env.step(0)[0].tobytes() for _ in range(delay + 1)]
        assert later.setdefault(int(np.argmax(first)), shown) == shown
    assert len(later) == cues
    assert len({tuple(shown) for shown in later.values()}) == 1
    guesses = [play(env, lambda o, m, a=a: a, episodes=300) for a in range(cues)]
    assert sum(guesses) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("distribution", "cv", "expected_cv"),
    [
        ("constant", 0.5, 0.0),
        ("normal", 0.2, 0.2),
        ("lognormal", 1.0, 1.0),
        ("exponential", 9.0, 1.0),
        ("mixture", 1.42, 1.42),
    ],
)
def test_slow_draws_what_it_says(distribution: str, cv: float, expected_cv: float) -> None:
    env = make_env("whorl/Slow-v0", {"step_time_s": 2.0, "distribution": distribution, "cv": cv}).unwrapped
    env.reset(seed=5)
    drawn = [env.draw_duration() for _ in range(20_000)]
    assert statistics.mean(drawn) == pytest.approx(2.0, rel=0.06)
    assert statistics.pstdev(drawn) / 2.0 == pytest.approx(expected_cv, rel=0.12, abs=0.001)
    assert min(drawn) >= 0
    env.reset(seed=5)
    assert [env.draw_duration() for _ in range(100)] == drawn[:100]
    if distribution == "mixture":
        assert max(drawn) / min(drawn) == pytest.approx(10, rel=0.01)


def test_slow_draws_from_a_histogram(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    file.write_text("# seconds, weight\n0.5 3\n\n2.0, 1\n")
    env = make_env("whorl/Slow-v0", {"histogram": str(file)}).unwrapped
    env.reset(seed=1)
    drawn = [env.draw_duration() for _ in range(2000)]
    assert set(drawn) == {0.5, 2.0}
    assert 0.7 < drawn.count(0.5) / 2000 < 0.8
    file.write_text("0.5 many")
    with pytest.raises(ValueError, match=r"times\.txt:1: expected a duration"):
        slow.read_histogram(str(file))


def test_a_slow_step_ends_at_its_own_entry_plus_its_duration(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a clock of our own: lateness is not caught up, and what the step itself takes is part of it."""
    now, slept = [100.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    def tick() -> float:
        now[0] += 0.00001
        return now[0]

    monkeypatch.setattr(slow.time, "perf_counter", tick)
    monkeypatch.setattr(slow.time, "sleep", sleep)
    env = make_env("whorl/Slow-v0", {"step_time_s": 1.0}).unwrapped
    env.reset(seed=1)
    for _ in range(3):
        entered = now[0]
        env.step(0)
        assert now[0] - entered == pytest.approx(1.0, abs=0.0005)
        now[0] += 5.0  # late: the next step is not shorter for it
    assert len(slept) == 3


@pytest.mark.parametrize("work", ["sleep", "spin"])
def test_slow_takes_its_time(work: str) -> None:
    env = make_env("whorl/Slow-v0", {"step_time_s": 0.02, "work": work})
    env.reset(seed=1)
    started_s, cpu_s = time.perf_counter(), time.process_time()
    for _ in range(5):
        env.step(0)
    assert 0.1 <= time.perf_counter() - started_s < 5.0
    used_s = time.process_time() - cpu_s
    assert used_s < 0.05 if work == "sleep" else used_s > 0.0


def test_bad_arguments_are_refused_in_words() -> None:
    for env_id, kwargs, message in (
        ("whorl/Slow-v0", {"distribution": "gamma"}, "distribution must be one of constant"),
        ("whorl/Slow-v0", {"step_time_s": math.nan}, "step_time_s must be a finite"),
        ("whorl/Crash-v0", {"how": "softly"}, "how must be one of raise"),
        ("whorl/Recall-v0", {"delay": 0}, "delay must be at least 1"),
    ):
        with pytest.raises(Exception, match=message):
            make_env(env_id, kwargs)


def run_apart(how: str, env_id: str = "whorl/Crash-v0") -> subprocess.CompletedProcess[bytes]:
    code = (
        "from whorl.envs.registry import make_env\n"
        f"env = make_env({env_id!r}, {{'how': {how!r}, 'at': 3}})\n"
        "env.reset(seed=1)\n"
        "for n in range(5):\n"
        "    env.step(0); print(n, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=60, check=False)


@pytest.mark.parametrize(("how", "code"), [("kill", -9), ("segfault", -11), ("exit0", 0), ("exit", 3), ("raise", 1)])
def test_crash_ends_its_process_as_asked(how: str, code: int) -> None:
    ended = run_apart(how)
    assert (ended.returncode, ended.stdout) == (code, b"0\n1\n")


def test_crashes_come_again_at_the_same_step() -> None:
    def steps_until_crash(seed: int) -> int:
        env = make_env("whorl/Crash-v0", {"p": 0.2})
        env.reset(seed=seed)
        for step in range(8):
            try:
                env.step(step % 2)
            except RuntimeError:
                return step
        return -1

    crashed = [steps_until_crash(seed) for seed in range(12)]
    assert crashed == [steps_until_crash(seed) for seed in range(12)]
    assert len(set(crashed)) > 2


@pytest.mark.parametrize("how", ["sleep", "spin", "gil"])
def test_hang_lets_threads_run_unless_it_holds_the_lock(how: str) -> None:
    env = make_env("whorl/Hang-v0", {"how": how, "at": 2, "seconds": 0.3})
    env.reset(seed=1)
    env.step(0)
    ticks: list[float] = []
    stop = threading.Event()

    def tick() -> None:
        while not stop.wait(0.01):
            ticks.append(time.perf_counter())

    thread = threading.Thread(target=tick)
    thread.start()
    started_s = time.perf_counter()
    env.step(0)
    ended_s = time.perf_counter()
    stop.set()
    thread.join()
    assert ended_s - started_s >= 0.3
    during = sum(started_s + 0.05 < at < ended_s - 0.02 for at in ticks)
    assert during == 0 if how == "gil" else during > 0


def test_leaks_leak_and_close_gives_back() -> None:
    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    for how, count in (("threads", threading.active_count), ("descriptors", descriptors)):
        before = count()
        env = make_env("whorl/Leak-v0", {"how": how})
        env.reset(seed=1)
        for _ in range(7):
            env.step(0)
        assert count() == before + 7
        env.close()
        assert count() == before


def test_a_forked_child_ends_with_its_parent() -> None:
    code = (
        "import os; from whorl.envs.registry import make_env\n"
        "env = make_env('whorl/Leak-v0', {'how': 'fork'}); env.reset(seed=1)\n"
        "print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True); os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, timeout=60, check=True)
    child = int(ended.stdout)
    stop_s = time.monotonic() + 10
    while Path(f"/proc/{child}").exists() and time.monotonic() < stop_s:
        time.sleep(0.02)
    assert not Path(f"/proc/{child}").exists()


def test_reach_takes_as_many_largest_moves_as_its_distance_and_no_larger_ones() -> None:
    env = make_env("whorl/Reach-v0", {"n": 4})
    env.reset(seed=0)
    seen = [env.step(np.array([move], np.float32)) for move in (-1.0, 5.0, 0.5, 1.0, 1.0, 0.5)]
    assert [float(observation[0]) for observation, *_ in seen] == [0, 0.25, 0.375, 0.625, 0.875, 1]
    assert [(reward, terminated, truncated) for _, reward, terminated, truncated, _ in seen[-2:]] == [
        (0.0, False, False),
        (1.0, True, False),
    ]
    env.reset(seed=0)
    ends = [env.step(np.zeros(1, np.float32))[2:4] for _ in range(16)]
    assert ends == [(False, False)] * 15 + [(False, True)]
