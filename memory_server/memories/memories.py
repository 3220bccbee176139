"""The memories of a home, opened once, and a call that uses them: a server makes one for each request, so that each
caller can have its own."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import LongTermMemory, ShortTermMemory, conversation_id_of
from memory_server.conversations.recall.prompt_lines import MAX_BYTES, Language, language_of, prompt_lines
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.services import Services
from memory_server.kernel.messages import NOTHING, Session
from memory_server.knowledge.projects import Project
from memory_server.knowledge.sessions.ids import STDIO, RequestInfo
from memory_server.memories.recalls import Given, Recalls, recall_line

if TYPE_CHECKING:
    from memory_server.kernel.backups import BackupStore
    from memory_server.kernel.lifecycle import Lifecycle
    from memory_server.kernel.text import Finding
    from memory_server.knowledge.service import Knowledge
    from memory_server.memories.backups import Backups

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Memories:
    """Everything of one home, opened once. The `conversations` share the `services`. `open_backups` opens the place of
    the backups and `open_knowledge` the knowledge, each at its first use; `examine` gives the findings about the place
    of the memories, `examinations` blocking calls for those about each conversation. Of the toolsets `auto_recall_from`
    at most `auto_recall_chars` characters come to each turn. `hidden`: places of the memories that are not for the
    callers, each with what these see instead. `recalls`: the record of recalls, if there is one. `forgotten`: by
    sessions, the words that each called `forget` with last, and when."""

    conversations: Conversations
    services: Services
    open_backups: Callable[[], BackupStore]
    examine: Callable[[], Awaitable[Sequence[Finding]]]
    examinations: Callable[[], Sequence[Callable[[], list[Finding]]]]
    open_knowledge: Callable[[], Knowledge]
    auto_recall_chars: int = 0
    auto_recall_from: frozenset[str] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict)
    recalls: Recalls | None = None
    forgotten: dict[str | None, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def for_callers(self, text: str) -> str:
        """A sentence of the server as the callers see it: without the places of the memories, if those are hidden."""
        if not self.hidden or not {"/", os.sep} & set(text):
            return text
        places = {str(each.folder.place): "the layer" for each in self.knowledge.layers.known}
        for place, name in {**places, **self.hidden}.items():
            text = text.replace(f"{place}{os.sep}", "").replace(place, name)
        return text

    @cached_property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge."""
        return self.open_knowledge()

    @cached_property
    def engines(self) -> tuple[Lifecycle, ...]:
        """What keeps memories: conversations, and knowledge."""
        from memory_server.conversations.lifecycle import ConversationLifecycle

        return ConversationLifecycle(self.conversations, self.services, self.examinations), self.knowledge.lifecycle

    @cached_property
    def backups(self) -> Backups:
        """The backups of all that is kept."""
        from memory_server.memories.backups import Backups

        return Backups(self.engines, self.services.clock, self.open_backups())

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
        given: set[str] | None = None,
        here: str | None = None,
    ) -> str:
        """What came to mind, and `memories` that no search brought, as lines for a prompt, in the zone and language of
        the readers: at most `max_bytes` of UTF-8, or `max_chars` characters if that is given. `given` and `here` as for
        `prompt_lines`."""
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
            given=given,
            here=here,
        )


@dataclass(frozen=True)
class Call:
    """One call: the memories that it may use, its `conversations` (which have the usual one of this caller), how it
    came, and who asks, as the record of recalls says it (`by`, `client`, `cwd`, `turn`). `session`: the one that the
    call names; None: that of the services. `folder`: where the caller works, if that is known; `project`: of which
    project that is, if it is not that of the settings or of the folder of this process."""

    memories: Memories
    conversations: Conversations
    wire: RequestInfo = STDIO
    asker: Mapping[str, str | None] = field(default_factory=lambda: NOTHING)
    session: Session | None = None
    folder: str | None = None
    project: Project | None = None

    def in_session(self, name: str | None) -> Call:
        """The same call in the session `name`; None: as it is. Raises InvalidInput: the name cannot be used."""
        return self if name is None else replace(self, session=Session(conversation_id_of(name, "session")))

    @property
    def session_id(self) -> str | None:
        session = self.session or self.memories.services.session
        return None if session is None else session.id

    def note(self, given: Given) -> None:
        """Put into the record of recalls what this call was given. Nothing is awaited."""
        if (recalls := self.memories.recalls) is not None:
            folder = None if self.folder == self.asker.get("cwd") else self.folder
            recalls.note(partial(recall_line, given, {**self.asker, "folder": folder, "session": self.session_id}))
