"""A JUnit XML report, the form that CI services read. Pure but for `write`.

Source of the form: the schema that Jenkins' xUnit plugin publishes (testsuites > testsuite > testcase > failure or
error).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from .files import UsageError, write_files
from .outcomes import Outcome

_SUITES = "trigger-sandbox"
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def report(outcomes: Sequence[Outcome]) -> str:
    """One suite per fixture file."""
    root = ElementTree.Element("testsuites", {"name": _SUITES, **_numbers(outcomes)})
    for file in dict.fromkeys(outcome.case.file for outcome in outcomes):
        own = [outcome for outcome in outcomes if outcome.case.file == file]
        suite = ElementTree.SubElement(root, "testsuite", {"name": _clean(file), **_numbers(own)})
        for outcome in own:
            case = ElementTree.SubElement(
                suite,
                "testcase",
                name=_clean(outcome.case.name),
                classname=_clean(file),
                file=_clean(file),
                time=f"{outcome.seconds:.3f}",
            )
            if outcome.case.line:
                case.set("line", str(outcome.case.line))
            if outcome.reasons:
                kind = "error" if outcome.error else "failure"
                failure = ElementTree.SubElement(case, kind, message=_clean(outcome.reasons[0]))
                failure.text = _clean("\n".join(outcome.reasons))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, encoding="unicode")}\n'


def _numbers(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {
        "tests": str(len(outcomes)),
        "failures": str(sum(not (outcome.passed or outcome.error) for outcome in outcomes)),
        "errors": str(sum(outcome.error for outcome in outcomes)),
        "skipped": "0",
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


def _clean(text: str) -> str:
    """XML 1.0 has no form for most control characters."""
    return _NOT_XML.sub("\ufffd", text)


def refuse_other_file(path: Path) -> None:
    """A report replaces the last report, nothing else. Raises UsageError."""
    if path.is_dir() or (path.exists() and f'<testsuites name="{_SUITES}"' not in _head(path)):
        raise UsageError(f"{path} exists and is no report of trigger-sandbox; give --junit another name")
    if not path.parent.is_dir():
        raise UsageError(f"the folder {path.parent} does not exist; make it first")


def _head(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(400).decode("utf-8", "replace")


def write(path: Path, outcomes: Sequence[Outcome]) -> None:
    """Raises UsageError."""
    refuse_other_file(path)
    write_files([(path, report(outcomes))], force=True)
