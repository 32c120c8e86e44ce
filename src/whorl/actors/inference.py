"""An inference server: acts for whoever asks, all at once, with the newest weights. It keeps nothing in between."""

from __future__ import annotations

import numpy as np

from whorl.agents.contract import Renewed
from whorl.engines.contract import Board, Channel, Role, RoleGenerator, RoleId, Wait
from whorl.job import Job
from whorl.models.precision import acting_precision
from whorl.types import Arrays, leaves_of


def run_inference(role: Role, weights: Board, requests: list[Channel], replies: list[Channel]) -> RoleGenerator:
    """A request waits for the batch before it and no longer: whatever has come meanwhile is the next batch."""
    job = Job.from_plain(role.job)
    policy = job.agent.policy(job.config.agent, job.env)
    buffer = weights.layout.allocate()
    views = weights.layout.views(buffer)
    idle = Wait(
        tuple(channel.readable for channel in requests),
        "any actor's request",
        tuple(RoleId("actor", i) for i in range(len(requests))),
    )
    renewed = policy if isinstance(policy, Renewed) else None
    yield from weights.wait_for(0)
    version = -1
    while True:
        asked = [(i, request) for i, channel in enumerate(requests) if (request := channel.try_claim()) is not None]
        if not asked:
            yield idle
            continue
        if weights.version != version:
            version = weights.read(buffer)
            if renewed is not None:
                renewed.renew(views, acting_precision(job.config))
        role.clock.enter("inference")
        together = _joined([request for _, request in asked])
        acted = policy.act(
            views, leaves_of(together, "obs/"), leaves_of(together, "state/"), together["first"], together["noise"]
        )
        role.clock.enter("transfer")
        begin = 0
        for i, request in asked:
            lanes = int(request["lanes"][0])
            part = slice(begin, begin := begin + lanes)
            reply = yield from replies[i].reserve()
            reply["number"][:] = request["number"]
            reply["version"][0] = version
            reply["action"][:lanes] = acted.actions[part]
            for prefix, arrays in (("field", acted.fields), ("state", acted.state)):
                for name, array in arrays.items():
                    reply[f"{prefix}/{name}"][:lanes] = array[part]
            replies[i].commit()
            requests[i].release()


def _joined(requests: list[Arrays]) -> Arrays:
    """The lanes of all requests, one after the other."""
    return {
        name: np.concatenate([request[name][: int(request["lanes"][0])] for request in requests])
        for name in requests[0]
        if name not in ("number", "lanes")
    }
