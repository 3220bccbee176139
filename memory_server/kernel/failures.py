"""What went wrong inside the program, as one line for its log, and an id that the line and the answer share."""

from __future__ import annotations

import secrets
import traceback
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_PACKAGES = tuple(str(_ROOT / name) for name in ("memory_server", "sandbox", "nlp"))
_MOST_CHARS = 300
"""Characters of the message of an exception."""


def request_id() -> str:
    """An id for one failed request, short enough to be read out."""
    return secrets.token_hex(4)


def failure_text(error: BaseException) -> str:
    """`UndefinedError: 'line' is undefined (memory_server/web/templates/home.html:43)`."""
    said = " ".join(str(error).split())[:_MOST_CHARS]
    name = f"{type(error).__name__}: {said}" if said else type(error).__name__
    place = _place(error)
    return f"{name} ({place})" if place else name


def _place(error: BaseException) -> str:
    """The line of our code, or of a template, in which it was raised; else the innermost one; empty if it was not
    raised yet."""
    lines = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    ours = [(file, number) for file, number in lines if file.startswith(_PACKAGES)]
    if not lines:
        return ""
    file, number = (ours or lines)[-1]
    shown = Path(file).relative_to(_ROOT).as_posix() if ours else Path(file).name
    return f"{shown}:{number}"
