"""The arguments of the command `search`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from languages import N_
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.values import frozen

OF_TOOL = "argument "
"""The prefix of arguments of a tool, so that they differ from the settings of every command."""
ABOUT_SCOPE = N_("`conversation`, `all`, or a group of the settings; usually what they say")
ABOUT_ARCHIVED = N_("Search the memories that were forgotten or deleted and can still be restored")
_SORT = N_("usually relevance if you search for something, otherwise timestamp")


@frozen
class SearchArgument:
    """An argument of `search_memories`: its name there, its flag, its meaning, the placeholder of its value, and
    further options for argparse. `metavar` is None if argparse shows its choices, or if it takes no value."""

    name: str
    flag: str
    about: str
    metavar: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


_MANY = {"action": "append"}
_POINTS = {"type": float}
_NUMBER = {"type": int}
_TEXTS = {"type": words_between_commas}
SEARCH: Sequence[SearchArgument] = (
    SearchArgument(
        "keywords",
        "--word",
        N_("a word to search for exactly as it is; one match is enough (may be repeated)"),
        "WORD",
        _MANY,
    ),
    SearchArgument(
        "otherWords",
        "--other-words",
        N_("other words for the same, which count less; separated by commas"),
        "WORDS",
        _TEXTS,
    ),
    SearchArgument(
        "date_from",
        "--since",
        N_("from this ISO date or time on; in the server's time zone if it names none"),
        "SINCE",
    ),
    SearchArgument("date_to", "--until", N_("up to and including this ISO date or time"), "UNTIL"),
    SearchArgument(
        "min_score",
        "--min-score",
        N_("lowest score; long-term memories have no score and are left out"),
        "N",
        _POINTS,
    ),
    SearchArgument("max_score", "--max-score", N_("highest score"), "N", _POINTS),
    SearchArgument(
        "tags",
        "--tag",
        N_("a #word of the text or a tag of the record; all are required (may be repeated)"),
        "TAG",
        _MANY,
    ),
    SearchArgument(
        "memory_type",
        "--kind",
        N_("which kind of memory"),
        options={"choices": ("short_term", "long_term", "both")},
    ),
    SearchArgument(
        "sort_by", "--sort", _SORT, options={"choices": ("relevance", "timestamp", "score")}
    ),
    SearchArgument(
        "order",
        "--reverse",
        N_("show the least relevant, oldest or lowest first"),
        options={"action": "store_const", "const": "asc"},
    ),
    SearchArgument("limit", "--limit", N_("how many memories to show"), "N", _NUMBER),
    SearchArgument("offset", "--offset", N_("how many memories to skip"), "N", _NUMBER),
    SearchArgument("scope", "--scope", ABOUT_SCOPE, "SCOPE"),
    SearchArgument("archived", "--archived", ABOUT_ARCHIVED, options={"action": "store_true"}),
)
"""The arguments of `search_memories` that `search` takes as flags."""
