"""JavaScript as a person would write it: strings, regular expressions, calls of match_keys. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Final

LINE = 100
"""Characters after which a list of keys is broken into several lines."""
_IDEOGRAPHS = (
    ("\u3400", "\u4dbf"),
    ("\u4e00", "\u9fff"),
    ("\uf900", "\ufaff"),
    ("\U00020000", "\U0003ffff"),
)
"""First and last characters. A pattern of so many characters takes 2 ms to compile, at each start."""
_WORD = re.compile(r"[A-Za-z0-9_]")
_SYNTAX = re.compile(r"[\\^$.*+?()\[\]{}|/]")


def has_ideograph(text: str) -> bool:
    """Tell whether match_keys takes the key as a substring (the same rule as in sandbox/worker/realm/keys.js)."""
    return any(first <= character <= last for character in text for first, last in _IDEOGRAPHS)


def string(text: str) -> str:
    """Write a text as a literal of JavaScript in single quotes."""
    body = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
    return (
        "'"
        + body.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\x7f", "\\x7f")
        + "'"
    )


def expression(text: str, flags: str = "i", *, whole: bool = False) -> str:
    """Write a regular expression literal for plain `text`; `whole`: not within a word of ASCII letters, digits and
    `_`."""
    body = _SYNTAX.sub(r"\\\g<0>", text)
    body = (
        body.replace("\r", r"\r")
        .replace("\n", r"\n")
        .replace("\u2028", r"\u2028")
        .replace("\u2029", r"\u2029")
    )
    before, after = (
        ("", "") if not whole else (_edge(text[0], r"(?<!\w)"), _edge(text[-1], r"(?!\w)"))
    )
    return f"/{before}{body}{after}/{flags}"


def _edge(char: str, look: str) -> str:
    """Return the boundary of a key: beside punctuation, `\\b` would demand a letter."""
    return r"\b" if _WORD.match(char) else look


def call(function: str, keys: Sequence[str], depth: int | None = None, scope: str = "any") -> str:
    """Write a call of `match_keys` or `match_keys_all`, on several lines if it is long. `keys`: literals. `depth`: a
    number of messages; the default is left out."""
    more = "" if depth in (None, 4) else f", '{scope}', {depth}"
    if not more and scope != "any":
        more = f", '{scope}'"
    flat = f"{function}(context.messages, [{', '.join(keys)}]{more})"
    if len(flat) <= LINE:
        return flat
    rows, row = [], ""
    for key in keys:
        if row and len(row) + len(key) > LINE - 6:
            rows.append(row)
            row = ""
        row += f" {key}," if row else f"  {key},"
    return "\n".join([f"{function}(context.messages, [", *rows, row, f"]{more})"])


def comment(text: str) -> str:
    """Write a line comment; line ends of the text become blanks."""
    return f"// {' '.join(text.split())}"


# --- depths ---------------------------------------------------------------------------------------

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
