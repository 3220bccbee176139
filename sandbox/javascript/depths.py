"""How many of the last messages a trigger looks at, as far as its text says so in a number. Pure.

It reads the depth of `match_keys` calls and `context.messages.slice(-8)`, and understands nothing else: what a trigger
computes is not known.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

USUAL_DEPTH: Final = 4
"""What `match_keys` looks at without a depth, and what a hook gives at least."""
HOOK_MESSAGES: Final = 50
"""Messages that a hook gives at most."""
HOOK_CHARS: Final = 100_000
"""Characters of these messages at most, beyond the usual ones."""

# sandbox/worker/realm/keys.js has the same list.
SCOPES: Final = (
    *("any", "named", "scanned", "scanned_unnamed"),
    *("user", "assistant", "system", "char", "both", "other"),
)
_DEPTHS: Final = re.compile(
    rf"['\"`](?:{'|'.join(SCOPES)})['\"`]\s*,\s*(?P<depth>\d{{1,6}}|null)\s*,?\s*\)"
    r"|\bmessages\s*(?:\?\.|\.)\s*(?:slice|at)\s*\(\s*-\s*(?P<back>\d{1,6})\s*[,)]"
)


def depth_of(trigger: str) -> int | None:
    """Return the greatest number of last messages that the text of a trigger names, at least 4, or None if it asks
    for all."""
    greatest = USUAL_DEPTH
    for match in _DEPTHS.finditer(trigger):
        depth = match["depth"] or match["back"]
        if depth == "null" or int(depth) == 0:
            return None
        greatest = max(greatest, int(depth))
    return greatest


def given_by_a_hook(triggers: Iterable[str], known_depth: int = 0) -> int:
    """Return the number of messages that a hook gives these triggers, if the chat has as many. `known_depth`:
    messages that something else looks at."""
    greatest = min(max(USUAL_DEPTH, known_depth), HOOK_MESSAGES)
    for trigger in triggers:
        depth = depth_of(trigger)
        if depth is None or depth >= HOOK_MESSAGES:
            return HOOK_MESSAGES
        greatest = max(greatest, depth)
    return greatest
