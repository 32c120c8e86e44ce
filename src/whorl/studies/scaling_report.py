"""What the study ``scaling`` makes of its results: efficiencies and their fit, and returns by number of workers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from whorl.runs.status import counted
from whorl.studies.contract import Report, Scale, Table
from whorl.studies.emulation import says
from whorl.studies.figures import Curves, Figure, Lines
from whorl.studies.findings import Finding, judge, plain_number, side_by_side, with_interval
from whorl.studies.published import TABLE_IV
from whorl.studies.results import Results
from whorl.studies.stats import Estimate, estimate, fit_speed_up, interquartile_mean, ratio, speed_up_terms

GAMES = ("Qbert", "SpaceInvaders")
STEP_S = 0.01
SIZES: dict[Scale, tuple[tuple[str, ...], tuple[int, ...], int]] = {
    "smoke": (("ppo",), (1, 2, 4), 1),
    "small": (("ppo", "a2c"), (1, 2, 4, 8, 16), 3),
    "paper": (("ppo", "a2c"), (1, 2, 4, 8, 16), 3),
}
"""Agents, workers, seeds of weak and strong scaling."""

_ALMOST_THE_SAME = "reward means almost the same, whatever the number of workers (Fig. 10)"
_REWARDS = {
    ("a2c", "Qbert"): "the best reward mean with 1 worker (Fig. 9)",
    ("ppo", "Qbert"): "good reward means with 1, 2 and 4 workers (Fig. 9)",
    ("a2c", "SpaceInvaders"): _ALMOST_THE_SAME,
    ("ppo", "SpaceInvaders"): _ALMOST_THE_SAME,
}
_REWARDS_OF_OTHERS = "better reward means with fewer CPU cores, said of IMPALA and Ape-X on four games"
By = Mapping[int, Sequence[float]]
"""A number for each seed, by workers."""


def report(results: Results) -> Report:
    """Everything."""
    scale = results.scale
    series = {
        (mode, agent, game): {
            int(workers): rates
            for workers, one in group.by("workers").items()
            if (rates := one.numbers("result.env_steps_per_s"))
        }
        for (mode, agent, game), group in results.by("mode", "agent", "game").items()
    }
    findings: list[Finding] = []
    figures: list[Figure] = []
    for mode, agent in dict.fromkeys((mode, agent) for mode, agent, _ in series if mode != "real"):
        findings += _scaling(results.where(mode=mode, agent=agent), mode, agent)
    returns = results.where(mode="weak" if scale == "paper" else "real")
    rewards = [
        _rewards(group, agent, game)
        for (agent, game), group in returns.by("agent", "game").items()
        if scale == "paper" or game not in GAMES
    ]
    for mode, game in dict.fromkeys((mode, game) for mode, _, game in series if mode != "real"):
        own = {agent: by for (of, agent, on), by in series.items() if (of, on) == (mode, game) and 1 in by}
        figures.append(_efficiency(scale, mode, game, own, [one for one in findings if one.name.endswith(mode)]))
    real = {f"{agent}, {game}": by for (mode, agent, game), by in series.items() if mode == "real" and 1 in by}
    if scale != "paper":
        figures.append(_real(real))
    figures += [_by_workers(returns, rewards), *_curves(returns)]
    findings += rewards
    return Report(findings, figures, [_terms(scale, series)], _remarks(results))


def _scaling(group: Results, mode: str, agent: str) -> Iterator[Finding]:
    """Near-linear to 4, and tapering past 8 (the mean of the games)."""
    scale = group.scale
    emulated = "" if scale == "paper" else says(STEP_S)
    rates = {
        int(workers): one.per_seed(lambda cell: cell.number("result.env_steps_per_s"))
        for workers, one in group.by("workers").items()
    }
    kept = {int(seed): _efficiencies(scale, one) for seed, one in group.by("seed").items()}
    yield judge(
        f"near_linear_to_four_workers_{agent}_{mode}",
        f"{agent.upper()} scales near-linearly to 4 workers ({mode})",
        ratio(rates[4], rates[1]) if rates.get(4) and rates.get(1) else None,
        above=3.0,
        since="three quarters of the ideal: a convention",
        unit="times the rate of one worker",
        published="near-linear to 4 workers",
        seen=f"Steps per second: {_by_number(rates, (1, 4))}.",
        because="Workers collect side by side; only the update is done by one.",
        otherwise="Likely the update, which is done by one, and waiting for each other take too large a share.",
        emulated=emulated,
    )
    if max(SIZES[scale][1]) < 16:
        return
    every = [one for one in kept.values() if {4, 8, 16} <= one.keys()]
    last = [one[16] * one[4] / one[8] ** 2 for one in every]
    shares = {"from 4 to 8": [one[8] / one[4] for one in every], "from 8 to 16": [one[16] / one[8] for one in every]}
    yield judge(
        f"tapers_past_eight_workers_{agent}_{mode}",
        f"{agent.upper()} tapers past 8 workers: more of its efficiency is lost from 8 to 16 than from 4 to 8 ({mode})",
        estimate(last) if last else None,
        below=0.9,
        since="a tenth is a tie: a convention",
        unit="of the efficiency kept from 8 to 16, over what is kept from 4 to 8",
        published="tapering past 8",
        seen=f"Share of the efficiency that is kept: {side_by_side(shares)}.",
        because="Likely what is done by one, and waiting for the slowest of many, takes a growing share of the time.",
        otherwise="Likely: here all workers are on one machine, so that no more data crosses a network with more of "
        "them, and steps that sleep take no core from one another."
        if emulated
        else "Likely what is done by one was still far from being the limit.",
        emulated=emulated,
    )


def _rewards(group: Results, agent: str, game: str) -> Finding:
    """What growing batches cost at the same number of environment steps."""
    by = {int(workers): one.numbers("result.return_mean") for workers, one in group.by("workers").items()}
    few, many = min(by), max(by)
    alike = game == "SpaceInvaders"
    verb = "comes" if few == 1 else "come"
    return judge(
        f"fewer_workers_learn_more_{agent}_{game}",
        f"{agent.upper()} on {game}: {counted(few, 'worker')} {verb} to {'the same' if alike else 'a better'} mean "
        f"reward {'as' if alike else 'than'} {many}, at the same environment steps",
        ratio(by[few], by[many]) if by[few] and by[many] and few != many else None,
        above=None if alike else 1.0,
        between=(0.9, 1.1) if alike else None,
        since="a tenth is a tie: a convention" if alike else "1 would be no difference",
        unit=f"times the return with {counted(many, 'worker')}",
        published=_REWARDS.get((agent, game), _REWARDS_OF_OTHERS),
        seen=f"Return at the end: {_by_number(by, (few, many))}. Batches grow with the workers.",
        because="Likely either number of updates was enough."
        if alike
        else "Likely because fewer workers make more updates of the same environment steps.",
        otherwise="Likely it matters how many updates the same environment steps make."
        if alike
        else "Likely updates of larger batches led further than more of them.",
    )


def _by_number(by: By, numbers: Sequence[int]) -> str:
    """``1 worker 93.2; 4 workers 350``."""
    return side_by_side({counted(n, "worker"): by.get(n, []) for n in numbers})


def _ideal(scale: Scale, workers: int) -> float:
    """How many times the environments (and CPUs) of one worker there are: 16 of the published have 20 each, not 36."""
    if scale != "paper":
        return float(workers)
    cpus = {row.workers: row.workers * row.cpus_per_worker for row in TABLE_IV}
    return cpus[workers] / cpus[1]


def _efficiencies(scale: Scale, group: Results) -> dict[int, float]:
    """Rate over the ideal, by workers; a mean over games."""
    found = {int(n): one.numbers("result.env_steps_per_s") for n, one in group.by("workers").items()}
    return {n: sum(rates) / len(rates) / _ideal(scale, n) for n, rates in found.items() if rates}


def _efficiency(scale: Scale, mode: str, game: str, own: Mapping[str, By], findings: Sequence[Finding]) -> Figure:
    """Of the ideal rate, with Gunther's law fitted to it."""
    groups, theory = {}, {}
    for agent, by in own.items():
        groups[agent] = _percent(scale, by)
        ideals = [_ideal(scale, n) for n in by]
        one = float(interquartile_mean(by[1]))
        fit = fit_speed_up(ideals, [float(interquartile_mean(rates)) / one for rates in by.values()])
        theory[f"fit: {agent}"] = [(float(n), float(100 * fit.at(x) / x)) for n, x in zip(by, ideals, strict=True)]
    said = "; ".join(f"{one.claim}: {one.shown}, {one.state}" for one in findings)
    return Lines(
        name=f"efficiency-{mode}-{game}",
        title=f"{mode.capitalize()} scaling on {game}: percent of the ideal rate",
        caption=f"{said or 'Too few numbers of workers to say'}. Grey: Gunther's law, fitted (terms: see the table).",
        x="workers",
        y="% of the ideal rate",
        groups=groups,
        theory=theory,
        log_x=True,
        from_zero=True,
        emulated="" if scale == "paper" else says(STEP_S),
    )  # fmt: skip


def _percent(scale: Scale, by: By) -> dict[float, list[float]]:
    one = float(interquartile_mean(by[1]))
    return {float(n): [100 * rate / one / _ideal(scale, n) for rate in rates] for n, rates in by.items()}


def _real(real: Mapping[str, By]) -> Figure:
    most = {name: [by[n][i] / float(interquartile_mean(by[1])) for i in range(len(by[n]))]
            for name, by in real.items() if (n := max(by)) > 1}  # fmt: skip
    return Lines(
        name="speed-up-real",
        title="Speed-up over one worker on the cores there are",
        caption=f"Times the rate of one worker, with the most workers: {side_by_side(most)}. They share few cores.",
        x="workers",
        y="times the rate of one worker",
        groups={
            name: {float(n): [rate / float(interquartile_mean(by[1])) for rate in rates] for n, rates in by.items()}
            for name, by in real.items()
        },
        theory={"ideal": [(1.0, 1.0), (float(most_workers), float(most_workers))]}
        if (most_workers := max((n for by in real.values() for n in by), default=1)) > 1
        else {},
        log_x=True,
        log_y=True,
    )


def _by_workers(returns: Results, rewards: Sequence[Finding]) -> Figure:
    said = "; ".join(f"{one.claim}: {one.shown}, {one.state}" for one in rewards)
    return Lines(
        name="return-by-workers",
        title="Return after the same environment steps, by number of workers",
        caption=f"{said or 'Nothing was measured'}. Batches grow with the workers.",
        x="workers",
        y="times the mean return with one worker",
        groups={f"{agent}, {game}": _over_one(group) for (agent, game), group in returns.by("agent", "game").items()},
        log_x=True,
        from_zero=True,
    )


def _over_one(group: Results) -> dict[float, list[float]]:
    """Returns of all numbers of workers, over those of one."""
    by = {float(n): one.numbers("result.return_mean") for n, one in group.by("workers").items()}
    one = float(interquartile_mean(by[1.0])) if by.get(1.0) else 0.0
    return {n: [value / one for value in values] for n, values in by.items()} if one > 0 else {}


def _curves(returns: Results) -> Iterator[Figure]:
    """Figs. 9 and 10."""
    for (game, agent), group in sorted(returns.by("game", "agent").items()):
        workers = {counted(int(n), "worker"): one for n, one in group.by("workers").items()}
        finals = {f"{name}:": one.numbers("result.return_mean") for name, one in workers.items()}
        short = " Too short to learn." if returns.scale != "paper" and game in GAMES else ""
        yield Curves(
            name=f"returns-{game}-{agent}",
            title=f"{agent.upper()} on {game}: returns over time",
            caption=f"Return at the end: {side_by_side(finals)}.{short} All have taken the same environment steps.",
            x="seconds since the first process's start",
            y="mean return of 100 episodes",
            groups={name: one.curves("wall_s") for name, one in workers.items()},
        )


def _terms(scale: Scale, series: Mapping[tuple[str, str, str], By]) -> Table:
    rows = []
    for (mode, agent, game), by in series.items():
        if 1 not in by or len(by) < 3:
            continue
        terms = speed_up_terms({_ideal(scale, n): rates for n, rates in by.items()})
        one = float(interquartile_mean(by[1]))
        shown = ", ".join(f"{n}: {float(interquartile_mean(rates)) / one:.2f}" for n, rates in sorted(by.items()))
        rows.append((f"{mode}, {agent}, {game}", shown, *map(_term, terms)))
    return Table(
        "Speed-ups, and the terms of the fit N / (1 + contention (N - 1) + coherence N (N - 1))",
        ("series", "speed-up by workers", "contention", "coherence"),
        rows,
        "With intervals of 95 % from resampled seeds, cut at 0. At paper scale N counts CPUs in multiples of one "
        "worker's.",
    )


def _term(found: Estimate) -> str:
    return with_interval(found.value, found.interval, "%", lambda share: plain_number(100 * share))


def _remarks(results: Results) -> list[str]:
    said = [
        "Batches of the published runs grow up to 32,000 environment steps with the number of workers: weak scaling."
    ]
    if results.scale == "paper":
        return [
            *said,
            "The published 16 workers have 20 CPUs each, and not 36: 8.9 times one worker's. Efficiencies count CPUs, "
            "so that this is not taken for tapering.",
        ]
    if not any(one.cell.labels["game"] in GAMES for one in results):
        said.append(f"{' and '.join(GAMES)} were not played: that takes pip install 'whorl[atari]'.")
    else:
        said.append(
            "Games are played for too few environment steps to learn: they show real rates, and that returns are "
            "recorded. What growing batches cost is judged on CartPole."
        )
    return said
