"""The arguments of the command `search`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from memory_server.kernel.text import words_between_commas
from sandbox.locale import _

OF_TOOL = "argument "
"""The prefix of arguments of a tool, so that they differ from the settings of every command."""
ABOUT_SCOPE = _("`conversation`, `all`, or a group of the settings; usually what they say")
ABOUT_ARCHIVED = _("Look among what was forgotten or deleted and can still come back")
_SORT = _("Usually relevance where there is something to look for, else timestamp")
_MANY, _POINTS, _NUMBER = {"action": "append"}, {"type": float}, {"type": int}
_TEXTS = {"type": words_between_commas}
SEARCH: Sequence[tuple[str, str, str | None, Mapping[str, Any], str]] = (
    ("keywords", "--word", "WORD", _MANY, _("Words to look for as they are; one is enough (may be repeated)")),
    ("otherWords", "--other-words", "WORDS", _TEXTS, _("Other words for the same, which count less; commas between")),
    ("date_from", "--since", "SINCE", {}, _("ISO date or time; in the server's time zone where it has none")),
    ("date_to", "--until", "UNTIL", {}, _("The same, included")),
    ("min_score", "--min-score", "N", _POINTS, _("Points; long-term memories have none and do not come")),
    ("max_score", "--max-score", "N", _POINTS, _("The same, at most")),
    ("tags", "--tag", "TAG", _MANY, _("All are needed: #words of the text, or tags of the record (may be repeated)")),
    ("memory_type", "--kind", None, {"choices": ("short_term", "long_term", "both")}, _("Which kind")),
    ("sort_by", "--sort", None, {"choices": ("relevance", "timestamp", "score")}, _SORT),
    ("order", "--reverse", None, {"action": "store_const", "const": "asc"}, _("least, oldest or lowest first")),
    ("limit", "--limit", "N", _NUMBER, _("Memories on a page")),
    ("offset", "--offset", "N", _NUMBER, _("Memories passed over")),
    ("scope", "--scope", "SCOPE", {}, ABOUT_SCOPE),
    ("archived", "--archived", None, {"action": "store_true"}, ABOUT_ARCHIVED),
)
"""The arguments of `search_memories`, each with its flag, placeholder, kind and meaning."""
