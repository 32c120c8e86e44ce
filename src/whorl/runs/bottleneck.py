"""Who is the bottleneck, in one sentence, and what to change."""

from __future__ import annotations

from collections.abc import Mapping

TimeShare = Mapping[str, Mapping[str, float]]
"""Per kind of role, per phase: a share of its time between 0 and 1."""

_WHO = {
    "learner": "the learner",
    "actor": "the actors",
    "env": "the environments' own processes",
    "replay": "the replays",
    "inference": "the inference server",
}
_WORK = ("learning", "environment", "inference", "transfer")
_SIGNIFICANT = 0.05
_BUSY = 0.6


def bottleneck(time_share: TimeShare, workflow: str = "") -> str:
    """Name the busiest kind of role, the work it is busy with, and what would help.

    >>> bottleneck({"learner": {"learning": 0.82, "waiting": 0.18}, "actor": {"environment": 0.1}}, "sync")
    'the learner learns 82 % of the time: fewer epochs, more --learner-threads or --workflow overlap would help'
    """
    busy = {kind: sum(shares.get(phase, 0.0) for phase in _WORK) for kind, shares in time_share.items()}
    work = [
        (shares.get(phase, 0.0), busy[kind], kind, phase)
        for kind, shares in time_share.items()
        for phase in _WORK
        if shares.get(phase, 0.0) >= _SIGNIFICANT
    ]
    if not work:
        return "no bottleneck to name yet: nobody has worked for long enough"
    share, _, kind, phase = max(work)
    turns = _taking_turns(busy, workflow)
    if turns:
        return turns
    advice = {
        "learning": _when_learning(workflow),
        "environment": "more --actors would help",
        "inference": "more --envs-per-actor (larger batches) or a smaller network would help",
        "transfer": "longer trajectories, fewer --actors per learner or smaller observations would help",
    }[phase]
    if kind == "replay":
        advice = "more workflow.replay_shards, or a lower workflow.samples_per_insert, would help"
    elif kind == "inference":
        advice = "a smaller network or a --device with more power would help, or --workflow async"
    return f"{_subject(kind, phase)} {_percent(share)} of the time: {advice}"


def _taking_turns(busy: Mapping[str, float], workflow: str) -> str:
    """Nobody is busy most of the time because each waits for the other: only overlapping helps."""
    learner, actors = busy.get("learner", 0.0), max(busy.get("actor", 0.0), busy.get("env", 0.0))
    if workflow != "sync" or max(learner, actors) >= _BUSY or min(learner, actors) < 0.25:
        return ""
    return (
        f"the learner (busy {_percent(learner)} of the time) and the actors ({_percent(actors)}) take turns: "
        "--workflow overlap lets them work at once"
    )


def _when_learning(workflow: str) -> str:
    if workflow == "gradients":
        return "a smaller network would help, or more --actors on more cores"
    ways = "fewer epochs, more --learner-threads"
    return f"{ways} or --workflow overlap would help" if workflow == "sync" else f"{ways} or more --learners would help"


def _subject(kind: str, phase: str) -> str:
    who = _WHO.get(kind, f"the {kind}")
    plural = who.endswith("s") or kind in ("actor", "env")
    verb = {
        "learning": ("learns", "learn"),
        "environment": ("steps environments", "step environments"),
        "inference": ("infers actions", "infer actions"),
        "transfer": ("moves data", "move data"),
    }[phase][plural]
    return f"{who} {verb}"


def _percent(share: float) -> str:
    return f"{100 * min(1.0, share):.0f} %"
