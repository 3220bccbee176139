"""What a call may use, as one value: resolved for each request, so that a server of several callers gives each its own.

What is not one conversation's is here: backups, the examination, the meter, and the lines that readers read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from memory_server.core.errors import InvalidInput
from memory_server.core.meter import Meter
from memory_server.core.model import LongTermMemory, ShortTermMemory
from memory_server.managers.conversations import Conversations
from memory_server.managers.services import Surroundings
from memory_server.recall.parameters import Parameters
from memory_server.recall.prompt_lines import MAX_BYTES, Language, Readers, language_of, memory_lines, prompt_lines
from memory_server.recall.result import Recall

if TYPE_CHECKING:
    from memory_server.core.backups import BackupShelf
    from memory_server.core.findings import Finding
    from memory_server.managers.backups import Backups


@dataclass(frozen=True)
class Context:
    """`conversations` and the `services` that they share. `shelf` opens the place of their backups, and `examination`
    tells how the place of the memories is; None for memories that are kept in no folder. `caller` names who calls;
    None where there is only one."""

    conversations: Conversations
    services: Surroundings
    shelf: Callable[[], BackupShelf] | None = None
    examination: Callable[[], Awaitable[Sequence[Finding]]] | None = None
    caller: str | None = None

    @cached_property
    def backups(self) -> Backups:
        """The backups of all conversations.

        Raises:
            InvalidInput: these are kept in no folder.
        """
        if self.shelf is None:
            raise InvalidInput("These memories are kept in no folder, so there are no backups of them.")
        from memory_server.managers.backups import Backups

        return Backups(self.services, self.shelf())

    async def examine(self) -> Sequence[Finding]:
        """Whether the place where the memories are kept is as it should be.

        Raises:
            InvalidInput: they are kept in no folder.
        """
        if self.examination is None:
            raise InvalidInput("These memories are kept in no folder, so there is nothing to examine.")
        return await self.examination()

    @property
    def meter(self) -> Meter:
        """What was done in this process."""
        return self.services.meter

    @property
    def parameters(self) -> Parameters:
        """The constants of recall."""
        return self.services.parameters

    def language(self, texts: Sequence[str]) -> Language:
        """The readers' language, or that of `texts` where it is not set."""
        return self.services.language or language_of(texts)

    def lines(
        self,
        recall: Recall | None,
        long_term: Sequence[LongTermMemory] = (),
        *,
        max_bytes: int = MAX_BYTES,
        max_chars: int | None = None,
    ) -> str:
        """What came to mind as lines for a prompt, in the readers' zone and language: at most `max_bytes` of UTF-8, or
        `max_chars` characters where that is given. Of a long memory it is the passages that match."""
        wording = self.parameters.wording
        return prompt_lines(
            recall, long_term, max_bytes=max_bytes, max_chars=max_chars, wording=wording, **self._readers()
        )

    def memory_lines(
        self, memories: Sequence[ShortTermMemory], *, max_bytes: int = MAX_BYTES, max_chars: int | None = None
    ) -> str:
        """The same for memories that no search brought."""
        return memory_lines(memories, max_bytes=max_bytes, max_chars=max_chars, **self._readers())

    def _readers(self) -> Readers:
        return Readers(now_ms=self.services.clock(), zone=self.services.zone, language=self.services.language)
