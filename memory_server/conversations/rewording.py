"""The change to a memory whose words were found again, with the present settings."""

from __future__ import annotations

from dataclasses import replace

from memory_server.conversations.changes import (
    Edited,
)
from memory_server.conversations.model import (
    ConversationState,
    ShortTermMemory,
)
from memory_server.kernel.values import dataclass


@dataclass(frozen=True, slots=True)
class Rewording:
    """A memory as it was read, and the same with its words found again."""

    before: ShortTermMemory
    after: ShortTermMemory

    def edit_in(self, state: ConversationState) -> Edited | None:
        """The change to the memory as `state` has it; None if it is gone, its text was changed, or the words are the
        same."""
        before = self.before
        present = state.short_term.get(before.id)
        if present is None or (present.text, present.messages) != (before.text, before.messages):
            return None
        if present.time_ms != before.time_ms:
            return None
        after = self.after
        edited = replace(
            present, words=after.words, weights=after.weights, indexed_with=after.indexed_with
        )
        if edited == present:
            return None
        return Edited(edited, present)
