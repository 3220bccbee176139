"""Memories of users, agents and runs, which are never shown to another user (seed 001).

A user is a scope of the store, so no query reads another user's memories. Each call is noted in the history of its
user, also a search and a refusal; notes hold ids, never texts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import field, replace

from languages import _, counted
from memory_server.kernel.errors import (
    InvalidInput,
    MemoryServerError,
    ModelsFailed,
    NothingToKeep,
    StorageError,
)
from memory_server.kernel.fusion import FUSED
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import GivenMessage
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import shown
from memory_server.kernel.values import JsonObject, dataclass
from memory_server.knowledge.embeddings import TextVectors
from memory_server.knowledge.entry import Archive, Change, Entry, Operation, Query, usable
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import Embeddings, EntryStore, Models, ScopeView
from memory_server.knowledge.sessions.facts import (
    MOST_ASKED_CHARS,
    FactDecisions,
    MemoryEvent,
    SessionText,
)
from memory_server.knowledge.sessions.ids import (
    NOBODY,
    STDIO,
    Begun,
    Identity,
    RequestInfo,
    SessionIds,
    resolve,
)
from memory_server.knowledge.sessions.models import (
    NO_MODEL,
    OperationInProgress,
    SessionModels,
    SessionOptions,
)
from memory_server.knowledge.sessions.records import (
    MemorySearch,
    Mode,
    Outcome,
    SearchType,
    SessionFigures,
    SessionHits,
    counts_of,
    measured,
    narrowed,
    own,
    scope_of,
    sources_of,
    spent,
    texts_of,
    where_of,
)

MOST_TRIES = 3
"""The number of tries to merge a memory that another caller changed meanwhile."""
MEASURED = 10_000
"""The number of newest operations of which statistics are made."""


@dataclass(eq=False)
class Sessions:
    """The memories of all users in `store`. `refuse` raises where nothing may be stored now."""

    store: EntryStore
    clock: Callable[[], int]
    options: SessionOptions = field(default_factory=SessionOptions)
    refuse: Callable[[], None] = lambda: None
    secrets: SecretFilter = SecretFilter()
    models: Models | None = None
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self._begun = Begun()
        self.meaning = TextVectors(self.store, self.embeddings)
        self._with_models = SessionModels(
            self.store, self.options, models=self.models, vectors=self.meaning
        )

    def begin(self, named_ids: Identity, wire: RequestInfo = STDIO) -> SessionIds:
        """Set the ids for later calls that name no ids. Ids that `named_ids` leaves out stay. Without any named id,
        only return the present ids.

        Raises:
            InvalidInput: connections do not last here.
        """
        if named_ids != NOBODY:
            if not wire.lasts:
                raise InvalidInput(
                    "Connections do not last here; send X-Memory-User-ID, X-Memory-Agent-ID and X-Memory-Run-ID "
                    "with each request, or give the ids as arguments."
                )
            begun = wire.begun or self._begun
            # Nothing is kept of another user.
            if named_ids.user_id in (None, begun.ids.user_id):
                named_ids = named_ids.completed_by(begun.ids)
            begun.ids = named_ids
        return self.caller(NOBODY, wire)

    def caller(
        self, arguments: Identity, wire: RequestInfo = STDIO, *, changes: bool = False
    ) -> SessionIds:
        """Return the ids that a call with these arguments means. Raise as `resolve`."""
        begun_ids = NOBODY
        if wire.lasts:
            begun_ids = (wire.begun or self._begun).ids
        return resolve(
            {
                "argument": arguments,
                "header": wire.header_ids,
                "session": begun_ids,
                "setting": self.options.ids,
            },
            require_user=self.options.require_user,
            changes=changes,
        )

    async def add(
        self,
        caller: SessionIds,
        messages: str | Sequence[GivenMessage],
        *,
        metadata: JsonObject | None = None,
        prompt: str | None = None,
        mode: Mode = "inference",
        by: str = "api",
    ) -> Outcome:
        """Store messages. With `inference`, a model finds the facts in them, with `prompt` added to its own prompt.
        With `direct`, or if no model answers, a text becomes a single memory, and of messages each becomes a memory,
        except the system's.

        Raises:
            InvalidInput: nothing is in it, or it is too long. MemoryPaused: the memory is paused. NothingToKeep: all of
            it is private or recalled.
        """
        async with self._noting(caller, "add", by) as operation:
            self.refuse()
            now_ms = self.clock()
            own_metadata = self.secrets.of(dict(metadata or {}))
            texts = self.secrets.of(texts_of(messages))

            base = Entry(
                "",
                agent_id=caller.agent_id,
                run_id=caller.run_id,
                metadata=own_metadata,
                created_ms=now_ms,
                updated_ms=now_ms,
            )

            reason = None
            if mode == "inference":
                try:
                    return await self._infer(operation, texts=texts, base=base, prompt=prompt)
                except ModelsFailed as failure:
                    reason = str(failure)

            memories = [
                usable(replace(base, body=text.text, metadata={**text.metadata, **own_metadata}))
                for text in texts
            ]

            operation.detail |= {"mode": "direct"}
            await self._with_models.embed(operation, [memory.body for memory in memories])
            entries, change = await self._commit(operation, lambda _: memories)
            added = tuple(MemoryEvent("ADD", entry) for entry in entries)
            return Outcome(added, "direct", reason=reason, change_id=change)

    async def _infer(
        self,
        operation: OperationInProgress,
        texts: Sequence[SessionText],
        base: Entry,
        prompt: str | None,
    ) -> Outcome:
        """Store what a model finds in the texts: each fact as a new memory, or in place of one that it was shown, or
        not at all if a memory says it already. Raise ModelsFailed if the texts are too long for a model, or no model
        answered; then nothing was stored."""
        length = sum(len(text.text) for text in texts)
        if length > MOST_ASKED_CHARS:
            raise ModelsFailed(
                "{length:,} characters are too many for a model, which gets {asked:,}",
                length,
                MOST_ASKED_CHARS,
            )

        # Metadata that cannot be stored are refused before a model is asked.
        usable(replace(base, body="."))

        memories = await self._with_models.related(
            operation, "\n".join(text.text for text in texts)
        )
        facts = await self._with_models.facts(operation, texts, memories=memories, prompt=prompt)
        await self._with_models.embed(operation, [fact.text for fact in facts])

        decisions = FactDecisions(where_of(operation.caller), memories, base)
        events: list[MemoryEvent] = []

        def decide(view: ScopeView) -> list[Change]:
            events[:] = decisions.decided(view, facts)
            return [event.memory for event in events if event.event != "NONE"]

        entries, change = await self._commit(operation, decide)

        # A fact that was already known has no new entry.
        stored = iter(entries)
        outcomes = []
        for event in events:
            memory = event.memory if event.event == "NONE" else next(stored)
            outcomes.append(MemoryEvent(event.event, memory))

        reason = None if facts else _("the model found nothing to keep")
        return Outcome(tuple(outcomes), "inference", reason=reason, change_id=change)

    async def search(
        self,
        caller: SessionIds,
        query: str,
        *,
        limit: int = 100,
        search_type: SearchType = "hybrid",
        other_words: Sequence[str] = (),
        by: str = "api",
    ) -> SessionHits:
        """Search memories by words in any language (`text`), by meaning (`vector`) or by both (`hybrid`). If no model
        gives the vector of the query, only words are searched. `other_words` for the same count less, and do not count
        for the meaning. Raise InvalidInput if the query is empty, or the other words are too many or too long."""
        async with self._noting(caller, "search", by) as operation:
            query = without_surrogates(query)
            if not query.strip():
                raise InvalidInput("The query is empty; write words of what you look for.")
            other_texts = other_words_of(other_words, ()).texts

            reason = None
            vector = b""
            if search_type != "text":
                try:
                    vector = await self._with_models.vector_of(operation, query)
                except (ModelsFailed, NothingToKeep) as failure:
                    reason = str(failure)

            # Without a vector of the query, words still find something.
            if not vector:
                search_type = "text"
            most_by_words = limit if search_type == "text" else FUSED
            words = Query(
                query,
                where_of(caller),
                limit=most_by_words,
                least_share=self.options.least_share,
                other_words=other_texts,
            )

            search = MemorySearch(
                scope_of(caller),
                words,
                vector=vector,
                min_similarity=self.options.min_similarity,
                limit=limit,
            )

            result = await self.store.read(scope_of(caller), search.searches[search_type])
            if result.missing:
                memories = counted(result.missing, "memory")
                reason = _(
                    "no vector yet for {what}; `memory-server knowledge cleanup` makes them",
                    memories,
                )

            operation.ids = [hit.entry.id for hit in result.hits]
            operation.detail |= {"search_type": search_type}
            return SessionHits(
                tuple(result.hits),
                result.total,
                search_type_used=search_type,
                reason=reason,
                took_ms=operation.took_ms,
            )

    async def page(
        self, caller: SessionIds, *, limit: int = 100, offset: int = 0, by: str = "api"
    ) -> tuple[list[Entry], int]:
        """Return at most `limit` memories of the caller after the first `offset`, the last made
        first, and the number of all. The call is noted as an operation."""
        async with self._noting(caller, "get_all", by) as operation:
            where = where_of(caller)

            def read(view: ScopeView) -> tuple[list[Entry], int]:
                return view.entries(where, order="made", limit=limit, offset=offset), view.count(
                    where
                )

            entries, total = await self.store.read(scope_of(caller), read)
            operation.ids = [entry.id for entry in entries]
            return entries, total

    async def update(
        self,
        caller: SessionIds,
        memory_id: int,
        data: str,
        *,
        metadata: JsonObject | None = None,
        mode: Mode | None = None,
        by: str = "api",
    ) -> Outcome:
        """Replace the text of a memory, and its metadata if they are given; the former ones are kept in the history.
        With `inference`, the default if there is a model, the new text is what a model makes of the old text and
        `data`.

        Raises:
            MemoryNotFound: it is not in this session. InvalidInput: the text is empty or too long, or others changed it
            again and again. ModelsFailed: no model answered. MemoryPaused, NothingToKeep: as `add`. Nothing was changed.
        """
        async with self._noting(caller, "update", by) as operation:
            operation.ids = [memory_id]
            self.refuse()
            text = to_keep(self.secrets.of(without_surrogates(data)))

            used_mode: Mode = mode or ("direct" if self.models is None else "inference")
            reason = None
            if used_mode == "inference" and self.models is None:
                used_mode = "direct"
                reason = _(NO_MODEL)

            # A model takes seconds, in which another call may change the memory.
            for _try in range(MOST_TRIES):
                before: Entry = await self.store.read(
                    scope_of(caller), lambda view: own(view, caller, memory_id)
                )

                body = text
                if used_mode == "inference":
                    body = await self._with_models.merged(operation, before.body, text)
                await self._with_models.embed(operation, [body])

                def decide(
                    view: ScopeView, before: Entry = before, body: str = body
                ) -> list[Change]:
                    """Replace the text of the memory; no change if a model merged it with a text
                    that has changed since. Raises InvalidInput if the result cannot be stored."""
                    present = own(view, caller, memory_id)
                    if used_mode == "inference" and present.version != before.version:
                        return []  # merged with a text that is not there any more
                    changed = replace(
                        present,
                        body=body,
                        origin="stated" if used_mode == "direct" else "inferred",
                        updated_ms=max(self.clock(), present.updated_ms + 1),
                    )
                    if metadata is not None:
                        changed = replace(changed, metadata=self.secrets.of(dict(metadata)))
                    return [usable(changed)]

                entries, change = await self._commit(operation, decide)

                if entries:
                    return Outcome(
                        (MemoryEvent("UPDATE", entries[0]),),
                        used_mode,
                        reason=reason,
                        change_id=change,
                    )
            raise InvalidInput("Memory {memory} was changed meanwhile; read it again.", memory_id)

    async def delete(self, caller: SessionIds, memory_id: int, *, by: str = "api") -> Outcome:
        """Put a memory into the archive, and return it as it was. Raise MemoryNotFound if it is not in this session."""
        async with self._noting(caller, "delete", by) as operation:
            operation.ids = [memory_id]
            deleted: list[Entry] = []

            def decide(view: ScopeView) -> list[Change]:
                deleted[:] = [own(view, caller, memory_id)]
                return [Archive(memory_id, "deleted", self.clock())]

            _, change = await self._commit(operation, decide)
            return Outcome((MemoryEvent("DELETE", deleted[0]),), change_id=change)

    async def delete_all(
        self, caller: SessionIds, *, confirm: bool, by: str = "api"
    ) -> tuple[int, str | None]:
        """Put all memories of this session into the archive, as one change. Return their number and the id of the
        change (None without any).

        Raises:
            InvalidInput: it is not confirmed; the sentence says how many memories it would be.
        """
        async with self._noting(caller, "delete_all", by) as operation:
            where = where_of(caller)
            if not confirm:
                count = await self.store.read(scope_of(caller), lambda view: view.count(where))
                raise InvalidInput(
                    "This would delete {memories}; to delete them, give confirm: true.",
                    counted(count, "memory"),
                )
            deleted_ids: list[int] = []

            def decide(view: ScopeView) -> list[Change]:
                deleted_ids[:] = view.ids(where)
                return [Archive(entry_id, "deleted", self.clock()) for entry_id in deleted_ids]

            _, change = await self._commit(operation, decide)
            return len(deleted_ids), change

    async def history(
        self, caller: SessionIds, *, limit: int = 50, before: int | None = None
    ) -> list[Operation]:
        """Return what was done in this session, newest first. `before` is the id of the last operation of the former
        page."""
        page = await self.store.operations(
            scope_of(caller), before=before, limit=limit, caller=narrowed(caller)
        )
        return [operation for _scope, operation in page]

    async def note_refusal(self, caller: SessionIds, op: str, sentence: str, *, by: str) -> None:
        """Note in the history of a user a call that was refused before it began. What cannot be written is left out."""
        refused = OperationInProgress(caller, op, by).note()
        note = replace(refused, error=shown(sentence, 200), took_ms=0.0)
        with suppress(StorageError):
            await self.store.log_operation(scope_of(caller), note, passing=True)

    async def statistics(self, caller: SessionIds) -> SessionFigures:
        """Return counts and sizes of the memories of this session, and figures of its newest operations."""
        where = where_of(caller)
        counts = await self.store.read(scope_of(caller), lambda view: counts_of(view, where))
        operations = await self.history(caller, limit=MEASURED)
        return replace(
            counts,
            operations=measured(operations),
            models=spent(operations),
            sources=sources_of(operations),
        )

    async def _commit(
        self, operation: OperationInProgress, decide: Callable[[ScopeView], Sequence[Change]]
    ) -> tuple[tuple[Entry, ...], str | None]:
        """Commit the changes that `decide` returns, with a note in the history; the store may call it more than once.
        Return the entries as they are stored, and the id of the change, None if nothing changed."""
        committed = await self.store.commit(
            scope_of(operation.caller), lambda view: (decide(view), None), operation.note()
        )
        operation.noted = committed.seq is not None
        return committed.entries, committed.change_id

    @asynccontextmanager
    async def _noting(
        self, caller: SessionIds, op: str, by: str
    ) -> AsyncIterator[OperationInProgress]:
        """Note a call in the history of its user when it ends, unless a commit has done it. The note has the sentence
        of a MemoryServerError that ends the call; after any other exception it has no error. It waits for other
        writers for a second at most, and is then left out."""
        operation = OperationInProgress(caller, op, by)
        error = None

        try:
            yield operation
        except MemoryServerError as problem:
            error = shown(problem.sentence.english, 200)
            raise
        finally:
            # A commit stores its note together with the change.
            if not operation.noted:
                note = replace(operation.note(), entries=tuple(operation.ids), error=error)
                with suppress(StorageError):
                    await self.store.log_operation(scope_of(caller), note, passing=True)
