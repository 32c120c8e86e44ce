"""Keeps the reports of all studies of a scale as results: copies them, and writes the pages that sum them up.

    python tools/keep_studies.py [STUDIES] [--scale small] [--date 2026-11-19]

Copies each study's report, findings and the CSV of each figure (not its cells) from STUDIES (where ``whorl study``
left them, ``studies``) to docs/results/studies-<date>, writes an overview beside them, and
docs/results/studies-<date>.md: a row for each finding. Remarks below its last heading are kept when it is written
again, and so is what was kept before of studies that STUDIES does not hold. Nothing is touched where a study of STUDIES
is not whole, or was run with uncommitted changes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from whorl.runs.status import duration
from whorl.studies.findings import Finding, finding_of
from whorl.studies.overview import write_overview
from whorl.studies.registry import NAMES, get_study

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
REMARKS = "## What was seen on the way"
HEADER = (
    "| study | finding | expected beforehand | measured | published | verdict | seeds |",
    "|---|---|---|---|---|---|---|",
)


def rows(name: str, report: str, findings: Sequence[Finding]) -> Iterator[str]:
    """One for each finding."""
    for one in findings:
        cells = (
            f"[{name}]({report})",
            one.claim + (" (emulated)" if one.emulated else ""),
            one.expected,
            one.shown,
            one.published,
            f"{one.verdict}: {one.state}",
            str(one.seeds),
        )
        yield f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


def is_whole(folder: Path) -> bool:
    """Whether a study is there; ends the program where it is, and is not fit to be kept."""
    if not (folder / "findings.json").is_file():
        return False
    found = json.loads((folder / "findings.json").read_bytes())
    if found["failed"] or any("with changes" in origin for origin in found["from"]):
        sys.exit(f"{folder}: not all cells have results, or some are from a commit with changes: run it again")
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("studies", nargs="?", type=Path, default=Path("studies"))
    parser.add_argument("--scale", default="small")
    parser.add_argument("--date", default=datetime.datetime.now(datetime.UTC).date().isoformat())
    arguments = parser.parse_args()
    out, page = RESULTS / f"studies-{arguments.date}", RESULTS / f"studies-{arguments.date}.md"
    fresh = [folder for name in NAMES if is_whole(folder := arguments.studies / f"{name}-{arguments.scale}")]
    missing: list[str] = []
    before: list[str] = []
    folders: dict[str, Path] = {}
    table, verdicts, origins, took_s = list(HEADER), {"yes": 0, "no": 0}, set[str](), 0.0
    for name in NAMES:
        folder = arguments.studies / f"{name}-{arguments.scale}"
        kept = out / folder.name
        if folder in fresh:
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            for file in (folder / "report.html", folder / "findings.json", *sorted(folder.glob("*.csv"))):
                shutil.copy(file, kept / file.name)
        elif not kept.is_dir():
            missing.append(name)
            continue
        else:
            before.append(name)
        found = json.loads((kept / "findings.json").read_bytes())
        folders[get_study(name).title] = kept
        findings = [finding_of(plain) for plain in found["findings"]]
        table += rows(name, f"{out.name}/{folder.name}/report.html", findings)
        for one in findings:
            verdicts[one.verdict] += 1
        origins |= {*found["from"]}
        took_s += found["took_s"]
    if not folders:
        sys.exit(f"{arguments.studies}: holds no study of scale {arguments.scale}; run whorl study first")
    write_overview(out, arguments.scale, folders, [f"{name} was not run" for name in missing])
    remarks = page.read_text().partition(REMARKS)[2] if page.exists() else "\n"
    lines = [
        f"# Studies of {arguments.date}",
        "",
        f"{'Every study' if not missing else 'Studies'} at scale `{arguments.scale}`, each as `whorl study NAME "
        f"--scale {arguments.scale}` runs it: {len(folders)} studies in {duration(took_s)}. The reports with plots, "
        f"tables, commands, machine and versions are below [{out.name}]({out.name}). Their numbers are from:",
        "",
        *(f"- {origin}" for origin in sorted(origins)),
        "",
        *([f"Not run yet: {', '.join(missing)}.", ""] if missing else []),
        *([f"Kept as they were, and not copied with the others: {', '.join(before)}.", ""] if before else []),
        f"{verdicts['yes']} findings are as expected, {verdicts['no']} are not: see what the reports say of them. "
        "Intervals are of 95 % each, by resampling seeds, widened where these are few; of all of them together, two or "
        "three in fifty are likely to miss the truth.",
        "",
        *table,
        "",
    ]
    page.write_text("\n".join(lines) + "\n" + REMARKS + remarks)
    print(page)


if __name__ == "__main__":
    main()
