"""Calls of tools as they are typed at a shell: `call`, `recall` and `remember`, here and on a linked machine."""

from __future__ import annotations

import secrets
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from languages import _
from memory_server.conversations.model import MAX_ID_CHARS
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.files import reading
from memory_server.kernel.messages import Session
from memory_server.kernel.streams import complain, say_if_waiting, standard_input
from memory_server.lore import ROOM, no_room_text
from sandbox import message_rows


def arguments_of(source: str) -> dict[str, object]:
    """Return the arguments that a JSON object gives: `source` itself, the file `@FILE`, or with `-`
    standard input. Raises InvalidInput if it is not a JSON object."""
    if source == "-":
        origin = _("standard input")
        text = sys.stdin.buffer.read()
    elif source.startswith("@"):
        origin = source[1:]
        with reading(origin):
            text = Path(origin).read_bytes()
    else:
        origin = _("the argument")
        # An argument may hold bytes that are not UTF-8; JSON then refuses them with their place.
        text = source.encode("utf-8", "surrogateescape")

    try:
        value = json_text.loads(text)
    except ValueError as error:
        raise InvalidInput(
            "{origin} is not JSON ({reason}); write an object such as '{{}}'.", origin, error
        ) from error

    if not isinstance(value, dict):
        raise InvalidInput(
            "{origin} is not a JSON object; write the arguments by name, such as '{{}}'.", origin
        )

    return value


def typed_for_recall(flags: Namespace) -> dict[str, Any]:
    """Return the flags that `recall` was typed with, as arguments of the tool."""
    typed = {
        "maxChars": flags.chars,
        "flashbacks": flags.flashbacks,
        "otherWords": flags.other_words,
        "messageCount": flags.messages,
    }
    return {name: value for name, value in typed.items() if value is not None}


def tell_of_recall(answer: Mapping[str, Any], flags: Namespace) -> None:
    """Say on standard error what was left out for want of room, and the note: the block on standard output goes into a
    prompt. With --json, only the note."""
    sentences: list[str] = []
    if not flags.json:
        sentences.append(no_room_text(_without_room(answer)))
    sentences.append(str(answer.get("note") or ""))
    for sentence in filter(None, sentences):
        complain(sentence)


def _without_room(answer: Mapping[str, Any]) -> list[str]:
    """Return the names of the memories that were left out for want of room. An older server does not name them."""
    long_term = answer.get("longTerm")
    if not isinstance(long_term, dict):
        return []
    rows = long_term.get("leftOut")
    if not isinstance(rows, list):
        return []
    return [
        str(row.get("name")) for row in rows if isinstance(row, dict) and row.get("reason") == ROOM
    ]


def session_of(typed_id: str | None) -> Session:
    """Return the session that was typed, or a new one without an id. Raise InvalidInput if the id is empty or too
    long."""
    if typed_id is None:
        # Shell input is in no model's context yet, so it is recalled immediately.
        return Session(secrets.token_hex(8))
    if not 0 < len(typed_id) <= MAX_ID_CHARS:
        raise InvalidInput(
            "--session takes an id of 1 to {id} characters; leave it out if there is no session.",
            MAX_ID_CHARS,
        )
    return Session(typed_id)


def messages_of(words: str | None) -> dict[str, Any]:
    """Return the arguments of the tool: a user's `words` as they are, or JSON from standard input:
    messages, or an object with the arguments. `words` are never read as JSON: a chat may begin with
    a bracket. Raises InvalidInput if the input is not a JSON list or object."""
    if words is not None:
        return {"messages": [{"role": "user", "content": words}]}

    say_if_waiting(_("messages as JSON"))
    try:
        value = json_text.loads(standard_input().removeprefix(b"\xef\xbb\xbf"))
    except ValueError as error:
        raise InvalidInput(
            'Standard input is not JSON ({reason}); write a list of messages such as [{{"role": "user", '
            '"content": "你好"}}], or give a user\'s words as an argument.',
            error,
        ) from error

    if not isinstance(value, (list, dict)):
        raise InvalidInput(
            "Standard input is neither a list of messages nor an object; see docs/how-to/memory-unasked.md."
        )

    # An object with arguments passes as it is; a single message, which is an object too, becomes a list.
    if isinstance(value, dict) and ("messages" in value or message_rows(value) is value):
        return value
    return {"messages": message_rows(value)}
