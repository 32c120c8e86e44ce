from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_agent import NetworkConfig, SampleConfig

from whorl.config.layers import Layer, difference, dump_toml, from_plain, resolve, to_plain
from whorl.config.parse import given_by_keywords
from whorl.config.presets import find_preset, list_presets
from whorl.config.toml import MAX_FILE_BYTES, load_toml, write_toml
from whorl.errors import ConfigError

# Text that a file can hold: no lone surrogates.
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20)
integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.one_of(st.booleans(), integers, floats, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(texts, values, max_size=5))
def test_written_toml_reads_back_equal(tables):
    assert tomllib.loads(write_toml(tables)) == tables


agents = st.builds(
    SampleConfig,
    learning_rate=st.floats(1e-12, 1e6),
    clip=st.floats(1e-3, 1.0),
    epochs=st.integers(1, 100),
    target_kl=st.none() | st.floats(0, 10),
    entropy_coefficient=floats,
    normalise_rewards=st.booleans(),
    label=texts,
    network=st.builds(
        NetworkConfig,
        hidden=st.lists(st.integers(1, 4096), max_size=4).map(tuple),
        core=st.sampled_from(["none", "lstm"]),
    ),
)


@st.composite
def configs(draw):
    kwargs = draw(st.dictionaries(texts, values, max_size=3))
    keywords = {
        "seed": draw(st.integers(0, 2**63 - 1)),
        "stop_return": draw(st.none() | floats),
        "set": {"env.id": draw(texts), "env.kwargs": kwargs},
    }
    return replace(resolve("sample", SampleConfig, given=given_by_keywords(keywords)), agent=draw(agents))


@settings(deadline=None, max_examples=100)
@given(configs())
def test_a_written_config_loads_to_an_equal_one(config):
    assert from_plain(SampleConfig, tomllib.loads(dump_toml(config))) == config
    assert from_plain(SampleConfig, json.loads(json.dumps(to_plain(config)))) == config


def test_the_layout_of_a_written_config():
    text = dump_toml(resolve("sample", SampleConfig, given=given_by_keywords({"env.kwargs.gravity": 9.8})))
    assert text.startswith('[agent]\nname = "sample"\nlearning_rate = 0.0003\n')
    assert '\n[agent.network]\nhidden = [64, 64]\ncore = "none"\n' in text
    assert "\n[env.kwargs]\ngravity = 9.8\n" in text
    assert '\nstop_return = "none"\n' in text


def test_a_written_config_does_not_depend_on_presets():
    config = resolve("sample", SampleConfig)
    preset = Layer("preset x", {"run": {"stop_return": 475.0}, "env": {"kwargs": {"a": 1}}, "agent": {"epochs": 9}})
    file = Layer("config.toml", tomllib.loads(dump_toml(config)))
    assert resolve("sample", SampleConfig, preset=preset, file=file) == config


def test_a_config_without_an_agent_is_refused():
    with pytest.raises(ConfigError, match="names no agent"):
        from_plain(SampleConfig, {"run": {"seed": 1}})
    with pytest.raises(ConfigError, match=r"agent.name in .*: expected text; got 3"):
        from_plain(SampleConfig, {"agent": {"name": 3}})


def test_differences_by_dotted_name():
    before = resolve("sample", SampleConfig, given=given_by_keywords({"env.kwargs.a": 1}))
    after = resolve(
        "sample", SampleConfig, given=given_by_keywords({"actors": 4, "agent.network.hidden": [8], "env.kwargs.b": 2})
    )
    assert [tuple(change) for change in difference(before, after)] == [
        ("agent.network.hidden", [64, 64], [8]),
        ("env.kwargs.a", 1, None),
        ("resources.actors", 1, 4),
        ("env.kwargs.b", None, 2),
    ]
    assert str(difference(before, after)[2]) == "resources.actors: 1 -> 4"
    assert difference(before, before) == []


BAD_FILES = [
    (b"", "the file is empty"),
    (b" \n\n", "the file is empty"),
    (b"[run\nseed = 1", "not valid TOML"),
    (b"[run]\nseed = 1\nseed = 2\n", "line 3"),
    (b"\x80\x02}q\x00.", "not a text file (byte 0 is not UTF-8)"),
    (b"a = 1\x00", "not valid TOML"),
    (b"x = " + b"[" * 100_000, "nested too deeply"),
    (b"x = " + b"9" * 10_000, "not valid TOML"),
    (b"# " + b"x" * MAX_FILE_BYTES, "larger than 1,000,000 bytes"),
]


@pytest.mark.parametrize(("content", "expected"), BAD_FILES, ids=[message for _, message in BAD_FILES])
def test_bad_files_are_refused_in_one_line(tmp_path, content, expected):
    path = tmp_path / "bad.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 400


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(ConfigError, match="no such file"):
        load_toml(tmp_path / "none.toml")
    with pytest.raises(ConfigError, match=r"a directory, not a file$"):
        load_toml(tmp_path)
    (tmp_path / "config.toml").write_text("[run]")
    with pytest.raises(ConfigError, match=r"did you mean .*config.toml\?"):
        load_toml(tmp_path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_toml(tmp_path / ("x" * 300))


def test_an_endless_file_is_not_read_to_its_end():
    with pytest.raises(ConfigError, match="larger than"):
        load_toml(Path("/dev/zero"))


def test_presets_of_the_package():
    names = [preset.name for preset in list_presets()]
    assert "ppo-CartPole-v1" in names
    for preset in list_presets():
        assert preset.name == f"{preset.agent}-{preset.env}".removesuffix("/*").replace("/", "-")
        assert preset.summary.endswith(".")
        assert find_preset(preset.agent, preset.env) == preset


def test_presets_of_a_whole_namespace():
    pong = find_preset("ppo", "atari/Pong-v0")
    assert pong is not None
    assert pong == find_preset("ppo", "atari/Breakout-v0")
    assert find_preset("ppo", "atari") is None
    assert find_preset("ppo", "whorl/Slow-v0") is None


def test_presets_are_found_with_a_module_and_only_for_their_environment():
    assert find_preset("ppo", "some.module:CartPole-v1") is not None
    assert find_preset("ppo", "CartPole-v2") is None
    assert find_preset("ppo", "../../etc/passwd") is None
    assert find_preset("ppo", "x" * 5000) is None
