"""Where a page says that a file has a function, class or value, the file defines it.

These forms are read; in each of them `name` may be `Class.member`:

    `name` in `folder/file.py`        also with `of`, and with several names: `a`, `b` and `c` in `file.py`
    `folder/file.py` (`name`          and `name` (`file.py`)
    `folder/module.name`
    `name` there                      in the file that was named last; `file.py` there is in the folder of that file

The end of a path is enough. A name like `section.setting`, which begins with a small letter, is a setting: the file must
have its last part as a name.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docs.markdown_pages import ROOT, Page, pages
from project_files import project_files

NAME = r"`(?P<name>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?)`"
FILE = r"`(?P<file>[\w./-]+\.(?:py|js))`"
STATEMENTS = (
    re.compile(rf"(?P<more>(?:`[A-Za-z_][\w.]*`(?:, | and | or ))*){NAME} (?:in|of) {FILE}"),
    re.compile(rf"{FILE} \({NAME}"),
    re.compile(rf"{NAME} \({FILE}\)"),
)
IN_MODULE = re.compile(r"`(?P<module>\w+(?:/\w+)+)\.(?P<name>[A-Z_]\w*)`")
THERE = re.compile(r"`(?P<name>[\w.]+)`(?: \([^()`]*\))? there\b")
NEW_PARAGRAPH = re.compile(r"\s*(?:[-*] |\d+\. |\||#)")
MENTIONED = re.compile(FILE)
WORD = re.compile(r"`([A-Za-z_][\w.]*)`")


def paragraphs(read: Page) -> Iterator[tuple[int, str]]:
    """The paragraphs, list items and rows of tables of a page, each on one line, with the number of its first line."""
    start, lines = 0, [""]
    for number, line in read.prose:
        if NEW_PARAGRAPH.match(line) or not line.strip():
            yield start, " ".join(lines)
            start, lines = number, []
        lines.append(line.strip())
    yield start, " ".join(lines)


def statements(line: str) -> Iterator[tuple[str, str]]:
    """The pairs of a name and a file that has it, as a paragraph says. The name is empty if only the file is named."""
    for pattern in STATEMENTS:
        for match in pattern.finditer(line):
            names = [*WORD.findall(match.groupdict().get("more") or ""), match["name"]]
            for name in names:
                if not name.endswith((".py", ".js")):
                    yield name, match["file"]
    for match in IN_MODULE.finditer(line):
        yield match["name"], f"{match['module']}.py"
    for match in THERE.finditer(line):
        before = [found["file"] for found in MENTIONED.finditer(line[: match.start()])]
        if not before:
            continue
        if match["name"].endswith((".py", ".js")):
            yield "", f"{Path(before[-1]).parent.as_posix()}/{match['name']}"
        else:
            yield match["name"], before[-1]


@cache
def _sources() -> dict[str, Path]:
    """The files of code, by their paths with a slash before them."""
    paths = (path for path in project_files() if path.suffix in (".py", ".js"))
    return {f"/{path.relative_to(ROOT).as_posix()}": path for path in paths}


def _files(end: str) -> list[Path]:
    """The files whose path ends so; a path with `.` as its folder is a file of any folder."""
    return [
        path for name, path in _sources().items() if name.endswith(f"/{end.removeprefix('./')}")
    ]


@cache
def _defined(path: Path) -> frozenset[str]:
    """What a file defines: functions, classes, values, arguments; and members as `Class.member`."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return frozenset(re.findall(r"\b(?:function\*?|const|let|class)\s+(\w+)", text))
    tree = ast.parse(text)
    names: set[str] = set()
    for node in ast.walk(tree):
        names.update(_names(node))
        if isinstance(node, ast.ClassDef):
            members = {name for child in ast.walk(node) for name in _names(child)}
            names.update(f"{node.name}.{member}" for member in members)
    return frozenset(names)


def _names(node: ast.AST) -> Iterator[str]:
    """The names that a node of a syntax tree defines itself."""
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.arg(arg=name):
            yield name


def _holds(path: Path, name: str) -> bool:
    """Whether a file defines a name, or names the last part of a setting."""
    first, _, last = name.partition(".")
    if last and first[:1].islower():
        return re.search(rf"\b{last}\b", path.read_text(encoding="utf-8")) is not None
    return name in _defined(path)


def fault(name: str, file: str) -> str | None:
    """Return what is wrong about a statement, or None if it is true."""
    files = _files(file)
    if not files:
        return f"no file {file}"
    if name and not any(_holds(path, name) for path in files):
        return f"{file} does not define {name}"
    return None


def test_a_file_that_a_page_names_defines_what_the_page_says() -> None:
    faults: list[str] = []
    checked = 0
    for read in pages():
        if read.name == "CHANGELOG.md":  # it tells of files that are gone
            continue
        for number, text in paragraphs(read):
            for name, file in statements(text):
                checked += 1
                wrong = fault(name, file)
                if wrong:
                    faults.append(f"{read.name}:{number}: {wrong}")
    assert checked > 35
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("`excess` in `conversations/model.py`", 0),
        ("`excess`, `gone` and `lost` in `conversations/model.py`", 2),
        ("`CallerView.conversation` of `runtime/app.py`", 0),
        ("`CallerView.gone` of `runtime/app.py`", 1),
        ("`excess` in `conversations/gone.py`", 1),
        ("`runtime/app.py` (`gone`, which opens it)", 1),
        ("`gone` (`runtime/app.py`)", 1),
        ("`conversations/ports.Gone`", 1),
        ("`fold` in `sandbox/worker/realm/keys.js`", 0),
        ("`gone` in `sandbox/worker/realm/keys.js`", 1),
        ("its file is `nlp/enrichment.py`; `gone` there", 1),
        ("its file is `nlp/enrichment.py`; `gone.py` there", 1),
        ("its file is `nlp/enrichment.py`; `questions.py` there", 0),
        ("`recalls.gone` (`memories/recalls.py`)", 1),
    ],
)
def test_a_false_statement_is_found(line: str, faults: int) -> None:
    found = [fault(name, file) for name, file in statements(line)]
    assert len([wrong for wrong in found if wrong]) == faults
