"""The generated part of docs/reference/python-api.md: what a companion in the same process calls and gets."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from generation.markdown import replaced

import memory_server

Definitions = Mapping[str, list[tuple[str, ast.ClassDef | ast.FunctionDef]]]
"""The functions and classes of each name, with their modules."""
ROOT = Path(__file__).resolve().parents[2]
CALLED = (
    "open_memory",
    "load",
    "language",
    "App",
    "Conversation",
    "Conversations",
    "Memories",
    "ShortTermManager",
    "LongTermManager",
    "InsightManager",
    "Knowledge",
)
"""What a companion calls: a section each."""
MADE = (
    "Message",
    "Session",
    "Origin",
    "RecallRequest",
    "GivenRules",
    "Reader",
    "ListRequest",
    "MemoryFilter",
)
"""Values that a companion makes and gives: shown with the defaults of their fields."""
RESULTS = (
    "Stored",
    "Found",
    "Recall",
    "Recalled",
    "Receipt",
    "HeldBack",
    "PromptLines",
    "Removed",
    "ShortTermMemory",
    "ExplainedMemory",
    "Filtered",
    "TriggerStored",
    "Activation",
    "Shelved",
    "LongTermMemory",
    "Failed",
    "Problem",
    "Hits",
)
"""Values that a companion gets: shown with their fields."""
API = (*CALLED, *MADE, *RESULTS)
"""What is on the page, in its order; the module of each is looked up."""
INTERNAL = {
    "App": {
        "view",
        "maintenance",
        "word_giver",
        "server",
        "keep_up",
        "for_one_question",
        "settle",
        "vectors",
        "machine",
        "serve_stdio",
        "zone",
    },
    "Conversation": {"day_notes", "correct"},
    "ShortTermMemory": {"key", "made_ms"},
    "LongTermMemory": {"key", "made_ms", "text", "is_constant"},
    "RecallRequest": {"said", "names", "of", "timezone"},
    "ShortTermManager": {"plans_today", "decision", "query_of", "unordered"},
    "LongTermManager": {"with_shared", "messages_of_a_hook"},
    "Recall": {"gains", "came_unasked"},
    "Conversations": {
        "get",
        "most_frequent",
        "view",
        "served_by",
        "outdated",
        "tidy_vectors",
        "version",
    },
    "Memories": {"for_callers", "engines", "language", "knowledge"},
    "Receipt": {
        "relevance",
        "shared",
        "match",
        "shares",
        "evidence",
        "counted",
        "words_shared",
        "words_beside",
        "other_words",
        "words_kept",
        "shares_any",
        "relevance_counted",
    },
    "Shelved": {"keys", "name", "text", "rules", "book_id", "version_key"},
    "Knowledge": {
        "overview",
        "unasked",
        "found",
        "places",
        "aclose",
        "notes",
        "refs",
        "layers",
    },
    "Notes": {
        "assign",
        "project_of",
        "project_names",
        "project_counts",
        "hint_of_waiting",
        "pages",
        "aclose",
        "changed",
    },
    "Layer": {"unasked", "file_of"},
    "GivenRules": {"applied_to"},
    "Refs": {"with_summary"},
}
"""Public names that other rooms of the server call, and companions do not."""
AS_TOOLS = {
    "Notes": ("notes", "[notes](tools/notes.md)"),
    "Layer": ('layers["project"]` or `layers["global"]', "[layers](tools/layers.md)"),
    "Refs": ("refs", "[refs](tools/refs.md)"),
}
"""Classes whose calls do what tools do: where `Knowledge` has them, and the page of these tools."""
WHOLE = {"open_memory"}
"""Names whose docstring stands whole, because a companion needs each of its sentences to use them."""

PLAIN = {
    "App.knowledge",
    "Conversation.books",
    "Conversation.archive",
    "Conversation.insight",
    "Memories.backups",
    "ShortTermManager.memory",
    "ShortTermManager.memories",
    "ShortTermManager.statistics",
    "LongTermManager.update",
    "LongTermManager.delete",
    "LongTermManager.get",
    "LongTermManager.memories",
    "Knowledge.sessions",
    "InsightManager.patterns",
    "Origin",
    "Reader",
    "HeldBack",
    "PromptLines",
    "Removed",
    "ShortTermMemory",
    "LongTermMemory",
    "ExplainedMemory",
    "Filtered",
    "TriggerStored",
    "Shelved",
    "Failed",
    "Problem",
}
"""Calls and values that are what their names say: the page has no sentence for them."""

RAISES = re.compile(r"(?:^|(?<=\.) )Raises?:? (?=[A-Z`])")
FIRST_SENTENCE = re.compile(r".*?[.…](?=$| [A-Z`])")


def python_api_page(text: str) -> str:
    """Return the page of the Python API with its generated part as it should be."""
    known = definitions()
    for name in (*API, *AS_TOOLS):
        if len(known.get(name, ())) != 1:
            raise SystemExit(
                f"{len(known.get(name, ()))} modules define {name}: correct the lists of python_api_page.py"
            )

    parts: list[str] = []
    for name in CALLED:
        ((module, node),) = known[name]
        parts.append(f"### {name}\n")
        if isinstance(node, ast.FunctionDef):
            parts.append(f"`{module}`: `{_call(node)}`. {_prose(node)}\n")
            continue
        lines = [f"- {line}" for line in _members(node, known)]
        if name == "Knowledge":
            lines += _calls_of_tools(known)
        parts += [f"`{module}`: {_prose(node)}\n", "\n".join(lines) + "\n"]

    parts += ["### Values to give\n", _list_of_values(MADE, known)]
    parts += ["### Results\n", _list_of_values(RESULTS, known)]
    return replaced(text, "api", "\n".join(parts))


def _list_of_values(names: Sequence[str], known: Definitions) -> str:
    """Return a line for each of these values: what it is, and how it is made or which fields it has."""
    lines: list[str] = []
    for name in names:
        ((module, node),) = known[name]
        assert isinstance(node, ast.ClassDef)
        fields = _fields(node, known)
        prose = "" if name in PLAIN else f": {_prose(node)}"
        if name in MADE:
            place = "" if name in memory_server.__all__ else f" (`{module}`)"
            lines.append(f"- `{name}({', '.join(map(_given, fields))})`{place}{prose}")
        else:
            shown = ", ".join(str(_name(field)) for field in fields)
            lines.append(f"- `{name}({shown})`{prose}")
        lines += [f"  - {line}" for line in _members(node, known)]
    return "\n".join(lines) + "\n"


def _calls_of_tools(known: Definitions) -> Iterator[str]:
    """Return a line for each class whose calls do what tools do."""
    for name, (place, page) in AS_TOOLS.items():
        ((_, node),) = known[name]
        calls = [
            f"`{item.name}`"
            for item in node.body
            if isinstance(item, ast.AsyncFunctionDef) and _is_shown(name, item.name)
        ]
        yield f"- `{place}` can {', '.join(calls)}, as the tools of {page} do."


def definitions() -> Definitions:
    """Return the functions and classes that have each name, with their modules."""
    known: dict[str, list[tuple[str, ast.ClassDef | ast.FunctionDef]]] = {}
    for path in [*sorted((ROOT / "memory_server").rglob("*.py")), ROOT / "sandbox" / "verdicts.py"]:
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        module = name.replace("/", ".").removesuffix(".__init__")
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)):
                known.setdefault(node.name, []).append((module, node))
    return known


def _members(node: ast.ClassDef, known: Definitions) -> Iterator[str]:
    """Return the call, and what it does, of each call of a class."""
    for item in _body(node, known):
        if isinstance(item, (ast.FunctionDef, ast.AsyncFunctionDef)) and _is_shown(
            node.name, item.name
        ):
            prose = "" if f"{node.name}.{item.name}" in PLAIN else _prose(item, node.name)
            yield f"`{_call(item, bound=True)}`" + (f": {prose}" if prose else "")


def _fields(node: ast.ClassDef, known: Definitions) -> list[ast.AnnAssign]:
    return [item for item in _body(node, known) if isinstance(item, ast.AnnAssign)]


def _body(node: ast.ClassDef, known: Definitions) -> list[ast.stmt]:
    """Return the statements of a class and of its bases, each name once."""
    own = set(map(_name, node.body))
    body = list(node.body)
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in known:
            ((_, definition),) = known[base.id]
            body += [item for item in definition.body if _name(item) not in own]
    return body


def _is_shown(owner: str, name: str) -> bool:
    return not name.startswith("_") and name not in INTERNAL.get(owner, ())


def _name(item: ast.stmt) -> str | None:
    if isinstance(item, ast.AnnAssign):
        return ast.unparse(item.target)
    return getattr(item, "name", None)


def _given(field: ast.AnnAssign) -> str:
    """Return a field as an argument of the constructor, with its default."""
    if field.value is None:
        return ast.unparse(field.target)
    default = ast.unparse(field.value)
    factory = re.fullmatch(r"field\(default_factory=(?:lambda: (\w+)|(\w+))\)", default)
    if factory:
        default = factory[1] or f"{factory[2]}()"
    return f"{ast.unparse(field.target)}={default}"


def _call(node: ast.FunctionDef | ast.AsyncFunctionDef, *, bound: bool = False) -> str:
    """Return a call with the names and defaults of its arguments; `help()` and editors show their types."""
    arguments = ast.unparse(_untyped(node.args))
    if bound:
        arguments = re.sub(r"^(self|cls)(, )?", "", arguments)
    # The page says once that a call which changes something has this argument.
    arguments = re.sub(r"(?:, |^)(?:\*, )?by='\w+'$", "", arguments)
    is_property = any(
        ast.unparse(decorator) in ("property", "cached_property")
        for decorator in node.decorator_list
    )
    before = "await " if isinstance(node, ast.AsyncFunctionDef) else ""
    call = node.name if is_property else f"{before}{node.name}({arguments})"
    result = ast.unparse(node.returns) if node.returns else "None"
    return call if result == "None" else f"{call} -> {result}"


def _untyped(arguments: ast.arguments) -> ast.arguments:
    """Return the arguments without their types."""
    plain = copy.deepcopy(arguments)
    for argument in ast.walk(plain):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return plain


def _prose(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, owner: str = "") -> str:
    """Return the first sentence of a docstring, or all of it for a name of `WHOLE`. The page says of each error when it
    comes."""
    text = RAISES.split(" ".join((ast.get_docstring(node) or "").split()), maxsplit=1)[0]
    if f"{owner}.{node.name}".lstrip(".") in WHOLE:
        return text.strip()
    first = FIRST_SENTENCE.match(text)
    return (first[0] if first else text).strip()
