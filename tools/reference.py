"""Writes the reference pages that come from the code: docs/reference/settings.md.

python tools/reference.py            write them
python tools/reference.py --check    only say whether they are up to date
"""

from __future__ import annotations

import sys
from pathlib import Path

from whorl.agents.registry import agent_names, get_agent
from whorl.config.reference import render_reference
from whorl.tuning.settings import TuneConfig

SETTINGS = Path(__file__).resolve().parents[1] / "docs" / "reference" / "settings.md"


def main(arguments: list[str]) -> int:
    text = render_reference(((name, get_agent(name).config) for name in agent_names()), {"tune": TuneConfig})
    if "--check" not in arguments:
        SETTINGS.write_text(text, encoding="utf-8")
    elif not SETTINGS.exists() or SETTINGS.read_text(encoding="utf-8") != text:
        print("docs/reference/settings.md is not what the code says; mend with: make docs", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
