"""Pieces of Markdown: tables, and the generated parts of pages that people write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(cell, line)) + " |" for line in lines) + "\n"


def cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def replaced(text: str, part: str, content: str) -> str:
    start, end = f"<!-- generated: {part} -->\n", f"<!-- end: {part} -->"
    before, found, rest = text.partition(start)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise SystemExit(f"a page has no place for its generated part `{part}`")
    return f"{before}{start}\n{content}\n{end}{after}"
