"""Bellman targets of a batch: one experience at a time, all at once, and spread over other processes.

DQN's data generation in EXARL, which calls the network for each experience, took 90 % of its actors' time.
"""

from __future__ import annotations

from collections.abc import Sequence

from whorl.bench import mpi_roles
from whorl.config.schema import EngineConfig
from whorl.engines.contract import ChannelSpec, Message, Plan, RoleId, RoleSpec
from whorl.engines.registry import make_engine
from whorl.errors import WhorlError

ASKING = RoleId("learner", 0)
PROCESSES = 4
TIMEOUT_S = 300.0
_ROLES = "whorl.bench.mpi_roles"


class Found:
    """Listens for the one message that holds what was measured."""

    def __init__(self) -> None:
        self.body: dict[str, float] = {}

    def on_message(self, message: Message) -> None:
        """Keep it."""
        if message.kind == "found":
            self.body = message.body

    def on_restart(self, role: RoleId, incarnation: int, cause: str) -> None:
        """A measurement that was disturbed is none."""
        raise WhorlError(f"{role} was lost, now incarnation {incarnation}: {cause}")

    def on_placed(self, table: Sequence[str]) -> None:
        """Nobody asks."""


def measure_targets(engine: EngineConfig, singly: bool = False, repeats: int = 50) -> dict[str, float]:
    """Microseconds for the targets of 2,048 experiences, by way; ``singly``: those who help also go one by one."""
    helpers = [RoleId("helper", index) for index in range(PROCESSES)]
    out, back = ([f"{name}/{helper.index}" for helper in helpers] for name in ("out", "back"))
    layout = mpi_roles.EXPERIENCES
    asking = {"out": tuple(out), "back": tuple(back)}
    plan = Plan(
        roles=(
            RoleSpec(ASKING, f"{_ROLES}:ask_for_targets", asking, on_loss="restart_all"),
            *(
                RoleSpec(helper, f"{_ROLES}:make_targets", {"source": out[place], "out": back[place]})
                for place, helper in enumerate(helpers)
            ),
        ),
        job={"repeats": repeats, "ranks": PROCESSES, "singly": singly},
        channels=(
            *(ChannelSpec(out[place], layout, 1, ASKING, (helper,)) for place, helper in enumerate(helpers)),
            *(ChannelSpec(back[place], layout, 1, helper, (ASKING,)) for place, helper in enumerate(helpers)),
        ),
    )
    found = Found()
    with make_engine(engine).launch(plan, found) as cluster:
        cluster.run(until=lambda: bool(found.body), timeout_s=TIMEOUT_S)
    return found.body


def probe(engine: str, repeats: int) -> dict[str, float]:
    """As a cell of the study ``data-generation``: every way, in microseconds."""
    config = EngineConfig(name=engine)
    together = measure_targets(config, repeats=repeats)
    singly = measure_targets(config, singly=True, repeats=max(3, repeats // 5))
    return {**together, "spread_one_by_one": singly["spread"]}
