"""Chats of other programs: each exchange becomes a short-term memory with an id from its first message, so a second
import finds it again, also if the exchange has grown meanwhile.

The forms are read by sandbox/chats. An exchange begins with a user's message after an answer, or after a long silence.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import tzinfo
from typing import Any

from memory_server.conversations.contents import Contents
from memory_server.conversations.model import ShortTermMemory, conversation_id_of
from memory_server.interchange.incoming import Incoming, NotThisFormat, fields_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import NOTHING, Message, context_text, storable
from memory_server.kernel.private import to_keep
from memory_server.kernel.recalled_block import as_said
from memory_server.storage.json_store import codec
from sandbox.chats import chat
from sandbox.chats.messages import is_sillytavern
from sandbox.locale import _

MOST_MESSAGES = 20
"""Messages of one memory: a chat in which nobody answers has no exchanges, and must not become one memory."""
MOST_GAP_MS = 6 * 3_600_000
"""Between messages of a user alone, such as those of a diary, which is no chat: what comes later is another memory."""
_FIRST_PLAUSIBLE_MS = 100_000_000_000
"""March 1973. A smaller timestamp is probably in seconds, by mistake."""
_MACRO = re.compile(r"\{\{(char|user)\}\}", re.IGNORECASE)


def read(
    data: bytes, usual: str, zone: tzinfo | None, names: Mapping[str, str], *, by_character: bool = False
) -> Incoming:
    """The exchanges of all conversations in a file, for the conversation that its messages name, or for `usual`;
    `by_character`: for that of the character, where the file says who that is.

    `zone`: of local times. `names`: of the `user` and the `char`, as far as they are known; a chat of SillyTavern names
    both. A memory without any time has the time 0. Raises NotThisFormat.
    """
    rows = _sillytavern(data)
    header = _header(rows)
    names = {**header, **names}
    if by_character and (named := header.get("char")) is not None:
        usual = conversation_id_of(named)
    roles = {names[who]: role for who, role in (("user", "user"), ("char", "assistant")) if who in names}
    try:
        held, note = chat.conversations(data.decode(errors="replace"), zone, roles)
    except chat.ChatError as error:
        raise NotThisFormat("cannot be used: {reason}.", error) from error
    found = Incoming(notes=[note.replace("--assistant", "--char")] if note else [])
    take(found, held, usual, names)
    for row in rows:
        extra, swipes = fields_of(row.get("extra")), row.get("swipes")
        found.lost[_("answers that were swiped away")] += len(swipes[1:]) if isinstance(swipes, list) else 0
        found.lost[_("hidden messages")] += bool(row.get("is_system")) and extra.get("type") != "narrator"
        found.lost[_("pictures and files")] += any(extra.get(name) for name in ("image", "media", "files", "file"))
    if not any(held):
        raise NotThisFormat('holds no messages; give lines such as {"role": "user", "content": "你好"}.')
    return found


def take(
    found: Incoming,
    held: Sequence[list[chat.Message]],
    usual: str,
    names: Mapping[str, str],
    others: Mapping[str, list[ShortTermMemory]] = NOTHING,
) -> None:
    """Add the exchanges of these conversations, each message with what `parse` of sandbox/chats gives, and `others`."""
    grouped = {name: [*memories] for name, memories in others.items()}
    equal: Counter[str] = Counter()
    for number, rows in enumerate(held, 1):
        for conversation_id, said in _exchanges(found, rows, usual, names, number if len(held) > 1 else None):
            kept = tuple(to_keep(as_said(said)))
            if not any(message.content.strip() for message in kept):
                continue  # all of it is private
            first = "\0".join((conversation_id, said[0].role, said[0].content, str(said[0].time_ms)))
            equal[first] += 1
            memory = memory_of(conversation_id, kept, f"{first}\0{equal[first]}")
            if found.fits(_("the exchange that begins with `{content}`", said[0].content[:40]), memory):
                grouped.setdefault(conversation_id, []).append(memory)
    for name, memories in grouped.items():
        found.conversations.append(Contents(name, tuple({one.id: one for one in memories}.values())))


def _sillytavern(data: bytes) -> list[codec.Json]:
    """The objects of a chat of SillyTavern; of another file none."""
    rows = [fields_of(line) for line in data.splitlines() if line.strip()[:1] == b"{"]
    return rows if rows and is_sillytavern(rows[0]) else []


def _header(rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Who the `user` and the `char` are, as the first line says it. Newer versions write `unused` there: then, as the
    messages say it, if only one speaks."""
    if not rows or "mes" in rows[0]:
        return {}
    said = [row for row in rows[1:] if isinstance(row.get("name"), str) and not row.get("is_system")]
    names: dict[str, str] = {}
    for who, field in (("user", "user_name"), ("char", "character_name")):
        given = str(rows[0].get(field) or "").strip()
        speakers = {row["name"].strip() for row in said if bool(row.get("is_user")) == (who == "user")}
        if given in ("", "unused"):
            given = speakers.pop() if len(speakers) == 1 else ""
        names |= {who: given} if given else {}
    return names


def memory_of(conversation_id: str, messages: tuple[Message, ...], known_by: str, **fields: Any) -> ShortTermMemory:
    """A memory that `known_by` makes the same each time."""
    return ShortTermMemory(
        id=hashlib.sha256(known_by.encode(errors="replace")).hexdigest()[:16],
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
    found: Incoming, rows: list[chat.Message], usual: str, names: Mapping[str, str], number: int | None
) -> Iterator[tuple[str, list[Message]]]:
    """Each exchange with its conversation; a message that cannot be stored is skipped. A message without a time has
    that of the message before it."""
    said: list[Message] = []
    last_id, last_ms = usual, None
    for place, row in enumerate(rows, 1):
        where = (
            _("message {number}", place)
            if number is None
            else _("message {place} of conversation {number}", place, number)
        )
        conversation_id = found.conversation_of(row.get("conversation_id"), usual, where)
        if conversation_id is None:
            continue
        try:
            message = _message(row, names)
        except InvalidInput as error:
            found.skipped.append((where, str(error)))
            continue
        last_ms = last_ms if message.time_ms is None else message.time_ms
        later = said and last_ms is not None and last_ms - (said[-1].time_ms or last_ms) > MOST_GAP_MS
        answered = later or any(earlier.role == "assistant" for earlier in said)
        begins = message.role == "user" and answered
        if said and (conversation_id != last_id or begins or len(said) == MOST_MESSAGES):
            yield last_id, said
            said = []
        said.append(replace(message, time_ms=last_ms))
        last_id = conversation_id
    if said:
        yield last_id, said


def _message(row: chat.Message, names: Mapping[str, str]) -> Message:
    """Raises InvalidInput: it cannot be stored."""
    time_ms, who = row.get("timestamp"), {"user": "user", "assistant": "char"}.get(row["role"], "")
    if time_ms is not None and time_ms < _FIRST_PLAUSIBLE_MS:
        raise InvalidInput("its timestamp {time} is not in milliseconds since 1970", time_ms)
    text = _MACRO.sub(lambda macro: names.get(macro[1].lower(), macro[0]), row["content"])
    name = row.get("name") or names.get(who)
    return storable(Message(row["role"], text, time_ms, None if name is None else str(name)))
