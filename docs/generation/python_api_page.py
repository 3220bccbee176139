"""The generated part of docs/reference/python-api.md: what a companion in the same process calls and gets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from generation.markdown import replaced

from memory_server.kernel import errors

ROOT = Path(__file__).resolve().parents[2]
API = (
    "open_memory",
    "language",
    "App",
    "CallerView",
    "Conversation",
    "Conversations",
    "Memories",
    "RecallRequest",
    "Origin",
    "ShortTermManager",
    "Stored",
    "Found",
    "Recall",
    "Recalled",
    "HeldBack",
    "Reader",
    "PromptLines",
    "Receipt",
    "MatchedWord",
    "Removed",
    "Forgotten",
    "Statistics",
    "InsightManager",
    "ExplainedMemory",
    "ListRequest",
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
    "GivenRules",
    "ShortTermMemory",
    "LongTermMemory",
    "load",
)
"""What a companion calls and gets, in the order of the page; the module of each is looked up."""
INTERNAL = {
    "App": {
        "maintenance",
        "word_giver",
        "server",
        "keep_up",
        "for_one_question",
        "settle",
        "vectors",
    },
    "CallerView": {
        "word_giver",
        "knowledge",
        "vectors",
        "paused",
        "conversation",
        "recall_turn",
        "server",
        "warm",
        "settle",
    },
    "Conversations": {"view", "served_by", "outdated", "tidy_vectors", "version"},
    "Memories": {"for_callers", "engines"},
    "Receipt": {
        "evidence",
        "counted",
        "words_shared",
        "words_beside",
        "other_words",
        "words_kept",
        "shares_any",
        "relevance_counted",
    },
    "MatchedWord": {"other", "only_orders", "incidental", "counts"},
    "Shelved": {"name", "text", "rules", "book_id"},
    "Knowledge": {"lifecycle", "unasked", "found", "places", "aclose"},
    "Notes": {
        "project_of",
        "project_names",
        "project_counts",
        "waiting",
        "pages",
        "aclose",
        "changed",
    },
    "Layers": {"known", "promote", "aclose"},
    "Layer": {"unasked", "file_of"},
    "Refs": {"with_summary", "summarize"},
}
"""Public names that other rooms of the server call, and companions do not; and those of `CallerView` that stand at
`App`."""
WITHOUT_FIELDS = {
    "App",
    "CallerView",
    "Conversation",
    "Conversations",
    "Memories",
    "Knowledge",
    "Notes",
    "Layers",
    "Layer",
    "Refs",
}
"""Values that a companion gets and never makes: their fields, and the paragraphs about them,
are not shown."""

ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type)}
RAISES = re.compile(r"\s*\bRaises:?\s+")


def python_api_page(text: str) -> str:
    """The page of the Python API with its generated part as it should be."""
    known: dict[str, list[tuple[str, ast.ClassDef | ast.FunctionDef]]] = {}
    for path in [*sorted((ROOT / "memory_server").rglob("*.py")), ROOT / "sandbox" / "verdicts.py"]:
        module = (
            path.relative_to(ROOT)
            .with_suffix("")
            .as_posix()
            .replace("/", ".")
            .removesuffix(".__init__")
        )
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                known.setdefault(node.name, []).append((module, node))
    parts: list[str] = []
    for name in API:
        if len(known.get(name, ())) != 1:
            raise SystemExit(
                f"{len(known.get(name, ()))} modules define {name}: correct API in python_api_page.py"
            )
        ((module, node),) = known[name]
        parts += [f"### {name}\n", f"`{module}`\n"]
        if isinstance(node, ast.FunctionDef):
            parts.append(_call(node))
        else:
            bases = [
                known[base.id][0][1]
                for base in node.bases
                if isinstance(base, ast.Name) and base.id in known
            ]
            parts += _class(node, [base for base in bases if isinstance(base, ast.ClassDef)])
    return replaced(text, "api", "\n".join(parts))


def _class(node: ast.ClassDef, bases: Sequence[ast.ClassDef]) -> Iterator[str]:
    """A class with what it has of its bases."""
    frozen = any("dataclass" in ast.unparse(decorator) for decorator in node.decorator_list)
    own = set(map(_name, node.body))
    body = [*node.body, *(item for base in bases for item in base.body if _name(item) not in own)]
    has_fields = frozen and node.name not in WITHOUT_FIELDS
    fields = [item for item in body if isinstance(item, ast.AnnAssign) and has_fields]
    if fields:
        lines = [ast.unparse(item) for item in fields]
        yield f"```text\n{chr(10).join(lines)}\n```\n"
    prose = _prose(node)
    yield f"{prose.split(chr(10) * 2)[0].strip()}\n" if node.name in WITHOUT_FIELDS else prose
    for item in body:
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_shown(
            node.name, item.name
        ):
            yield f"#### {node.name}.{item.name}\n"
            yield _call(item, bound=True)


def _is_shown(owner: str, name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL.get(owner, ())


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
    return f"`{call}{result}`\n" + (f"\n{prose}" if prose else "")


def _prose(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """A docstring as Markdown. Of what it raises, the names stand there: the message of an error has the reason."""
    text = (ast.get_docstring(node) or "").strip()
    plain, *reasons = RAISES.split(text, 1)
    kinds = [
        kind for kind in dict.fromkeys(re.findall(r"\w+", " ".join(reasons))) if kind in ERRORS
    ]
    if kinds:
        return f"{plain} Raises {', '.join(f'`{kind}`' for kind in kinds)}.\n"
    return f"{text}\n" if text else ""
