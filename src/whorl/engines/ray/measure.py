"""What Ray costs on this machine or cluster: ``whorl doctor --engine ray``.

    python -m whorl.engines.ray.measure SLOTS [ADDRESS TOKEN_FILE]

A process of its own, as Ray wants one. Prints a line of JSON for each finding: a name, what was found, and whether it
is slow.
"""

from __future__ import annotations

import itertools
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

from whorl.engines.ray import private
from whorl.engines.ray.probing import Probe
from whorl.errors import WhorlError

ROUNDS = 10
TASK_S = 1.0
GOOD_SHARE = 97.0
"""Percent of ideal. The study of Ray on two Cray nodes had 95.2: 1.0508 s for 72 tasks of a second."""
SLOW_CALL_MS = 5.0
OBJECT_BYTES = 32 * 2**20
SLOW_MIB_PER_S = 64.0
FAR_BELOW = 0.4
"""A pair at less than this share of the median of all pairs is slow, however fast."""
CALLS = 100
MOST_PAIRS_SHOWN = 12
MOST_SOURCES = 12
"""Nodes that an object is sent from to all others: one by one, so all of many would take long."""
AT_ONCE = 8
"""Workers that are started together: each imports Ray, which takes a second of a core."""
LAST_S = 900.0
EACH_NODE_S = 30.0
"""More, for each node: its share of the rounds and of what is sent to all."""


class Pair(NamedTuple):
    """What one node sees of another."""

    name: str
    call_ms: float
    mib_per_s: float


def say(name: str, found: str, slow: bool = False) -> None:
    """One finding."""
    print(json.dumps({"name": name, "found": found, "slow": slow}), flush=True)


def median_s(work: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """The median time of some work, after one round that does not count."""
    taken = []
    work()
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def measure(slots: int) -> None:
    """Everything, on the cluster that we are connected to."""
    import ray

    probes = list(_start(slots))
    taken_s = median_s(lambda: ray.get([probe.task.remote() for probe, _ in probes]))
    share = 100 * TASK_S / taken_s
    of = f"{slots} tasks of {TASK_S:g} s on {slots} warmed workers took {taken_s:.4f} s, median of {ROUNDS}"
    say("tasks", f"{share:.1f} % of ideal ({of})", share < GOOD_SHARE)
    call_ms = 1e3 * median_s(lambda: ray.get(probes[0][0].answer.remote()), CALLS)
    say("call", f"{call_ms:.2f} ms (from here to a worker and back, median of {CALLS})", call_ms > SLOW_CALL_MS)
    by_node: dict[str, Any] = {}
    for probe, where in probes:
        by_node.setdefault(where, probe)
    _end_within(LAST_S + EACH_NODE_S * len(by_node))
    if len(by_node) > 1:
        pairs = _say_pairs(_pairs(by_node), len(by_node) * (len(by_node) - 1))
        _say_broadcast(by_node, min(pair.mib_per_s for pair in pairs))
    elif slots > 1:
        _say_pairs(_pairs({"one process": probes[0][0], "another": probes[-1][0]}), 2)


def _start(slots: int) -> Iterator[tuple[Any, str]]:
    """So many workers, each a process of its own, and the node each is on: ``node 1 (10.0.0.2)``."""
    import ray

    actor: Any = ray.remote(Probe)
    names: dict[str, str] = {}
    pids = set()
    for begin in range(0, slots, AT_ONCE):
        count = min(AT_ONCE, slots - begin)
        some = [
            actor.options(num_cpus=1, scheduling_strategy="SPREAD", enable_task_events=False).remote(TASK_S)
            for _ in range(count)
        ]
        for probe, (node, address, pid) in zip(some, ray.get([probe.where.remote() for probe in some]), strict=True):
            pids.add((node, pid))
            yield probe, names.setdefault(node, f"node {len(names)} ({address})")
    if len(pids) != slots:
        raise WhorlError(f"Ray has put {slots} workers into {len(pids)} processes")


def rounds_of(names: Sequence[str]) -> Iterator[list[tuple[str, str]]]:
    """All pairs, each once, in rounds in which nobody is in two of them, as of a tournament: the first stays where it
    is, and the others move on around it."""
    circle = [*names, *([""] if len(names) % 2 else [])]
    half = len(circle) // 2
    for _ in circle[1:]:
        met = zip(circle[:half], reversed(circle[half:]), strict=True)
        yield [(one, other) for one, other in met if one and other]
        circle.insert(1, circle.pop())


def _pairs(by_node: Mapping[str, Any]) -> Iterator[Pair]:
    """Each node to each other one: a call, and an object. Those of a round at the same time: of many nodes, one pair
    after the other would take hours."""
    for met in rounds_of(list(by_node)):
        yield from _side_by_side(by_node, met)
        yield from _side_by_side(by_node, [(other, one) for one, other in met])


def _side_by_side(by_node: Mapping[str, Any], pairs: Sequence[tuple[str, str]]) -> Iterator[Pair]:
    import ray

    ones, others = ([by_node[pair[end]] for pair in pairs] for end in (0, 1))
    calls_s = ray.get([one.call_latency_s.remote(other, CALLS) for one, other in zip(ones, others, strict=True)])
    objects_s = []
    for _ in range(3):
        made = ray.get([one.make.remote(OBJECT_BYTES) for one in ones])
        objects_s.append(ray.get([other.fetch_s.remote(each) for other, each in zip(others, made, strict=True)]))
        del made  # before there are others: an object store is small
    for (source, target), call_s, *taken in zip(pairs, calls_s, *objects_s, strict=True):
        yield Pair(f"{source} to {target}", 1e3 * call_s, OBJECT_BYTES / 2**20 / statistics.median(taken))


def is_slow(pair: Pair, usual_mib_per_s: float) -> bool:
    """By itself, or far below the others."""
    limit = max(SLOW_MIB_PER_S, FAR_BELOW * usual_mib_per_s)
    return pair.call_ms > SLOW_CALL_MS or pair.mib_per_s < limit


def _say_pairs(coming: Iterable[Pair], count: int) -> list[Pair]:
    """As they come, all of them or, of many, those that are slow by themselves; then those that are slow beside the
    others."""
    pairs = []
    for pair in coming:
        pairs.append(pair)
        slow = is_slow(pair, 0.0)
        if slow or count <= MOST_PAIRS_SHOWN:
            size = f"objects of {OBJECT_BYTES / 2**20:g} MiB"
            say(pair.name, f"a call {pair.call_ms:.2f} ms, {size} {pair.mib_per_s:,.0f} MiB/s", slow)
    usual = statistics.median(pair.mib_per_s for pair in pairs)
    if count > MOST_PAIRS_SHOWN:
        call_ms = statistics.median(pair.call_ms for pair in pairs)
        say(f"{count} pairs of nodes", f"a call {call_ms:.2f} ms, objects {usual:,.0f} MiB/s (medians)")
    for pair in pairs:
        if is_slow(pair, usual) and not is_slow(pair, 0.0):
            say(pair.name, f"objects {pair.mib_per_s:,.0f} MiB/s, and {usual:,.0f} in the median of all pairs", True)
    return pairs


def _say_broadcast(by_node: Mapping[str, Any], slowest_mib_per_s: float) -> None:
    """One object from each node, or from some of many, to all others at once."""
    import ray

    one_by_one_s = (len(by_node) - 1) * OBJECT_BYTES / 2**20 / slowest_mib_per_s
    of = f"; {MOST_SOURCES} of {len(by_node)} nodes are tried" if len(by_node) > MOST_SOURCES else ""
    for source, probe in itertools.islice(by_node.items(), MOST_SOURCES):
        wrapped = ray.get(probe.make.remote(OBJECT_BYTES))
        begun = time.perf_counter()
        ray.get([other.fetch_s.remote(wrapped) for other in by_node.values() if other is not probe])
        took_s = time.perf_counter() - begun
        detail = f"{OBJECT_BYTES / 2**20:g} MiB at all {len(by_node) - 1} others after {1e3 * took_s:.0f} ms{of}"
        say(f"broadcast, {source}", detail, took_s > 2 * one_by_one_s + 2 * SLOW_CALL_MS / 1e3)


def _end_within(seconds: float) -> None:
    """From now on, whatever was said before."""

    def give_up(_number: int, _frame: FrameType | None) -> None:
        raise TimeoutError(f"the measurement did not end within {seconds:g} s")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(int(seconds))


def _measure_somewhere(slots: int, joined: list[str]) -> None:
    if joined:
        private.set_environment(joined[1])
        cpus = int(private.connect(joined[0], "whorl-doctor").get("CPU", 1))
        if cpus < slots:
            say("slots", f"{cpus}, as many as the cluster has CPUs")
        measure(min(slots, cpus))
        return
    cluster = private.PrivateCluster()
    try:
        cluster.start({"CPU": float(slots)}, "whorl-doctor")
        measure(slots)
    finally:
        cluster.end()


def main() -> int:
    """See the top of this module."""
    slots, *joined = sys.argv[1:]
    _end_within(LAST_S)
    try:
        _measure_somewhere(int(slots), joined)
    except Exception as error:
        print(f"{type(error).__name__}: {private.in_one_line(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
