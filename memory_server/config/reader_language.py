"""The language in which this package says errors, problems and receipts to a program's user."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Literal

from languages import speaking
from languages.command_line import language_of


def language(name: Literal["auto", "en", "zh"] = "auto") -> AbstractContextManager[None]:
    """Let errors, a problem's `message` and `receipt.line()` be in this language within a block of code; `auto` is the
    language of the locale. Outside of the block they are English."""
    if name == "auto":
        return speaking(language_of([], os.environ))
    return speaking(name)
