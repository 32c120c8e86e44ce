"""``report.html``: everything about a study in one file that asks nothing of the network, readable on a phone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from whorl.runs.files import write_atomic
from whorl.runs.status import counted, duration
from whorl.studies.contract import EVERY_ENGINE, Report, Scale, Study, Table, engine_words
from whorl.studies.figures import NARROW, Figure
from whorl.studies.findings import Finding, write_findings
from whorl.studies.machine import origin_of
from whorl.studies.results import CellResult
from whorl.studies.running import THREADS, Failure

SCALES: dict[Scale, str] = {
    "smoke": "Smoke scale: this shows that everything runs. The runs are too short and too few to carry findings.",
    "small": "Small scale: made for a machine with few cores; what would need many is emulated, and said so.",
    "paper": "Paper scale: the published configuration.",
}
AGAIN = "again"
"""Where the commands of the report would write: nowhere that exists."""
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2430; margin: 0 auto; max-width: 60rem; padding: 1rem; }
h1 { line-height: 1.2; margin-bottom: .2rem; } h2 { margin-top: 2.2rem; }
.about { color: #566; } .scale { background: #fff6dd; padding: .5rem .8rem; border-radius: .4rem; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: .88rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid #dde2e8; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
figure { margin: 1.5rem 0; } img { max-width: 100%; height: auto; display: block; }
figcaption { font-size: .93rem; } .yes { color: #147a3d; font-weight: 700; } .no { color: #b3261e; font-weight: 700; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font-size: .8rem; background: #f4f6f8; padding: .5rem; }
code { overflow-wrap: anywhere; } .emulated { color: #a00; font-style: italic; } summary { cursor: pointer; }
.card { border-left: 4px solid #cdd5df; padding: .1rem .9rem; margin: 1rem 0; } .card p { margin: .3rem 0; }
"""


def write_report(
    path: Path,
    study: Study,
    scale: Scale,
    engine: str,
    made: Report,
    done: Sequence[CellResult],
    failures: Sequence[Failure],
    facts: dict[str, Any],
    took_s: float = 0.0,
    through: Sequence[str] = (),
) -> None:
    """All that is for people and for programs: ``report.html``, ``findings.json`` and a CSV for each figure.
    ``through`` was said before trainings that may use several nodes."""
    figures = [figure for figure in made.figures if next(figure.rows(), None)]
    for old in path.glob("*.csv"):
        old.unlink()  # of a figure that is gone
    for figure in figures:
        write_atomic(path / f"{figure.name}.csv", figure.csv().encode())
    origins = sorted({one.origin for one in done})
    failed = [failure.cell.name for failure in failures]
    write_findings(path / "findings.json", study.name, scale, engine, made.findings, took_s, origins, failed)
    command = f"whorl study {study.name} --scale {scale}" + (f" --engine {engine}" if engine != EVERY_ENGINE else "")
    parts = [
        f"<h1>{escape(study.title)}</h1>",
        f'<p class="about">{escape(study.source)}<br>Whorl {escape(str(facts["whorl"]))}, commit '
        f"{escape(str(facts['commit']))}, {escape(str(facts['date'])[:10])}; "
        f"{escape(engine_words(engine))}, made by</p>"
        f"<pre>{escape(command)}</pre>",
        f'<p class="scale">{escape(SCALES[scale])}</p>',
        *(f"<p>{escape(remark)}</p>" for remark in made.remarks),
        "<h2>Findings</h2>",
        *map(finding_card, made.findings),
        *(["<h2>Figures</h2>"] if figures else []),
        *map(_figure, figures),
        *(_nothing_in(figure) for figure in made.figures if figure not in figures),
        *(["<h2>Tables</h2>"] if made.tables else []),
        *map(_table, made.tables),
        *_failed(failures),
        *_rows(done, through),
        "<h2>Machine and versions</h2>",
        *_origins(done, origin_of(facts)),
        _facts(facts),
    ]
    write_atomic(path / "report.html", page(study.title, parts).encode())


def page(title: str, parts: Iterable[str]) -> str:
    """A whole page of HTML."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(parts)
        + "\n</body>\n</html>\n"
    )


def finding_card(finding: Finding) -> str:
    """One finding for people."""
    published = f"<br>Published: {escape(finding.published)}" if finding.published else ""
    verdict = f"{finding.verdict.upper()} ({finding.state})" if finding.verdict == "no" else "YES"
    return (
        f'<div class="card"><p><span class="{finding.verdict}">{verdict}</span> '
        f"<strong>{escape(finding.claim)}</strong></p><p>Expected beforehand: {escape(finding.expected)}<br>"
        f"Measured: {escape(finding.shown)}{published}</p>"
        f"<p>{escape(finding.explanation)}{_emulated(finding.emulated)}</p></div>"
    )


def _figure(figure: Figure) -> str:
    caption = f"{escape(figure.caption)} {figure.seeds}, {figure.seed_form}.{_emulated(figure.emulated)}"
    alt = escape(f"{figure.title}: {figure.y} over {figure.x}", quote=True)
    return (
        f'<figure><picture><source media="(max-width: 600px)" srcset="{figure.embedded(NARROW)}">'
        f'<img alt="{alt}" src="{figure.embedded()}"></picture><figcaption>{caption} '
        f"The numbers are in <code>{escape(figure.name)}.csv</code>.</figcaption></figure>"
    )


def _emulated(what: str) -> str:
    return f' <span class="emulated">Emulated: {escape(what)}.</span>' if what else ""


def _nothing_in(figure: Figure) -> str:
    """Runs may be too short for an episode to end in them."""
    return f"<p>There is nothing to show of «{escape(figure.title)}» ({escape(figure.y)}) at this scale.</p>"


def _table(table: Table) -> str:
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return f"<h3>{escape(table.title)}</h3>{_plain_table(table.header, table.rows)}{note}"


def _plain_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _facts(facts: dict[str, Any]) -> str:
    """Names and values, all of them as text: versions are no numbers to be set below each other."""
    rows = "".join(
        f"<tr><th>{escape(name.replace('_', ' '))}</th><td>{escape(str(value))}</td></tr>"
        for name, value in facts.items()
    )
    return f'<div class="wide"><table>{rows}</table></div>'


def _cell(text: str) -> str:
    is_number = text.strip(" %x").replace(",", "").replace(".", "").replace("-", "").isdigit()
    return f"<td{' class=number' if is_number else ''}>{escape(text)}</td>"


def _failed(failures: Sequence[Failure]) -> list[str]:
    if not failures:
        return []
    items = "".join(f"<li>{escape(one.cell.name)}: {escape(one.reason)}</li>" for one in failures)
    return [f"<h2>What failed</h2><ul>{items}</ul>"]


def _origins(done: Sequence[CellResult], here: str) -> list[str]:
    """Where cells were run, if not all of them with what has written the report."""
    counts = Counter(one.origin for one in done if one.origin)
    if not {*counts} - {here}:
        return []
    items = "".join(f"<li>{escape(origin)}: {counted(count, 'cell')}</li>" for origin, count in counts.items())
    return [f"<p>This report was written by the commit named below; its numbers are from</p><ul>{items}</ul>"]


def _rows(done: Sequence[CellResult], through: Sequence[str]) -> list[str]:
    """Every cell with the commands that run it again."""
    items = []
    for one in done:
        folder = f"{AGAIN}/{one.cell.name}"
        commands = "".join(f"<pre>{escape(command)}</pre>" for command in one.cell.shown(folder, through))
        emulated = (
            f' <span class="emulated">(emulated: {escape(one.cell.emulated)})</span>' if one.cell.emulated else ""
        )
        took = duration(sum(one.seconds))
        items.append(f"<details><summary>{escape(one.cell.name)}, {took}{emulated}</summary>{commands}</details>")
    heading = "<h2>Every row, and the commands that run it again</h2>"
    return [heading, f"<p>{counted(len(done), 'cell')}. Before the first command:</p><pre>{THREADS}</pre>", *items]
