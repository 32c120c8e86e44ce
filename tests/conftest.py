"""For every test: one thread per process, a leak check, long tests only when asked for, figures on record."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

# Before numpy or torch is imported anywhere: small networks are fastest with one thread, and results repeat.
for _variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[_variable] = "1"
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
os.environ.setdefault("MPLBACKEND", "Agg")

import hypothesis
import hypothesis.configuration
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import leakcheck

pytest.register_assert_rewrite("accounts")

if TYPE_CHECKING:
    from ray_nodes import RayNodes

VERIFY_TIMEOUT_S = 3600

hypothesis.configuration.set_hypothesis_home_dir(Path(__file__).parents[1] / ".pytest_cache" / "hypothesis")
hypothesis.settings.register_profile(
    "whorl",
    deadline=None,
    database=None,
    derandomize="CI" in os.environ,
    print_blob=True,
)
hypothesis.settings.load_profile("whorl")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--verify", action="store_true", help="run the long tests too (marker: verify)")


def pytest_configure(config: pytest.Config) -> None:
    os.environ[leakcheck.TAG_VARIABLE] = str(os.getpid())  # inherited by every process the tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("verify") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(VERIFY_TIMEOUT_S))
    if config.getoption("--verify") or "verify" in config.getoption("markexpr"):
        return
    long = [item for item in items if item.get_closest_marker("verify")]
    if long:
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if not item.get_closest_marker("verify")]


@pytest.fixture(autouse=True)
def nothing_left_behind() -> Iterator[None]:
    """Fails a test that leaves a process, thread, memfd, shared-memory file or many descriptors behind."""
    before = leakcheck.Snapshot.take()
    yield
    words, pids = before.leaks()
    if words:
        leakcheck.end(pids)
        pytest.fail("left behind:\n  " + "\n  ".join(words), pytrace=False)


@pytest.fixture(scope="session")
def _ray_nodes() -> Iterator[list[RayNodes]]:
    started: list[RayNodes] = []
    yield started
    for nodes in started:
        nodes.end()


@pytest.fixture
def ray_nodes(_ray_nodes: list[RayNodes]) -> RayNodes:
    """A Ray cluster of three nodes on this machine, shared by the tests of a session."""
    from ray_nodes import RayNodes

    if not _ray_nodes:
        _ray_nodes.append(RayNodes())
    return _ray_nodes[0]


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Puts a measured number on record, unit in its name: ``figure("seconds_to_475", 9.3)``.

    `make verify` collects them into its evidence page; otherwise `pytest -s` shows them.
    """

    def record(name: str, value: object) -> None:
        print(f"figure: {name} = {value}")
        if path := os.environ.get("WHORL_FIGURES"):
            line = json.dumps({"test": request.node.nodeid, "name": name, "value": value})
            with Path(path).open("a") as file:
                file.write(line + "\n")

    return record
