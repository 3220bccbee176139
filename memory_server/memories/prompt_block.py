"""What came to mind as a text for a prompt: memories with triggers whole, by their order, and short-term memories as
lines beside them."""

from __future__ import annotations

from collections.abc import Sequence

from memory_server.conversations.found import Found
from memory_server.conversations.recall.activation import Activation
from memory_server.conversations.recall.passages import CHARS, clipped, first_sentences
from memory_server.conversations.recall.prompt_lines import Language
from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.kernel.recalled_block import FRAME_CHARS, marked, one_line
from memory_server.kernel.text import ideograph_count
from memory_server.kernel.values import dataclass
from memory_server.lore import Fitting, LoreText, Room, Shelved, fitting, head_of
from memory_server.memories.memories import Memories

_UNBOUNDED = 10_000_000
_NAME_CHARS = 60

_CHINESE_SHARE = 10
"""A text is Chinese where one character in so many is an ideograph."""


_QUICK_CHARS = 20_000
"""Characters of texts and names of which a block is made in some 4 ms."""


@dataclass(frozen=True, slots=True)
class RecalledBlock:
    """The text of a recall, marked as recalled; empty if nothing came. `fitting`: which memories with triggers are in
    it, and which are not. `without_room`: the ids of the short-term memories that came to mind and had no room."""

    text: str
    fitting: Fitting
    without_room: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reader:
    """Who reads a block: the keys of what a session was given before and still sees (those of new texts are added), and
    the folder in which it works. None: nothing is known of it."""

    given: set[str] | None = None
    folder: str | None = None


def lore_text(shelved: Shelved, body: str, *, is_chinese: bool) -> LoreText:
    """Return the memory with the text `body`, in which macros are filled."""
    name = clipped(one_line(shelved.name), _NAME_CHARS, CHARS)
    head = head_of(name, is_chinese=is_chinese)
    return LoreText(shelved, head, one_line(body), shelved.version_key, is_chinese)


def recalled_block(
    memories: Memories,
    short_term: Found,
    activation: Activation,
    room: Room,
    reader: Reader = Reader(),
) -> RecalledBlock:
    """What came to mind, within `room`, which does not count the frame of the block. The keys of the texts and lines
    that are in the block are added to `reader.given`."""
    language = _language(memories, short_term, activation)
    is_chinese = language == "zh"
    texts = [
        lore_text(shelved, shelved.memory.prompt, is_chinese=is_chinese)
        for shelved in activation.activated
    ]
    if _needs_more(texts, room):
        short_term_chars = _unbounded_chars(memories, short_term, reader, language)
        ignoring_chars = sum(text.chars for text in texts if text.entry.rules.ignores_budget)
        # Texts that ignore the budget may take the reserve too, so no more of it is lent than they leave over.
        needed_reserve = max(short_term_chars, min(ignoring_chars, room.ignoring_budget))
        room = room.with_lent_reserve(needed_reserve)
    fitted = fitting(texts, room, first_sentences, reader.given or ())
    if reader.given is not None:
        reader.given.update(text.key for text in fitted.texts)
    chars_left = room.total - fitted.chars
    short_term_lines = memories.fitted_lines(
        short_term.recall,
        max_chars=max(0, min(room.short_term, chars_left)),
        given=reader.given,
        here=reader.folder,
        language=language,
    )
    block_lines = [text.line for text in fitted.texts]
    if short_term_lines.text:
        block_lines.append(short_term_lines.text)
    block_text = "\n".join(block_lines)
    if block_text:
        block_text = marked(block_text, language)
    return RecalledBlock(block_text, fitted, short_term_lines.without_room)


def is_made_quickly(short_term: Found, activation: Activation) -> bool:
    """Whether the block of this recall takes a few milliseconds at most, so that it needs no thread."""
    chars = len(activation.activated) * MAX_NAME_CHARS
    for shelved in activation.activated:
        chars += len(shelved.text)
    recall = short_term.recall
    for tier in (recall.top, recall.next, recall.flashback):
        chars += sum(len(recalled.memory.text) for recalled in tier)
    return chars <= _QUICK_CHARS


def prompt_room(max_chars: int) -> Room:
    """The room of a prompt with so many characters, of which the frame of the block takes a part."""
    return Room.of(max(0, max_chars - FRAME_CHARS))


def _needs_more(texts: Sequence[LoreText], room: Room) -> bool:
    """Whether memories with triggers need more than their own room, and may have it."""
    return room.lends and sum(text.chars for text in texts) > room.long_term


def _unbounded_chars(
    memories: Memories, short_term: Found, reader: Reader, language: Language
) -> int:
    """The characters of all short-term memories that came, if each stood whole."""
    given_keys = None
    if reader.given is not None:
        given_keys = set(reader.given)  # a copy, because `lines` adds to it
    lines = memories.fitted_lines(
        short_term.recall,
        max_chars=_UNBOUNDED,
        given=given_keys,
        here=reader.folder,
        language=language,
    )
    if not lines.text:
        return 0
    return len(lines.text) + len("\n")


def _language(memories: Memories, short_term: Found, activation: Activation) -> Language:
    recall = short_term.recall
    texts: list[str] = []
    for tier in (recall.top, recall.next, recall.flashback):
        texts += [recalled.memory.text for recalled in tier]
    prompts = "".join(shelved.memory.prompt for shelved in activation.activated)
    if _is_chinese(prompts):
        texts.append(prompts)
    return memories.language(texts)


def _is_chinese(text: str) -> bool:
    """Whether the text of a book is Chinese: one in another language may spell a name in ideographs."""
    return ideograph_count(text) * _CHINESE_SHARE >= len(text) > 0
