"""Notes that come to a conversation without a request: few, and only where they are certainly meant. Pure.

Models seldom look their notes up by themselves. But what nobody asked for must not fill the context: so a note comes
only if it has several words of the question that say something, or one in its topic or tags.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from memory_server.kernel.recalled_block import one_line
from memory_server.knowledge.entry import Hit
from memory_server.knowledge.ranking import joined
from nlp import says_little
from nlp.grams import FUNCTION_CHARACTERS
from nlp.index_terms import sought_in

MOST = 3
"""Notes at most."""
LEAST_WORDS = 2
"""Different words of a question in the text of a note, from which it comes. Overlapping pairs are one word."""
OTHERS = "And from files of this project, which others may have written:"
_LEAST_CHARS = 60


@dataclass(frozen=True, slots=True)
class Unasked:
    """What was found, and what it is called. `of_others`: it may have come with a repository."""

    hit: Hit
    name: str
    of_others: bool = False


def question_of(text: str) -> str:
    """The words of `text` that say something; empty: there are none."""
    sought = (each.word for each in sought_in(text))
    return " ".join(word for word in sought if not (says_little(word) or set(word) <= FUNCTION_CHARACTERS))


def meant(found: Sequence[Unasked]) -> list[Unasked]:
    """Those that may come unasked, best first."""
    return sorted((each for each in found if _is_meant(each.hit)), key=lambda each: -each.hit.score)[:MOST]


def _is_meant(hit: Hit) -> bool:
    body = joined(hit.matched.get("body", ()))
    named = "title" in hit.matched or "tags" in hit.matched
    return named or len(set(body)) >= LEAST_WORDS or any(len(word) > 2 and not word.isascii() for word in body)


def lines_of(found: Sequence[Unasked], max_chars: int) -> str:
    """A line for each with the reason why it came, at most `max_chars` characters together: the last ones go where a
    share would say nothing. What others may have written comes last, under a line that says so."""
    max_chars -= len(OTHERS) + 1 if any(each.of_others for each in found) else 0
    count = max(1, min(len(found), max_chars // _LEAST_CHARS))
    lines = []
    for each in sorted(found[:count], key=lambda each: each.of_others):
        if each.of_others and OTHERS not in lines:
            lines.append(OTHERS)
        line = f"{each.name} ({each.hit.why}): {one_line(each.hit.entry.body)}"
        room = max_chars // count - 1
        lines.append(line if len(line) <= room else f"{line[: room - 1]}…")
    return "\n".join(lines) if max_chars >= _LEAST_CHARS else ""
