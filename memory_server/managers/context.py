"""Everything that a call may use, as one value made for each request: a server can give each caller its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.core.errors import InvalidInput
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.knowledge.callers import STDIO, Wire
from memory_server.managers.conversations import Conversations
from memory_server.managers.services import Services
from memory_server.recall.prompt_lines import MAX_BYTES, Language, language_of, prompt_lines
from memory_server.recall.selection import Recall

if TYPE_CHECKING:
    from memory_server.core.backups import BackupShelf
    from memory_server.core.findings import Finding
    from memory_server.knowledge.family import Knowledge
    from memory_server.managers.backups import Backups


@dataclass(frozen=True)
class Context:
    """`conversations` and the `services` that they share. `shelf` opens the place of their backups, and `examination`
    looks at the place of the memories; None if the memories are not kept in a folder. `caller` names the caller; None
    if there is only one. `family` gives the knowledge; of its toolsets
    `unasked_from` at most `unasked_chars` characters come to each turn. `wire`: how the call came."""

    conversations: Conversations
    services: Services
    shelf: Callable[[], BackupShelf] | None = None
    examination: Callable[[], Awaitable[Sequence[Finding]]] | None = None
    caller: str | None = None
    family: Callable[[], Knowledge] | None = None
    unasked_chars: int = 0
    unasked_from: frozenset[str] = frozenset()
    wire: Wire = STDIO

    @property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge.

        Raises:
            InvalidInput: the memories are not kept in a folder.
        """
        if self.family is None:
            raise InvalidInput("These memories are not kept in a folder, so they have no notes; use a data folder.")
        return self.family()

    @cached_property
    def backups(self) -> Backups:
        """The backups of all conversations. Raises InvalidInput: the memories are not kept in a folder."""
        if self.shelf is None:
            raise InvalidInput(
                "These memories are not kept in a folder, so they have no backups; use a data folder for that."
            )
        from memory_server.managers.backups import Backups

        return Backups(self.services, self.shelf(), None if self.family is None else self.family())

    async def examine(self) -> Sequence[Finding]:
        """The findings about the place where the memories are kept. Raises InvalidInput: the memories are not kept
        in a folder."""
        if self.examination is None:
            raise InvalidInput("These memories are not kept in a folder, so there is nothing to examine.")
        return await self.examination()

    def language(self, texts: Sequence[str]) -> Language:
        """The readers' language, or that of `texts` where it is not set."""
        return self.services.language or language_of(texts)

    def lines(
        self,
        recall: Recall | None = None,
        long_term: Sequence[LongTermMemory] = (),
        memories: Sequence[ShortTermMemory] = (),
        *,
        max_bytes: int = MAX_BYTES,
        max_chars: int | None = None,
    ) -> str:
        """What came to mind, and `memories` that no search brought, as lines for a prompt, in the zone and language of
        the readers: at most `max_bytes` of UTF-8, or `max_chars` characters if that is given."""
        return prompt_lines(
            recall,
            long_term,
            memories,
            now_ms=self.services.clock(),
            zone=self.services.zone,
            language=self.services.language,
            wording=self.services.parameters.wording,
            max_bytes=max_bytes,
            max_chars=max_chars,
        )
