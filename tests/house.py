"""What the house costs a newcomer: tokens of code by room, and files and functions that a call runs through.

    python tests/house.py           print the figures beside their ceilings
    python tests/house.py --check   fail where a figure is above its ceiling, or where nothing was counted
    python tests/house.py --lower   lower the ceilings of `house.json` to today's figures; none is raised

Docstrings, comments and layout do not count, so neither explaining nor formatting costs anything. The JavaScript that
runs in the sandbox and in other programs counts too: code that moves there is still read. A ceiling that has to rise is
changed by hand in `house.json`, with a line of the commit that says which user gains by it.
"""

from __future__ import annotations

import ast
import asyncio
import io
import json
import math
import sys
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from bench.files_of_a_call import RunThrough, files_of_calls

ROOT = Path(__file__).resolve().parents[1]
CEILINGS = Path(__file__).with_name("house.json")
PARTS = ("memory_server", "sandbox", "nlp", "languages", "distribution")
"""The folders of the top level whose code is shipped."""
STEP = 500
"""Tokens; a ceiling of a room is a multiple of it, so that a small mend needs no new ceiling."""
CALLS = (
    "search_short_term_memories",
    "recall_turn",
    "add_short_term_memory",
    "forget",
    "memory_add",
)
LAYOUT = frozenset(
    {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENCODING,
        tokenize.ENDMARKER,
    }
)


@dataclass(frozen=True)
class House:
    """Figures of the house, or their ceilings."""

    tokens: dict[str, int]
    """By room."""
    calls: dict[str, RunThrough]
    """By name of the tool."""


def main(arguments: list[str]) -> int:
    ceilings = _read_ceilings()
    house = House(tokens_by_room(), asyncio.run(files_of_calls(CALLS)))

    if "--lower" in arguments:
        _write_ceilings(_lowered(house, ceilings))
        return 0
    if "--check" not in arguments:
        _print(house, ceilings)
        return 0

    faults = list(faults_of(house, ceilings))
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def faults_of(house: House, ceilings: House) -> Iterator[str]:
    """Yield a sentence for each figure above its ceiling, and for each that has none or was not counted."""
    for room in sorted(house.tokens.keys() | ceilings.tokens.keys()):
        tokens = house.tokens.get(room, 0)
        ceiling = ceilings.tokens.get(room)
        if ceiling is None:
            yield f"The room {room} has no ceiling in tests/house.json; it has {tokens:,} tokens."
        elif tokens > ceiling:
            yield f"The room {room} has {tokens:,} tokens of code; its ceiling is {ceiling:,}."
        elif tokens == 0:
            yield f"The room {room} is in tests/house.json, but no code of it was counted."

    for call in CALLS:
        run = house.calls.get(call)
        most = ceilings.calls.get(call)
        if run is None or run.files == 0:
            yield f"No file was counted for a call of {call}."
        elif most is None:
            yield f"A call of {call} has no ceiling in tests/house.json."
        elif run.files > most.files or run.functions > most.functions:
            yield (
                f"A call of {call} runs through {run.files} files and {run.functions} functions; "
                f"its ceilings are {most.files} and {most.functions}."
            )


def tokens_by_room(root: Path = ROOT) -> dict[str, int]:
    """Count the tokens of Python and JavaScript below `root`, by room: a top-level folder and the folder below it."""
    rooms: dict[str, int] = {}
    for part in PARTS:
        for path in sorted((root / part).rglob("*")):
            tokens = _tokens_of(path)
            if tokens is None or "node_modules" in path.parts:
                continue
            room = room_of(path.relative_to(root))
            rooms[room] = rooms.get(room, 0) + tokens
    return rooms


def room_of(path: Path) -> str:
    """Name the room of a file; JavaScript has a room of its own beside the Python of its folder."""
    room = "/".join(path.parts[:2]) if len(path.parts) > 2 else path.parts[0]
    if path.suffix == ".js":
        return f"{room} (JavaScript)"
    return room


def _tokens_of(path: Path) -> int | None:
    """Return None for a file that is not code."""
    if path.suffix == ".py":
        return python_tokens(path.read_text(encoding="utf-8"))
    if path.suffix == ".js":
        return javascript_tokens(path.read_bytes())
    return None


def python_tokens(source: str) -> int:
    """Count tokens without docstrings, comments and layout.

    A comma before a closing bracket is layout too: the formatter puts it there.
    """
    prose = _lines_of_docstrings(ast.parse(source))
    tokens = [
        token
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type not in LAYOUT and token.start[0] not in prose
    ]
    trailing = [
        token
        for token, following in pairwise(tokens)
        if token.string == "," and following.string in (")", "]", "}")
    ]
    return len(tokens) - len(trailing)


def _lines_of_docstrings(tree: ast.Module) -> set[int]:
    """Collect the lines of strings that are statements: docstrings of modules, classes, functions and fields."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Expr) or not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node.value.value, str):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def javascript_tokens(source: bytes) -> int:
    """Count the leaves of the syntax tree, a string or an expression as one, without comments and commas before brackets."""
    import tree_sitter
    import tree_sitter_javascript

    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))
    leaves: list[str] = []
    nodes = [parser.parse(source).root_node]
    while nodes:
        node = nodes.pop()
        if node.type == "comment":
            continue
        if node.child_count == 0 or node.type in ("string", "regex"):
            leaves.append(node.type)
        else:
            nodes.extend(reversed(node.children))
    trailing = [
        leaf for leaf, following in pairwise(leaves) if leaf == "," and following in (")", "]", "}")
    ]
    return len(leaves) - len(trailing)


def _read_ceilings() -> House:
    stored: dict[str, Any] = json.loads(CEILINGS.read_text(encoding="utf-8"))
    return House(
        stored["tokens"],
        {name: RunThrough(**figures) for name, figures in stored["calls"].items()},
    )


def _write_ceilings(ceilings: House) -> None:
    stored = {
        "tokens": ceilings.tokens,
        "calls": {
            name: {"files": run.files, "functions": run.functions}
            for name, run in ceilings.calls.items()
        },
    }
    CEILINGS.write_text(json.dumps(stored, indent=2) + "\n", encoding="utf-8")


def _lowered(house: House, ceilings: House) -> House:
    """Return ceilings for the rooms and calls of today, each at most what it was."""
    tokens = {
        room: min(math.ceil(count / STEP) * STEP, ceilings.tokens.get(room, sys.maxsize))
        for room, count in sorted(house.tokens.items())
    }
    calls: dict[str, RunThrough] = {}
    for name, run in house.calls.items():
        before = ceilings.calls.get(name, run)
        calls[name] = RunThrough(min(run.files, before.files), min(run.functions, before.functions))
    return House(tokens, calls)


def _print(house: House, ceilings: House) -> None:
    for room, tokens in sorted(house.tokens.items(), key=lambda item: -item[1]):
        print(f"{tokens:9,} of {ceilings.tokens.get(room, 0):9,}  {room}")
    print(f"{sum(house.tokens.values()):9,} in all")
    for name, run in house.calls.items():
        most = ceilings.calls.get(name, run)
        print(
            f"{name}: {run.files} of {most.files} files, {run.functions} of {most.functions} functions"
        )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
