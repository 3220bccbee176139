"""The generated part of docs/reference/python-api.md: what a companion in the same process calls and gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

from generation.markdown import replaced

ROOT = Path(__file__).resolve().parents[2]
API = (
    "open_memory",
    "in_language",
    "App",
    "Conversation",
    "Conversations",
    "Memories",
    "ShortTermManager",
    "Stored",
    "Found",
    "Recall",
    "Recalled",
    "HeldBack",
    "Receipt",
    "MatchedWord",
    "Removed",
    "Forgotten",
    "Statistics",
    "InsightManager",
    "ExplainedMemory",
    "MemoryFilter",
    "Filtered",
    "Overview",
    "LongTermManager",
    "TriggerStored",
    "Activation",
    "Shelved",
    "Failed",
    "Problem",
    "Knowledge",
    "Notes",
    "Remembered",
    "ReindexedNotes",
    "Layers",
    "Layer",
    "Refs",
    "Hits",
    "Message",
    "Session",
    "ShortTermMemory",
    "LongTermMemory",
    "load",
)
"""What a companion calls and gets, in the order of the page; the module of each is looked up."""


def python_api_page(text: str) -> str:
    """The page of the Python API with its generated part as it should be."""
    known: dict[str, list[tuple[str, ast.ClassDef | ast.FunctionDef]]] = {}
    for path in [*sorted((ROOT / "memory_server").rglob("*.py")), ROOT / "sandbox" / "verdicts.py"]:
        module = path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                known.setdefault(node.name, []).append((module, node))
    parts: list[str] = []
    for name in API:
        if len(known.get(name, ())) != 1:
            raise SystemExit(f"{len(known.get(name, ()))} modules define {name}: correct API in python_api_page.py")
        ((module, node),) = known[name]
        parts += [f"### {name}\n", f"From `{module}`.\n"]
        if isinstance(node, ast.FunctionDef):
            parts.append(_call(node))
        else:
            bases = [known[base.id][0][1] for base in node.bases if isinstance(base, ast.Name) and base.id in known]
            parts += _class(node, [base for base in bases if isinstance(base, ast.ClassDef)])
    return replaced(text, "api", "\n".join(parts))


def _class(node: ast.ClassDef, bases: Sequence[ast.ClassDef]) -> Iterator[str]:
    """A class with what it has of its bases."""
    frozen = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    own = set(map(_name, node.body))
    body = [*node.body, *(item for base in bases for item in base.body if _name(item) not in own)]
    fields = [item for item in body if isinstance(item, ast.AnnAssign) and frozen]
    if fields:
        lines = [ast.unparse(item) for item in fields]
        yield f"```text\n{chr(10).join(lines)}\n```\n"
    yield _prose(node)
    for item in body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and not item.name.startswith("_"):
            yield f"#### {node.name}.{item.name}\n"
            yield _call(item, bound=True)


def _name(item: ast.stmt) -> str | None:
    if isinstance(item, ast.AnnAssign):
        return ast.unparse(item.target)
    return getattr(item, "name", None)


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool = False) -> str:
    arguments = ast.unparse(node.args)
    if bound:
        arguments = arguments.removeprefix("self").removeprefix(", ")
    is_property = any(ast.unparse(decorator) == "property" for decorator in node.decorator_list)
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    call = node.name if is_property else f"{before}{node.name}({arguments})"
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    prose = _prose(node)
    return f"```text\n{call}{result}\n```\n" + (f"\n{prose}" if prose else "")


def _prose(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A docstring as Markdown: its `Raises:` block becomes a list."""
    plain, _, raises = (ast.get_docstring(node) or "").partition("\nRaises:\n")
    text = f"{plain.strip()}\n" if plain.strip() else ""
    if raises:
        lines = [" ".join(part.split()) for part in raises.replace("\n        ", " ").strip().splitlines()]
        pairs = [line.partition(": ")[::2] for line in lines]
        text += "\nRaises:\n\n" + "".join(f"- `{kind}`: {when}\n" for kind, when in pairs)
    return text
