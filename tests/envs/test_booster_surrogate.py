"""The Booster learnt from records, which the plant makes up: the loader, the fit, and episodes on what was fitted."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env as gymnasium_check

import whorl
from whorl.cli.main import main
from whorl.config.schema import EnvConfig
from whorl.envs.check import check_env
from whorl.envs.library.booster.records import VARIABLES, read_records, write_synthetic
from whorl.envs.library.booster.surrogate import load_surrogate, shapes_of
from whorl.envs.registry import make_env
from whorl.errors import BadInputError
from whorl.fitting import FitSettings, _Network, fit_surrogate

TICKS, LOOK_BACK = 12_000, 12


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("booster") / "records.csv"
    write_synthetic(path, TICKS, seed=5)
    return path


@pytest.fixture(scope="module")
def fitted(records: Path) -> Path:
    """By the command, with a small network."""
    small = ["--hidden", "32,16", "--look-back", str(LOOK_BACK), "--epochs", "15"]
    assert main(["booster", "fit", str(records), "--quiet", *small]) == 0
    return records.with_suffix(".safetensors")


def test_records_come_back_as_they_were_written(records: Path) -> None:
    read = read_records(records, 10**6)
    assert read.values.shape == (TICKS, 6)
    assert read.stretches.tolist() == [[0, TICKS]]
    rows = [line.split(",") for line in records.read_text().splitlines()]
    assert rows[0] == ["time", *VARIABLES, "B_VIMIN"]
    assert read.values[41].tolist() == [float(text) for text in rows[42][1:]]
    assert read_records(records, 100).values.shape == (100, 6)


def test_gaps_cut_the_series_and_bad_rows_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "records.csv"
    head = "I:IB,extra,time,B:LINFRQ,B:VIMIN,B:IMINER,I:MDAT40"
    times_s = [0, 0.07, 0.13, 0.2, 5.0, 5.07, 5.13, 3.0]
    rows = [f"{k},x,{time_s},-2,103.4,0.1,7" for k, time_s in enumerate(times_s)]
    rows[1] = "1,x,0.07,-2,,0.1,7"
    rows[2] = "2,x,0.13,-2,inf,0.1,7"
    rows.insert(4, rows[3])
    path.write_text("\n".join([head, *rows]) + "\n")
    read = read_records(path, 100)
    assert read.values[:, 3].tolist() == [0, 3, 4, 5, 6, 7]
    assert read.stretches.tolist() == [[0, 2], [2, 5], [5, 6]]
    assert read.starts(2).tolist() == [0, 2, 3]
    assert read.starts(9).tolist() == []
    assert read.newest(2).stretches.tolist() == [[0, 1], [1, 2]]
    assert read.values[0, 5] == pytest.approx(103.4 - 0.065), "who has no B_VIMIN gets a constant one"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column B:VIMIN, B:IMINER, B:LINFRQ, I:IB, I:MDAT40"),
        ("time,B:VIMIN,B:IMINER,B:LINFRQ,I:IB\n", "has no column I:MDAT40"),
        ("B:VIMIN,B:IMINER,B:LINFRQ,I:IB,I:MDAT40\n", "has no complete row"),
        ("B:VIMIN,B:IMINER,B:LINFRQ,I:IB,I:MDAT40\n1,2,3,4,five\n", "line 2: expected a number, got 'five'"),
        ("time,B:VIMIN,B:IMINER,B:LINFRQ,I:IB,I:MDAT40\nnoon,1,2,3,4,5\n", "line 2: time must be seconds or like"),
        ("B:VIMIN,B:IMINER,B:LINFRQ,I:IB,I:MDAT40\n1,2,3,4,5\n", "1 ticks of records are too few"),
        ("\x00\xff" * 100_000, "is no CSV file"),
    ],
)
def test_bad_records_are_one_line_and_exit_code_2(
    text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "records.csv"
    path.write_bytes(text.encode("latin-1"))
    assert main(["booster", "fit", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit", "missing.csv"], "missing.csv: cannot be read: No such file or directory"),
        (["fit", "."], "cannot be read: Is a directory"),
        (["fit", "a.csv", "b.csv"], "whorl booster fit takes one file; got 2"),
        (["fit", "a.csv", "-o", "b.h5"], "--out: expected a name that ends in .safetensors"),
        (["fit", "a.csv", "--hidden", "32,x"], "--hidden: expected an integer"),
        (["bake", "a.csv"], "whorl booster: expected one of compare, fit, records; got 'bake'"),
        (["records", "missing/a.csv"], "missing/a.csv: cannot be written: No such file or directory"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["booster", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_published_network_has_the_published_size() -> None:
    shapes = shapes_of(150, (256, 256, 256))
    assert sum(int(np.prod(shape)) for shape in shapes.values()) == 1_468_163
    network = _Network(150, (256, 256, 256))
    assert {name: array.shape for name, array in network.arrays().items()} == shapes


def test_numpy_computes_what_torch_learnt_in_any_company(fitted: Path) -> None:
    surrogate = load_surrogate(str(fitted))
    network = _Network(LOOK_BACK, surrogate.hidden)
    with torch.no_grad():
        for number, layer in enumerate(network.layers):
            for part, own in (("input", layer.weight_ih_l0), ("recurrent", layer.weight_hh_l0)):
                own.copy_(torch.from_numpy(surrogate.weights[f"lstm/{number}/{part}"]).T)
            layer.bias_ih_l0.copy_(torch.from_numpy(surrogate.weights[f"lstm/{number}/bias"]))
            layer.bias_hh_l0.zero_()
        network.dense.weight.copy_(torch.from_numpy(surrogate.weights["dense/weight"]).T)
        network.dense.bias.copy_(torch.from_numpy(surrogate.weights["dense/bias"]))
        windows = np.random.default_rng(0).normal(size=(13, 5, LOOK_BACK)).astype(np.float32)
        out = network(torch.from_numpy(windows).transpose(0, 1)).double().numpy()
    foretold = surrogate.foretell(windows)
    assert foretold == pytest.approx(out * surrogate.scales[:3] + surrogate.means[:3], rel=1e-5, abs=1e-5)
    for lanes in (slice(0, 1), slice(2, 9), slice(4, 13)):
        assert surrogate.foretell(windows[lanes]).tobytes() == foretold[lanes].tobytes()


def test_it_foretells_better_than_who_says_that_nothing_changes(fitted: Path) -> None:
    about = json.loads(fitted.with_suffix(".json").read_text())["about"]
    error, still = about["held_out_error"]["B:IMINER"], about["held_out_error_if_nothing_changed"]["B:IMINER"]
    assert error < 0.75 * still, "half of what is left is noise that nobody can foretell"


def test_the_same_seed_gives_the_same_surrogate(records: Path) -> None:
    read = read_records(records, 400)
    settings = FitSettings(epochs=1, hidden=(4,), look_back=8)
    one, same, other = (fit_surrogate(read, s, "") for s in (settings, settings, FitSettings(1, (4,), 8, seed=2)))
    assert all(one.weights[name].tobytes() == same.weights[name].tobytes() for name in one.weights)
    assert any(one.weights[name].tobytes() != other.weights[name].tobytes() for name in one.weights)


def test_a_higher_set_point_raises_the_error_a_few_ticks_later(fitted: Path) -> None:
    """What the surrogate is for: it must have learnt how the magnets answer, and not only to go on."""
    errors = []
    for steps in ([-0.01, 0.0, 0.01], [0.01, 0.0, -0.01]):
        env = make_env("whorl/Booster-v0", {"surrogate": str(fitted), "action_set": steps, "episode_ticks": 8})
        found = []
        for seed in range(20):
            env.reset(seed=seed)
            found.append([env.step(2 if tick < 2 else 1)[4]["IMINER"] for tick in range(6)])
        errors.append(np.mean(found, axis=0))
    raised = errors[0] - errors[1]
    assert raised[3:].min() > 0.05
    assert abs(raised[0]) < 0.5 * raised[3:].max()


@pytest.mark.parametrize("env_id", ["whorl/Booster-v0", "whorl/BoosterContinuous-v0"])
def test_it_is_an_environment_like_any_other(env_id: str, fitted: Path) -> None:
    kwargs = {"surrogate": str(fitted), "episode_ticks": 30}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gymnasium_check(make_env(env_id, {**kwargs, "render_mode": "rgb_array"}).unwrapped)
    report = check_env(EnvConfig(id=env_id, kwargs=kwargs))
    assert report.is_good, report.lines()
    assert report.facts["restore"] == "snapshot (tried)"
    assert report.facts["vector_form"] == "our own"


def test_an_episode_begins_as_recorded(fitted: Path, records: Path) -> None:
    env = make_env("whorl/Booster-v0", {"surrogate": str(fitted), "history": 4})
    observation, info = env.reset(seed=3)
    values = read_records(records, TICKS).values
    (place,) = np.flatnonzero((values[:, 0] == info["VIMIN"]) & (values[:, 1] == info["IMINER"]))
    assert observation[15] == pytest.approx(values[place, 1] / 0.25, abs=1e-5)
    assert observation[0] == pytest.approx(values[place - 3, 1] / 0.25, abs=1e-5)
    assert observation[-1] == pytest.approx((values[place, 5] - 103.36535) / 0.08385, abs=1e-4)
    after, *_ = env.step(0)
    assert after[18] == pytest.approx((values[place + 1, 3] - 3750) / 3750, abs=1e-5)


def test_agents_learn_on_it(fitted: Path, tmp_path: Path) -> None:
    kwargs = {"env.kwargs.surrogate": str(fitted), "env.kwargs.episode_ticks": 20}
    run = whorl.train("a2c", "whorl/Booster-v0", steps=400, run_dir=tmp_path / "run", set=kwargs)
    assert run.status == "completed"
    assert run.result.exact
    assert main(["booster", "compare", str(run.path), "--episodes", "3"]) == 0


def test_pictures_show_the_regulator_on_the_surrogate(fitted: Path) -> None:
    env = make_env("whorl/Booster-v0", {"surrogate": str(fitted), "episode_ticks": 30, "render_mode": "rgb_array"})
    env.reset(seed=2)
    for _ in range(20):
        env.step(0)
    frame = env.render()
    assert (frame == (153, 153, 153)).all(axis=2).sum() > 100


def test_a_spoilt_surrogate_is_refused_in_one_line(fitted: Path, tmp_path: Path) -> None:
    path = tmp_path / "spoilt.safetensors"

    def refused(message: str) -> None:
        with pytest.raises(BadInputError, match=message) as error:
            make_env("whorl/Booster-v0", {"surrogate": str(path)})
        assert "\n" not in str(error.value)

    refused("No such file or directory; `whorl booster fit` makes one")
    data, head = fitted.read_bytes(), json.loads(fitted.with_suffix(".json").read_text())
    path.write_bytes(data)
    refused("spoilt.json: No such file or directory")
    path.with_suffix(".json").write_text("{}")
    refused("does not say 'whorl booster surrogate 1'")
    path.with_suffix(".json").write_text(json.dumps({**head, "hidden": [32, 17]}))
    refused("its weights have other shapes")
    path.with_suffix(".json").write_text(json.dumps({**head, "look_back": "x"}))
    refused("must be whole numbers")
    path.with_suffix(".json").write_text(json.dumps(head))
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    refused("is not the file that spoilt.json is about")
    path.write_bytes(data)
    with pytest.raises(BadInputError, match="no stretch of 12012 ticks; ask for shorter episodes"):
        make_env("whorl/Booster-v0", {"surrogate": str(path), "episode_ticks": TICKS})
