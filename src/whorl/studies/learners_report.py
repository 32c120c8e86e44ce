"""What the study ``learners`` makes of its results: time saved, convergence, staleness, and the published figures."""

from __future__ import annotations

from whorl.runs.status import counted
from whorl.studies.catalogue import workflows
from whorl.studies.contract import Report, Scale, Table
from whorl.studies.curves import mean_returns, of_common_seeds
from whorl.studies.figures import Bars, Curves, Figure, Lines
from whorl.studies.findings import Finding, judge, plain_number, side_by_side, with_interval
from whorl.studies.learners_sizes import (
    EMULATED,
    NEAR,
    OFF_POLICY,
    ON_POLICY,
    REAL,
    actors_of,
    allowed_per_s,
    implied_rates,
    implied_share,
    says_asleep,
    why_ours,
)
from whorl.studies.published import (
    LEARNERS_THROUGHPUT_PERCENT,
    LEARNERS_TIME_PERCENT,
    MANY_LEARNERS_SAVED_PERCENT,
    QUEUE_FASTER_PERCENT,
)
from whorl.studies.results import Results
from whorl.studies.stats import Estimate, difference, estimate, ratio


def report(results: Results) -> Report:
    """Time saved, returns, staleness."""
    most_processes = max(processes for processes, _, _ in REAL[results.scale])
    real = results.where(part="real", processes=most_processes)
    asleep = bool(EMULATED[results.scale])
    published_sizes = results.where(part="emulated") if asleep else results.where(part="real", agent="impala")
    queue = {
        name: [workflows.learnt_per_s(one) for one in group]
        for name, group in results.where(part="queue").by("workflow").items()
    }
    queues = workflows.queue_beats_blocking(queue.get("queue", []), queue.get("blocking", []), results.scale)
    saved = _time_saved(published_sizes, results.scale)
    speed = _by_learners(real, "result.env_steps_per_s")
    staleness = _by_learners(real, "result.staleness.mean")
    updates = _by_learners(real, "result.updates")
    real_saved = [_real_time_saved(agent, rates, most_processes, real.cores_shown) for agent, rates in speed.items()]
    costs, kept = _convergence(real, staleness, updates)
    groups = {
        f"{agent}, {counted(int(n), 'learner')}": few.curves()
        for (agent, n), few in real.by("agent", "learners").items()
    }
    figures: list[Figure] = [
        Bars(
            name="rates",
            title="Environment steps per second at a fixed number of processes",
            caption=f"Time saved: {saved[0].shown}; {saved[0].state}."
            + (f" {implied_rates(results.scale)}" if asleep else ""),
            x="processes: learners among them",
            y="environment steps per second",
            groups={
                f"{size}: {learners}": group.numbers("result.env_steps_per_s")
                for (size, learners), group in published_sizes.by("processes", "learners").items()
            },
            emulated=says_asleep(results.scale),
        ),
        Lines(
            name="real-rates",
            title="Real: environment steps per second on the cores of this machine",
            caption=f"{_changes(speed)}. {real.cores_shown} bear {most_processes} processes.",
            x="learners",
            y="environment steps per second",
            from_zero=True,
            groups=speed,
        ),
        Curves(
            name="returns",
            title="Real: returns at the same number of processes",
            caption=" ".join(f"{one.claim}: {one.shown}, {one.state}." for one in costs),
            x="environment steps",
            y="mean return of 100 episodes",
            groups=groups,
        ),
        Lines(
            name="staleness",
            title="Real: staleness",
            caption=f"Updates between acting and learning, on average: {_changes(staleness)}.",
            x="learners",
            y="updates",
            groups=staleness,
        ),
    ]
    table = _beside(published_sizes, queues, results.scale)
    return Report([*saved, *real_saved, *costs, *kept], figures, [table], why_ours(results.scale))


def _time_saved(bound: Results, scale: Scale) -> list[Finding]:
    """At the most processes, and how near it comes to what the sleeps allow."""
    processes = max((int(one.cell.labels["processes"]) for one in bound), default=0)
    took = {n: values for n, values in _rates(bound, processes).items() if values}
    most = int(max(took, default=1))
    share = _compared(bound, processes)
    asleep = bool(EMULATED[scale])
    implied = f" The sleeps alone imply {100 * (1 - implied_share(processes, most)):.1f} %." if asleep and took else ""
    shown = side_by_side({counted(int(n), "learner"): values for n, values in sorted(took.items())})
    saved = judge(
        "more_learners_save_time",
        f"{most} learners save time at the same {processes} processes while learning is the bottleneck",
        None if share is None else share.percent_saved(),
        above=0.0,
        since="as long as one learner takes",
        unit="% less time for the same environment steps",
        published=f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % (20 learners and 120 actors), "
        f"{LEARNERS_TIME_PERCENT:.0f} % (8 and 16)",
        seen=f"Steps per second: {shown}.{implied}",
        because="Each learner takes a share of the updates' work.",
        otherwise="Likely learning is not the bottleneck here.",
        emulated=says_asleep(scale),
    )
    if not asleep:
        return [saved]
    allowed = allowed_per_s(processes, most) if took else 1.0
    actors = actors_of(processes, most) if took else 0
    reached = [rate / allowed for rate in took.get(float(most), [])] if most > 1 else []
    near = judge(
        "many_learners_come_to_what_the_sleeps_allow",
        f"{most} learners with {actors} actors come to the {allowed:,.0f} environment steps per second that the sleeps "
        "allow",
        estimate(reached) if reached else None,
        above=NEAR,
        since="a tenth less passes for it: a convention",
        unit="of that rate",
        seen=f"Steps per second: {shown}.",
        because="Likely adding up gradients and handing over trajectories hides behind the sleeps.",
        otherwise="Likely adding up gradients and handing over trajectories costs what no sleep explains.",
        emulated=says_asleep(scale),
    )
    return [saved, near]


def _real_time_saved(agent: str, rates: dict[float, list[float]], processes: int, cores: str) -> Finding:
    """Without any sleep, on the cores there are."""
    known = {n: values for n, values in rates.items() if values}
    most = max(known, default=1.0)
    share = ratio(known[1.0], known[most]) if 1.0 in known and most > 1 else None
    shown = side_by_side({counted(int(n), "learner"): values for n, values in sorted(known.items())})
    return judge(
        f"more_learners_save_real_time_{agent}",
        f"{most:.0f} learners save {agent} time at the same {processes} processes, with nothing asleep",
        None if share is None else share.percent_saved(),
        above=0.0,
        since="as long as one learner takes",
        unit="% less time for the same environment steps",
        published=f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % and {LEARNERS_TIME_PERCENT:.0f} %, a core for each process",
        seen=f"Steps per second: {shown}. {processes} processes share {cores}.",
        otherwise="More learners likely bring waiting and no more work done.",
    )


def _convergence(
    real: Results, staleness: dict[str, dict[float, list[float]]], updates: dict[str, dict[float, list[float]]]
) -> tuple[list[Finding], list[Finding]]:
    """What each agent loses, and whether the on-policy one loses less of it."""
    losses, kept = [], {}
    for agent, group in real.by("agent").items():
        by_learners = group.by("learners")
        most = max(by_learners)
        means = mean_returns({str(n): few for n, few in by_learners.items()})
        one, many = means.get("1", []), means[str(most)] if most > 1 else []
        if one and many:
            both = mean_returns(of_common_seeds({"before": by_learners[1], "after": by_learners[most]}))
            pairs = zip(both["before"], both["after"], strict=True)
            kept[agent] = [(after - before) / abs(before) for before, after in pairs]
        shown = (
            f"Updates: {_changes({agent: updates[agent]})}; how old data was: {_changes({agent: staleness[agent]})}."
        )
        fewer, older = _is_more(updates[agent], -1), _is_more(staleness[agent])
        more, fresher = _is_more(updates[agent]), _is_more(staleness[agent], -1)
        losses.append(
            judge(
                f"more_learners_cost_convergence_{agent}",
                f"{most} learners cost {agent} convergence, at the same environment steps",
                difference(one, many) if one and many else None,
                above=0.0,
                since="no loss",
                unit="of mean return over the run lost",
                published="poorer convergence, because the policy is refreshed less often",
                seen=shown,
                because=_likely({"updates are fewer": fewer, "data is older": older}),
                otherwise=_likely({"updates are more": more, "data is fresher": fresher}),
            )
        )
    suits = judge(
        "many_learners_suit_on_policy_agents",
        f"{ON_POLICY} keeps more of its mean return with many learners than {OFF_POLICY}",
        difference(kept[ON_POLICY], kept[OFF_POLICY]) if {ON_POLICY, OFF_POLICY} <= set(kept) else None,
        above=0.0,
        since="neither keeps more",
        unit="of the size of the mean return with 1 learner",
        published="multi-learner async suits on-policy agents (no figure)",
        seen=f"Changes, as shares: {side_by_side(kept)}.",
        because=_likely(
            {
                f"{ON_POLICY}'s data is fresher, by which {OFF_POLICY} gains nothing: it has its replay": _is_more(
                    staleness.get(ON_POLICY, {}), -1
                )
            }
        ),
        otherwise=f"Likely {OFF_POLICY}, which learns from old data anyway, bears it better.",
    )
    return losses, [suits]


def _is_more(by_learners: dict[float, list[float]], sign: int = 1) -> bool:
    """Whether a number grows from the fewest learners to the most; with -1, whether it falls."""
    known = {n: estimate(values).value for n, values in by_learners.items() if values}
    return bool(known) and sign * (known[max(known)] - known[min(known)]) > 0


def _likely(reasons: dict[str, bool]) -> str:
    """Of what may be the reason, what was measured to be so; empty where nothing was."""
    true = " and ".join(reason for reason, holds in reasons.items() if holds)
    return f"Likely because {true}." if true else ""


def _beside(bound: Results, queues: Finding, scale: Scale) -> Table:
    """The published figures, and ours."""
    asleep = bool(EMULATED[scale])
    sizes = {size: max(numbers) for size, numbers, _ in EMULATED[scale]}

    def implied(processes: int, rule: str) -> str:
        if processes not in sizes:
            return "-"
        share = implied_share(processes, sizes[processes])
        return f"{100 * (1 / share - 1):+.0f} %" if rule == "gain" else f"{100 * (1 - share):.0f} %"

    queue_implied = f"{100 * (workflows.QUEUE_RATE / workflows.BLOCKING_RATE - 1):.0f} %" if scale != "paper" else "-"
    rows = [
        ("queue against blocking async, one learner", f"{QUEUE_FASTER_PERCENT:.0f} % faster", _faster(queues)),
        ("8 learners and 8 actors", f"+{LEARNERS_THROUGHPUT_PERCENT} % throughput", _gain(bound, 16)),
        ("8 learners and 16 actors", f"{LEARNERS_TIME_PERCENT:.0f} % less time", _saved(bound, 24)),
        ("20 learners and 120 actors", f"{MANY_LEARNERS_SAVED_PERCENT:.0f} % less time", _saved(bound, 140)),
    ]
    extra = [queue_implied, implied(16, "gain"), implied(24, "saved"), implied(140, "saved")]
    return Table(
        "Beside what was published, for other machines",
        ("what", "published", "here", "implied by the sleeps"),
        [(*row, more) for row, more in zip(rows, extra, strict=True)],
        "Each against one learner with the same number of processes."
        + (" Here steps and updates are asleep: see the first figure." if asleep else ""),
    )


def _by_learners(real: Results, name: str) -> dict[str, dict[float, list[float]]]:
    """A number of each agent's runs, by learners."""
    return {
        str(agent): {float(n): few.numbers(name) for n, few in group.by("learners").items()}
        for agent, group in real.by("agent").items()
    }


def _rates(results: Results, processes: int) -> dict[float, list[float]]:
    """Environment steps per second by learners."""
    by_learners = results.where(processes=processes).by("learners")
    return {float(n): group.numbers("result.env_steps_per_s") for n, group in by_learners.items()}


def _compared(results: Results, processes: int) -> Estimate | None:
    """Time of most learners as a share of one learner's."""
    rates = {n: values for n, values in _rates(results, processes).items() if values}
    return ratio(rates[1.0], rates[max(rates)]) if 1.0 in rates and len(rates) > 1 else None


def _faster(queues: Finding) -> str:
    if queues.measured is None:
        return "not measured"
    return with_interval(queues.measured, queues.interval, "% faster", lambda times: f"{100 * (times - 1):.0f}")


def _saved(results: Results, processes: int) -> str:
    share = _compared(results, processes)
    if share is None:
        return "not at this scale"
    saved = share.percent_saved()
    return with_interval(saved.value, saved.interval, "% less time", lambda percent: f"{percent:.0f}")


def _gain(results: Results, processes: int) -> str:
    share = _compared(results, processes)
    if share is None:
        return "not at this scale"
    interval = share.interval and (share.high, share.low)
    return with_interval(share.value, interval, "% throughput", lambda share: f"{100 * (1 / share - 1):+.0f}")


def _changes(groups: dict[str, dict[float, list[float]]]) -> str:
    """From the fewest learners to the most, for each agent."""
    parts = []
    for agent, by_learners in groups.items():
        known = {n: estimate(values).value for n, values in by_learners.items() if values}
        if known:
            few, many = min(known), max(known)
            least, most = plain_number(known[few]), plain_number(known[many])
            parts.append(f"{agent} {least} with {few:.0f} learner, {most} with {many:.0f}")
    return "; ".join(parts) or "nothing was measured"
