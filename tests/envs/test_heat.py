"""``whorl/Heat-v0``: the equation, what an episode is, and its baselines. On several ranks: tests/parallel."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.config.schema import EnvConfig
from whorl.envs.check import check_env
from whorl.envs.library.heat.controllers import FeedForward, Proportional, score
from whorl.envs.library.heat.env import Heat
from whorl.envs.library.heat.plate import DIFFUSION, HEATERS, LOSS, Episode, Plate, steady_responses
from whorl.envs.registry import make_env
from whorl.errors import BadInputError

ON = np.ones(HEATERS, np.float32)


def test_gymnasium_and_whorl_find_no_fault() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(Heat(render_mode="rgb_array"), skip_render_check=False)
    report = check_env(EnvConfig(id="whorl/Heat-v0"))
    assert report.is_good, report.lines()
    assert report.facts["deterministic"] is True
    assert report.facts["seeds_matter"] is True
    assert report.facts["restore"] == "snapshot (tried)"


def test_a_sine_decays_at_the_rate_of_the_discrete_equation() -> None:
    cells = 15
    plate = Plate(cells, 0, cells)
    wave = np.sin(np.arange(1, cells + 1) * np.pi / (cells + 1))
    plate.field[...] = np.outer(wave, wave)
    plate.advance()
    rate = 1 - 4 * DIFFUSION * (1 - np.cos(np.pi / (cells + 1))) - LOSS
    np.testing.assert_allclose(plate.field, rate * np.outer(wave, wave), atol=1e-15)


def test_steady_responses_stay_as_they_are() -> None:
    for heater, response in enumerate(steady_responses(12)):
        plate = Plate(12, 0, 12)
        plate.field[...] = response
        plate.heat(np.eye(HEATERS)[heater])
        plate.advance()
        np.testing.assert_allclose(plate.field, response, atol=1e-13)
        assert 0 < response.min() < response.max() < 1


@pytest.mark.parametrize("cut", [1, 5, 11])
def test_a_plate_in_two_parts_is_bit_for_bit_a_whole_one(cut: int) -> None:
    episode = Episode.draw(np.random.default_rng(1), steady_responses(12))
    whole, upper, lower = Plate(12, 0, 12), Plate(12, 0, cut), Plate(12, cut, 12)
    for plate in (whole, upper, lower):
        plate.begin(episode)
        plate.heat(np.linspace(-1, 1, HEATERS))
    for _ in range(5):
        upper.neighbours[3][...], lower.neighbours[0][...] = lower.neighbours[1], upper.neighbours[2]
        for plate in (whole, upper, lower):
            plate.advance()
    assert np.concatenate([upper.field, lower.field]).tobytes() == whole.field.tobytes()
    assert (
        np.concatenate([upper.squared_errors(), lower.squared_errors()]).tobytes() == whole.squared_errors().tobytes()
    )


def test_an_episode() -> None:
    env = Heat(episode_steps=3)
    observation, info = env.reset(seed=1)
    assert observation.shape == (40,)
    assert (observation[32:] == 0).all()
    ends = []
    for _ in range(3):
        observation, reward, terminated, truncated, info = env.step(ON)
        assert reward == -10 * info["error"]
        ends.append((terminated, truncated))
    assert ends == [(False, False), (False, False), (False, True)]
    np.testing.assert_allclose(observation[32:], 1 - 0.7**3, rtol=1e-6)
    assert info["final_error"] == pytest.approx(info["error"] ** 0.5)


def test_a_saved_state_has_the_same_future() -> None:
    env, other = Heat(), Heat()
    env.reset(seed=5)
    other.reset(seed=6)
    env.step(ON)
    other.set_state(env.get_state())
    for setting in (0.5, -0.5):
        one, two = env.step(setting * ON), other.step(setting * ON)
        assert one[0].tobytes() == two[0].tobytes()
        assert one[1] == two[1]
    assert env.reset()[0].tobytes() == other.reset()[0].tobytes()


def test_what_the_baselines_reach() -> None:
    """Five episodes each; `python -m whorl.envs.library.heat` takes 200."""
    env = Heat()
    returns = [score(controller, 5, 0, env).returns for controller in (None, Proportional(), FeedForward(env))]
    assert returns == pytest.approx([-78.1, -6.97, -4.31], rel=0.005)


def test_one_rank_does_not_import_mpi() -> None:
    making = "import sys, whorl.envs.registry as r; r.make_env('whorl/Heat-v0').reset(seed=1)"
    program = f"{making}; print('mpi4py' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout == "False\n"


@pytest.mark.parametrize("kwargs", [{"cells": 4}, {"cells": 8.5}, {"episode_steps": 0}])
def test_bad_arguments_are_refused(kwargs: dict[str, object]) -> None:
    with pytest.raises(BadInputError, match=next(iter(kwargs))):
        make_env("whorl/Heat-v0", kwargs)
