"""Chats of other programs: each exchange becomes a short-term memory with an id from its first message, so a second
import finds it again, also if the exchange has grown meanwhile.

The forms are read by sandbox/chats. An exchange begins with a user's message after an answer, or after a long silence.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import tzinfo
from itertools import chain
from typing import Any, NoReturn

from languages import N_, _, clause
from memory_server.conversations.contents import Contents
from memory_server.conversations.model import MAX_TEXT_CHARS, ShortTermMemory, conversation_id_of
from memory_server.interchange.incoming import Incoming, NotThisFormat, fields_of
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import Fields, Json, without_surrogates
from memory_server.kernel.messages import (
    MAX_CONTENT_CHARS,
    NOTHING,
    Message,
    context_text,
    storable,
)
from memory_server.kernel.private import EMPTY_PART, PublicMessages, emptied, without_private
from memory_server.kernel.recalled_block import as_said, without_recalled
from memory_server.kernel.values import dataclass, frozen
from sandbox import chat, is_sillytavern, left_out, whole

PRIVATE_OR_EMPTY = N_("exchanges that are private or have no words")

MOST_MESSAGES = 20
"""Messages of a memory: a chat without answers has no exchanges, and must not become a single memory."""
MOST_CHARS = MAX_TEXT_CHARS // 2
"""Characters of a memory, so that several long pastes do not make a memory that is too large to be stored."""
MOST_GAP_MS = 6 * 3_600_000
"""Between messages of a user alone, such as the messages of a diary, which is not a chat: what comes later is another
memory."""
_SHOWN_CHARS = 40
"""Characters of a message by which the report names its exchange."""
_FIRST_PLAUSIBLE_MS = 100_000_000_000
"""March 1973. A smaller timestamp is probably in seconds, by mistake."""
FIRST_ITEMS = 5
"""Items of a list in which it shows its form: an item of another kind, or a damaged item, may come before the others."""
_MACRO = re.compile(r"\{\{(char|user)\}\}", re.IGNORECASE)


@frozen
class ChatOptions:
    """How chats are read. `usual`: the conversation of messages that name none. `zone`: the zone of local times, or
    None for the system's. `names`: the names of the `user` and the `char`, if they are known; a chat of SillyTavern
    names both. `by_character`: the messages are for the conversation of the character, where the file says who that
    is. `with_hidden`: the messages that the user of SillyTavern hid come too."""

    usual: str
    zone: tzinfo | None = None
    names: Mapping[str, str] = field(default_factory=lambda: NOTHING)
    by_character: bool = False
    with_hidden: bool = False


def read(data: bytes, options: ChatOptions) -> Incoming:
    """Read the exchanges of all conversations in a file, for the conversation that its messages name, or for the
    usual conversation. A row that cannot be read is skipped. A memory without any time has the time 0. Raises
    NotThisFormat: it is not a chat, or nothing can be used."""
    incoming = Incoming()
    message_count = add_file(incoming, data, options)
    if not message_count:
        refuse_empty(incoming)
    return incoming


def read_all(files: Mapping[str, bytes], options: ChatOptions) -> Incoming:
    """Read a folder of chats, such as the chats of a character of SillyTavern. `files`: the files
    by their path; a file that is not a chat is skipped. Raises NotThisFormat if no message came."""
    incoming = Incoming()
    chat_files = {path: data for path, data in files.items() if _may_be_chat(path, data)}
    count_others(incoming, [path for path in files if path not in chat_files])
    for path, data in sorted(chat_files.items()):
        with incoming.record(path):
            add_file(incoming, data, options, path=path)
    incoming.conversations = merged(incoming.conversations)
    if not incoming.count:
        refuse_empty(incoming)
    return incoming


def _may_be_chat(path: str, data: bytes) -> bool:
    """Tell whether a file of a folder of chats is to be read: lines, or a JSON file that is a chat."""
    if not path.endswith(".json"):
        return path.endswith(".jsonl")
    value = None
    with suppress(ValueError):
        value = json_text.loads(data)
    rows = value[:FIRST_ITEMS] if isinstance(value, list) else [value]
    return any(map(chat.is_chat, rows))


def merged(conversations: Sequence[Contents]) -> list[Contents]:
    """Merge the short-term memories of several files by their conversation, each memory once."""
    by_id: dict[str, dict[str, ShortTermMemory]] = {}
    for contents in conversations:
        memories = by_id.setdefault(contents.conversation_id, {})
        for memory in contents.short_term:
            twin = memories.get(memory.id)
            # Two branches of a chat have the same beginning; an exchange that went on says more.
            if twin is None or len(twin.text) < len(memory.text):
                memories[memory.id] = memory
    return [Contents(name, tuple(memories.values())) for name, memories in by_id.items()]


def count_others(incoming: Incoming, paths: Sequence[str]) -> None:
    """Count the files of a folder of chats that are not chats."""
    if paths:
        incoming.lost[_("files of the folder that are not chats, such as {name}", min(paths))] += (
            len(paths)
        )


def refuse_empty(incoming: Incoming) -> NoReturn:
    """Raise NotThisFormat, which says why no message came."""
    for location, reason in incoming.skipped:
        raise NotThisFormat(
            "cannot be used: {reason}.", _("{about}: {what}", location, clause(reason))
        )
    for kind, count in incoming.lost.items():
        if count:
            raise NotThisFormat("holds no messages of a user or a model, only {kind}.", kind)
    raise NotThisFormat(
        'holds no messages; write lines such as {"role": "user", "content": "你好"}.'
    )


def add_file(incoming: Incoming, data: bytes, options: ChatOptions, *, path: str = "") -> int:
    """Add what `read` gives for a file. Return the number of its messages. `path`: how the report names the file, if
    there are several. Raises NotThisFormat: it is not a chat."""
    header = names_in(data)
    names = {**header, **options.names}
    usual = options.usual
    if options.by_character and "char" in header:
        with suppress(InvalidInput):  # the name cannot be the name of a conversation
            usual = conversation_id_of(header["char"])

    text = data.decode("utf-8-sig", errors="replace")
    if text.lstrip()[:1] not in ("[", "{"):
        # A private part may have lines that begin like the lines of another speaker.
        text = emptied(text)

    try:
        file = chat.read(text, options.zone, _roles_of(names), with_hidden=options.with_hidden)
    except chat.ChatError as error:
        raise NotThisFormat("cannot be used: {reason}.", error) from error

    if file.note:
        incoming.notes.append(file.note.replace("--assistant", "--char"))

    take_readings(incoming, file.conversations, usual, names, path=path)
    return sum(len(reading.messages) for reading in file.conversations)


def _roles_of(names: Mapping[str, str]) -> dict[str, str]:
    """Return the role of each speaker whose name is known."""
    roles: dict[str, str] = {}
    if "user" in names:
        roles[names["user"]] = "user"
    if "char" in names:
        roles[names["char"]] = "assistant"
    return roles


def take_readings(
    incoming: Incoming,
    readings: Sequence[chat.ParsedChat],
    usual: str,
    names: Mapping[str, str],
    *,
    path: str = "",
) -> None:
    """Add the exchanges of these conversations, what could not be read of them, and the counts of what they leave out;
    `path`: how the report names their file, if there are several."""
    undated = list(chain.from_iterable(reading.undated for reading in readings))
    for reading in readings:
        incoming.lost.update(reading.left_out)
        for problem in reading.problems:
            location = problem.location
            if path:
                location = _("{about}: {what}", path, problem.location)
            incoming.skipped.append((location, _("it {reason}", problem.reason)))
    if undated:
        incoming.lost[left_out.UNDATED] += len(undated)
        first = undated[0]
        incoming.notes.append(
            _("the first time that cannot be read: {place}, {reason}", first.location, first.reason)
        )
    add_exchanges(incoming, [reading.messages for reading in readings], usual, names)


def add_exchanges(
    incoming: Incoming,
    conversations: Sequence[list[chat.Message]],
    usual: str,
    names: Mapping[str, str],
    *,
    others: Mapping[str, list[ShortTermMemory]] = NOTHING,
) -> None:
    """Add a memory for each exchange of these conversations, and `others`: ready memories by
    conversation. A message is what `parse` of sandbox/chats gives. Private or empty exchanges are
    counted as lost, too large ones are skipped."""
    memories_by_id = {name: [*memories] for name, memories in others.items()}
    equal_exchanges: Counter[str] = Counter()
    for number, rows in enumerate(conversations, 1):
        public: defaultdict[str, PublicMessages] = defaultdict(PublicMessages)
        shown_number = number if len(conversations) > 1 else None
        for exchange in _exchanges(incoming, rows, usual, names=names, number=shown_number):
            messages = public[exchange.conversation_id].of(as_said(exchange.messages))
            if not any(message.content.strip() for message in messages):
                incoming.lost[PRIVATE_OR_EMPTY] += 1
                continue
            # The same words may be said twice at the same time, so equal exchanges are numbered.
            identity = exchange.identity()
            equal_exchanges[identity] += 1
            memory = memory_of(
                exchange.conversation_id, messages, f"{identity}\0{equal_exchanges[identity]}"
            )
            beginning = messages[0].content[:_SHOWN_CHARS]
            if incoming.fits(_("the exchange that begins with `{content}`", beginning), memory):
                memories_by_id.setdefault(exchange.conversation_id, []).append(memory)

    for name, memories in memories_by_id.items():
        incoming.conversations.append(Contents(name, _each_once(memories)))


def _each_once(memories: Sequence[ShortTermMemory]) -> tuple[ShortTermMemory, ...]:
    """Return each memory once. Of two with the same id and different texts, the second gets an id of its own."""
    unique: dict[str, ShortTermMemory] = {}
    for memory in memories:
        twin = unique.get(memory.id, memory)
        if twin.text != memory.text:
            own_id = hashlib.sha256(f"{memory.id}\0{memory.text}".encode()).hexdigest()[:16]
            memory = replace(memory, id=own_id)
        unique[memory.id] = memory
    return tuple(unique.values())


def names_in(data: bytes) -> dict[str, str]:
    """Who the `user` and the `char` of a chat of SillyTavern are, as far as it says it."""
    return _names_in_header(_sillytavern(data))


def _sillytavern(data: bytes) -> list[Json]:
    """Return the objects of a chat of SillyTavern; of another file none."""
    rows = [fields_of(line) for line in data.splitlines() if line.strip()[:1] == b"{"]
    if not rows or not is_sillytavern(rows[0]):
        return []
    return rows


def _names_in_header(rows: Sequence[Fields]) -> dict[str, str]:
    """Return who the `user` and the `char` are, as the first line says it. Newer versions write
    `unused` there: then, as the messages say it, if only one speaks. A name that is not known is
    left out."""
    if not rows or "mes" in rows[0]:
        return {}
    names: dict[str, str] = {}
    for who, key in (("user", "user_name"), ("char", "character_name")):
        name = str(rows[0].get(key) or "").strip()
        if name in ("", "unused"):
            name = _only_speaker(rows[1:], is_user=who == "user")
        if name:
            names[who] = name
    return names


def _only_speaker(rows: Sequence[Fields], *, is_user: bool) -> str:
    """Return the name of the only user or character that speaks in these messages; empty if no speaker or several
    speak."""
    speakers: set[str] = set()
    for row in rows:
        name = row.get("name")
        if (
            isinstance(name, str)
            and not row.get("is_system")
            and bool(row.get("is_user")) == is_user
        ):
            speakers.add(name.strip())
    if len(speakers) != 1:
        return ""
    return speakers.pop()


def memory_of(
    conversation_id: str, messages: tuple[Message, ...], identity: str, **fields: Any
) -> ShortTermMemory:
    """Make a memory of these messages, without words; the same `identity` gives the same id. Its
    time is that of the latest message, or 0."""
    return ShortTermMemory(
        id=hashlib.sha256(identity.encode(errors="replace")).hexdigest()[:16],
        time_ms=max((message.time_ms or 0 for message in messages), default=0),
        text=context_text(messages),
        words=(),
        weights=(),
        score=0.0,
        conversation_id=conversation_id,
        messages=messages,
        **fields,
    )


def _exchanges(
    incoming: Incoming,
    rows: list[chat.Message],
    usual: str,
    *,
    names: Mapping[str, str],
    number: int | None,
) -> Iterator[_Exchange]:
    """Yield each exchange; a message that cannot be stored is skipped. A message without a time gets the time of the
    message before it. `number`: the number of the conversation, in a file of several."""
    exchange = _Exchange(usual)
    last_ms: int | None = None
    for position, row in enumerate(rows, 1):
        location = _("message {number}", position)
        if number is not None:
            location = _("message {place} of conversation {number}", position, number)

        conversation_id = incoming.conversation_of(row.get("conversation_id"), usual, location)
        if conversation_id is None:
            continue

        messages: list[Message] = []
        with incoming.record(location):
            messages = _messages(row, names)

        if not messages:
            continue
        if messages[0].time_ms is not None:
            last_ms = messages[0].time_ms

        # A message without a time was said after the message before it, so it has at least that time.
        dated = [replace(message, time_ms=last_ms) for message in messages]
        # The rows decide by their order alone: an exchange ends where a new question begins.
        if exchange.messages and not exchange.continues_with(dated, conversation_id):
            yield exchange
            exchange = _Exchange(conversation_id)

        if not exchange.messages:
            exchange = _Exchange(conversation_id, _identifying_text(row, names))

        exchange.messages += dated

    if exchange.messages:
        yield exchange


@dataclass(slots=True)
class _Exchange:
    """Messages that become a memory. `identifying_text`: the text that `_identifying_text` gives for the first
    message."""

    conversation_id: str
    identifying_text: str = ""
    messages: list[Message] = field(default_factory=list)

    def continues_with(self, messages: Sequence[Message], conversation_id: str) -> bool:
        """Tell whether these messages still belong to it: not if they are of another conversation, ask something
        after an answer or long after it, or would make it too long."""
        if conversation_id != self.conversation_id:
            return False
        is_answered = any(message.role == "assistant" for message in self.messages)
        if messages[0].role == "user" and (is_answered or self._is_long_before(messages[0])):
            return False
        chars = sum(len(message.content) for message in (*self.messages, *messages))
        return len(self.messages) < MOST_MESSAGES and chars <= MOST_CHARS

    def _is_long_before(self, message: Message) -> bool:
        """Tell whether this exchange was over long before the message. Without both times, it was not."""
        last_ms = self.messages[-1].time_ms
        if message.time_ms is None or not last_ms:
            return False
        return message.time_ms - last_ms > MOST_GAP_MS

    def identity(self) -> str:
        """Return a text that is the same each time for this exchange, also if it has grown meanwhile."""
        first = self.messages[0]
        return "\0".join(
            (self.conversation_id, first.role, self.identifying_text, str(first.time_ms))
        )


def _identifying_text(row: chat.Message, names: Mapping[str, str]) -> str:
    """Return the text by which the memory of an exchange that begins with this row is known: what was typed, or else
    the beginning of what is attached. An id is made of it; it is not stored."""
    if row.get("attached"):
        typed = _filled(row["content"], names)
        if typed:
            return typed
    return without_surrogates(_filled(whole(row)["content"], names)[:MAX_CONTENT_CHARS])


_NAME_OF_ROLE = {"user": "user", "assistant": "char"}
"""By which name the speaker of a role is known."""


def _messages(row: chat.Message, names: Mapping[str, str]) -> list[Message]:
    """Return a row as a message. A message that is too long becomes several, of what is not private. Raises
    InvalidInput: it cannot be stored."""
    time_ms = row.get("timestamp")
    if time_ms is not None and time_ms < _FIRST_PLAUSIBLE_MS:
        raise InvalidInput("its timestamp {time} is not in milliseconds since 1970", time_ms)
    text = _filled(whole(row)["content"], names)
    if len(text) > MAX_CONTENT_CHARS:
        # A private or recalled part that is cut would not be known in its middle.
        text = _public(text)
    speaker = row.get("name") or names.get(_NAME_OF_ROLE.get(row["role"], ""))
    if speaker is not None:
        speaker = str(speaker)
    starts = range(0, len(text), MAX_CONTENT_CHARS) or (0,)
    parts = [text[start : start + MAX_CONTENT_CHARS] for start in starts]
    return [storable(Message(row["role"], part, time_ms=time_ms, name=speaker)) for part in parts]


def _public(text: str) -> str:
    """Return what may be stored of a text. A wholly private text stays known as private, because of its answer."""
    said_text = without_recalled(text)
    public_text = without_private(said_text)
    if said_text and not public_text:
        return EMPTY_PART
    return public_text


def _filled(text: str, names: Mapping[str, str]) -> str:
    """`text` with the names for `{{user}}` and `{{char}}`, as far as they are known."""
    return _MACRO.sub(lambda macro: names.get(macro[1].lower(), macro[0]), text)
