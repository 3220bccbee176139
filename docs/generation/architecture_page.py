"""The generated part of docs/project/architecture.md: the map of folders."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from generation.markdown import replaced

ROOT = Path(__file__).resolve().parents[2]
MOST_PARTS = 3
"""A package, a room of it, and the file that opens the room."""
PACKAGES = ("memory_server", "sandbox", "nlp", "languages")


def architecture_page(text: str) -> str:
    """Return the architecture page with its generated part as it should be."""
    return replaced(text, "modules", "\n".join(_module_map()))


def _module_map() -> Iterator[str]:
    """Return a line for each folder: what it is."""
    for package in PACKAGES:
        for opening in sorted((ROOT / package).rglob("__init__.py")):
            # The opening of a room says what the folders in it are.
            depth = len(opening.relative_to(ROOT).parts)
            if "samples" not in opening.parts and depth <= MOST_PARTS:
                yield f"- **`{opening.parent.relative_to(ROOT).as_posix()}/`**: {_purpose(opening)}."


def _purpose(path: Path) -> str:
    """Return the first sentence of a module's docstring."""
    text = " ".join(
        (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "")
        .split("\n\n")[0]
        .split()
    )
    end = next(
        (i for i in range(len(text)) if text[i] == "." and text[i + 1 : i + 2] in ("", " ")),
        len(text),
    )
    return text[:end]
