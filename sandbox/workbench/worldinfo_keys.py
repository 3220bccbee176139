"""A lorebook key as match_keys takes it: a string where that says the same, else a regular expression. Pure.

SillyTavern (facts of world-info.js): a key written `/re/flags` is an expression; else the case counts only if told.
With whole words, one word must stand between characters that are no ASCII word characters; several are a substring.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sandbox.javascript import literals
from sandbox.workbench.worldinfo import Entry

MACRO = re.compile(r"\{\{[^{}]*\}\}")
_EXPRESSION = re.compile(r"/(?P<body>[\s\S]+?)/(?P<flags>[gimsuy]*)")
_OPEN_SLASH = re.compile(r"(^|[^\\])/")
_ASCII = re.compile(r"[!-~]")
_ASCII_WORD = re.compile(r"[A-Za-z0-9_]")


@dataclass(frozen=True, slots=True)
class Defaults:
    """What holds where an entry does not say; the settings of its owner's SillyTavern. `names`: {{char}}, {{user}}."""

    depth: int | None = None
    whole_words: bool = True
    case_sensitive: bool = False
    names: Mapping[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """The text with its macros replaced, as far as their meaning is known."""
        known = {f"{{{{{name}}}}}": meaning for name, meaning in self.names.items()}
        return MACRO.sub(lambda found: known.get(found[0].lower(), found[0]), text)


def parsed(key: str, entry: Entry) -> tuple[str, str] | None:
    """Body and flags of a key that is an expression in form."""
    found = _EXPRESSION.fullmatch(key)
    if found and not _OPEN_SLASH.search(found["body"]):
        return found["body"], found["flags"]
    return (key.replace("/", r"\/"), "") if entry.all_regex else None


def literal(key: str, entry: Entry, defaults: Defaults, invalid: Collection[str], lost: list[str]) -> str:
    """A key as match_keys takes it: a string where that says the same, else an expression."""
    given = parsed(key, entry)
    if given is not None and key in invalid:
        lost.append(f"key {key}: no valid expression; sought as plain text, as SillyTavern does")
        given = None
    if given is not None:
        body, flags = given
        if "m" not in flags and (body.startswith("^") or (body.endswith("$") and not body.endswith("\\$"))):
            lost.append(f"key {key}: ^ and $ are the ends of one message here, not of all scanned text")
        line = body.replace("\r", r"\r").replace("\n", r"\n")
        return f"/{line}/{flags.replace('g', '').replace('y', '')}"
    text = defaults.named(key)
    exact = defaults.case_sensitive if entry.case_sensitive is None else entry.case_sensitive
    whole = defaults.whole_words if entry.whole_words is None else entry.whole_words
    whole = whole and not re.search(r"\s", text)
    edged = _ASCII_WORD.match(text[0]) or _ASCII_WORD.match(text[-1])
    foreign = literals.has_ideograph(text) or not (_ASCII.match(text[0]) and _ASCII.match(text[-1]))
    # match_keys wants an edge beside a letter only: it finds `#hello` in `a#hello`, and SillyTavern does not.
    marked = whole and not foreign and not (_ASCII_WORD.match(text[0]) and _ASCII_WORD.match(text[-1]))
    if not exact and not marked and (literals.has_ideograph(text) or whole or not edged):
        return literals.string(text)
    return literals.expression(text, "" if exact else "i", whole=whole and not foreign)
