"""The catalogues of sentences in other languages: keep them in step with the code, and build them.

    python distribution/catalogues.py           write new sentences of the code into the .po files, take old ones out
    python distribution/catalogues.py --check   say what is missing, fuzzy or not in step; change nothing

`build_hook.py` calls `build`, which makes the .mo files that the programs read.
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
DOMAINS = {"sandbox": "trigger-sandbox", "memory_server": "memory-server"}
"""The catalogue of each package."""
ERRORS = (
    *("BackupNotFound", "ChatError", "ClientFailed", "DateError", "EncodingError", "InvalidInput", "InvalidPattern"),
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
    *("NotJson", "NotStrictJson", "NotThisFormat", "NothingToKeep", "PatternError", "QuotaReached", "ReadOnly"),
    *("SandboxBusy", "SandboxClosed", "SandboxUnavailable", "ToolFailed", "TriggersUnavailable", "Unreadable"),
    "UsageError",
)
"""Errors that are raised with a template."""
KEYWORDS: Mapping[str, Any] = dict.fromkeys(("_", "N_", "term", "padded", "_say", *ERRORS)) | {"n_": (1, 2)}


def file_of(package: str, language: str = "zh") -> Path:
    return ROOT / package / "locale" / language / "LC_MESSAGES" / f"{DOMAINS[package]}.po"


def sentences(package: str) -> Catalog:
    """The sentences that the code of a package marks, with the file of each."""
    sys.path.insert(0, str(ROOT))
    found = Catalog()
    methods = [("**.py", extracted), ("**.html", "jinja2")]
    for file, _, message, _, _ in extract_from_dir(str(ROOT / package), methods, keywords=KEYWORDS):
        found.add(message, locations=[(f"{package}/{file}", 0)])
    if package == "sandbox":
        for text in (*foreign.V8, *foreign.LIBRARIES, *foreign.SYSTEM, *foreign.PYDANTIC):
            found.add(text, context="foreign")
        for text in foreign.ARGPARSE:
            found.add(text)
    return found


def extracted(
    file: IO[bytes], keywords: Iterable[str], *_more: Any, **_options: Any
) -> Iterator[tuple[int, str, Any, list[str]]]:
    """A reader of Python for Babel, which sees calls in f-strings, both texts of `a if b else c`, `counted`, and the
    titles of tools."""
    from sandbox.locale import forms

    for node in ast.walk(ast.parse(file.read())):
        if not isinstance(node, ast.Call):
            continue
        called = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if called == "n_":
            yield node.lineno, called, tuple(text for one in node.args[:2] for text in _texts(one)), []
        elif called == "counted" and len(node.args) == 2:
            yield from ((node.lineno, "n_", forms(noun), []) for noun in _texts(node.args[1]))
        elif called == "tool":
            titles = (one.value for one in node.keywords if one.arg == "title")
            yield from ((node.lineno, "_", text, []) for title in titles for text in _texts(title))
        elif called in keywords and node.args:
            yield from ((node.lineno, called, text, []) for text in _texts(node.args[0]))


def _texts(node: ast.expr) -> list[str]:
    match node:
        case ast.Constant(str(text)):
            return [text]
        case ast.IfExp(_, body, orelse):
            return [*_texts(body), *_texts(orelse)]
    return []


def read(package: str) -> Catalog:
    file = file_of(package)
    with file.open("rb") as content:
        return read_po(content, file.parents[1].name)


def troubles(package: str) -> list[str]:
    """What is wrong with a catalogue, one line each."""
    catalogue, code = read(package), sentences(package)
    known = {(one.id, one.context): one for one in catalogue if one.id}
    said = {(one.id, one.context) for one in code if one.id}
    others = {one.id: one for other in DOMAINS if other != package for one in read(other) if not one.context}
    found = [f"is not in the catalogue: {text!r}" for text, _ in said - known.keys()]
    found += [f"is not in the code: {text!r}" for text, _ in known.keys() - said]
    for one in known.values():
        chinese = one.string[0] if one.pluralizable else str(one.string)
        if one.fuzzy or not chinese:
            found.append(f"has no Chinese, or a fuzzy one: {one.id!r}")
        elif places(one.id[1] if one.pluralizable else str(one.id)) != places(chinese):
            found.append(f"has other places than its Chinese: {one.id!r}")
        elif not one.context and one.id in others and others[one.id].string != one.string:
            found.append(f"has other Chinese in the other catalogue: {one.id!r}")
    return sorted(found)


def places(template: str) -> set[str]:
    """The places of a template as they are written; none where its braces are plain text."""
    try:
        parsed = list(Formatter().parse(template))
    except ValueError:
        return set()
    return {f"{name}!{conversion}:{form}" for _, name, form, conversion in parsed if name is not None}


def update(package: str) -> None:
    catalogue = read(package)
    code = sentences(package)
    for one in list(catalogue):
        if one.id and code.get(one.id, one.context) is None:
            catalogue.delete(one.id, one.context)
    for one in code:
        if one.id and catalogue.get(one.id, one.context) is None:
            catalogue.add(one.id, context=one.context)
    save(package, catalogue)


def save(package: str, catalogue: Catalog) -> None:
    content = BytesIO()
    write_po(content, catalogue, width=120, no_location=True, omit_header=False, sort_output=True)
    _replace(file_of(package), content.getvalue())


def build() -> list[Path]:
    """Make the .mo file of each catalogue."""
    made = []
    for package in DOMAINS:
        made.append(file_of(package).with_suffix(".mo"))
        content = BytesIO()
        write_mo(content, read(package))
        _replace(made[-1], content.getvalue())
    return made


def _replace(file: Path, content: bytes) -> None:
    # Other processes may read it, and its time says to a shared process whether the program has changed.
    if not file.exists() or file.read_bytes() != content:
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_bytes(content)
        aside.replace(file)


def main(arguments: list[str]) -> int:
    wrong = 0
    for package in DOMAINS:
        if "--check" not in arguments:
            update(package)
        for trouble in troubles(package):
            print(f"{file_of(package).relative_to(ROOT)}: {trouble}", file=sys.stderr)  # noqa: T201
            wrong += 1
    if "--check" not in arguments:
        build()
    return min(wrong, 1)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
