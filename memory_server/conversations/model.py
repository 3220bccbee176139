"""The records: messages, short-term and long-term memories, and the state of a conversation.

Messages from outside pass through `storable`, which makes them valid. Records know no JSON (codec.py), no clock and
no file. A time is an `int` of milliseconds since 1970-01-01 UTC, the resolution of the Node original and of
JavaScript's `Date`. Unknown fields of a record read from disk are kept in `extra` and written back.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Literal

from languages import N_, Sentence, _
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import NotARecord, size
from memory_server.kernel.messages import (
    MAX_CONTENT_CHARS,
    MAX_MESSAGES,
    MAX_NAME_CHARS,
    NOTHING,
    Message,
)
from memory_server.kernel.values import dataclass, frozen
from memory_server.kernel.work import NO_WORK, Work
from memory_server.lore import ChatState, LongTermMemory

MAX_TEXT_CHARS = 1_000_000
"""Characters of all texts of a memory, or of its context: ten of the longest messages."""
MAX_PROMPT_CHARS = 20_000
"""Characters of a long-term memory's prompt: half of what one result may have (`base/tool.py`)."""
MAX_TRIGGER_CHARS = 100_000
"""Characters of a trigger, the most that the sandbox evaluates: a thousand times the mean of what people write."""
MAX_EXTRA_CHARS = 100_000
"""Characters of the unknown fields of a record; nesting.py limits their depth."""

EVERYWHERE = "everywhere"
"""The place of what is muted in every conversation and folder; the others are `conversation:ID` and `folder:PATH`."""
MOST_MUTED = 50
"""Places in which a memory can be muted: more are hardly chosen one by one."""

MOST_CORRECTED = 20
"""Older memories that a memory corrects: a sentence seldom corrects more than two."""

MOST_WORD_TRIES = 3
"""How often a memory is sent to a model that gives it other words: once, and after unusable answers twice more."""

DEFAULT_CONVERSATION = "default"
"""The conversation that is used when none is named, and whose triggers every conversation sees."""

MAX_ID_CHARS = 256
"""Characters of a conversation id (docs/reference/data-folder.md)."""


CorrectedBy = Literal["rule", "caller", "person"]
"""Who said that a memory corrects another one."""


@frozen
class Correction:
    """What a memory says is true in place of what the memory `id` of its conversation says."""

    id: str
    by: CorrectedBy


@frozen
class ShortTermMemory:
    """A remembered stretch of conversation. `words` and `weights` are parallel and hold the keywords, heaviest
    first."""

    id: str
    time_ms: int
    text: str
    # Columns: an object per keyword costs three times the memory (10,000 memories of 23 keywords).
    words: tuple[str, ...]
    weights: tuple[float, ...]
    score: float
    conversation_id: str
    messages: tuple[Message, ...] = ()
    pinned: bool = False
    indexed_with: str = ""
    """The signature of the options that found its words; "" if the Node original found them."""
    role_weights: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    """Weights per role that were given when it was stored; other roles had the usual ones."""
    session: str | None = None
    """The id of the session in which it was said, or None if it is unknown."""
    folder: str | None = None
    """Where the work was when it was said: the top of a repository, or a working folder. It is None if unknown."""
    turn: str | None = None
    """What its client calls the turn, so that it can be replaced or forgotten. It is None if unknown."""
    muted: tuple[str, ...] = ()
    """The places in which it never comes unasked, such as `everywhere` (`muting_places`)."""
    other_words: tuple[str, ...] = ()
    """Texts with which a user may ask for it, and which it does not have. Their words are among `words`, with a mark."""
    word_tries: int = 0
    """How many of the `MOST_WORD_TRIES` are used up; an answer that can be used takes all. An undo leaves it."""
    corrects: tuple[Correction, ...] = ()
    """The older memories that are no longer true since it was said."""
    work: Work = NO_WORK
    """What was done in the turn."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def key(self) -> str:
        """What names it in its conversation."""
        return self.id

    @property
    def made_ms(self) -> int:
        return self.time_ms


Memory = ShortTermMemory | LongTermMemory


RecordKind = Literal["short", "long", "change"]


@frozen
class UnusableRecord:
    """A stored record that cannot be read, or is more than may be stored, and why."""

    kind: RecordKind
    record: Any
    reason: NotARecord

    @property
    def key(self) -> str | None:
        """The id or name of its memory, or None if the record has neither."""
        fields = self.record if isinstance(self.record, dict) else {}
        key = fields.get("name" if self.kind == "long" else "id")
        return key if isinstance(key, str) else None

    def is_in(self, state: ConversationState) -> bool:
        """Return whether the state has a memory in its place, such as an earlier version."""
        memories = state.long_term if self.kind == "long" else state.short_term
        return self.kind != "change" and self.key in memories


@dataclass(slots=True)
class ConversationState:
    """What a conversation holds after a number of commits (`version`). Mutable so that a commit costs only what it
    changes. Only `changes.apply` writes memories to it, and only the managers attach a follower; all other code only
    reads it, and never across an `await`."""

    conversation_id: str
    version: int = 0
    short_term: dict[str, ShortTermMemory] = field(default_factory=dict)
    long_term: dict[str, LongTermMemory] = field(default_factory=dict)
    last_cleanup_ms: int | None = None
    chats: dict[str, ChatState] = field(default_factory=dict)
    """When memories came in the chats of this conversation, by session; "" is the chat of a host without sessions."""
    due: Any = field(default=None, compare=False, repr=False)
    """What `plans.due_plans` found in its memories today, or None before its first look."""
    follower: Any = field(default=None, compare=False, repr=False)
    """Something that is derived from the state and keeps in step with it, such as an index: its `follow` receives
    every `changes.Change` after it was applied. None if nothing is derived."""

    grams_file: Any = field(default=None, compare=False, repr=False)
    """The file beside the memories with their pairs of characters (`read_grams`, `write_grams_later`), or None in a store without
    one."""

    unusable: list[UnusableRecord] = field(default_factory=list, compare=False, repr=False)
    """The stored records that count for nothing, for a store that keeps them beside the memories."""

    shelf: Any = field(default=None, compare=False, repr=False)
    """What `shelf.shelf_of` made of the long-term memories, or None if it must be made again."""

    def like(self, memory: Memory) -> Mapping[str, Memory]:
        """Return the memories of the same kind, by id or name."""
        return self.short_term if isinstance(memory, ShortTermMemory) else self.long_term


def texts_of(memory: Memory) -> tuple[str, ...]:
    """Return what was said: the text and the messages of a memory, or the texts of a trigger."""
    if isinstance(memory, ShortTermMemory):
        return (memory.text, *(message.content for message in memory.messages))
    return tuple(
        filter(
            None, (memory.prompt, memory.trigger, memory.created_context, memory.updated_context)
        )
    )


_SAID_OFTEN_CHARS = 60
"""Characters of a message below which others may say the same, such as "continue"."""


def mark_of(memory: Memory, place: str) -> str:
    """Return the mark that identifies a memory if it comes again to the conversation `place`."""
    if isinstance(memory, ShortTermMemory):
        return short_term_mark(memory.id, place)
    return "\n".join((place, memory.name, memory.prompt))


def short_term_mark(memory_id: str, place: str) -> str:
    """Return the mark of the short-term memory with this id."""
    return f"{place}\n{memory_id}"


def marks_of(memory: Memory, place: str) -> tuple[str, ...]:
    """Return the mark of a memory, and texts that identify it in other files: its text, and its long messages."""
    if isinstance(memory, LongTermMemory):
        return mark_of(memory, place), memory.prompt
    contents = [message.content for message in memory.messages]
    long_contents = [content for content in contents if len(content) >= _SAID_OFTEN_CHARS]
    return mark_of(memory, place), memory.text, *long_contents


def marks_of_unusable(row: UnusableRecord, place: str) -> tuple[str, ...]:
    """Return the marks and texts of an unusable record, as far as it has them."""
    if not isinstance(row.record, dict):
        return ()
    marks = [row.record.get("text"), row.record.get("prompt")]
    if row.key is not None:
        marks.append(short_term_mark(row.key, place))
    return tuple(mark for mark in marks if isinstance(mark, str))


def place_text(place: str) -> str:
    """Describe, for a person, a place in which a memory is muted."""
    kind, _colon, name = place.partition(":")
    if not name:
        return _("everywhere")
    return (
        _("in the folder {name}", name)
        if kind == "folder"
        else _("in the conversation {name}", name)
    )


def conversation_id_of(
    text: str, name_in_errors: str = "conversation_id", most: int = MAX_ID_CHARS
) -> str:
    """Check `text` and return it as a conversation id, in NFC so that a name typed on any system finds its
    conversation. Errors call it `name_in_errors`. Raises InvalidInput if it is empty, longer than `most` characters,
    or has control characters or lone surrogates."""
    normal = unicodedata.normalize("NFC", text)
    if not normal.strip():
        raise InvalidInput(
            "The {what} is empty; give a name such as `小明` or leave it out.", name_in_errors
        )

    if len(normal) > most:
        raise InvalidInput(
            "The {what} has {number} characters; use at most {most}, such as a name or a UUID.",
            name_in_errors,
            len(normal),
            most,
        )

    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in normal):
        raise InvalidInput(
            "The {what} holds a line break, control character or broken surrogate; use visible characters.",
            name_in_errors,
        )
    return normal


def excess(memory: Memory) -> Sentence | None:
    """Return which part of a memory is too large to be stored, and what to do; or None if it can be stored. Tools,
    the Python API, imports, restores and the reader of hand-edited files all call this."""
    extras = [memory.extra]
    if isinstance(memory, ShortTermMemory):
        messages = memory.messages
        extras += (memory.role_weights, *(message.extra for message in messages))
        if len(messages) > MAX_MESSAGES:
            return Sentence(
                "it has {said:,} messages; split it into memories of at most {messages}",
                len(messages),
                MAX_MESSAGES,
            )

        # The text and the messages may differ, so the longer of both counts.
        lengths = [len(message.content) for message in messages]
        spoken = sum(lengths) + sum(len(message.name or "") for message in messages)
        longest_id = max(map(len, (memory.id, memory.conversation_id, memory.turn or "")))
        sizes = [
            (N_("text is"), max(len(memory.text), spoken), MAX_TEXT_CHARS),
            (N_("longest message is"), max(lengths, default=0), MAX_CONTENT_CHARS),
            (N_("keywords are"), sum(map(len, memory.words)), MAX_TEXT_CHARS),
            (N_("id is"), longest_id, MAX_ID_CHARS),
        ]
    else:
        sizes = [
            (N_("name is"), len(memory.name), MAX_NAME_CHARS),
            (N_("prompt is"), len(memory.prompt), MAX_PROMPT_CHARS),
            (N_("trigger is"), len(memory.trigger), MAX_TRIGGER_CHARS),
            (
                N_("context is"),
                max(len(memory.created_context), len(memory.updated_context or "")),
                MAX_TEXT_CHARS,
            ),
        ]

    extra_size = sum(size(dict(extra)) for extra in extras if extra)
    sizes.append((N_("unknown fields are"), extra_size, MAX_EXTRA_CHARS))

    # A single part that is too long is enough to refuse the memory.
    for part, count, most in sizes:
        if count > most:
            return Sentence(
                "its {what} too long: {number:,} characters, and at most {most:,} are allowed; shorten it",
                Sentence(part),
                count,
                most,
            )
    return None
