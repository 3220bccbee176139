"""The records: messages, short-term and long-term memories, and the state of one conversation.

Messages from outside pass through `storable`, which makes them valid. Records know no JSON (json_store/codec.py), no
clock and no file. A time is an `int` of milliseconds since 1970-01-01 UTC, the resolution of the Node original and
of JavaScript's `Date`.
Unknown fields of a record read from disk are kept in `extra` and written back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, cast, get_args

from memory_server.core.errors import InvalidInput
from memory_server.core.nesting import DEEPEST, deeper, size

Role = Literal["user", "assistant", "system"]
ROLES: tuple[Role, ...] = get_args(Role)
MAX_CONTENT_CHARS = 100_000
"""Characters of one message: a short novel; its segmentation takes 15 ms."""
MAX_MESSAGES = 500
"""Messages of one memory and of one call. Triggers look at the last few; a context of 500 is copied for each."""
MAX_TEXT_CHARS = 1_000_000
"""Characters of all texts of one memory, or of its context: ten of the longest messages."""
MAX_NAME_CHARS = 200
"""Characters of a long-term memory's name: it is a title, the prompt is the text."""
MAX_PROMPT_CHARS = 20_000
"""Characters of a long-term memory's prompt: half of what one result may have (`base/tool.py`)."""
MAX_TRIGGER_CHARS = 100_000
"""Characters of a trigger, the most that the sandbox evaluates: a thousand times the mean of what people write."""
MAX_EXTRA_CHARS = 100_000
"""Characters of the unknown fields of a record; nesting.py limits their depth."""
NOTHING: Mapping[str, Any] = MappingProxyType({})

DEFAULT_CONVERSATION = "default"
"""The conversation used when none is named, and the shelf whose triggers every conversation sees."""

MAX_ID_CHARS = 256
"""Characters of a conversation id (docs/reference/data-folder.md)."""

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds since 1970 of the first and the last moment that dates can show: the years 1 to 9999."""


@dataclass(frozen=True, slots=True)
class Message:
    """One line of a conversation. `time_ms` is None where the client gave no timestamp."""

    role: Role
    content: str
    time_ms: int | None = None
    name: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)


@dataclass(frozen=True, slots=True)
class Session:
    """One context of a model in which messages are said, such as a window of Claude Code or one run of a server.
    Messages of the session from `context_since_ms` on (milliseconds since 1970) are still in its context. None:
    unknown, as for a server that runs for weeks."""

    id: str
    context_since_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ShortTermMemory:
    """A remembered stretch of conversation. `words` and `weights` are parallel and hold the keywords, heaviest first:
    columns, because an object per keyword costs three times the memory (10,000 memories of 23 keywords)."""

    id: str
    time_ms: int
    text: str
    words: tuple[str, ...]
    weights: tuple[float, ...]
    score: float
    conversation_id: str
    messages: tuple[Message, ...] = ()
    pinned: bool = False
    indexed_with: str = ""
    """The signature of the options that found its words; "" for those of the Node original."""
    role_weights: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    """Weights per role that were given when it was stored; other roles had the usual ones."""
    session: str | None = None
    """The id of the session in which it was said; None: unknown."""
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    @property
    def key(self) -> str:
        """What names it in its conversation."""
        return self.id

    @property
    def made_ms(self) -> int:
        return self.time_ms


@dataclass(frozen=True, slots=True)
class LongTermMemory:
    """A named prompt that comes to mind when its JavaScript trigger is truthy."""

    name: str
    prompt: str
    trigger: str
    created_ms: int
    created_context: str = ""
    updated_ms: int | None = None
    updated_context: str | None = None
    extra: Mapping[str, Any] = field(default_factory=lambda: NOTHING)

    # The same three names as those of a short-term memory, for what looks at both kinds.

    @property
    def key(self) -> str:
        return self.name

    @property
    def made_ms(self) -> int:
        return self.created_ms

    @property
    def text(self) -> str:
        return f"{self.name}\n{self.prompt}"


Memory = ShortTermMemory | LongTermMemory


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
    follower: Any = field(default=None, compare=False, repr=False)
    """What is derived from the state and keeps in step with it, such as an index: its `follow` receives every
    `changes.Change` after it was applied. None: there is nothing."""

    def like(self, memory: Memory) -> Mapping[str, Memory]:
        """The memories of the same kind, by id or name."""
        return self.short_term if isinstance(memory, ShortTermMemory) else self.long_term


def context_text(messages: Iterable[Message]) -> str:
    """The text of a memory: one `name-or-role: content` line per message."""
    return "\n".join(f"{message.name or message.role}: {message.content}" for message in messages)


_ROLE_LINE = re.compile(rf"({'|'.join(ROLES)}): ?(.*)", re.DOTALL)


def said_in(text: str) -> tuple[Message, ...]:
    """The messages of a text of `role: content` lines; any other text is one message of the user."""
    said: list[Message] = []
    for line in text[:MAX_CONTENT_CHARS].split("\n"):
        if found := _ROLE_LINE.fullmatch(line):
            said.append(Message(cast(Role, found[1]), found[2]))
        elif said:
            said[-1] = replace(said[-1], content=f"{said[-1].content}\n{line}")
        else:
            return (Message("user", text[:MAX_CONTENT_CHARS]),)
    return tuple(said)


def conversation_id_of(text: str) -> str:
    """`text` as a conversation id, in NFC so that a name typed on any system finds its conversation. Raises
    InvalidInput: empty, longer than 256 characters, or with control characters or lone surrogates."""
    normal = unicodedata.normalize("NFC", text)
    if not normal.strip():
        raise InvalidInput("The conversation_id is empty; give a name such as `小明` or leave it out.")
    if len(normal) > MAX_ID_CHARS:
        raise InvalidInput(
            f"The conversation_id has {len(normal)} characters; use at most {MAX_ID_CHARS}, such as a name or a UUID."
        )
    if any(unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") for char in normal):
        raise InvalidInput(
            "The conversation_id holds a line break, control character or broken surrogate; use visible characters."
        )
    return normal


def storable(message: Message) -> Message:
    """`message` as it will be read back: without lone surrogates. Raises InvalidInput: its role is not one of the
    three, its content is not text or is too long, its time is not a whole number of milliseconds in the years 1
    to 9999, which dates can show, or its other fields are too deep."""
    if message.role not in ROLES:
        raise InvalidInput(f"The role `{message.role}` is unknown; use user, assistant or system.")
    if not isinstance(message.content, str) or len(message.content) > MAX_CONTENT_CHARS:
        raise InvalidInput(
            f"The content of a message must be text of at most {MAX_CONTENT_CHARS:,} characters; split it."
        )
    time_ms = message.time_ms
    if time_ms is not None and not (isinstance(time_ms, int) and FIRST_MS <= time_ms <= LAST_MS):
        raise InvalidInput(f"The timestamp {time_ms} is not a time; give milliseconds since 1970 or leave it out.")
    if message.extra and deeper(dict(message.extra)):
        raise InvalidInput(f"The unknown fields of a message may be nested {DEEPEST} levels deep; remove levels.")
    name = None if message.name is None else without_surrogates(message.name)
    return replace(message, content=without_surrogates(message.content), name=name)


def excess(memory: Memory) -> str | None:
    """Which part of a memory is too large to be stored, and what to do; None: it can be stored. Tools, the Python API,
    imports, restores and the reader of hand-edited files all call this."""
    extras = [memory.extra]
    if isinstance(memory, ShortTermMemory):
        said = memory.messages
        extras += (memory.role_weights, *(message.extra for message in said))
        if len(said) > MAX_MESSAGES:
            return f"it has {len(said):,} messages; split it into memories of at most {MAX_MESSAGES}"
        spoken = sum(len(one.content) + len(one.name or "") for one in said)
        sizes = [
            ("text is", max(len(memory.text), spoken), MAX_TEXT_CHARS),
            ("longest message is", max((len(one.content) for one in said), default=0), MAX_CONTENT_CHARS),
            ("keywords are", sum(map(len, memory.words)), MAX_TEXT_CHARS),
            ("id is", max(len(memory.id), len(memory.conversation_id)), MAX_ID_CHARS),
        ]
    else:
        sizes = [
            ("name is", len(memory.name), MAX_NAME_CHARS),
            ("prompt is", len(memory.prompt), MAX_PROMPT_CHARS),
            ("trigger is", len(memory.trigger), MAX_TRIGGER_CHARS),
            ("context is", max(len(memory.created_context), len(memory.updated_context or "")), MAX_TEXT_CHARS),
        ]
    sizes.append(("unknown fields are", sum(size(dict(extra)) for extra in extras if extra), MAX_EXTRA_CHARS))
    for what, count, most in sizes:
        if count > most:
            return f"its {what} too long: {count:,} characters, and at most {most:,} are allowed; shorten it"
    return None


def without_surrogates(text: str) -> str:
    """`text` with lone surrogates, which UTF-8 cannot carry, replaced by U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text
