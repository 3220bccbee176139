"""The language in which this package says errors, problems and receipts to a program's user."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Literal

from languages import speaking
from languages.command_line import language_of


def language(name: Literal["auto", "en", "zh"] = "auto") -> AbstractContextManager[None]:
    """A block of code in which errors, a problem's `message` and `receipt.line()` are in this language; `auto` is that
    of the locale. Outside of the block they are English."""
    if name == "auto":
        return speaking(language_of([], os.environ))
    return speaking(name)
