"""Checks the Markdown pages: links resolve, code fences say their language, every decision is in the index.

python tools/check_docs.py [ROOT]
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_FENCE = re.compile(r"^ *(```+)(.*)$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    return sorted([*root.glob("*.md"), *root.glob("docs/**/*.md")])


def problems(root: Path) -> Iterator[str]:
    """One line for each thing that is wrong: where, what, and what to do."""
    texts = {page: page.read_text(encoding="utf-8") for page in pages(root)}
    for page, text in texts.items():
        yield from _fence_problems(page.relative_to(root), text)
        yield from _link_problems(root, page, text)
    yield from _unreached(root, texts)
    yield from _unlisted_decisions(root)


def _fence_problems(page: Path, text: str) -> Iterator[str]:
    opened = ""
    for match in _FENCE.finditer(text):
        ticks, language = match.group(1), match.group(2).strip()
        line = text.count("\n", 0, match.start()) + 1
        if opened:
            opened = "" if ticks == opened else opened
        else:
            opened = ticks
            if not language:
                yield f"{page}:{line}: a code fence without a language; write ```bash, ```python, ```text ..."
    if opened:
        yield f"{page}: a code fence is never closed"


def _link_problems(root: Path, page: Path, text: str) -> Iterator[str]:
    for target in _targets(text):
        path, _, anchor = target.partition("#")
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists():
            yield f"{page.relative_to(root)}: links to {target}, which is not there"
        elif anchor and goal.suffix == ".md" and anchor not in _anchors(goal.read_text(encoding="utf-8")):
            yield f"{page.relative_to(root)}: links to {target}, but that page has no such heading"


def _targets(text: str) -> list[str]:
    """Relative links outside code; addresses on the web are not followed."""
    prose = re.sub(r"^ *(```+).*?^ *\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    return [target for target in _LINK.findall(prose) if not re.match(r"[a-z]+:", target)]


def _anchors(text: str) -> set[str]:
    """Headings as GitHub's anchors: lower case, punctuation dropped, spaces to hyphens."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in _HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}


def _unreached(root: Path, texts: dict[Path, str]) -> Iterator[str]:
    """Pages below docs/ that no other page links to (evidence of verify runs excepted: there are many)."""
    linked = {
        (page.parent / target.partition("#")[0]).resolve()
        for page, text in texts.items()
        for target in _targets(text)
        if not target.startswith("#")
    }
    for page in texts:
        if page.is_relative_to(root / "docs" / "results") or page.parent == root or page.resolve() in linked:
            continue
        yield f"{page.relative_to(root)}: no page links here; link it from docs/index.md"


def _unlisted_decisions(root: Path) -> Iterator[str]:
    index = root / "docs" / "decisions" / "index.md"
    listed = _targets(index.read_text(encoding="utf-8")) if index.exists() else []
    for page in sorted(index.parent.glob("[0-9]*.md")):
        if page.name not in listed:
            yield f"{page.relative_to(root)}: not in docs/decisions/index.md; add its line there"


def main(arguments: list[str]) -> int:
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parents[1]
    found = list(problems(root.resolve()))
    for line in found:
        print(line, file=sys.stderr)
    if not found:
        print(f"documentation: {len(pages(root))} pages, all links resolve")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
