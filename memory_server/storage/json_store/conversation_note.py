"""`conversation.json`: the id of a conversation, and the state beside the memories."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from memory_server.conversations import codec
from memory_server.conversations.model import ConversationState
from memory_server.kernel import files as folders
from memory_server.kernel import json_text
from memory_server.kernel.values import dataclass
from memory_server.lore import ChatState, chats_json, chats_of
from memory_server.storage.json_store import history_files as past
from memory_server.storage.partition import journal


@dataclass(frozen=True, slots=True)
class ConversationFacts:
    """The state beside the memories."""

    last_cleanup_ms: int | None
    chats: Mapping[str, ChatState]

    @staticmethod
    def of(state: ConversationState) -> ConversationFacts:
        """Return the facts of a state."""
        return ConversationFacts(state.last_cleanup_ms, state.chats)


class ConversationNote:
    """The note of `conversation_id` in `private`, which need not be there. Blocking calls; writing needs the lock."""

    def __init__(self, private: Path, conversation_id: str) -> None:
        self._private = private
        self._path = private / "conversation.json"
        self._conversation_id = conversation_id

    @property
    def id(self) -> str | None:
        """The noted id, or None."""
        noted_id = self._fields().get("id")
        if not isinstance(noted_id, str):
            return None
        return noted_id

    @property
    def can_be_replaced(self) -> bool:
        """Whether nothing else than a file is in its place."""
        return folders.refusal_of(self._path) is None

    def facts(self) -> ConversationFacts:
        """Return the noted facts."""
        fields = self._fields()
        return ConversationFacts(
            codec.cleanup_time(fields.get("lastCleanup")), chats_of(fields.get("chats"))
        )

    def write(self, facts: ConversationFacts) -> None:
        """Note the id and these facts; a broken note is kept as it was."""
        if self.can_be_replaced and "id" not in self._fields():
            broken = folders.read_if_there(self._path)
            if broken:
                past.keep_broken(
                    self._private, self._path.name, data=broken, now_ms=time.time_ns() // 1_000_000
                )
        fields = {
            "format": journal.FORMAT,
            "id": self._conversation_id,
            "lastCleanup": facts.last_cleanup_ms,
        }
        if facts.chats:
            fields["chats"] = chats_json(facts.chats)
        folders.replace_file(self._path, json_text.dumps(fields) + b"\n")

    def _fields(self) -> Mapping[str, Any]:
        try:
            return json_text.load_object(folders.read_file(self._path))
        except (FileNotFoundError, folders.FileRefused, json_text.NotARecord):
            return {}
