"""Who is in a chat, as the caller of a search says it: an object with `user` and `char`, each a name or an object with
the field `name`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_server.kernel.text import MOST_NAME_CHARS

_CHARACTERS = ("char", "character", "assistant")
"""The names of the field that says who the character is."""


def name_of(participant: Any) -> str:
    """The name of a participant, of a long one the beginning; "": it has none."""
    name = participant.get("name") if isinstance(participant, Mapping) else participant
    return name.strip()[:MOST_NAME_CHARS] if isinstance(name, str) else ""


def user_name(participants: Mapping[str, Any]) -> str:
    """The name of the user; "": nobody said it."""
    return name_of(participants.get("user"))


def character_name(participants: Mapping[str, Any]) -> str:
    """The name of the character; "": nobody said it."""
    names = (name_of(participants.get(field)) for field in _CHARACTERS)
    return next(filter(None, names), "")


def characters_of(participants: Mapping[str, Any], conversation_id: str) -> frozenset[str]:
    """The names by which a memory may be for this chat: that of the character, and that of the conversation."""
    return frozenset(filter(None, (character_name(participants), conversation_id)))
