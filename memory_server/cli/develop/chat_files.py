"""Chats to replay: JSON lines of `{conversation_id, role, content, timestamp, name?}`, grouped into exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import ValidationError

from memory_server.core.errors import InvalidInput
from memory_server.core.model import Message
from memory_server.storage.json_store import codec
from memory_server.tools.base.shapes import MessageArgument

AFTER_CHAT_MS = 3_600_000
"""How long ago a shifted chat ended: longer than the 20 minutes in which nothing is recalled."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a user said and what was answered: the stretch that becomes one memory."""

    conversation_id: str
    messages: tuple[Message, ...]


class _Line(MessageArgument):
    conversation_id: str | None = None


def read_exchanges(path: Path, usual: str) -> list[Exchange]:
    """The exchanges of a chat file, in the order of the file; lines that name no conversation are of `usual`.

    Raises:
        InvalidInput: the file cannot be read, or one of its lines is no message; the sentence names the line.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8 and try again.") from error
    exchanges = list(_grouped(_lines(path, text, usual)))
    if not exchanges:
        raise InvalidInput(f'{path} holds no messages; give lines such as {{"role":"user","content":"你好"}}.')
    return exchanges


def shifted(exchanges: Sequence[Exchange], now_ms: int) -> list[Exchange]:
    """The same chat at another time: its last message an hour before `now_ms`."""
    times = [m.time_ms for exchange in exchanges for m in exchange.messages if m.time_ms is not None]
    if not times:
        return list(exchanges)
    by = now_ms - AFTER_CHAT_MS - max(times)
    return [
        replace(
            exchange,
            messages=tuple(m if m.time_ms is None else replace(m, time_ms=m.time_ms + by) for m in exchange.messages),
        )
        for exchange in exchanges
    ]


def _lines(path: Path, text: str, usual: str) -> Iterable[tuple[str, Message]]:
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = codec.loads(line.encode("utf-8", "surrogatepass"))
        except ValueError as error:
            raise InvalidInput(f"{path}, line {number} is no JSON; every line is one message as an object.") from error
        try:
            checked = _Line.model_validate(value)
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]
            place = ".".join(str(part) for part in problem["loc"]) or "the line"
            reason = problem["msg"].removeprefix("Value error, ")
            raise InvalidInput(f"{path}, line {number}: `{place}`: {reason}.") from error
        yield checked.conversation_id or usual, checked.message()


def _grouped(lines: Iterable[tuple[str, Message]]) -> Iterable[Exchange]:
    """A new exchange begins with a user's message after an answer, or with another conversation."""
    open_id, messages = "", list[Message]()
    for conversation_id, message in lines:
        begins = message.role == "user" and any(m.role == "assistant" for m in messages)
        if messages and (begins or conversation_id != open_id):
            yield Exchange(open_id, tuple(messages))
            messages = []
        open_id = conversation_id
        messages.append(message)
    if messages:
        yield Exchange(open_id, tuple(messages))
