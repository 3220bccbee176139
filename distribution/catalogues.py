"""The catalogue of sentences in Chinese: keep it in step with the code, and build it.

    python distribution/catalogues.py           write new sentences of the code into the .po file, take old ones out
    python distribution/catalogues.py --check   say what is missing, fuzzy or not in step; change nothing

`build_hook.py` calls `build`, which makes the .mo file that the programs read.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from io import BytesIO
from pathlib import Path
from string import Formatter
from typing import IO, Any

from babel.messages.catalog import Catalog
from babel.messages.extract import extract_from_dir
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

sys.path.insert(0, str(Path(__file__).parent))
import foreign

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("languages", "memory_server", "sandbox")
"""The packages whose code has sentences."""
ERRORS = (
    *(
        "BackupNotFound",
        "ChatError",
        "ClientFailed",
        "DateError",
        "EncodingError",
        "InvalidInput",
        "InvalidPattern",
    ),
    *(
        "LayerMissing",
        "MemoryClosed",
        "MemoryNotFound",
        "MemoryPaused",
        "ModelsFailed",
        "NameTaken",
        "NotARecord",
        "NotFields",
    ),
    *(
        "NotJson",
        "NotStrictJson",
        "NotThisFormat",
        "NothingToErase",
        "NothingToKeep",
        "PatternError",
        "QuotaReached",
        "ReadOnly",
    ),
    *("SandboxBusy", "SandboxClosed", "SandboxUnavailable", "TriggersUnavailable", "Unreadable"),
    "UsageError",
)
"""Errors that are raised with a template."""
KEYWORDS: Mapping[str, Any] = dict.fromkeys(("_", "N_", "Sentence", "padded", "_say", *ERRORS)) | {
    "n_": (1, 2)
}

TRANSLATED: Mapping[str, int] = {
    "add": 1,
    "argument": 3,
    "at": 2,
    "complain": 0,
    "dry_run": 1,
    "hint": 0,
    "other_words": 1,
    "say": 0,
    "switch": 2,
}
"""Functions that translate one of their arguments, with its place."""


def file_of(language: str = "zh") -> Path:
    return ROOT / "languages" / language / "messages.po"


def sentences() -> Catalog:
    """Return the sentences that the code marks, with the file of each."""
    sys.path.insert(0, str(ROOT))
    catalogue = Catalog()
    methods = [("**.py", extracted), ("**.html", "jinja2")]
    for package in PACKAGES:
        for file, _, message, _, _ in extract_from_dir(
            str(ROOT / package), methods, keywords=KEYWORDS
        ):
            catalogue.add(message, locations=[(f"{package}/{file}", 0)])
    for text in (*foreign.V8, *foreign.LIBRARIES, *foreign.SYSTEM, *foreign.PYDANTIC):
        catalogue.add(text, context="foreign")
    for text in foreign.ARGPARSE:
        catalogue.add(text)
    return catalogue


def extracted(
    file: IO[bytes], keywords: Iterable[str], *_more: Any, **_options: Any
) -> Iterator[tuple[int, str, Any, list[str]]]:
    """Read Python for Babel: calls in f-strings, both texts of `a if b else c`, `counted`, and the titles of tools."""
    from languages import forms

    for node in ast.walk(ast.parse(file.read())):
        if not isinstance(node, ast.Call):
            continue

        called = getattr(node.func, "id", getattr(node.func, "attr", ""))

        if called == "n_":
            yield (
                node.lineno,
                called,
                tuple(text for argument in node.args[:2] for text in _texts(argument)),
                [],
            )
        elif called == "counted" and len(node.args) == 2:
            yield from ((node.lineno, "n_", forms(noun), []) for noun in _texts(node.args[1]))
        elif called in ("tool", "add_argument"):
            # The form of help translates each text.
            texts = (
                argument.value for argument in node.keywords if argument.arg in ("title", "help")
            )
            yield from (
                (node.lineno, "_", text, []) for argument in texts for text in _texts(argument)
            )
        elif isinstance(node.func, ast.Name) and len(node.args) > TRANSLATED.get(
            called, len(node.args)
        ):
            yield from (
                (node.lineno, "_", text, []) for text in _texts(node.args[TRANSLATED[called]])
            )
        elif called in keywords and node.args:
            yield from ((node.lineno, called, text, []) for text in _texts(node.args[0]))


def _texts(node: ast.expr) -> list[str]:
    """Return the literal texts that an expression can give, such as both of `a if b else c`."""
    match node:
        case ast.Constant(str(text)):
            return [text]
        case ast.IfExp(_, body, orelse):
            return [*_texts(body), *_texts(orelse)]
        case ast.Dict(values=members) | ast.Tuple(elts=members) | ast.List(elts=members):
            return [text for member in members for text in _texts(member)]
        case ast.Starred(members):
            return _texts(members)
    return []


def read() -> Catalog:
    file = file_of()
    with file.open("rb") as content:
        return read_po(content, file.parent.name)


def troubles() -> list[str]:
    """Return what is wrong with the catalogue, one line each."""
    entries = {(entry.id, entry.context): entry for entry in read() if entry.id}
    marked = {(entry.id, entry.context) for entry in sentences() if entry.id}
    lines = [f"is not in the catalogue: {text!r}" for text, _ in marked - entries.keys()]
    lines += [f"is not in the code: {text!r}" for text, _ in entries.keys() - marked]
    for entry in entries.values():
        chinese = entry.string[0] if entry.pluralizable else str(entry.string)
        english = entry.id[1] if entry.pluralizable else str(entry.id)
        if entry.fuzzy or not chinese:
            lines.append(f"has no Chinese, or a fuzzy one: {entry.id!r}")
        elif places(english) != places(chinese):
            lines.append(f"has other places than its Chinese: {entry.id!r}")
    return sorted(lines)


def places(template: str) -> set[str]:
    """Return the places of a template as they are written; none where its braces are plain text."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        return set()
    return {
        f"{name}!{conversion}:{form}" for _, name, form, conversion in parsed if name is not None
    }


def update() -> None:
    """Add to the catalogue the sentences that the code marks, without Chinese yet, and delete those it no longer has."""
    catalogue = read()
    marked = sentences()
    for entry in list(catalogue):
        if entry.id and marked.get(entry.id, entry.context) is None:
            catalogue.delete(entry.id, entry.context)
    for entry in marked:
        if entry.id and catalogue.get(entry.id, entry.context) is None:
            catalogue.add(entry.id, context=entry.context)
    save(catalogue)


def save(catalogue: Catalog) -> None:
    content = BytesIO()
    write_po(content, catalogue, width=120, no_location=True, omit_header=False, sort_output=True)
    _replace(file_of(), content.getvalue())


def build() -> Path:
    """Make the .mo file."""
    file = file_of().with_suffix(".mo")
    content = BytesIO()
    write_mo(content, read())
    _replace(file, content.getvalue())
    return file


def _replace(file: Path, content: bytes) -> None:
    """Write a file in one step, and only if its content changes."""
    # Other processes may read it, and its time says to a shared process whether the program has changed.
    if not file.exists() or file.read_bytes() != content:
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_bytes(content)
        aside.replace(file)


def main(arguments: list[str]) -> int:
    """Update and build the catalogue, or with --check only look. Print what is wrong with it, and return 1 if something
    is."""
    only_check = "--check" in arguments
    if not only_check:
        update()
    lines = troubles()
    for line in lines:
        print(f"{file_of().relative_to(ROOT)}: {line}", file=sys.stderr)  # noqa: T201
    if not only_check:
        build()
    return min(len(lines), 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
