"""A served environment is the environment: spaces of every kind, values, faults, lanes of their own."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env as gymnasium_check

from whorl.config.schema import EnvConfig
from whorl.envs.cartpole import CartPoleForm
from whorl.envs.check import check_env
from whorl.envs.lanes import ScalarLanes
from whorl.envs.probe import plain_spec, probe_env
from whorl.envs.registry import make_env
from whorl.envs.remote.env import RemoteRaised
from whorl.envs.remote.server import EnvServer
from whorl.envs.row_block import RowBlock
from whorl.envs.spaces import random_actions
from whorl.envs.vector import VectorLanes
from whorl.errors import BadInputError, EnvironmentFault, MissingExtraError

from .conftest import Serve
from .served_envs import rows_of, started, step


@pytest.mark.parametrize("action", ["discrete", "multi", "binary", "box"])
def test_every_space_round_trips(serve: Serve, action: str) -> None:
    served = serve("remote.served_envs:Everything", kwargs={"action": action})
    here = EnvConfig(id="remote.served_envs:Everything", kwargs={"action": action})
    there = EnvConfig(id=served.address)
    specs = []
    for config in (here, there):
        env = make_env(config.id, config.kwargs)
        specs.append(plain_spec(config, env))
        env.close()
    assert specs[0].observation == specs[1].observation
    assert specs[0].action == specs[1].action
    lanes = range(3, 6)
    actions = np.stack([random_actions(specs[0].action, 40, lane) for lane in lanes], 1)
    rows_here, rows_there, rows_scalar = (
        rows_of(make(config, spec, lanes, 7), actions)
        for make, config, spec in (
            (ScalarLanes, here, specs[0]),
            (VectorLanes, there, specs[1]),
            (ScalarLanes, there, specs[1]),
        )
    )
    assert rows_here == rows_there
    assert rows_here == rows_scalar
    assert served.counts["dropped"] == served.counts["refused"] == 0


@pytest.mark.parametrize("env", ["CartPole-v1", "Pendulum-v1", "whorl/Dict-v0", "whorl/Image-v0"])
def test_rows_are_those_of_the_environment_here(serve: Serve, env: str) -> None:
    served = serve(env)
    here, there = EnvConfig(id=env), EnvConfig(id=served.address)
    probes = probe_env(here), probe_env(there)
    assert probes[1].spec.vector_form
    assert probes[1].spec.max_episode_steps == probes[0].spec.max_episode_steps
    actions = np.stack([random_actions(probes[0].spec.action, 30, lane) for lane in range(4)], 1)
    assert rows_of(VectorLanes(there, probes[1].spec, range(4), 3), actions) == rows_of(
        ScalarLanes(here, probes[0].spec, range(4), 3), actions
    )


def test_check_env_finds_nothing_wrong(serve: Serve) -> None:
    served = serve("CartPole-v1")
    report = check_env(EnvConfig(id=served.address))
    assert report.is_good, report.lines()
    assert report.facts["deterministic"]
    assert report.facts["vector_form"] == "our own"
    env = make_env(served.address)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on infinite bounds
        gymnasium_check(env, skip_render_check=True)
    env.close()


def test_a_lane_that_raises_has_a_fault_and_its_neighbours_none(serve: Serve) -> None:
    crash = {"env": "CartPole-v1", "p": 0.05, "how": "raise"}
    served = serve("whorl/Crash-v0", kwargs=crash)
    here, there = EnvConfig(id="whorl/Crash-v0", kwargs=crash), EnvConfig(id=served.address)
    env = make_env(here.id, crash)
    spec = plain_spec(here, env)
    env.close()
    actions = np.stack([random_actions(spec.action, 60, lane) for lane in range(4)], 1)
    lanes = VectorLanes(there, spec, range(4), 3)
    assert rows_of(lanes, actions) == rows_of(ScalarLanes(here, spec, range(4), 3), actions)
    assert lanes.fault_count > 0
    assert "lane" in lanes.faults[0]


class BreaksAfterwards(CartPoleForm):
    """One copy raises in the first step, and then the whole form when that copy is to be reset."""

    def step(self, actions, seeds):
        result = super().step(actions, seeds)
        self.raised = {1: "words of copy 1"}
        return result

    def restart(self, seeds):
        if self.raised:
            raise RuntimeError("the server was restarted")
        super().restart(seeds)


def test_a_form_that_breaks_while_a_lane_is_mended_is_made_anew() -> None:
    config = EnvConfig(id="CartPole-v1")
    spec = probe_env(config).spec
    block = RowBlock(spec, 3)
    lanes = VectorLanes(config, spec, range(3), 1, form=BreaksAfterwards(block.blocks), block=block)
    rows = started(lanes)
    lanes.send(np.zeros(3, np.int64))
    outcome = lanes.receive()
    assert outcome.fault.all()
    assert rows.first.all()
    assert lanes.episodes == [1, 1, 1]
    assert lanes.fault_count == 2
    assert step(lanes, rows, np.zeros(3, np.int64))


def test_an_exception_travels_as_words(serve: Serve) -> None:
    served = serve("whorl/Crash-v0", kwargs={"env": "CartPole-v1", "p": 1.0, "how": "raise"})
    env = make_env(served.address)
    env.reset(seed=1)
    with pytest.raises(RemoteRaised, match="step raised"):
        env.step(0)
    with pytest.raises(RemoteRaised, match="step without a reset"):
        env.step(0)
    env.reset(seed=2)
    env.close()


def test_forbidden_values_end_the_run_and_are_no_fault(serve: Serve) -> None:
    served = serve("whorl/NaN-v0")
    config = EnvConfig(id=served.address)
    env = make_env(config.id)
    spec = plain_spec(config, env)
    env.close()
    lanes = VectorLanes(config, spec, range(2), 1)
    with pytest.raises(EnvironmentFault, match="finite"):
        rows_of(lanes, np.stack([random_actions(spec.action, 500, lane) for lane in range(2)], 1))


def test_a_server_may_say_that_episodes_are_not_stepped_again(serve: Serve) -> None:
    served = serve("CartPole-v1", restore="none")
    assert probe_env(EnvConfig(id=served.address)).spec.restore == "none"
    assert probe_env(EnvConfig(id=served.address, restore="replay")).spec.restore == "replay"


def test_arguments_of_the_environment_belong_to_the_server(serve: Serve) -> None:
    served = serve("CartPole-v1")
    with pytest.raises(BadInputError, match=r"whorl env serve ENV --set env.kwargs.gravity"):
        make_env(served.address, {"gravity": 1})
    with pytest.raises(BadInputError, match="patience_s"):
        make_env(served.address, {"patience_s": -1})


@pytest.mark.parametrize(
    ("address", "words"),
    [("tcp://127.0.0.1", "tcp://HOST:PORT"), ("tcp://127.0.0.1:99999", "tcp://HOST:PORT"), ("ipc://", "name a file")],
)
def test_an_address_that_is_none_is_refused_at_once(address: str, words: str) -> None:
    with pytest.raises(BadInputError, match=words):
        make_env(address)


def test_without_zeromq_the_line_that_installs_it_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zmq", None)
    for attempt in (
        lambda: make_env("tcp://127.0.0.1:9"),
        lambda: EnvServer(EnvConfig(id="CartPole-v1"), "tcp://127.0.0.1:9", copies=1),
    ):
        with pytest.raises(MissingExtraError, match=r"pip install 'whorl\[remote\]'"):
            attempt()


def test_nobody_there_is_one_clear_line() -> None:
    with pytest.raises(EnvironmentFault, match=r"no answer for 0.3 s: is `whorl env serve` running there"):
        make_env("tcp://127.0.0.1:9", {"patience_s": 0.3})
