"""Verdicts, and the file of findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from whorl.studies.findings import judge, write_findings
from whorl.studies.overview import write_overview
from whorl.studies.stats import Estimate


@pytest.mark.parametrize(
    ("found", "borders", "verdict", "begins"),
    [
        (Estimate(2.0, 1.5, 2.5, 5), {"above": 1.0}, "yes", "Because."),
        (Estimate(2.0, 0.9, 2.5, 5), {"above": 1.0}, "no", "Undecided: the interval holds 1."),
        (Estimate(0.5, 0.4, 0.6, 5), {"above": 1.0}, "no", "The contrary was found."),
        (Estimate(0.5, 0.4, 0.6, 5), {"below": 1.0}, "yes", "Because."),
        (Estimate(2.0, 1.5, 2.5, 5), {"below": 1.0}, "no", "The contrary was found."),
        (Estimate(2.0, 2.0, 2.0, 1), {"above": 1.0}, "no", "Undecided: 1 seed, and a verdict takes 3."),
        (Estimate(float("nan"), 1.0, 2.0, 5), {"above": 1.0}, "no", "Nothing was measured"),
        (None, {"above": 1.0}, "no", "Nothing was measured"),
    ],
)
def test_a_verdict(found: Estimate | None, borders: dict[str, float], verdict: str, begins: str) -> None:
    finding = judge("name", "Claim", found, unit="times", because="Because.", otherwise="Otherwise.", **borders)
    assert finding.verdict == verdict
    assert finding.explanation.startswith(begins)
    assert finding.expected == f"{next(iter(borders))} 1 times"


def test_all_studies_are_on_one_page(tmp_path: Path) -> None:
    for number, found in enumerate((Estimate(2.0, 1.5, 2.5, 3), None)):
        (tmp_path / f"study-{number}").mkdir()
        findings = [judge("a", f"<Claim> {number}", found, above=1.0, unit="times", emulated="half of <it>")]
        failed = ["that-one"] * number
        path = tmp_path / f"study-{number}" / "findings.json"
        write_findings(path, "name", "small", "inline", findings, failed=failed)
    folders = {"First & last": tmp_path / "study-0", "Second": tmp_path / "study-1", "Failed": tmp_path / "study-2"}
    left_out = ["the study <x> needs what is not installed"]
    page = write_overview(tmp_path, "small", folders, left_out).read_text()
    assert (tmp_path / "overview-small.html").is_file()
    assert '<a href="study-0/report.html">First &amp; last</a>' in page
    assert "&lt;Claim&gt; 0" in page
    assert "2 [1.5, 2.5] times" in page
    assert "NO (not measured)" in page
    assert "Emulated: half of &lt;it&gt;." in page
    assert "As expected: 1. Contrary, undecided or not measured: 1. Each interval is of 95 %" in page
    assert "<h2>Failed</h2><p>Failed: no cell left a result; see the logs in study-2/cells.</p>" in page
    assert "<p>1 cell failed: that-one.</p>" in page
    assert "<h2>Left out</h2><ul><li>the study &lt;x&gt; needs what is not installed</li></ul>" in page


def test_findings_are_plain_json(tmp_path: Path) -> None:
    findings = [judge("a", "A is so", Estimate(2.0, 1.5, 2.5, 3), above=1.0), judge("b", "B is so", None, below=0.0)]
    write_findings(tmp_path / "findings.json", "name", "smoke", "inline", findings, 1.0, ["commit abc, 2026-11-18"])
    plain = json.loads((tmp_path / "findings.json").read_text())
    assert plain["note"].startswith("Smoke scale")
    assert plain["from"] == ["commit abc, 2026-11-18"]
    assert [(one["name"], one["verdict"], one["interval"]) for one in plain["findings"]] == [
        ("a", "yes", [1.5, 2.5]),
        ("b", "no", None),
    ]
    assert all(one["expected"] and one["explanation"] for one in plain["findings"])


@pytest.mark.parametrize(
    ("found", "verdict", "begins"),
    [
        (Estimate(11.0, 10.5, 11.5, 5), "yes", "Because."),
        (Estimate(9.0, 8.0, 10.0, 5), "no", "The contrary was found."),
        (Estimate(11.0, 1.0, 12.0, 5), "no", "Undecided: the interval holds 11.2 and more than 2 around it."),
        (Estimate(11.0, 11.0, 11.0, 2), "no", "Undecided: 2 seeds"),
    ],
)
def test_a_number_that_theory_gives_must_lie_in_the_interval(found: Estimate, verdict: str, begins: str) -> None:
    finding = judge("name", "Claim", found, equals=11.2, within=2.0, unit="%", because="Because.")
    assert (finding.verdict, finding.expected) == (verdict, "equal to 11.2 %, give or take 2")
    assert finding.explanation.startswith(begins)


@pytest.mark.parametrize(
    ("found", "verdict", "begins"),
    [
        (Estimate(1.0, 0.95, 1.05, 3), "yes", "Because."),
        (Estimate(0.82, 0.80, 0.85, 3), "no", "The contrary was found."),
        (Estimate(1.0, 0.85, 1.05, 3), "no", "Undecided: the interval holds 0.9 or 1.1."),
    ],
)
def test_what_is_called_alike_lies_between_two_borders(found: Estimate, verdict: str, begins: str) -> None:
    words = {"because": "Because.", "otherwise": "Otherwise."}
    finding = judge("name", "Claim", found, between=(0.9, 1.1), unit="times", since="a tenth is a tie", **words)
    assert (finding.verdict, finding.expected) == (verdict, "between 0.9 and 1.1 times (a tenth is a tie)")
    assert finding.explanation.startswith(begins)


def test_a_single_seed_has_no_interval() -> None:
    finding = judge("name", "Claim", Estimate(3.0, 3.0, 3.0, 1), above=1.0, unit="times")
    assert (finding.interval, finding.shown) == (None, "3 times (1 seed)")
    assert finding.measured == 3.0
    assert judge("name", "Claim", Estimate(3.0, 2.0, 4.0, 2), above=1.0, unit="%").shown == "3 [2, 4] %"


def test_nothing_at_all_is_at_most_nothing() -> None:
    assert judge("name", "Claim", Estimate(0.0, 0.0, 0.0, 3), at_most=0.0).verdict == "yes"
    assert judge("name", "Claim", Estimate(0.1, 0.0, 0.2, 3), at_most=0.0).state == "undecided"
    assert judge("name", "Claim", Estimate(0.2, 0.1, 0.3, 3), at_most=0.0).state == "the contrary"
