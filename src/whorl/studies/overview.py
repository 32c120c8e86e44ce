"""``overview-SCALE.html``: the findings of all studies on one page, with links to their reports beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from whorl.runs.files import write_atomic
from whorl.runs.status import counted, duration
from whorl.studies.contract import Scale
from whorl.studies.findings import finding_of
from whorl.studies.report import SCALES, finding_card, page

MANY = (
    "Each interval is of 95 %, and not all of them together: of fifty, two or three are likely to miss the truth, and "
    "verdicts may be wrong by that."
)


def write_overview(root: Path, scale: Scale, studies: Mapping[str, Path], left_out: Sequence[str] = ()) -> Path:
    """From the ``findings.json`` of each study, by its title; of those without it is said that they failed. Links are
    relative. ``left_out``: why some were not run."""
    parts = ["<h1>Findings of all studies</h1>", f'<p class="scale">{escape(SCALES[scale])}</p>']
    verdicts, took_s = {"yes": 0, "no": 0}, 0.0
    for title, folder in studies.items():
        file = folder / "findings.json"
        if not file.is_file():
            logs = escape(f"{folder.relative_to(root)}/cells")
            parts.append(f"<h2>{escape(title)}</h2><p>Failed: no cell left a result; see the logs in {logs}.</p>")
            continue
        found = json.loads(file.read_bytes())
        findings, own_s = [finding_of(plain) for plain in found["findings"]], float(found.get("took_s", 0.0))
        took_s += own_s
        link = escape(f"{folder.relative_to(root)}/report.html", quote=True)
        parts += [f'<h2><a href="{link}">{escape(title)}</a></h2>', f"<p>{duration(own_s)}</p>"]
        if failed := found.get("failed"):
            parts.append(f"<p>{counted(len(failed), 'cell')} failed: {escape(', '.join(failed))}.</p>")
        parts += map(finding_card, findings)
        for finding in findings:
            verdicts[finding.verdict] += 1
    if left_out:
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in left_out)
        parts.append(f"<h2>Left out</h2><ul>{reasons}</ul>")
    parts.insert(
        2, f"<p>As expected: {verdicts['yes']}. Contrary, undecided or not measured: {verdicts['no']}. {MANY}</p>"
    )
    parts.insert(3, f"<p>All studies together took {duration(took_s)}.</p>")
    out = root / f"overview-{scale}.html"
    write_atomic(out, page("Findings of all studies", parts).encode())
    return out
