"""Open the memories of a home once, and make calls that use them: a server makes a call for each request, so that
each caller can have its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from memory_server.conversations.conversation import Conversations
from memory_server.conversations.model import ShortTermMemory, conversation_id_of
from memory_server.conversations.recall.prompt_lines import (
    MAX_BYTES,
    PromptLines,
    Reader,
    prompt_lines,
)
from memory_server.conversations.recall.selection import Recall
from memory_server.conversations.services import Services
from memory_server.kernel.messages import NOTHING, Session
from memory_server.kernel.text import Language, language_of
from memory_server.kernel.times import zone_named
from memory_server.kernel.values import dataclass
from memory_server.knowledge.projects import Project
from memory_server.knowledge.sessions.ids import STDIO, RequestInfo
from memory_server.memories.recalls import RecallOutput, Recalls, recall_line

if TYPE_CHECKING:
    from memory_server.kernel.backups import BackupStore
    from memory_server.kernel.lifecycle import BlockingExamine, Examine, Lifecycle
    from memory_server.knowledge.service import Knowledge
    from memory_server.memories.backups import Backups


@dataclass(frozen=True)
class Memories:
    """Everything of a home, opened once.

    The `conversations` share the `services`. `open_backups` opens the place of the backups and `open_knowledge` the
    knowledge, each at its first use. `examine` gives the findings about the place of the memories, `examinations`
    blocking calls for the findings about each conversation. At most `auto_recall_chars` characters of the toolsets
    `auto_recall_from` are added to each turn. `hidden` are places of the memories that callers must not see, each
    with the text that they see instead. `recalls` is the record of recalls, if there is one. `plans` says whether
    plans are shown unasked on their day (None means in `recall_turn`, and not in hooks). `forgotten` has for each
    session the words of its last `forget`, and the time.
    """

    conversations: Conversations
    services: Services
    open_backups: Callable[[], BackupStore]
    examine: Examine
    examinations: Callable[[], Sequence[BlockingExamine]]
    open_knowledge: Callable[[], Knowledge]
    auto_recall_chars: int = 0
    auto_recall_from: frozenset[str] = frozenset()
    hidden: Mapping[str, str] = field(default_factory=dict)
    recalls: Recalls | None = None
    plans: bool | None = None
    forgotten: dict[str | None, tuple[tuple[str, ...], int]] = field(default_factory=dict)

    def for_callers(self, text: str) -> str:
        """Return a sentence of the server as callers see it: without the places of the memories, if these are hidden."""
        if not self.hidden or not {"/", os.sep} & set(text):
            return text
        names_of_paths = {
            str(layer.folder.place): "the layer" for layer in self.knowledge.layers.known
        }
        names_of_paths.update(self.hidden)
        for path, name in names_of_paths.items():
            text = text.replace(f"{path}{os.sep}", "")
            text = text.replace(path, name)
        return text

    @cached_property
    def knowledge(self) -> Knowledge:
        """Notes and other knowledge."""
        return self.open_knowledge()

    @cached_property
    def engines(self) -> tuple[Lifecycle, ...]:
        """The engines that keep memories: conversations, and knowledge."""
        from memory_server.conversations.lifecycle import ConversationLifecycle
        from memory_server.knowledge.lifecycle import KnowledgeLifecycle

        conversations = ConversationLifecycle(self.conversations, self.services, self.examinations)
        return conversations, KnowledgeLifecycle(self.knowledge)

    @cached_property
    def backups(self) -> Backups:
        """The backups of all that is kept."""
        from memory_server.memories.backups import Backups

        return Backups(self.engines, self.services.clock, self.open_backups())

    def language(self, texts: Sequence[str]) -> Language:
        """Return the readers' language, or the language of `texts` if it is not set."""
        return self.services.language or language_of(texts)

    def lines(
        self,
        recall: Recall | None = None,
        memories: Sequence[ShortTermMemory] = (),
        *,
        reader: Reader = Reader(),
        max_bytes: int = MAX_BYTES,
        max_chars: int | None = None,
    ) -> PromptLines:
        """Write recalled memories, and `memories` from no search, as lines for a prompt, in the zone and language of
        the readers. The limit is `max_bytes` of UTF-8, or `max_chars` characters if that is given."""
        services = self.services
        language = reader.language or services.language
        return prompt_lines(
            recall,
            memories,
            now_ms=services.clock(),
            reader=replace(reader, zone=services.zone, language=language),
            wording=services.parameters.wording,
            max_bytes=max_bytes,
            max_chars=max_chars,
        )


@dataclass(frozen=True)
class Call:
    """One call: the memories that it may use, its `conversations` (with the usual conversation of this caller), how it
    came, and who asks, for the record of recalls (`by`, `client`, `cwd`, `turn`). `session` is the session that the
    call names, or None for the session of the services. `folder` is where the caller works, if that is known.
    `project` is the caller's project, if the settings or this process's folder mean another."""

    memories: Memories
    conversations: Conversations
    wire: RequestInfo = STDIO
    asker: Mapping[str, str | int | None] = field(default_factory=lambda: NOTHING)
    session: Session | None = None
    folder: str | None = None
    project: Project | None = None

    def in_session(self, name: str | None) -> Call:
        """Return the same call in the session `name`, or this call if it is None. Raises InvalidInput if the name
        cannot be used."""
        if name is None:
            return self
        session = Session(conversation_id_of(name, "session"))
        return replace(self, session=session)

    def in_zone(self, timezone: str | None) -> Call:
        """Return the same call with readers in another time zone, or this call if it is None. Raises InvalidInput if
        the zone does not exist."""
        if timezone is None:
            return self
        services = self.memories.services.in_zone(zone_named(timezone))
        conversations = self.memories.conversations.served_by(services)
        memories = replace(self.memories, services=services, conversations=conversations)
        return replace(
            self, memories=memories, conversations=self.conversations.served_by(services)
        )

    @property
    def session_id(self) -> str | None:
        session = self.session or self.memories.services.session
        return None if session is None else session.id

    def note(self, given: RecallOutput) -> None:
        """Put what this call was given into the record of recalls, without secrets; the line is
        made and written later. Do nothing without a record."""
        recalls = self.memories.recalls
        if recalls is None:
            return
        asker: dict[str, str | int | None] = {
            **self.asker,
            "folder": None,
            "session": self.session_id,
        }

        if self.folder != self.asker.get("cwd"):
            asker["folder"] = self.folder
        messages = self.memories.services.secrets.of(tuple(given.messages))
        recalls.note(partial(recall_line, replace(given, messages=messages), asker))
