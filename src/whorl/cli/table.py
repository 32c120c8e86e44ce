"""Plain two-column tables."""

from __future__ import annotations

from collections.abc import Iterable


def print_table(rows: Iterable[tuple[str, str]]) -> None:
    """Names, aligned, and what there is to say about each."""
    rows = list(rows)
    width = max((len(name) for name, _ in rows), default=0)
    for name, text in rows:
        print(f"{name:<{width}}  {text}".rstrip())
