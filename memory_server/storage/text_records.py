"""A text that is kept, taken apart into records: values of JSON, also line by line, or else the whole text. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

_JSON = ("{", "[")


def records_in(text: str, may_matter: Callable[[str], bool] = bool) -> Iterator[Any]:
    """Yield the records of a text: the values of its JSON, of JSON lines only those of the lines that `may_matter`, or
    the text itself if it is not JSON. A line of JSON that is not whole is a text."""
    if not may_matter(text):
        return
    if not text.lstrip().startswith(_JSON):
        yield text
        return
    try:
        yield from _elements(json.loads(text))
    except ValueError:
        for line in filter(may_matter, text.splitlines()):
            yield from _records_of(line)


def _records_of(line: str) -> Iterator[Any]:
    try:
        yield from _elements(json.loads(line.strip().removesuffix(",")))
    except ValueError:
        yield line


def _elements(value: Any) -> Iterator[Any]:
    if isinstance(value, list):
        yield from value
    else:
        yield value
