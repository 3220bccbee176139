"""The generated parts of docs/project/architecture.md: the map of folders, and the import contracts."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from generation.markdown import replaced

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("memory_server", "sandbox", "nlp", "languages")


def architecture_page(text: str) -> str:
    """The architecture page with its generated parts as they should be."""
    text = replaced(text, "modules", "\n".join(_module_map()))
    return replaced(text, "contracts", "\n".join(f"- {name}" for name in contract_names()) + "\n")


def _module_map() -> Iterator[str]:
    """A line for each folder: what it is."""
    for package in PACKAGES:
        for opening in sorted((ROOT / package).rglob("__init__.py")):
            if "samples" not in opening.parts:
                yield f"- **`{opening.parent.relative_to(ROOT).as_posix()}/`**: {_purpose(opening)}."


def _purpose(path: Path) -> str:
    """The first sentence of a module's docstring."""
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


def contract_names() -> list[str]:
    """The import contracts that `make check` proves, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]
