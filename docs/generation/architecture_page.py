"""The generated parts of docs/explanation/architecture.md: the map of modules, and the import contracts."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
from pathlib import Path

from generation.markdown import replaced, table

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("memory_server", "sandbox", "nlp")


def architecture_page(text: str) -> str:
    """The architecture page with its generated parts as they should be."""
    text = replaced(text, "modules", "\n".join(_module_map()))
    return replaced(text, "contracts", "\n".join(f"- {name}" for name in contract_names()) + "\n")


def _module_map() -> Iterator[str]:
    for package in PACKAGES:
        yield f"### {package}/\n"
        rows = []
        for path in sorted((ROOT / package).rglob("*")):
            if path.suffix in (".py", ".js") and "samples" not in path.parts:
                name = path.relative_to(ROOT / package).as_posix()
                rows.append((f"`{name}`", _purpose(path)))
        yield table(("module", "what it is"), rows)


def _purpose(path: Path) -> str:
    """The first sentence or line of a module's docstring, or of a script's opening comment."""
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        opening = []
        for line in source.splitlines():
            if not line.startswith("//"):
                break
            opening.append(line.removeprefix("//").strip())
        text = " ".join(opening)
    else:
        text = " ".join((ast.get_docstring(ast.parse(source)) or "").split("\n\n")[0].split())
    end = next((i for i in range(len(text)) if text[i] == "." and text[i + 1 : i + 2] in ("", " ")), len(text))
    return text[:end]


def contract_names() -> list[str]:
    """The import contracts that `make check` proves, by name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return [contract["name"] for contract in project["tool"]["importlinter"]["contracts"]]
