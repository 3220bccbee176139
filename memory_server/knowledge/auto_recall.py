"""Notes that come to a conversation without a request: few, and only where they are certainly meant. Pure.

Models seldom look their notes up by themselves. But a note without a request must not fill the context: so it comes
only if it has several words of the question that say something, or one in its topic or tags.
"""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Hit
from memory_server.knowledge.ranking import joined
from nlp import says_little
from nlp.index_terms import sought_in
from nlp.stems import FUNCTION_CHARACTERS

MOST = 3
"""The most notes that come to one turn."""
LEAST_WORDS = 2
"""The number of different words of a question in the text of a note from which the note comes. Overlapping pairs are
one word."""
OTHERS = "And from files of this project, which others may have written:"
_LEAST_CHARS = 60


@frozen
class AutoRecallHit:
    """A hit that may come, and the name under which it is shown. `of_others`: it may have come with a repository."""

    hit: Hit
    name: str
    of_others: bool = False


def question_of(text: str) -> str:
    """Return the words of `text` that carry meaning, joined by spaces; empty if no word does."""
    words = [term.word for term in sought_in(text)]
    return " ".join(word for word in words if _says_something(word))


def _says_something(word: str) -> bool:
    return not says_little(word) and not set(word) <= FUNCTION_CHARACTERS


def meant(candidates: Sequence[AutoRecallHit]) -> list[AutoRecallHit]:
    """Return the candidates that may come unasked, best first."""
    meant_ones = [candidate for candidate in candidates if _is_meant(candidate.hit)]
    meant_ones.sort(key=lambda candidate: -candidate.hit.score)
    return meant_ones[:MOST]


def _is_meant(hit: Hit) -> bool:
    """Tell whether a hit is about the question: by its title or tags, by several words of its text, or by a long
    Chinese one."""
    if "title" in hit.matched or "tags" in hit.matched:
        return True
    body_words = joined(hit.matched.get("body", ()))
    if len(set(body_words)) >= LEAST_WORDS:
        return True
    return any(len(word) > 2 and not word.isascii() for word in body_words)


def lines_of(recalled: Sequence[AutoRecallHit], max_chars: int) -> str:
    """Return a line for each entry with the reason why it came, at most `max_chars` characters together. The last
    entries are left off where each would get fewer than `_LEAST_CHARS` characters. Entries that others may have written
    come last, under a line that says so."""
    if any(entry.of_others for entry in recalled):
        max_chars -= len(OTHERS) + 1
    if max_chars < _LEAST_CHARS:
        return ""
    count = max(1, min(len(recalled), max_chars // _LEAST_CHARS))
    chars_for_each = max_chars // count - 1
    lines = []
    for entry in sorted(recalled[:count], key=lambda entry: entry.of_others):
        if entry.of_others and OTHERS not in lines:
            lines.append(OTHERS)
        line = f"{entry.name} ({entry.hit.why}): {one_line(entry.hit.entry.body)}"
        if len(line) > chars_for_each:
            line = f"{line[: chars_for_each - 1]}…"
        lines.append(line)
    return "\n".join(lines)
