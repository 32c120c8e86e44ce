"""`whorl doctor --engine ray`: what it calls slow, and the measurements themselves."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from ray_nodes import RayNodes, require_ray
from whorl.engines.ray import measure
from whorl.engines.ray.measure import Pair, is_slow


def doctor(*words: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "whorl", "doctor", "--engine", "ray", *words]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=1200)
    return done.returncode, done.stdout


def test_what_is_slow() -> None:
    assert not is_slow(Pair("a to b", 0.7, 900.0), 1000.0)
    assert is_slow(Pair("a to b", 5.5, 900.0), 1000.0), "its calls"
    assert is_slow(Pair("a to b", 0.7, 60.0), 60.0), "its objects"
    assert is_slow(Pair("a to b", 0.7, 390.0), 1000.0), "far below the others"


@pytest.mark.parametrize("count", range(2, 10))
def test_everybody_meets_everybody_and_nobody_is_in_two_places(count: int) -> None:
    nodes = [f"node {number}" for number in range(count)]
    rounds = list(measure.rounds_of(nodes))
    assert len(rounds) == count - 1 + count % 2
    for met in rounds:
        assert len({node for pair in met for node in pair}) == 2 * len(met) >= count - 1
    every = [frozenset(pair) for met in rounds for pair in met]
    assert sorted(map(sorted, every)) == [list(pair) for pair in itertools.combinations(nodes, 2)]


def test_pairs_are_shown_as_they_come_and_compared_in_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    found = [Pair("a to b", 0.7, 1000.0), Pair("b to a", 0.7, 100.0), Pair("a to c", 0.7, 1000.0)]

    def said() -> list[tuple[str, bool]]:
        return [(line["name"], line["slow"]) for line in map(json.loads, capsys.readouterr().out.splitlines())]

    def coming() -> Iterator[Pair]:
        for pair in found:
            yield pair
            assert said() == [(pair.name, False)]

    assert measure._say_pairs(coming(), 6) == found
    assert said() == [("b to a", True)]
    measure._say_pairs([*found, Pair("c to a", 0.7, 50.0)] * 5, 20)
    assert said() == [("c to a", True)] * 5 + [("20 pairs of nodes", False)] + [("b to a", True)] * 5


def test_of_many_nodes_it_is_said_how_many_have_sent_an_object_to_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    require_ray()
    import ray

    monkeypatch.setattr(ray, "get", lambda found: found)
    call = SimpleNamespace(remote=lambda *_words: None)
    nodes = {f"node {number}": SimpleNamespace(make=call, fetch_s=call) for number in range(14)}
    measure._say_broadcast(nodes, 100.0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 12
    assert all(re.search(r"at all 13 others after \d+ ms; 12 of 14 nodes are tried", line) for line in lines)


@pytest.mark.verify
def test_every_pair_of_nodes_is_measured(ray_nodes: RayNodes) -> None:
    settings = ray_nodes.settings
    code, out = doctor("--slots", "3", "--address", settings["address"], "--token-file", settings["token_file"])
    assert code == 0
    assert re.search(r"ray, tasks +\d+\.\d % of ideal \(3 tasks of 1 s on 3 warmed workers", out)
    pairs = re.findall(r"ray, node (\d) \(127.0.0.1\) to node (\d) .* a call \d+\.\d\d ms, objects of 32 MiB", out)
    assert sorted(pairs) == [("0", "1"), ("0", "2"), ("1", "0"), ("1", "2"), ("2", "0"), ("2", "1")]
    assert len(re.findall(r"ray, broadcast, node \d .* 32 MiB at all 2 others after", out)) == 3


@pytest.mark.verify
def test_an_unreachable_cluster_is_one_line() -> None:
    require_ray()
    code, out = doctor("--address", "127.0.0.1:9", "--quiet")
    assert code == 1
    assert len(re.findall(r"^bad +ray +BadInputError: nobody answers at 127\.0\.0\.1:9", out, re.MULTILINE)) == 1


@pytest.mark.verify
def test_the_first_experiment_of_the_cray_study(figure: Callable[[str, object], None]) -> None:
    """72 one-second tasks on 72 slots took 1.0508 s there, which is 95.2 % of ideal."""
    require_ray()
    code, out = doctor("--slots", "72")
    assert code == 0
    found = re.search(r"ray, tasks +(\d+\.\d) % of ideal", out)
    assert found
    figure("percent_of_ideal", float(found[1]))
    assert float(found[1]) >= 97.0
