"""What studies make of results: seeds are counted as seeds, and what is missing does not stop a report."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest

from whorl.runs.plot import figure_class
from whorl.studies import findings
from whorl.studies.catalogue import windows
from whorl.studies.contract import SCALES
from whorl.studies.durations import MINUTES, expected_s, roughly
from whorl.studies.figures import DPI, NARROW, Bars, Curves, Lines
from whorl.studies.findings import FEWEST_SEEDS, Finding, judge
from whorl.studies.learners_sizes import OFF_POLICY
from whorl.studies.published import redundant_share
from whorl.studies.registry import NAMES, get_study
from whorl.studies.report import write_report
from whorl.studies.results import CellResult, Results, pairs

from .fakes import fake_results

PROMISED = {
    "workflows": {"queue_beats_blocking_async"},
    "learners": {"more_learners_save_time", "more_learners_cost_convergence_impala"},
    "windows": {"owned_windows_waste_nothing"},
    "data-generation": {"batching_beats_spreading"},
    "vtrace": {"vtrace_rescues_stale_a2c"},
    "priorities": {"prioritised_replay_helps_dqn", "prioritised_replay_helps_ddpg"},
    "elastic": {"resizing_costs_less_than_a_restart"},
}


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, ("small", "paper"))])
def test_every_finding_rests_on_enough_seeds_and_counts_nothing_else_as_one(name: str, scale: str) -> None:
    results = fake_results(get_study(name), scale)  # type: ignore[arg-type]
    most = len({one.cell.seed for one in results})
    made = get_study(name).report(results)
    assert made.findings
    assert PROMISED.get(name, set()) <= {finding.name for finding in made.findings}
    for finding in made.findings:
        assert finding.measured is not None, finding.name
        assert min(FEWEST_SEEDS, most) <= finding.seeds <= most, finding.name
        assert most >= FEWEST_SEEDS or scale == "paper", "small scale carries findings"
    for figure in made.figures:
        assert max(figure.counts()) <= most, figure.name
        assert figure.x
        assert figure.y
        assert figure.caption.endswith(".")


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, ("small", "paper"))])
def test_a_caption_that_makes_a_claim_says_what_was_found_of_it(name: str, scale: str) -> None:
    made = get_study(name).report(fake_results(get_study(name), scale))  # type: ignore[arg-type]
    for figure in made.figures:
        places = sorted((figure.caption.find(one.claim), one.state) for one in made.findings)
        places = [place for place in places if place[0] >= 0]
        ends = [*(start for start, _ in places), None][1:]
        for (start, state), end in zip(places, ends, strict=True):
            assert state in figure.caption[start:end], figure.name


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, SCALES)])
def test_a_report_is_made_of_whatever_cells_have_ended(name: str, scale: str) -> None:
    study = get_study(name)
    whole = fake_results(study, scale)  # type: ignore[arg-type]
    for some in (whole.cells[:1], whole.cells[-1:], whole.cells[::2], whole.cells[1::2]):
        study.report(Results(whole.scale, whole.engine, some))


def test_workflows_are_compared_with_nothing_asleep_too() -> None:
    made = get_study("workflows").report(fake_results(get_study("workflows"), "small"))
    (real,) = (finding for finding in made.findings if finding.name.endswith("_with_nothing_asleep"))
    assert not real.emulated
    assert "sleep" not in real.explanation
    assert {figure.name for figure in made.figures if not figure.emulated} == {"rates-real", "returns"}
    at_paper = get_study("workflows").report(fake_results(get_study("workflows"), "paper"))
    names = [finding.name for finding in at_paper.findings]
    assert names == ["queue_beats_blocking_async", "more_actors_do_not_help_one_learner"], "nothing sleeps there anyway"


def test_a_resized_run_is_held_against_fixed_numbers_phase_by_phase() -> None:
    study = get_study("elastic")
    taken = {"schedule": [19.8], "restart": [6.0, 7.0, 11.0], "fixed-most": [10.0], "fixed-half": [20.0]}
    results = fake_results(study, "small")
    curve = {"env_steps": [0.0, 9216.0], "wall_s": [0.0, 18.0], "return_mean": [1.0, 1.0]}
    results = replace(
        results,
        cells=[replace(one, seconds=taken.get(one.cell.labels["way"], [30.0]), curve=curve) for one in results],
    )
    made = study.report(results)
    (close,) = (one for one in made.findings if one.name == "resized_run_takes_what_fixed_numbers_imply")
    assert close.measured == pytest.approx(19.8 / 20.0), "a third of each of 10, 20 and 30 s"
    assert close.state == "as expected"
    assert made.tables[1].rows[0] == ("3,072", "4", "6.0", "6.0", "15 min: 2 M steps, 128 workers")
    assert made.tables[1].rows[2] == ("3,072", "1", "7.8", "11.0", "44 min: 5 M steps, 32 workers")


def test_one_worker_is_slowest_only_if_every_other_number_is_faster() -> None:
    study = get_study("node-shape")
    results = fake_results(study, "small")

    def slowest(rates: dict[int, float]) -> str:
        cells = [
            replace(one, values={"result": {"env_steps_per_s": rates[one.cell.labels["workers"]]}}) for one in results
        ]
        (found,) = (
            one for one in study.report(replace(results, cells=cells)).findings if one.name == "one_worker_is_slowest"
        )
        return found.state

    assert slowest({1: 100.0, 2: 110.0, 4: 120.0, 8: 130.0}) == "as expected"
    assert slowest({1: 100.0, 2: 90.0, 4: 120.0, 8: 130.0}) == "the contrary"


@pytest.mark.parametrize("name", NAMES)
def test_what_sleeps_is_said_on_the_picture_and_with_the_finding(name: str) -> None:
    study = get_study(name)
    results = fake_results(study, "small")
    made = study.report(results)
    if all(one.cell.emulated for one in results):
        assert all(figure.emulated for figure in made.figures)
        assert all(finding.emulated for finding in made.findings)
        return
    # Those that come out otherwise when only emulated cells do are the ones that rest on them.
    other = study.report(replace(results, cells=[_otherwise(one) for one in results]))
    for before, after in zip(made.findings, other.findings, strict=True):
        assert bool(before.emulated) == (before.measured != after.measured), before.name
    for figure, changed in zip(made.figures, other.figures, strict=True):
        assert bool(figure.emulated) == (figure.csv() != changed.csv()), figure.name


def _otherwise(one: CellResult) -> CellResult:
    """An emulated cell with other numbers, which differ from its neighbours' otherwise too."""
    if not one.cell.emulated:
        return one
    factor = 2 + sum(map(ord, one.cell.name)) % 13 / 10

    def changed(value: object) -> Any:
        if isinstance(value, dict):
            return {name: f"another than {one}" if "sha256" in name else changed(one) for name, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        return value * factor if isinstance(value, float) else value

    return replace(one, values=changed(one.values), curve=changed(one.curve))


JUDGED = (
    "vtrace", "priorities", "windows", "learners", "data-generation", "seed-inference", "resources", "data-parallel",
    "scaling", "atari-throughput", "tetris",
)  # fmt: skip
"""Studies whose explanations of the contrary are marked as likely."""


@pytest.mark.parametrize(("name", "scale"), [*product(NAMES, ("small", "paper"))])
def test_what_is_undecided_is_explained_by_nothing_and_the_contrary_by_what_is_likely(
    name: str, scale: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: dict[str, dict[str, str]] = {}

    def heard(name: str, *rest: Any, **words: Any) -> Finding:
        said[name] = words
        return judge(name, *rest, **words)

    study = get_study(name)
    for module in [module for path, module in sys.modules.items() if path.startswith("whorl.studies.")]:
        if getattr(module, "judge", None) is judge and module is not findings:
            monkeypatch.setattr(module, "judge", heard)
    results = fake_results(study, scale)  # type: ignore[arg-type]
    for state in ("undecided", "the contrary", "as expected"):
        monkeypatch.setattr(findings.Expectation, "state", lambda self, found, state=state: state)
        for finding in study.report(results).findings:
            if finding.seeds < FEWEST_SEEDS:
                continue
            words = said[finding.name]
            seen, because, otherwise = (words.get(part, "") for part in ("seen", "because", "otherwise"))
            assert finding.explanation.startswith(seen), finding.name
            told = finding.explanation.removeprefix(seen).strip()
            if state == "undecided":
                assert told.startswith("Undecided: "), finding.name
                assert not because or because not in finding.explanation, finding.name
                assert not otherwise or otherwise not in finding.explanation, finding.name
            elif state == "the contrary":
                assert told == f"The contrary was found. {otherwise}".strip(), finding.name
                fault = "fault of this implementation"
                assert not otherwise or name not in JUDGED or "ikely" in otherwise or fault in otherwise, otherwise
            else:
                assert told == (because or ("" if seen else "As expected.")), finding.name


def test_windows_are_expected_to_clash_as_the_formula_says_and_no_otherwise() -> None:
    made = windows.report(fake_results(windows.STUDY, "small"))
    expected = {finding.name: finding.expected for finding in made.findings}
    assert expected["random_windows_clash_at_25_percent"].startswith("equal to 11.2 %")
    assert expected["random_windows_clash_at_100_percent"].startswith("equal to 36.6 %")
    assert expected["owned_windows_waste_nothing"].startswith("at most 0 %")
    assert (round(100 * redundant_share(30, 120), 1), round(100 * redundant_share(120, 120), 1)) == (11.2, 36.6)


def test_all_studies_fit_into_their_time() -> None:
    assert set(MINUTES) == set(NAMES)
    smoke, small = (sum(minutes[place] for minutes in MINUTES.values()) for place in (0, 1))
    assert smoke < 40
    assert small < 180
    assert roughly(["vtrace"], "small").startswith("about ")
    assert roughly(NAMES, "paper") == ""
    vtrace = get_study("vtrace")
    assert expected_s(vtrace, "small", 2) == 60 * MINUTES["vtrace"][1]
    assert expected_s(vtrace, "small", 4) == 30 * MINUTES["vtrace"][1]
    assert expected_s(vtrace, "paper", 4) is None


FACTS = {"whorl": "1", "commit": "abc", "date": "2026-11-18", "cpu": "a processor", "cpus": 2}


@pytest.mark.parametrize(("commit", "told"), [("abc", False), ("def", True)])
def test_a_report_says_of_cells_that_another_commit_has_run(tmp_path: Path, commit: str, told: bool) -> None:
    study = get_study("vtrace")
    results = fake_results(study, "small")
    cells = [replace(one, origin=f"commit {commit}, 2026-11-18, on a processor, 2 CPUs") for one in results.cells]
    write_report(tmp_path, study, "small", "inline", study.report(results), cells, [], FACTS)
    assert (f"<li>commit {commit}, 2026-11-18, on a processor" in (tmp_path / "report.html").read_text()) is told


def test_a_picture_has_a_form_for_phones_and_says_its_seeds(tmp_path: Path) -> None:
    study = get_study("vtrace")
    results = fake_results(study, "small")
    write_report(tmp_path, study, "small", "inline", study.report(results), results.cells, [], FACTS)
    page = (tmp_path / "report.html").read_text()
    assert "There is nothing to show" not in page
    assert page.count("<source media=") == page.count("<img ") > 0
    seeds = {cell.seed for cell in study.cells("small", "inline")}
    assert f"{len(seeds)} seeds, a thin line for each." in page
    assert f"{len(seeds)} seeds, a dot for each." in page
    assert "<pre>export OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1</pre>" in page
    lines = [([0.0, 1.0], [0.0, 1.0])] * 2
    uneven = Curves(name="n", title="t", caption="c.", x="x", y="y", groups={"a": lines, "b": lines[:1]})  # type: ignore[dict-item]
    assert uneven.seeds == "1 to 2 seeds"


def test_a_figure_without_numbers_is_not_left_out_in_silence(tmp_path: Path) -> None:
    study = get_study("vtrace")
    results = fake_results(study, "small")
    results = replace(results, cells=[replace(one, curve={}) for one in results.cells])
    write_report(tmp_path, study, "small", "inline", study.report(results), results.cells, [], FACTS)
    assert "There is nothing to show of «" in (tmp_path / "report.html").read_text()


def test_the_command_of_a_report_is_one_that_is_taken(tmp_path: Path) -> None:
    for name, shown in (("tasks", "whorl study tasks --scale small"), ("vtrace", "--scale small --engine inline")):
        study = get_study(name)
        results = fake_results(study, "small")
        write_report(tmp_path, study, "small", results.engine, study.report(results), results.cells, [], FACTS)
        assert f"{shown}</pre>" in (tmp_path / "report.html").read_text()


def test_many_names_make_a_picture_higher_and_do_not_lie_on_each_other() -> None:
    few, many = (
        Lines(
            name="n",
            title="t",
            caption="c.",
            x="x",
            y="y",
            groups={f"series number {i}": {1.0: [1.0]} for i in range(n)},
        )
        for n in (2, 13)
    )
    heights = [_height(figure.png(NARROW)) for figure in (few, many)]
    assert heights[1] > heights[0] * 1.1
    names = [f"agent {number}, workflow" for number in range(20)]
    bars = Bars(name="n", title="t", caption="c.", x="x", y="y", groups={name: [1.0] for name in names})
    figure = figure_class()(figsize=NARROW, dpi=DPI, layout="constrained")
    axes = figure.subplots()
    bars.draw(axes)
    figure.savefig(io.BytesIO(), format="png")
    boxes = [label.get_window_extent() for label in axes.get_xticklabels()]
    assert len(boxes) == len(names)
    assert all(left.x1 <= right.x0 for left, right in pairwise(boxes))


def _height(png: bytes) -> int:
    """Of a picture, as its first chunk says."""
    return int.from_bytes(png[20:24], "big")


def test_what_is_lost_is_a_loss_where_returns_are_negative_too() -> None:
    study = get_study("learners")
    results = fake_results(study, "paper")
    worse = {1: -100.0, 20: -300.0}

    def with_returns(one: CellResult) -> CellResult:
        off_policy = one.cell.labels.get("agent") == OFF_POLICY
        level = worse.get(one.cell.labels.get("learners", 0), -100.0) if off_policy else -100.0
        return replace(one, curve={**one.curve, "return_mean": [level - 1, level, level + one.cell.seed / 10]})

    made = study.report(replace(results, cells=[with_returns(one) for one in results]))
    suits = next(one for one in made.findings if one.name == "many_learners_suit_on_policy_agents")
    assert suits.measured is not None
    assert suits.measured > 1, "the off-policy agent loses twice its return, the other one nothing"


def test_weights_are_the_same_only_where_all_of_a_group_have_some() -> None:
    results = fake_results(get_study("elastic"), "small")
    first = results.where(way="schedule")
    assert results.seeds_with_same_weights(of=5) == (5, 5)
    assert first.seeds_with_same_weights(of=5) == (0, 0)
    assert first.share_with_same_weights("way") == []


def test_rates_are_set_side_by_side_seed_by_seed() -> None:
    results = fake_results(get_study("elastic"), "small")
    first, second = (results.where(way=way) for way in ("schedule", "restart"))
    lacking = replace(second, cells=list(second)[1:])
    name = "result.env_steps_per_s"
    assert pairs(first, lacking, name) == [*zip(first.numbers(name), second.numbers(name), strict=True)][1:]


def test_cores_are_those_of_the_cells() -> None:
    results = fake_results(get_study("tune"), "small")
    assert results.cores is None
    there = replace(
        results, cells=[replace(one, origin="commit abc, 2026-11-19, on a CPU, 64 CPUs") for one in results]
    )
    assert (there.cores, there.cores_shown) == (64, "64 cores")
    mixed = replace(results, cells=[*results.cells[:1], *there.cells[1:]])
    assert mixed.cores is None
