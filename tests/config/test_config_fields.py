from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

import pytest
from sample_agent import SampleConfig

from whorl.agents.registry import agent_names, get_agent
from whorl.config.bounds import AtLeast, MoreThan
from whorl.config.fields import attribute_docstrings, schema_of, settings_of
from whorl.config.kinds import Kind, kind_of
from whorl.config.reference import render_reference
from whorl.config.schema import EnvConfig, Resources


def test_every_setting_is_found_by_its_dotted_name():
    schema = schema_of(SampleConfig)
    assert schema.settings["resources.actors"].default == 1
    assert schema.settings["resources.actors"].kind == Kind("integer", bounds=(AtLeast(1),))
    assert schema.settings["agent.network.hidden"].default == (64, 64)
    assert schema.settings["agent.target_kl"].kind == Kind("number", optional=True, bounds=(AtLeast(0),))
    assert set(schema.sections) == {"agent", "agent.network", "env", "workflow", "engine", "resources", "run"}
    assert "agent_name" not in schema.settings


def test_attribute_docstrings_become_one_paragraph():
    docstrings = attribute_docstrings(SampleConfig)
    assert docstrings["learning_rate"] == "Step size of the optimiser."
    assert "epochs" not in docstrings
    assert schema_of(SampleConfig).settings["agent.network.hidden"].help == "Widths of the layers."


def test_docstrings_are_inherited_and_nested_classes_are_found():
    @dataclass(frozen=True)
    class Longer(SampleConfig):
        extra: int = 1
        """One more."""

    docstrings = attribute_docstrings(Longer)
    assert docstrings["extra"] == "One more."
    assert docstrings["clip"] == "Clip range."


def test_a_class_without_source_has_no_docstrings():
    namespace: dict[str, Any] = {"__name__": "nowhere"}
    exec("class Made:\n    x: int = 1\n    'text'\n", namespace)
    assert attribute_docstrings(namespace["Made"]) == {}


@pytest.mark.parametrize("cls", [EnvConfig, Resources])
def test_every_shipped_setting_has_help(cls):
    assert set(attribute_docstrings(cls)) == set(cls.__dataclass_fields__)


def test_a_place_inside_a_table_belongs_to_the_table():
    schema = schema_of(SampleConfig)
    setting, inside = schema.find("env.kwargs.wind.speed")
    assert (setting.name, inside) == ("env.kwargs", ("wind", "speed"))
    assert schema.find("env.kwargs.") is None
    assert schema.find("run.seed.x") is None


def test_kinds_read_as_text():
    assert str(Kind("integer", bounds=(AtLeast(1),))) == "an integer, at least 1"
    assert str(Kind("number", optional=True, bounds=(MoreThan(0),))) == "a number, more than 0, or none"
    assert str(kind_of(tuple[int, ...])) == "a list of integers"


def test_an_unsupported_type_is_an_error_of_the_developer():
    with pytest.raises(TypeError, match="cannot have the type"):
        kind_of(set[int])
    with pytest.raises(TypeError):
        kind_of(int | str)

    @dataclass(frozen=True)
    class Odd:
        colours: frozenset = frozenset()

    with pytest.raises(TypeError, match=r"Odd\.colours: settings cannot have the type"):
        settings_of(Odd, "agent")


def test_the_reference_names_type_bounds_default_flag_and_help():
    page = render_reference([("sample", SampleConfig)])
    assert "### `resources.actors`\n\n*an integer, at least 1; default `1`; flag `--actors`.*\n\nActors:" in page
    assert "## `[agent]` of sample" in page
    assert "### `agent.network.hidden`\n\n*a list of integers, each at least 1; default `[64, 64]`.*" in page
    assert "*a number, at least 0, or none; default `none`.*" in page
    assert "``" not in page


@pytest.mark.parametrize("name", agent_names())
def test_settings_have_the_defaults_of_the_agents_own_configuration(name):
    cls = get_agent(name).config
    for setting in settings_of(cls, "agent"):
        if setting.default is MISSING:
            continue
        value: Any = cls()
        for part in setting.name.split(".")[1:]:
            value = getattr(value, part)
        assert setting.default == value, setting.name


def test_a_nested_default_goes_before_that_of_its_class():
    defaults = {setting.name: setting.default for setting in settings_of(get_agent("sac").config, "agent")}
    assert defaults["agent.network.hidden"] == (256, 256)
    assert defaults["agent.network.activation"] == "relu"
    assert defaults["agent.replay.capacity"] == 1_000_000
