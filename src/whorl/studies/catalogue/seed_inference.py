"""Where central inference pays and where it costs: DQN against A2C, small against large models.

Each actor has a single environment, as EXARL's did: by itself it multiplies the whole model by one observation, while
the server multiplies it by those of all actors at once.
"""

from __future__ import annotations

from typing import Any

from whorl.studies.contract import Cell, Machine, Report, Scale, Study, Training
from whorl.studies.figures import Bars
from whorl.studies.findings import judge, side_by_side
from whorl.studies.published import EXARL
from whorl.studies.results import Results, pairs
from whorl.studies.stats import estimate, ratio

ACTORS, PAPER_ACTORS = 8, 32
AGENTS: dict[str, dict[str, Any]] = {
    "dqn": {"agent.rows": 128, "agent.learning_starts": 500, "agent.gradient_steps": 4},
    "a2c": {"agent.rows": 128, "agent.vtrace": True},
}
MODELS = {"small": (64, 64), "large": (1024, 1024)}
SIZES: dict[Scale, tuple[int, dict[str, int]]] = {
    "smoke": (1, {"small": 4_000, "large": 1_200}),
    "small": (5, {"small": 30_000, "large": 4_000}),
    "paper": (5, {"small": 1_000_000, "large": 1_000_000}),
}
"""Seeds, and environment steps by model: at `small` each run lasts 3 s or longer."""
ON_CPU = "Both actors and the server compute on the CPU, at every scale: a GPU is the learner's alone."


def cells(scale: Scale, engine: str) -> list[Cell]:
    """Both agents with both models, acting by themselves (async) or by a server (seed)."""
    seeds, steps = SIZES[scale]
    found = []
    for seed in range(1, seeds + 1):
        for agent, own in AGENTS.items():
            for model, hidden in MODELS.items():
                for workflow in ("async", "seed"):
                    options = {
                        "workflow": workflow,
                        "engine": engine,
                        "actors": actors_at(scale),
                        "envs-per-actor": 1,
                    }
                    options |= {"device": "cuda"} if scale == "paper" else {}
                    settings = {**own, "agent.network.hidden": hidden}
                    training = Training(agent, "CartPole-v1", steps[model], options, settings)
                    found.append(training.cell({"agent": agent, "model": model, "workflow": workflow}, seed))
    return found


def actors_at(scale: Scale) -> int:
    """How many there are."""
    return PAPER_ACTORS if scale == "paper" else ACTORS


_IN_VAIN = "Likely a batch of all actors' observations costs as much as its parts, or the learner is the bottleneck."


def _shown(rates: dict[str, list[float]], agent: str, model: str) -> str:
    return side_by_side({workflow: rates.get(f"{agent}, {model}, {workflow}", []) for workflow in ("async", "seed")})


def report(results: Results) -> Report:
    """Rates, and how central inference changes them."""
    rates = {
        f"{agent}, {model}, {workflow}": group.numbers("result.env_steps_per_s")
        for (agent, model, workflow), group in results.by("agent", "model", "workflow").items()
    }
    gain: dict[tuple[str, str], list[float]] = {}
    for agent in AGENTS:
        for model in MODELS:
            own, central = (results.where(agent=agent, model=model, workflow=name) for name in ("async", "seed"))
            both = pairs(own, central, "result.env_steps_per_s")
            gain[agent, model] = [after / before for before, after in both]
    gains = {f"{agent}, {model}": values for (agent, model), values in gain.items()}
    small, large = gain["a2c", "small"], gain["a2c", "large"]
    crowd = actors_at(results.scale)
    costs = judge(
        "central_inference_costs_small_models",
        "Central inference costs where the model is small",
        estimate(small) if small else None,
        below=1.0,
        since="as fast as acting by oneself",
        unit="times the rate of acting by oneself (A2C)",
        published="pays off with larger models on a GPU",
        seen=f"Steps per second: {_shown(rates, 'a2c', 'small')}.",
        because="A round trip likely takes longer than the inference it saves.",
        otherwise=f"What {crowd} actors save by computing together likely weighs more than a round trip.",
    )
    pays = judge(
        "central_inference_pays_with_large_models",
        "Central inference pays where the model is large",
        estimate(large) if large else None,
        above=1.0,
        since="as fast as acting by oneself",
        unit="times the rate of acting by oneself (A2C)",
        published="pays off with larger models on a GPU",
        seen=f"Steps per second: {_shown(rates, 'a2c', 'large')}.",
        because=f"Likely because the model is read once for all {crowd} actors, instead of once for each.",
        otherwise=_IN_VAIN,
    )
    grows = judge(
        "central_inference_gains_with_model_size",
        "Central inference gains with the size of the model",
        ratio(large, small) if large and small else None,
        above=1.0,
        since="the same gain with both models",
        unit="times as much gain with the large model (A2C)",
        published="pays off with larger models on a GPU",
        seen=f"Rate of seed over that of async: {side_by_side(gains)}.",
        because="A round trip likely weighs less beside a longer inference.",
        otherwise=_IN_VAIN,
    )
    theirs, ours = gain["a2c", "small"], gain["dqn", "small"]
    worse = judge(
        "central_inference_costs_dqn_more",
        "Central inference costs DQN more than A2C",
        ratio(ours, theirs) if ours and theirs else None,
        below=1.0,
        since="no more than A2C",
        unit="times A2C's gain",
        published="costs much for DQN, whose data generation then runs on the learner",
        seen=f"Rate of seed over that of async: {side_by_side(gains)}.",
        because="DQN's learner is likely busier, and serves later.",
        otherwise="The learner computes targets in batches in either workflow: DQN has likely nothing more to lose.",
    )
    return Report(
        [costs, pays, grows, worse],
        [
            Bars(
                name="rates",
                title=f"Acting by oneself (async), by a server (seed): {crowd} actors, an environment each",
                caption=f"A2C, server against oneself: small model {costs.shown}, {costs.state}; large model "
                f"{pays.shown}, {pays.state}. The axis is logarithmic.",
                x="agent, model, workflow",
                y="environment steps per second",
                groups=rates,
                log_y=True,
            ),
            Bars(
                name="gain",
                title="What central inference changes",
                caption=f"{side_by_side(gains)}. Below 1 it costs, above 1 it pays.",
                x="agent, model",
                y="rate of seed / rate of async",
                groups=gains,
            ),
        ],
        remarks=[
            f"Models: {', '.join(f'{name} {hidden[0]} x {hidden[1]}' for name, hidden in MODELS.items())}. {ON_CPU}"
        ],
    )


STUDY = Study(
    name="seed-inference",
    title="Central inference: DQN against A2C, small against large models",
    source=f"{EXARL}: SEED",
    engines=("local", "mpi", "ray"),
    cells=cells,
    report=report,
    machine=Machine(gpus=1),
    paper_notes=(ON_CPU,),
)
