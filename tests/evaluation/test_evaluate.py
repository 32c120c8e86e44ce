"""Episodes with a trained policy: the same for a seed, on film, and one line when something is wrong."""

from __future__ import annotations

import shutil
import tracemalloc
from pathlib import Path
from typing import Any

import imageio.v3
import numpy as np
import pytest

from whorl.cli.main import main
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError
from whorl.evaluate import evaluate
from whorl.policy import RefusedObservation, TrainedPolicy
from whorl.prepare import prepare
from whorl.resolve import config_from_keywords

# imageio's reader, which only these tests use, leaves its pipes to the garbage collector.
reads_films = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def untrained(env: str, **kwargs: Any) -> TrainedPolicy:
    """A policy with random weights."""
    settings = {f"env.kwargs.{name}": value for name, value in kwargs.items()}
    job = prepare(config_from_keywords("ppo", env, {"engine": "inline", "set": settings}))
    buffer = job.agent_spec.weights.allocate()
    numbers = np.random.default_rng(3)
    for view in job.agent_spec.weights.views(buffer).values():
        view[...] = numbers.normal(0, 0.3, view.shape)
    return TrainedPolicy(job, buffer)


@pytest.fixture(scope="module")
def cartpole_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("runs") / "cartpole"
    assert main(["train", "ppo", "CartPole-v1", "--steps", "600", "--run-dir", str(run), "--quiet"]) == 0
    return run


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "LunarLander-v3"])
def test_a_seed_decides_the_episodes(env: str) -> None:
    policy = untrained(env)
    first = evaluate(policy, 3, seed=7)
    again, longer, other = evaluate(policy, 3, seed=7), evaluate(policy, 4, seed=7), evaluate(policy, 3, seed=8)
    assert (again.returns, again.lengths) == (first.returns, first.lengths)
    assert longer.returns[:3] == first.returns
    assert other.returns != first.returns
    assert len(set(first.returns)) == 3


def test_an_observation_that_is_a_number_is_acted_on() -> None:
    policy = untrained("CliffWalking-v1")
    assert policy.act(36) in range(4)
    assert policy.act(np.int64(36)) == policy.act(36)


@reads_films
@pytest.mark.parametrize(
    ("env", "size", "fps"),
    [("CartPole-v1", (400, 600), 50), ("Pendulum-v1", (500, 500), 30), ("LunarLander-v3", (400, 600), 50)],
)
def test_the_first_episode_is_filmed(tmp_path: Path, env: str, size: tuple[int, int], fps: int) -> None:
    evaluation = evaluate(untrained(env), 2, video=tmp_path / "video.mp4")
    frames = imageio.v3.imread(tmp_path / "video.mp4")
    assert frames.shape == (evaluation.lengths[0] + 1, *size, 3)
    assert imageio.v3.immeta(tmp_path / "video.mp4")["fps"] == fps
    assert np.abs(frames[0].astype(int) - frames[-1]).mean() > 0.5
    assert len(evaluation.returns) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["video.mp4"]


@reads_films
def test_a_setting_of_render_mode_does_not_hinder_filming(tmp_path: Path) -> None:
    evaluate(untrained("film_envs:Striped", render_mode="human"), 1, video=tmp_path / "video.mp4")
    frames = imageio.v3.imread(tmp_path / "video.mp4")
    assert frames.shape == (13, 64, 96, 3)  # of 65 x 97: the encoder takes even sizes only


@reads_films
def test_frames_do_not_pile_up(tmp_path: Path) -> None:
    policy = untrained("film_envs:Striped", length=600, size=[64, 96])
    evaluate(policy, 1, video=tmp_path / "warm-up.mp4")
    tracemalloc.start()
    try:
        evaluate(policy, 1, video=tmp_path / "video.mp4")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert imageio.v3.improps(tmp_path / "video.mp4").shape[1:] == (64, 96, 3)
    assert peak_bytes < 2_000_000  # all frames together are 11 MB


@pytest.mark.parametrize(
    ("env", "error", "message"),
    [
        ("film_envs:NeverRenders", BadInputError, "cannot be filmed: it offers no render_mode 'rgb_array'"),
        ("film_envs:Unclosable", BadInputError, "cannot be filmed: it offers no render_mode 'rgb_array'"),
        ("whorl/Identity-v0", BadInputError, "whorl/Identity-v0 cannot be filmed"),
        ("film_envs:Growing", EnvironmentFault, r"changed its size from \(67, 97, 3\) to \(69, 97, 3\)"),
        ("film_envs:Grey", EnvironmentFault, r"of \[height, width, 3\], and gave uint8 \(65, 97\)"),
        ("film_envs:Blind", EnvironmentFault, r"render\(\) failed: RuntimeError: no lamp"),
    ],
)
def test_what_cannot_be_filmed(tmp_path: Path, env: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        evaluate(untrained(env), 1, video=tmp_path / "video.mp4")
    assert list(tmp_path.iterdir()) == []


def test_the_packages_for_films_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = untrained("film_envs:Striped")
    monkeypatch.setitem(__import__("sys").modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=r"--video needs more packages: pip install 'whorl\[video\]'"):
        evaluate(policy, 1, video=tmp_path / "video.mp4")


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("raise", r"RuntimeError: out of fuel \(film_envs.py:\d+ in step\) \(env step 59 of evaluation episode 0\)"),
        ("observation", r"obs\[0\]: expected finite numbers, got nan \(env step 60 of evaluation episode 0\)"),
        ("reward", r"reward: expected one finite number, got nan \(env step 60 of evaluation episode 0\)"),
    ],
)
def test_an_environment_that_goes_wrong_is_one_line(how: str, message: str) -> None:
    with pytest.raises(EnvironmentFault, match=f"^film_envs:Raises: {message}$"):
        evaluate(untrained("film_envs:Raises", how=how), 1)


def test_the_policy_refuses_what_is_no_observation() -> None:
    policy = untrained("CartPole-v1")
    assert policy.act([0.0, 0.1, 0.0, -0.1]) in (0, 1)
    for wrong in ([0.0, 0.1], [0.0, 0.1, 0.0, float("nan")], "abcd"):
        with pytest.raises(RefusedObservation, match="expected"):
            policy.act(wrong)


def test_the_command(cartpole_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(cartpole_run), "--episodes", "3", "--video"]) == 0
    first = capsys.readouterr().out
    assert first.startswith("3 episodes: return mean ")
    assert first.splitlines()[1] == f"film: {cartpole_run / 'video.mp4'}"
    assert main(["eval", str(cartpole_run), "--episodes", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == first.splitlines()[:1]
    assert main(["eval", str(cartpole_run), "--episodes", "1"]) == 0
    assert capsys.readouterr().out.startswith("1 episode: ")


@pytest.mark.parametrize("episodes", ["0", "-3", "many", "1.5"])
def test_a_wrong_number_of_episodes(cartpole_run: Path, episodes: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", str(cartpole_run), f"--episodes={episodes}"]) == 2
    assert capsys.readouterr().err.startswith("whorl: error: --episodes: expected an integer, at least 1; got ")


def test_a_run_without_a_checkpoint(cartpole_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(cartpole_run, copy)
    shutil.rmtree(copy / "checkpoints")
    assert main(["eval", str(copy)]) == 1
    assert capsys.readouterr().err == f"whorl: error: {copy}: no checkpoint yet; `whorl resume {copy}` trains it\n"


def test_a_game_goes_on_after_the_loss_of_a_life() -> None:
    result = evaluate(untrained("film_envs:Lives"), 2)
    assert result.returns == [120, 120]
    assert result.lengths == [12, 12]


def test_what_the_environment_tells_of_its_episodes_is_reported() -> None:
    found = evaluate(untrained("whorl/Booster-v0", episode_ticks=40), 3)
    assert len(found.metrics["converged"]) == 3
    assert found.summary()["converged_mean"] == np.mean(found.metrics["converged"])
    assert 0 < found.summary()["converged_mean"] < 1
