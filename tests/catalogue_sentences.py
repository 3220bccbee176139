"""The sentences of the code that people read at a shell, found in its source: what the catalogues must hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
CATALOGUES = {"sandbox": ROOT / "sandbox/zh.json", "memory_server": ROOT / "memory_server/cli/zh.json"}
FOR_MODELS = (
    "memory_server/serving/",
    "memory_server/recall/prompt_lines.py",
    "memory_server/recall/recalled_block.py",
)
"""What models get over MCP, and the lines for prompts, which have a language of their own."""
OF_SERVING = ("memory_server/serving/http/entrance.py", "memory_server/serving/http/node.py")
"""What serving says at a shell."""
PICTURES = ("memory_server/evaluation/plots.py",)
NOT_READ = {
    "compile",
    "search",
    "match",
    "debug",
    "info",
    "warning",
    "exception",
    "Field",
    "From",
    "field",
    "namedtuple",
}
"""Calls whose texts nobody reads at a shell: regular expressions, logs, descriptions of results."""
NOT_SHOWN = {"tool": {"title", "search_hint"}}
"""Arguments of the same kind."""
_SENTENCE = re.compile(r"[A-Za-z][a-z']+[,;:.]? [\[({`']*[A-Za-z{]|[}a-z] [a-z]{2,}")


_SQL = re.compile(r"\b(SELECT|INSERT|UPDATE|DELETE FROM|CREATE|DESC|IS NOT|operation IN)\b|^e\.")


@dataclass(frozen=True)
class Sentence:
    template: str
    """With `{}` for each value."""
    values: tuple[str, ...]
    """The expressions of these values."""
    place: str
    """File and line."""


def sentences() -> Iterator[Sentence]:
    """Every text of the code, words and parts of texts too."""
    for package in ("memory_server", "sandbox", "nlp"):
        for path in sorted((ROOT / package).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if file in OF_SERVING or not file.startswith((*FOR_MODELS, *PICTURES)):
                for node in _texts(ast.parse(path.read_text("utf-8"))):
                    template, values = _template(node) or ("", ())
                    yield Sentence(template, values, f"{file}:{getattr(node, 'lineno', 0)}")


def is_sentence(template: str) -> bool:
    """Whether it is more than a word: it must be in a catalogue."""
    return _SENTENCE.search(template) is not None and _SQL.search(template) is None


def argparse_texts() -> set[str]:
    """Argparse's own texts, with `{}` for its values."""
    import argparse

    tree = ast.parse(Path(argparse.__file__).read_text("utf-8"))
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {re.sub(r"%(\(\w+\))?[sr]", "{}", text) for text in texts}


def counted_forms(noun: str) -> tuple[str, str]:
    """What `counted` writes: `{} memory` and `{} memories`."""
    return "{} " + noun, "{} " + (noun[:-1] + "ies" if noun.endswith("y") else noun + "s")


def _texts(node: ast.AST) -> Iterator[ast.AST]:
    """The texts below `node`: of a sum or an f-string the whole, then the texts in its values. No docstrings."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Call):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in NOT_READ:
            return
        hidden = NOT_SHOWN.get(called, ())
        node = ast.Call(node.func, node.args, [one for one in node.keywords if one.arg not in hidden])
    if _template(node) is not None:
        yield node
        for value in _values(node):
            yield from _texts(value)
        return
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def _values(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.JoinedStr(values):
            yield from (one.value for one in values if isinstance(one, ast.FormattedValue))
        case ast.BinOp(left, ast.Add(), right):
            for side in (left, right):
                yield from _values(side) if _template(side) else (side,)


def _template(node: ast.AST) -> tuple[str, tuple[str, ...]] | None:
    match node:
        case ast.Constant(str(text)):
            # `{}` is for `format`, but in quotes it is an empty object of JSON.
            written = text.replace("{", "{{").replace("}", "}}")
            return re.sub(r"(?<!')\{\{(!r)?\}\}", "{}", written), ()
        case ast.JoinedStr(parts):
            made = [_template(part) or ("{}", ()) for part in parts]
            named = tuple(ast.unparse(part.value) for part in parts if isinstance(part, ast.FormattedValue))
            return "".join(template for template, _ in made), named
        case ast.BinOp(left, ast.Add(), right):
            sides = [_template(left), _template(right)]
            if any(sides):
                whole = [side or ("{}", (ast.unparse(of),)) for side, of in zip(sides, (left, right), strict=True)]
                return whole[0][0] + whole[1][0], (*whole[0][1], *whole[1][1])
    return None
