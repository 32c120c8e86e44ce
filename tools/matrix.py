"""Which agent runs in which workflow: writes docs/reference/matrix.md from what ``whorl train`` says itself.

    python tools/matrix.py [--check]

Every cell that takes an agent is run by the tests: in `make test` on inline or local, in `make verify` on all engines.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "workflows"))

from matrix_jobs import JOBS, refusal  # noqa: E402

from whorl.workflows.registry import get_workflow, workflow_table  # noqa: E402

PAGE = ROOT / "docs" / "reference" / "matrix.md"
HEAD = """# Which agent runs in which workflow

Generated from what `whorl train` accepts by `tools/matrix.py`. *V-trace* means: with `--set agent.vtrace=true`, because
the workflow brings data that is some updates old. A number: the reason, below.

Every cell that says *yes* or *V-trace* is run by the tests: it trains, every transition is accounted for, and nothing
is left behind. `make test` runs each on `inline` or on `local`, and each workflow with one agent on `mpi` and on `ray`;
`make verify` runs all of them on all four engines.
"""


def page() -> str:
    """The whole page."""
    workflows = [name for name, _ in workflow_table()]
    reasons: list[str] = []
    lines = [HEAD, f"| | {' | '.join(f'`{name}`' for name in workflows)} |", "|---|" + "---|" * len(workflows)]
    for kind in JOBS:
        cells = [_cell(kind, workflow, reasons) for workflow in workflows]
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    lines += [
        "",
        *(f"{number}. {reason}" for number, reason in enumerate(reasons, 1)),
        "",
        "What the workflows are:",
        "",
    ]
    lines += [f"- `{name}`: {get_workflow(name).summary}" for name in workflows]
    return "\n".join(lines) + "\n"


def _cell(kind: str, workflow: str, reasons: list[str]) -> str:
    why = refusal(kind, workflow)
    if why is None:
        return "V-trace" if refusal(kind, workflow, corrected=False) else "yes"
    why = why.replace(f"{JOBS[kind][0]} ", "such an agent ", 1)
    if why not in reasons:
        reasons.append(why)
    return f"no ({reasons.index(why) + 1})"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say whether the page is as it should be")
    made = page()
    if parser.parse_args().check:
        if not PAGE.exists() or PAGE.read_text() != made:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run python tools/matrix.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main())
