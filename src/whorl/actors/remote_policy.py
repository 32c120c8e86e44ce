"""An actor's side of central inference: observations out, actions back. No model and no torch here."""

from __future__ import annotations

from collections.abc import Callable, Generator

from whorl.agents.contract import Acted
from whorl.engines.contract import Channel, Role, RoleId, Wait
from whorl.job import Job
from whorl.types import Array, Arrays, Field, Layout, leaves_of

SERVER = RoleId("inference", 0)


def request_layout(job: Job) -> Layout:
    """What acting takes besides the weights, for as many lanes as are ready."""
    agent, lanes = job.agent_spec, job.lane_map.envs_per_actor
    return Layout(
        (
            Field("number", (1,), "int64"),
            Field("lanes", (1,), "int64"),
            *(Field(f.name, f.shape[1:], f.dtype) for f in job.env.observation_fields("obs/", 1, lanes)),
            Field("first", (lanes,), "bool"),
            Field("noise", (lanes, agent.noise_width), "float32"),
            *(Field(f"state/{f.name}", (lanes, *f.shape), f.dtype) for f in agent.state),
        )
    )


def reply_layout(job: Job) -> Layout:
    """What acting gives, and the version of the weights it was done with."""
    agent, lanes, action = job.agent_spec, job.lane_map.envs_per_actor, job.env.action
    return Layout(
        (
            Field("number", (1,), "int64"),
            Field("version", (1,), "int64"),
            Field("action", (lanes, *action.shape), action.dtype),
            *(Field(f"field/{f.name}", (lanes, *f.shape), f.dtype) for f in agent.fields),
            *(Field(f"state/{f.name}", (lanes, *f.shape), f.dtype) for f in agent.state),
        )
    )


class RemotePolicy:
    """Acts by asking. A request that a lost server had taken is sent again to the next one; it keeps nothing."""

    def __init__(self, role: Role, requests: Channel, replies: Channel, listen: Callable[[], object]) -> None:
        self._line = role.line
        self._requests, self._replies, self._listen = requests, replies, listen
        self._number = role.incarnation << 40  # another incarnation's replies are nobody's
        self._server_was_lost = False

    def server_lost(self) -> None:
        """What it had been asked is not going to be answered."""
        self._server_was_lost = True

    def act(
        self, observation: Arrays, state: Arrays, first: Array, noise: Array
    ) -> Generator[Wait, None, tuple[Acted, int]]:
        """What ``Policy.act`` gives, and the version of the weights."""
        self._number += 1
        yield from self._ask(observation, state, first, noise)
        while (reply := self._newest_reply()) is None:
            yield Wait((self._replies.readable, self._line.readable), f"actions of {SERVER}", (SERVER,))
            self._listen()
            if self._server_was_lost:
                yield from self._ask(observation, state, first, noise)
        fields, after, lanes = leaves_of(reply, "field/"), leaves_of(reply, "state/"), len(first)
        acted = Acted(reply["action"][:lanes].copy(), _copies(fields, lanes), _copies(after, lanes))
        version = int(reply["version"][0])
        self._replies.release()
        return acted, version

    def _ask(self, observation: Arrays, state: Arrays, first: Array, noise: Array) -> Generator[Wait, None, None]:
        self._server_was_lost = False
        request = yield from self._requests.reserve()
        request["number"][0] = self._number
        request["lanes"][0] = lanes = len(first)
        request["first"][:lanes] = first
        request["noise"][:lanes] = noise
        for name, array in observation.items():
            request[f"obs/{name}"][:lanes] = array
        for name, array in state.items():
            request[f"state/{name}"][:lanes] = array
        self._requests.commit()

    def _newest_reply(self) -> Arrays | None:
        """The answer to what was asked last; others were asked twice, or by a lost actor."""
        while (reply := self._replies.try_claim()) is not None:
            if int(reply["number"][0]) == self._number:
                return reply
            self._replies.release()
        return None


def _copies(arrays: Arrays, lanes: int) -> Arrays:
    return {name: array[:lanes].copy() for name, array in arrays.items()}
