"""A Slurm of four nodes, shared by the tests of a session, started when the first asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.slurm.cluster import SlurmCluster

HERE = Path(__file__).parent
JOB_TIMEOUT_S = 300


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A job has to come to its turn, and to start processes on several nodes, also on a machine that is busy."""
    for item in items:
        if HERE in item.path.parents and not any(map(item.get_closest_marker, ("timeout", "verify"))):
            item.add_marker(pytest.mark.timeout(JOB_TIMEOUT_S))


@pytest.fixture(scope="session")
def _slurms() -> Iterator[list[SlurmCluster]]:
    started: list[SlurmCluster] = []
    yield started
    for each in started:
        each.end()


@pytest.fixture
def slurm(_slurms: list[SlurmCluster], request: pytest.FixtureRequest) -> Iterator[SlurmCluster]:
    """Without jobs, all nodes idle."""
    if not _slurms:
        _slurms.append(SlurmCluster())
    _slurms[0].patience_s = 0.8 * request.node.get_closest_marker("timeout").args[0]
    yield _slurms[0]
    _slurms[0].clear()
