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
    "memory_server/conversations/recall/prompt_lines.py",
    "memory_server/kernel/recalled_block.py",
)
"""What models get over MCP, and the lines for prompts, which have a language of their own."""
OF_SERVING = ("memory_server/serving/http/entrance.py", "memory_server/serving/http/node.py")
"""What serving says at a shell."""
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
            if file in OF_SERVING or not file.startswith(FOR_MODELS):
                for node in _texts(ast.parse(path.read_text("utf-8"))):
                    template, values = _template(node) or ("", ())
                    yield Sentence(template, values, f"{file}:{getattr(node, 'lineno', 0)}")


def is_sentence(template: str) -> bool:
    """Whether it is more than a word: it must be in a catalogue."""
    return _SENTENCE.search(template) is not None and _SQL.search(template) is None


V8 = {
    "SyntaxError: {}": "const a = ;",
    "Unexpected token {}": "const a = ;",
    "Unexpected end of input": "if (",
    "Unexpected identifier {}": "foo bar",
    "Unexpected string": "1 'x'",
    "Unexpected number": "1 2",
    "Invalid or unexpected token": "'abc",
    "missing ) after argument list": "f(1 2)",
    "Identifier {} has already been declared": "let a = 1; let a = 2",
    "Missing initializer in const declaration": "const a",
    "Invalid regular expression: {}": "/[/.test('a')",
    "Invalid left-hand side in assignment": "1 = 2",
    "Missing catch or finally after try": "try { 1 }",
    "A trigger of several statements with await must return its verdict": "await 1; true",
    "ReferenceError: {} is not defined": "nope",
    "ReferenceError: Cannot access {} before initialization": "a; let a = 1",
    "TypeError: Cannot read properties of {} (reading {})": "null.x",
    "TypeError: {} is not a function": "context.nope()",
    "TypeError: {} is not iterable": "for (const a of 1) 1",
    "TypeError: Assignment to constant variable.": "const a = 1; a = 2",
    "TypeError: {}: keys must be a list, such as ['birthday', /cake/i]": "match_keys(context.messages, 'b')",
    "TypeError: {}: the first argument must be context.messages or context": "match_keys('a', ['b'])",
    "RangeError: Maximum call stack size exceeded": "(function f() { f(); })()",
    "The promise of this trigger never settles: nothing is left that could settle it": "new Promise(() => {})",
}
"""What V8 and the realm say of triggers, with `{}` for their values, each with a trigger of which they say it."""


def library_texts() -> set[str]:
    """The texts of argparse, and of the readers of JSON and YAML, with `{}` for their values."""
    import argparse
    import json.decoder

    import yaml

    files = [argparse.__file__, json.decoder.__file__]
    files += [module.__file__ for module in (yaml.scanner, yaml.parser, yaml.composer)]
    trees = [ast.parse(Path(file).read_text("utf-8")) for file in files]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return {_with_holes(text) for text in texts}


def _with_holes(text: str) -> str:
    escaped = text.replace("{", "{{").replace("}", "}}") if "'}'" in text else text
    return re.sub(r"%(\(\w+\))?[sr]", "{}", escaped)


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
