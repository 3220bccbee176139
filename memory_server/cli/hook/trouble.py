"""Tell the user that a hook cannot use the memory: once a session, and where the client shows it.

A client shows the standard error of a hook only on request, so the user would not notice for weeks that nothing is
remembered. `systemMessage` is shown to the user, and the model does not read it. This works if nothing else does: it
reads no settings and opens no data folder.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from languages import _
from memory_server.kernel import json_text
from memory_server.kernel.streams import complain, standard_input, write
from memory_server.memories.hooks import CURSOR, HookEvent
from memory_server.operations.hook_events import event_of
from memory_server.process import protocol


def tell(event: HookEvent | None, reason: str) -> None:
    """Say on standard error why the memory cannot be used and, once a session, where the user sees it."""
    complain(_("hook: {reason}", reason))
    if event is None or event.called in CURSOR or not _is_first(event, os.environ):
        return
    sentence = _(
        "memory-server: until this is repaired, nothing is recalled or remembered: {reason}", reason
    )
    write(json_text.dumps({"systemMessage": sentence}).decode())
    sys.stdout.flush()


def tell_of_input(reason: str) -> None:
    """Tell the same before the event was read."""
    event: HookEvent | None = None
    with suppress(
        ValueError, OSError
    ):  # OSError: standard input cannot be read, such as a closed one
        event = event_of(json_text.loads(standard_input()))
    tell(event, reason)


def _is_first(event: HookEvent, environ: Mapping[str, str]) -> bool:
    """Return whether the user of this session was not told yet, and record that they are told now. If that cannot be
    recorded, return True only at the beginning of a session."""
    if event.session_id is None:
        return event.name == "SessionStart"
    name = hashlib.sha256(event.session_id.encode(errors="replace")).hexdigest()[:16]
    try:
        Path(protocol.folder(environ), f"told-{name}").touch(0o600, exist_ok=False)
    except FileExistsError:
        return False
    except (OSError, AttributeError, protocol.CannotShare):  # Windows has no users with numbers
        return event.name == "SessionStart"
    return True
