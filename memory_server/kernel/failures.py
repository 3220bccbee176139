"""What went wrong inside the program: as one line for its log, as a sentence for the caller, and an id that both
share."""

from __future__ import annotations

import secrets
import traceback
from pathlib import Path

from languages import Sentence

_ROOT = Path(__file__).parents[2]
_PACKAGE_NAMES = ("memory_server", "sandbox", "nlp", "languages")
_PACKAGES = tuple(str(_ROOT / name) for name in _PACKAGE_NAMES)
_MOST_CHARS = 300
"""Characters of an exception's message that are shown at most."""


def request_id() -> str:
    """Return an id for one failed request, short enough to be read out."""
    return secrets.token_hex(4)


def failure_sentence(error: BaseException, usual_sentence: Sentence) -> Sentence:
    """Return what the caller reads of an unexpected error: the `usual_sentence`, or the sentence that an update
    replaced files of the program while it ran, which the caller can mend."""
    package = ""
    if isinstance(error, ImportError) and error.name:
        package = error.name.partition(".")[0]
    if package in _PACKAGE_NAMES:
        return Sentence(
            "memory-server was updated while it ran here; restart this window. No memory is lost."
        )
    return usual_sentence


def failure_text(error: BaseException) -> str:
    """Return an error as `UndefinedError: 'line' is undefined
    (memory_server/web/templates/home.html:43)`."""
    text = type(error).__name__
    message = " ".join(str(error).split())[:_MOST_CHARS]
    if message:
        text += f": {message}"
    source_line = _source_line(error)
    if source_line:
        text += f" ({source_line})"
    return text


def _source_line(error: BaseException) -> str:
    """Return the last line of our code, or of a template, that the error passed through, as `file:line`. If it passed
    through no such line, return the line that raised it; empty if it was not raised yet."""
    traceback_lines = [
        (frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    if not traceback_lines:
        return ""
    our_lines = [(file, line) for file, line in traceback_lines if file.startswith(_PACKAGES)]
    if our_lines:
        file, line = our_lines[-1]
        return f"{Path(file).relative_to(_ROOT).as_posix()}:{line}"
    file, line = traceback_lines[-1]
    return f"{Path(file).name}:{line}"
