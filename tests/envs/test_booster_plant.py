"""The Booster's plant: fixed before anything was trained on it, and calibrated to the published figures."""

import subprocess
import sys
import time

import numpy as np
import pytest

from whorl.config.schema import EnvConfig
from whorl.envs.library.booster import controllers, plant, signals
from whorl.envs.library.booster.controllers import FeedForward, Oracle, Regulator, Score, draw_lanes, regulate
from whorl.envs.library.booster.env import PAPER_CHANGES_A, QUANTILE_CHANGES_A
from whorl.envs.library.booster.form import BoosterForm

WARM_UP_TICKS = 20


@pytest.fixture(scope="module")
def drawn() -> np.ndarray:
    return draw_lanes(1200, WARM_UP_TICKS + 200, seed=7)


def score(controller: controllers.Controller, drawn: np.ndarray) -> Score:
    return Score.of(regulate(controller, drawn)[0][:, WARM_UP_TICKS:])


def test_the_plant_is_the_one_that_agents_were_trained_on() -> None:
    """A change here is another environment: give it another version, and every figure anew."""
    assert plant.fingerprint_of_constants() == "7bd4500bc2751fb856ca195ffd925f99f4040e38367255e7c646827f1fbbce1f"
    assert plant.fingerprint_of_trace() == "7268322e59587996c06c10ece20c7b26e628ae9f0c60bfd9e5a9e7cc5534d378"


def test_the_published_regulator_scores_as_published(drawn: np.ndarray) -> None:
    reached = score(Regulator(), drawn)
    assert reached.per_100_ticks == pytest.approx(-17.65, abs=0.15)
    assert reached.spread == pytest.approx(1.55, abs=0.1)
    assert 0.13 < reached.error < 0.18


def test_there_is_room_above_the_regulator(drawn: np.ndarray) -> None:
    published, tuned = score(Regulator(), drawn), score(_tuned(), drawn)
    forward, oracle = score(FeedForward(), drawn), score(Oracle(drawn), drawn)
    assert oracle.error < forward.error < tuned.error < published.error
    assert published.error / forward.error > 2
    assert oracle.error == pytest.approx(np.sqrt(2 / np.pi) * signals.MEASUREMENT_NOISE, rel=0.02)
    assert oracle.converged > forward.converged > 2 * published.converged > 0.5


def test_the_tuned_regulator_is_the_best_of_its_neighbours(drawn: np.ndarray) -> None:
    some = drawn[:300]
    best = score(_tuned(), some).error
    for alpha in (0.035, 0.1):
        assert best < score(Regulator(alpha, controllers.TUNED_GAMMA), some).error
    for gamma in (7.535e-5, 3e-3):
        assert best < score(Regulator(controllers.TUNED_ALPHA, gamma), some).error


def test_variables_keep_to_their_ranges(drawn: np.ndarray) -> None:
    errors, set_points = regulate(Regulator(), drawn)
    for values, (low, high) in (
        (errors, plant.IMINER_RANGE),
        (set_points, plant.VIMIN_RANGE),
        (drawn[..., signals.LINFRQ], signals.LINFRQ_RANGE),
        (drawn[..., signals.IB], signals.INJECTOR_RANGE),
        (drawn[..., signals.MDAT40], signals.INJECTOR_RANGE),
        (drawn[..., signals.B_VIMIN], signals.B_VIMIN_RANGE),
    ):
        assert low <= values.min() < values.max() <= high
    assert np.quantile(set_points, (0.025, 0.975)) == pytest.approx((103.38, 103.48), abs=0.01)
    assert plant.is_within_bounds(set_points, errors).all()


def noise_to_drift(values: np.ndarray) -> float:
    """Standard deviation within supercycles over that of their means, of [..., supercycles, ticks]."""
    means = values.mean(axis=-1, keepdims=True)
    return float((values - means).std() / means.std(axis=-2).mean())


def test_noise_and_drift_are_of_the_sizes_published() -> None:
    hour = draw_lanes(2, 60 * signals.SUPERCYCLE_TICKS, seed=5)
    for values in regulate(Regulator(), hour):
        assert 1.4 < noise_to_drift(values.reshape(2, 60, signals.SUPERCYCLE_TICKS)) < 5.5
    moments = draw_lanes(150, signals.SUPERCYCLE_TICKS, seed=6)  # of many days: these drift over hours
    assert 0.002 < noise_to_drift(moments[..., signals.LINFRQ]) < 0.1
    for channel in (signals.IB, signals.MDAT40):
        assert 145 < noise_to_drift(moments[..., channel]) < 236


def test_the_supercycle_falls_as_recorded() -> None:
    assert len(signals.PROGRAM) == signals.SUPERCYCLE_TICKS == 901
    falling = [7056.0, 7017.0, 6345.0, 5192.0, 4065.0]
    found = [k for k in range(897) if signals.PROGRAM[k : k + 5].tolist() == falling]
    assert len(found) == 42


def test_operators_move_as_often_as_they_did() -> None:
    moves = np.diff(draw_lanes(1, 400_000, seed=3)[0, :, signals.B_VIMIN])
    taken = np.abs(moves[moves != 0])
    assert len(taken) / 400_000 * 86_400 * 15 == pytest.approx(846, rel=0.15)
    assert taken == pytest.approx(0.004 * (103.4492 - 103.2815))


def test_action_sets() -> None:
    assert sorted(PAPER_CHANGES_A) == [-5e-3, -1e-3, -1e-4, 0.0, 1e-4, 1e-3, 5e-3]
    _, set_points = regulate(Regulator(), draw_lanes(400, 320, seed=7))
    changes = np.diff(set_points[:, WARM_UP_TICKS:])
    assert np.quantile(changes, (np.arange(30) + 0.5) / 30) == pytest.approx(QUANTILE_CHANGES_A, abs=5e-4)


def test_the_plant_answers_three_ticks_after_a_decision() -> None:
    row = np.zeros((1, signals.CHANNELS))
    row[:, signals.B_VIMIN] = 103.4
    state = plant.settled_state(row)
    errors = []
    for _ in range(40):
        state, error = plant.advance(state, np.array([103.41]), row)
        errors.append(float(error[0]))
    assert errors[:2] == pytest.approx([0.0, 0.0], abs=1e-9)
    assert errors[2] == pytest.approx(plant.GAIN * 0.01 * 0.8 * 0.6)
    assert errors[-1] == pytest.approx(plant.GAIN * 0.01)


def test_importing_whorl_leaves_the_booster_alone() -> None:
    code = "import sys, whorl, whorl.envs.vector, whorl.envs.probe; assert not any('booster' in m for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)}, timeout=60)


@pytest.mark.verify
def test_a_thousand_copies_make_a_million_ticks_a_second() -> None:
    """Resets included; the best of some tries, since others use this machine too."""
    lanes, ticks = 1024, 200
    form = BoosterForm(EnvConfig(id="whorl/Booster-v0"), [np.zeros((lanes, 51), np.float32)])
    actions = np.random.default_rng(0).integers(7, size=(ticks, lanes))
    tries_s = []
    for _ in range(20):
        started_s = time.perf_counter()
        form.restart({lane: lane for lane in range(lanes)})
        for row in actions:
            form.step(row, {})
        tries_s.append(time.perf_counter() - started_s)
    assert lanes * ticks / min(tries_s) > 1e6


def _tuned() -> Regulator:
    return Regulator(controllers.TUNED_ALPHA, controllers.TUNED_GAMMA)
