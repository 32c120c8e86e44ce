from __future__ import annotations

import numpy as np
import pytest

from whorl.errors import ConfigError
from whorl.tuning.spaces import Choices, Range, is_space, read_space

REFUSED = [
    ({"choices": []}, "", "choices must be a list of at least one value"),
    ({"choices": 3}, "", "choices must be a list of at least one value"),
    ({"choices": [1, 2], "low": 1}, "", "either choices or low and high; leave out low"),
    ({"choices": [1, 2, 1]}, "", "a choice is named twice"),
    ({"choices": [1, 2], "start": 3}, "", "start = 3 is none of the choices"),
    ({"low": 1}, "", "has no high"),
    ({"high": 1}, "", "has no low"),
    ({"low": 2, "high": 1}, "", "low = 2 is more than high = 1; exchange them"),
    ({"low": 1, "high": 1}, "", "both 1; write the value itself"),
    ({"low": 0, "high": 1, "log": True}, "number", "begins above 0"),
    ({"low": 1, "high": 2, "log": 1}, "number", "log must be true or false"),
    ({"low": 1, "high": 2, "hihg": 3}, "", "a space has no 'hihg'; did you mean high?"),
    ({"low": "a", "high": 2}, "", "low must be a number"),
    ({"low": True, "high": 2}, "", "low must be a number"),
    ({"low": float("nan"), "high": 2}, "", "finite"),
    ({"low": 1, "high": 2, "step": 0}, "", "a step is more than 0"),
    ({"low": 1, "high": 2, "step": 1, "log": True}, "", "leave out log"),
    ({"low": 0.5, "high": 2}, "integer", "takes integers; got 0.5"),
    ({"low": 0, "high": 1e9, "step": 1e-3}, "number", "more than 10,000 steps"),
    ({"low": 1, "high": 2, "start": 3}, "", "start = 3 is outside of 1 to 2"),
    ({"low": 1, "high": 2}, "boolean", "write { choices = [...] }"),
]


@pytest.mark.parametrize(("table", "kind", "message"), REFUSED, ids=[str(row[0]) for row in REFUSED])
def test_bad_spaces_are_refused(table, kind, message):
    with pytest.raises(ConfigError, match=r"^agent\.x in f\.toml: ") as refusal:
        read_space(table, "agent.x in f.toml", kind)
    assert message in str(refusal.value)


def test_whole_numbers_stay_whole():
    space = read_space({"low": 2, "high": 8, "step": 3}, "x", "integer")
    assert space.all_labels() == [2, 5, 8]
    assert [type(label) for label in space.all_labels()] == [int, int, int]
    assert read_space({"low": 0, "high": 1}, "x", "number") == Range(0.0, 1.0)
    assert read_space({"low": 0, "high": 1, "step": 0.25}, "x", "number").all_labels() == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert read_space({"low": 0, "high": 0.3, "step": 0.1}, "x", "number").all_labels() == pytest.approx(
        [0.0, 0.1, 0.2, 0.3]
    )


def test_lists_are_held_as_text_and_given_back():
    space = read_space({"choices": [[64, 64], [256], True, 1]}, "x", "")
    assert space.labels == ["[64, 64]", "[256]", True, 1]
    assert [space.value_of(label) for label in space.labels] == [[64, 64], [256], True, 1]


def test_draws_and_perturbations_stay_inside():
    generator = np.random.default_rng(1)
    spaces = [
        Range(1e-4, 1e-2, log=True),
        Range(0.0, 1.0),
        Range(2.0, 9.0, whole=True),
        Range(1, 5, step=2, whole=True),
    ]
    for space in spaces:
        label = space.draw(generator)
        for _ in range(50):
            assert space.low <= label <= space.high
            assert not space.whole or isinstance(label, int)
            label = space.perturb(label, 1.2, generator)
    assert Range(1e-4, 1e-2, log=True).perturb(0.001, 1.25, generator) in (0.00125, 0.0008)
    choices = Choices((1, 2, 3))
    assert {choices.perturb(2, 1.2, generator) for _ in range(20)} == {1, 3}
    assert {choices.perturb(1, 1.2, generator) for _ in range(20)} == {1, 2}


def test_what_is_a_space():
    assert is_space({"low": 1})
    assert is_space({"choices": []})
    assert not is_space({"gravity": 9.8})
    assert not is_space([1, 2])
