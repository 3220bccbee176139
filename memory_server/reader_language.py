"""Sentences of this package in the language of a reader, for programs that show them to people."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from sandbox import language_of
from sandbox.locale import said_in

_PACKAGE = str(Path(__file__).parent)


def in_language(text: object, language: Literal["auto", "en", "zh"] = "auto") -> str:
    """An error, a problem's `message`, or what `receipt.line()` gives, in a language; `auto` is that of the locale. Any
    other text is given back as it is."""
    if language == "auto":
        return said_in(str(text), language_of([], os.environ), _PACKAGE)
    return said_in(str(text), language, _PACKAGE)
