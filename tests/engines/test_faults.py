from __future__ import annotations

import pytest

from whorl.engines.contract import RoleId
from whorl.engines.faults import Fault, InjectedFault, fault_hook, parse_faults
from whorl.errors import ConfigError


def test_faults_are_parsed():
    assert parse_faults("actor:2:env_step=17:kill, learner:0:update=3:hang:always") == (
        Fault(RoleId("actor", 2), "env_step", 17, "kill", False),
        Fault(RoleId("learner", 0), "update", 3, "hang", True),
    )
    assert parse_faults("") == ()


@pytest.mark.parametrize(
    "text", ["actor", "actor:2:env_step:kill", "actor:2:env_step=x:kill", "actor:2:env_step=1:eat"]
)
def test_a_malformed_fault_is_refused(text):
    with pytest.raises(ConfigError, match="role:index:point=N:action"):
        parse_faults(text)


def test_the_hook_strikes_at_its_point_and_count_only(monkeypatch):
    monkeypatch.setenv("WHORL_FAULT", "actor:1:env_step=3:raise")
    assert fault_hook(RoleId("actor", 0), 0) is None
    assert fault_hook(RoleId("actor", 1), 1) is None
    strike = fault_hook(RoleId("actor", 1), 0)
    assert strike is not None
    strike("env_step", 2)
    strike("update", 3)
    with pytest.raises(InjectedFault):
        strike("env_step", 3)
