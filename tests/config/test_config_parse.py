from __future__ import annotations

import pytest
from sample_agent import SampleConfig

from whorl.config.layers import Layer, resolve
from whorl.config.parse import Given, given_by_flags, given_by_keywords, given_by_text
from whorl.config.schema import Config
from whorl.errors import ConfigError


def resolved(*sets: str, file: dict | None = None, preset: dict | None = None, flags: dict | None = None) -> Config:
    return resolve(
        "sample",
        SampleConfig,
        preset=None if preset is None else Layer("preset sample-Env", preset),
        file=None if file is None else Layer("run.toml", file),
        given=[*given_by_flags(flags or {}), *given_by_text(sets)],
    )


def refusal(*sets: str, **layers) -> str:
    with pytest.raises(ConfigError) as caught:
        resolved(*sets, **layers)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_later_layers_win():
    layers = {
        "preset": {"run": {"seed": 2, "steps": 2}, "agent": {"clip": 0.2, "epochs": 2}, "resources": {"actors": 2}},
        "file": {"run": {"seed": 3, "steps": 3}, "agent": {"clip": 0.3}, "resources": {"actors": 3}},
        "flags": {"seed": "4", "actors": "4"},
    }
    config = resolved("run.seed=5", **layers)
    assert config.run.seed == 5
    assert config.resources.actors == 4
    assert (config.run.steps, config.agent.clip) == (3, 0.3)
    assert config.agent.epochs == 2
    assert config.agent.learning_rate == 3e-4
    assert config.agent_name == "sample"


def test_the_last_of_two_sets_wins():
    assert resolved("run.seed=5", "run.seed=6").run.seed == 6


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("run.steps=1_000_000", "steps", 1_000_000),
        ("run.steps=1e6", "steps", 1_000_000),
        ("run.steps= 7 ", "steps", 7),
        ("run.stop_return=-200", "stop_return", -200.0),
        ("run.stop_return=none", "stop_return", None),
        ("run.compile=true", "compile", True),
        ("run.compile=False", "compile", False),
    ],
)
def test_text_is_read_as_the_type_of_the_setting(text, name, value):
    got = getattr(resolved(text).run, name)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(("text", "hidden"), [("32", (32,)), ("32,16", (32, 16)), ("[32, 16,]", (32, 16)), ("[]", ())])
def test_lists_from_text(text, hidden):
    assert resolved(f"agent.network.hidden={text}").agent.network.hidden == hidden


def test_text_settings_take_the_rest_as_it_is():
    assert resolved("agent.label=a=b").agent.label == "a=b"
    assert resolved('agent.label="x y"').agent.label == "x y"
    assert resolved('agent.label="').agent.label == '"'


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9.8", 9.8),
        ("3", 3),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ("{a = 1}", {"a": 1}),
        ("human", "human"),
        ('"3"', "3"),
        ("1\nother = 2", "1\nother = 2"),
        ("", ""),
    ],
)
def test_keyword_arguments_of_environments_are_toml_or_text(text, value):
    assert resolved(f"env.kwargs.x={text}").env.kwargs == {"x": value}


def test_set_changes_one_place_of_a_table_and_files_replace_it():
    preset = {"env": {"kwargs": {"a": 1, "b": 1}}}
    assert resolved("env.kwargs.b=2", preset=preset).env.kwargs == {"a": 1, "b": 2}
    assert resolved("env.kwargs.c.d=2", preset=preset).env.kwargs == {"a": 1, "b": 1, "c": {"d": 2}}
    assert resolved(preset=preset, file={"env": {"kwargs": {"c": 3}}}).env.kwargs == {"c": 3}
    assert resolved("env.kwargs={z = 1}", preset=preset).env.kwargs == {"z": 1}
    assert preset == {"env": {"kwargs": {"a": 1, "b": 1}}}
    assert refusal("env.kwargs.a.x=2", preset=preset) == "--set env.kwargs.a.x: a is a value already, not a table"


def test_default_tables_are_not_shared():
    resolved().env.kwargs["leak"] = 1
    assert resolved().env.kwargs == {}


BAD_SETS = [
    ("run.sed=1", "--set run.sed: there is no such setting; did you mean run.seed?"),
    ("learning_rate=1", "did you mean agent.learning_rate?"),
    ("lr=1", "did you mean agent.learning_rate?"),
    ("agent.ent_coef=1", "did you mean agent.entropy_coefficient?"),
    ("agent.actors=1", "did you mean resources.actors?"),
    ("num_workers=1", "did you mean resources.actors?"),
    ("resource.actors=1", "did you mean resources.actors?"),
    ("agent.hidden=3", "did you mean agent.network.hidden?"),
    ("zzzzqqqq=1", "docs/reference/settings.md"),
    ("agent.network=3", "a table, not a setting"),
    ("run.seed", "expected NAME=VALUE"),
    ("=3", "expected NAME=VALUE"),
    ("run.seed=", "--set run.seed: expected an integer, at least 0; got ''"),
    ("run.seed=x", "got 'x'"),
    ("run.seed=1.5", "expected an integer"),
    ("run.seed=nan", "expected an integer"),
    ("run.seed=-1", "expected an integer, at least 0; got -1"),
    ("run.seed=9223372036854775808", "more than 64 bits"),
    ("run.seed=" + "9" * 5000, "expected an integer"),
    ("run.seed=true", "expected an integer"),
    ("agent.learning_rate=nan", "--set agent.learning_rate: expected a finite number; got nan"),
    ("agent.learning_rate=inf", "expected a finite number"),
    ("agent.learning_rate=1e999", "expected a finite number"),
    ("agent.learning_rate=0", "expected a number, more than 0; got 0.0"),
    ("agent.clip=1.5", "more than 0, at most 1; got 1.5"),
    ("agent.target_kl=-1", "at least 0, or none; got -1.0"),
    ("run.compile=1", "expected true or false; got '1'"),
    ("agent.network.core=lst", "expected one of none, lstm; got 'lst'; did you mean lstm?"),
    ("agent.network.hidden=64,x", "item 1 of --set agent.network.hidden: expected an integer, at least 1; got 'x'"),
    ("agent.network.hidden=64,0", "item 1 of --set agent.network.hidden: expected an integer, at least 1; got 0"),
    ("agent.network.hidden=", "expected a list of integers"),
    ("env.kwargs=3", "expected a table; got 3"),
    ("env.kwargs.x=nan", "expected a finite number"),
    ("env.kwargs.x=2020-01-01", "expected text, a number"),
    ("agent.epochs=101", "agent: more than 100 epochs need a target_kl"),
    ("agent.label=\udcff", "expected UTF-8 text"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_SETS)
def test_bad_sets_are_refused_in_one_line(text, expected):
    assert expected in refusal(text)


BAD_FILES = [
    ({"run": {"sed": 1}}, "run.sed in run.toml: there is no such setting; did you mean run.seed?"),
    ({"runs": {"seed": 1}}, "runs in run.toml: there is no such setting; did you mean run?"),
    ({"learning_rate": 1}, "did you mean agent.learning_rate?"),
    ({"env": "CartPole-v1"}, "env in run.toml: expected a table; write [env]"),
    ({"run": {"seed": True}}, "run.seed in run.toml: expected an integer, at least 0; got true"),
    ({"run": {"seed": 1.5}}, "got 1.5"),
    ({"run": {"steps": 1e6}}, "got 1000000.0; write 1000000"),
    ({"run": {"seed": "1"}}, "got '1'"),
    ({"run": {"compile": 1}}, "expected true or false; got 1"),
    ({"agent": {"clip": float("nan")}}, "agent.clip in run.toml: expected a finite number; got nan"),
    ({"agent": {"clip": True}}, "expected a number"),
    ({"agent": {"clip": [0.1]}}, "got [0.1]"),
    ({"agent": {"network": {"hidden": [64, True]}}}, "item 1 of agent.network.hidden in run.toml: expected an integer"),
    ({"agent": {"network": {"hidden": 64}}}, "expected a list of integers"),
    ({"agent": {"network": {"core": True}}}, "expected one of none, lstm"),
    ({"agent": {"learning_rate": 10**400}}, "expected a finite number; got a very long integer"),
    ({"resources": {"actors": -4}}, "resources.actors in run.toml: expected an integer, at least 1; got -4"),
]


@pytest.mark.parametrize(("values", "expected"), BAD_FILES)
def test_bad_files_are_refused_in_one_line(values, expected):
    assert expected in refusal(file=values)


def test_a_bad_value_is_refused_also_where_it_is_overridden():
    message = refusal("run.seed=1", preset={"run": {"seed": -1}})
    assert message.startswith("run.seed in preset sample-Env: ")


def test_flags_are_named_in_refusals():
    assert refusal(flags={"envs_per_actor": "four"}).startswith("--envs-per-actor: expected an integer, at least 1")


def test_an_integer_is_a_number_and_becomes_a_float():
    clip = resolved(file={"agent": {"clip": 1}}).agent.clip
    assert type(clip) is float


def test_deep_tables_are_refused():
    value: dict = {}
    for _ in range(500):
        value = {"x": value}
    assert "nested more than 16 deep" in refusal(file={"env": {"kwargs": value}})


def test_python_keywords_are_flags_dotted_names_and_set():
    keywords = {"actors": 4, "agent.clip": 0.1, "set": {"agent.clip": 0.3, "env.kwargs.x": 1}}
    config = resolve("sample", SampleConfig, given=given_by_keywords(keywords))
    assert (config.resources.actors, config.agent.clip, config.env.kwargs) == (4, 0.3, {"x": 1})


def test_numbers_of_numpy_are_taken():
    import numpy as np

    keywords = {"actors": np.int64(4), "agent.clip": np.float32(0.5), "run.compile": np.bool_(True)}
    config = resolve("sample", SampleConfig, given=given_by_keywords(keywords))
    assert (config.resources.actors, config.agent.clip, config.run.compile) == (4, 0.5, True)
    assert type(config.agent.clip) is float


@pytest.mark.parametrize(
    ("keywords", "expected"),
    [
        ({"actors": "4"}, "actors=: expected an integer, at least 1; got '4'"),
        ({"learning_rate": 1}, "learning_rate=: there is no such setting; did you mean agent.learning_rate?"),
        ({"set": ["agent.clip"]}, "set=: expected a dict"),
        ({"set": {"env.kwargs.x": None}}, "env.kwargs.x: expected text, a number"),
        ({"set": {"env.kwargs.x": {1: 2}}}, "keys must be text"),
    ],
)
def test_bad_keywords(keywords, expected):
    with pytest.raises(ConfigError) as caught:
        resolve("sample", SampleConfig, given=given_by_keywords(keywords))
    assert expected in str(caught.value)


def test_given_values_keep_their_place():
    assert list(given_by_text(["a.b=c"])) == [Given("a.b", "c", "--set a.b", is_text=True)]
