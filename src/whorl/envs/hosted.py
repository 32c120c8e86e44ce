"""An environment in a process of its own: the messages, and the half that lives with the environment.

The actor writes *commands* into one channel, one at a time, and the host writes an *answer* to each into another:

    RESET    begin an episode
    STEP     take an action
    RESTORE  bring a snapshot back
    CLOSE    end

Every command carries the incarnation of the host it is meant for and a number that its answer repeats. A host drops
what was meant for the one before it, and the actor drops answers to questions it no longer asks, so nothing that
comes late does harm. The actor's half is ``whorl.envs.hosted_lanes``.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, Protocol

import numpy as np

from whorl.envs.deadline import NoClock, StepClock, StepDeadline
from whorl.envs.lane import Lane, StepRaised
from whorl.envs.row_block import RowBlock
from whorl.errors import WhorlError
from whorl.types import Array, Arrays, EnvSpec, Field, Layout

RESET, STEP, RESTORE, CLOSE = range(4)
DONE, RAISED, REFUSED = range(3)
"""An answer's status: as asked; the environment raised and was dropped; its values are forbidden, and the run ends."""

ANY_INCARNATION = -1
"""An actor that does not know its host yet (it may be a replaced one itself) addresses whoever is there."""

SNAPSHOT_BYTES = 64 * 1024
"""Larger snapshots do not travel; such a lane is brought back by stepping its actions again."""
_MESSAGE_BYTES = 1024

_GOLDEN = 0.6180339887498949
_SPREAD_S = 0.25
"""The most by which a host's first step is drawn out."""


class HostChannel(Protocol):
    """What lanes use of an engine's channel."""

    def reserve(self) -> Generator[Any, None, Arrays]: ...

    def commit(self) -> None: ...

    def try_claim(self) -> Arrays | None: ...

    def claim(self) -> Generator[Any, None, Arrays]: ...

    def release(self) -> None: ...

    @property
    def readable(self) -> Any: ...

    @property
    def writable(self) -> Any: ...


def host_layouts(spec: EnvSpec) -> tuple[Layout, Layout]:
    """Layouts of the commands to a host and of its answers. Two slots of each are enough."""
    snapshot = (Field("snapshot", (SNAPSHOT_BYTES,), "uint8"),) if spec.restore == "snapshot" else ()
    common = tuple(Field(name, (), "int64") for name in ("incarnation", "number", "snapshot_size"))
    commands = Layout(
        (
            *common,
            Field("kind", (), "int64"),
            Field("episode", (), "int64"),
            Field("attempt", (), "int64"),
            Field("action", spec.action.shape, spec.action.dtype),
            *snapshot,
        )
    )
    answers = Layout(
        (
            *common,
            Field("status", (), "int64"),
            Field("faults", (), "int64"),
            Field("reward", (), "float64"),
            Field("terminated", (), "bool"),
            Field("truncated", (), "bool"),
            Field("metrics", (len(spec.episode_metrics),), "float64"),
            Field("message", (_MESSAGE_BYTES,), "uint8"),
            *spec.observation_fields("obs/"),
            *snapshot,
        )
    )
    return commands, answers


def run_host(
    lane: Lane, commands: HostChannel, answers: HostChannel, incarnation: int, clock: StepClock | None = None
) -> Generator[Any, None, None]:
    """Serve one lane until CLOSE. Yields what the channels wait for."""
    clock = clock or NoClock()
    deadline = StepDeadline(lane.config.step_timeout_s)
    block = RowBlock(lane.spec, 1)
    lane.bind(block.targets(0))
    in_step_with_others = incarnation == 0
    try:
        while True:
            command = yield from commands.claim()
            if int(command["incarnation"]) not in (incarnation, ANY_INCARNATION):
                commands.release()
                continue
            if int(command["kind"]) == CLOSE:
                return
            clock.enter("environment", deadline.seconds, lane.index)
            started_s = time.perf_counter()
            status, ends, message = _obey(lane, block, command)
            duration_s = time.perf_counter() - started_s
            deadline.saw(duration_s)
            clock.enter("other")  # what follows is not the environment's, and its deadline is over
            if in_step_with_others and int(command["kind"]) == STEP:
                in_step_with_others = False
                time.sleep(share_of_a_step(lane.index, duration_s))
            answer = yield from answers.reserve()
            answer["incarnation"][...] = incarnation
            answer["number"][...] = command["number"]
            commands.release()
            answer["status"][...] = status
            answer["faults"][...] = lane.fault_count
            answer["reward"][...], answer["terminated"][...], answer["truncated"][...] = ends
            if lane.metrics and (ends[1] or ends[2]):
                answer["metrics"][...] = lane.metrics
            if message or status != DONE:
                write_text(answer["message"], message)
            for name, leaf in block.rows.observation.items():
                answer[f"obs/{name}"][...] = leaf[0]
            write_snapshot(answer, lane.snapshot() if status == DONE else None)
            answers.commit()
    finally:
        lane.close()


def share_of_a_step(lane: int, duration_s: float) -> float:
    """How long a host draws its first step out. Hosts that begin together and take equally long would else end all
    their steps together, and be served one after the other while the processor idles the rest of the time."""
    return min(_SPREAD_S, duration_s) * (lane * _GOLDEN % 1)


def _obey(lane: Lane, block: RowBlock, command: Arrays) -> tuple[int, tuple[float, bool, bool], str]:
    """Do as commanded: status, (reward, terminated, truncated), message."""
    ends = (0.0, False, False)
    kind, episode = int(command["kind"]), int(command["episode"])
    try:
        if kind == RESET:
            lane.begin(episode, int(command["attempt"]))
        elif kind == RESTORE:
            snapshot = read_snapshot(command)
            if snapshot is None or not lane.restore(episode, snapshot):
                return RAISED, ends, lane.faults[-1] if lane.faults else "no snapshot came with the command"
        else:
            (action,) = lane.actions_for_env(command["action"][None])
            ends = lane.step(action)
        refused = block.check(lane.door, ends[:1])
        if refused is not None:
            raise lane.refusal(refused[1])
    except StepRaised as error:
        return RAISED, ends, str(error)
    except WhorlError as error:
        return REFUSED, ends, str(error)
    return DONE, ends, ""


def write_text(target: Array, text: str) -> None:
    """Text into bytes, cut to fit, padded with zeros."""
    raw = text.encode()[: len(target)]
    target[: len(raw)] = np.frombuffer(raw, np.uint8)
    target[len(raw) :] = 0


def read_text(source: Array) -> str:
    """The inverse of ``write_text``."""
    return source.tobytes().rstrip(b"\0").decode(errors="replace")


def write_snapshot(message: Arrays, snapshot: bytes | None) -> None:
    """A snapshot into a message, where there is one and it fits."""
    fits = snapshot is not None and "snapshot" in message and len(snapshot) <= SNAPSHOT_BYTES
    message["snapshot_size"][...] = len(snapshot) if fits and snapshot is not None else -1
    if fits and snapshot is not None:
        message["snapshot"][: len(snapshot)] = np.frombuffer(snapshot, np.uint8)


def read_snapshot(message: Arrays) -> bytes | None:
    """The inverse of ``write_snapshot``."""
    size = int(message["snapshot_size"])
    return message["snapshot"][:size].tobytes() if size >= 0 else None
