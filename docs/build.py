"""Write the pages that are generated from the code: ``python docs/build.py``; ``--check`` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from whorl.agents.registry import agent_names, get_agent
from whorl.config.reference import render_reference

REFERENCE = Path(__file__).parent / "reference" / "settings.md"


def main() -> int:
    """Write or check; 1 when a page is out of date."""
    page = render_reference([(name, get_agent(name).config) for name in agent_names()])
    if "--check" in sys.argv[1:]:
        is_current = REFERENCE.is_file() and REFERENCE.read_text(encoding="utf-8") == page
        if not is_current:
            print(f"{REFERENCE} is out of date; run: python docs/build.py", file=sys.stderr)
        return 0 if is_current else 1
    REFERENCE.parent.mkdir(parents=True, exist_ok=True)
    REFERENCE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
