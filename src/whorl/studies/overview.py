"""``overview-SCALE.html``: the findings of all studies on one page, with links to their reports beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path

from whorl.runs.files import write_atomic
from whorl.runs.status import duration
from whorl.studies.contract import Scale
from whorl.studies.findings import finding_of
from whorl.studies.report import SCALES, finding_card, page


def write_overview(root: Path, scale: Scale, studies: Mapping[str, Path]) -> Path:
    """From the ``findings.json`` of each study, by its title; those without are left out. The links are relative."""
    parts = ["<h1>Findings of all studies</h1>", f'<p class="scale">{escape(SCALES[scale])}</p>']
    counted, took_s = {"yes": 0, "no": 0}, 0.0
    for title, folder in studies.items():
        file = folder / "findings.json"
        if not file.is_file():
            continue
        found = json.loads(file.read_bytes())
        findings, own_s = [finding_of(plain) for plain in found["findings"]], float(found.get("took_s", 0.0))
        took_s += own_s
        link = escape(f"{folder.relative_to(root)}/report.html", quote=True)
        parts += [f'<h2><a href="{link}">{escape(title)}</a></h2>', f"<p>{duration(own_s)}</p>"]
        parts += map(finding_card, findings)
        for finding in findings:
            counted[finding.verdict] += 1
    parts.insert(2, f"<p>As expected: {counted['yes']}. Contrary, undecided or not measured: {counted['no']}.</p>")
    parts.insert(3, f"<p>All studies together took {duration(took_s)}.</p>")
    out = root / f"overview-{scale}.html"
    write_atomic(out, page("Findings of all studies", parts).encode())
    return out
