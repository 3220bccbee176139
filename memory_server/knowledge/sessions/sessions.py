"""Memories of users, agents and runs, which never see those of another user (seed 001).

A user is a scope of the store, so no query crosses to another one. Each call is noted in the history of its user, also
a search and a refusal; notes hold ids, never texts.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

from memory_server.kernel.errors import InvalidInput, MemoryServerError, ModelsFailed, NothingToKeep, StorageError
from memory_server.kernel.fusion import FUSED
from memory_server.kernel.messages import NOTHING, Message, without_surrogates
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.text import shown
from memory_server.knowledge.embeddings import TextVectors
from memory_server.knowledge.entry import (
    Archive,
    Change,
    Entry,
    Figures,
    Hit,
    Operation,
    Query,
    change_id,
    usable,
)
from memory_server.knowledge.policies import to_keep
from memory_server.knowledge.ports import Embeddings, EntryStore, Models, ScopeView
from memory_server.knowledge.ranking import by_meaning, by_ranks, by_relevance
from memory_server.knowledge.sessions.facts import (
    EXTRACTION,
    FACTS_SCHEMA,
    MOST_ASKED_CHARS,
    SHOWN,
    asked,
    decided,
    facts_of,
)
from memory_server.knowledge.sessions.ids import NOBODY, STDIO, Begun, Identity, RequestInfo, SessionIds, resolve
from memory_server.knowledge.sessions.models import NO_MODEL, OperationInProgress, SessionModels, SessionOptions
from memory_server.knowledge.sessions.records import (
    Mode,
    Outcome,
    SearchType,
    SessionFigures,
    SessionHits,
    caller_json,
    measured,
    narrowed,
    own,
    scope_of,
    sources_of,
    spent,
    texts_of,
    where_of,
)
from sandbox.locale import _, counted

T = TypeVar("T")
MOST_TRIES = 3
"""How often a memory is merged anew that somebody else changed meanwhile."""
MEASURED = 10_000
"""The newest operations, of which statistics are made."""


@dataclass(eq=False)
class Sessions:
    """The memories of all users in `store`. `refuse` raises where nothing may be stored now."""

    store: EntryStore
    clock: Callable[[], int]
    options: SessionOptions = field(default_factory=SessionOptions)
    refuse: Callable[[], None] = lambda: None
    models: Models | None = None
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self._begun = Begun()
        self.meaning = TextVectors(self.store, self.embeddings)
        self._with_models = SessionModels(self.store, self.options, self.models, self.meaning)

    def begin(self, given: Identity, wire: RequestInfo = STDIO) -> SessionIds:
        """Set what later calls that name nobody mean; what `given` leaves out stays. Nothing given: only tell it.

        Raises:
            InvalidInput: connections do not last here.
        """
        if given != NOBODY:
            if not wire.lasts:
                raise InvalidInput(
                    "Connections do not last here; send X-Memory-User-ID, X-Memory-Agent-ID and X-Memory-Run-ID "
                    "with each request, or give the ids as arguments."
                )
            begun = wire.begun or self._begun
            if given.user_id in (None, begun.said.user_id):  # of another user nothing is kept
                kept = {name: getattr(given, name) or getattr(begun.said, name) for name in Identity.__slots__}
                given = Identity(**kept)
            begun.said = given
        return self.caller(NOBODY, wire)

    def caller(self, given: Identity, wire: RequestInfo = STDIO, *, changes: bool = False) -> SessionIds:
        """Who is meant by a call with these arguments. Raises as `callers.resolve`."""
        begun = (wire.begun or self._begun).said if wire.lasts else NOBODY
        return resolve(
            {"argument": given, "header": wire.header_ids, "session": begun, "setting": self.options.ids},
            require_user=self.options.require_user,
            changes=changes,
        )

    async def add(
        self,
        caller: SessionIds,
        messages: str | Sequence[Message],
        *,
        metadata: Mapping[str, Any] | None = None,
        prompt: str | None = None,
        mode: Mode = "inference",
        by: str = "api",
    ) -> Outcome:
        """Store what was said. `inference`: the facts that a model finds in it, with `prompt` added to its own. With
        `direct`, or where no model answers: a text as one memory, of messages each but the system's.

        Raises:
            InvalidInput: nothing is in it, or it is too long. MemoryPaused: the memory is paused. NothingToKeep: all of
            it is private or recalled.
        """
        async with self._noting(caller, "add", by) as doing:
            self.refuse()
            now_ms, given, texts = self.clock(), dict(metadata or {}), texts_of(messages)
            base = Entry(
                "", agent_id=caller.agent_id, run_id=caller.run_id, metadata=given, created_ms=now_ms, updated_ms=now_ms
            )
            reason = None
            if mode == "inference":
                try:
                    return await self._infer(caller, doing, texts, base, prompt, by)
                except ModelsFailed as failure:
                    reason = str(failure)
            new = [usable(replace(base, body=text, metadata=said | given)) for text, said in texts]
            doing.detail |= {"mode": "direct"}
            await self._with_models.embed(caller, doing, [each.body for each in new])
            entries, change = await self._commit(caller, doing, "add", by, lambda _: new)
            return Outcome(tuple(("ADD", each) for each in entries), "direct", reason, change)

    async def _infer(
        self,
        caller: SessionIds,
        doing: OperationInProgress,
        texts: Sequence[tuple[str, Mapping[str, Any]]],
        base: Entry,
        prompt: str | None,
        by: str,
    ) -> Outcome:
        """Store the facts that a model finds. Raises ModelsFailed: none answered; nothing was stored."""
        if (length := sum(len(text) for text, _ in texts)) > MOST_ASKED_CHARS:
            raise ModelsFailed(
                "{length:,} characters are too many for a model, which gets {asked:,}", length, MOST_ASKED_CHARS
            )
        usable(replace(base, body="."))  # so that metadata which cannot be stored are refused before a model is asked
        where, words = where_of(caller), "\n".join(text for text, _ in texts)
        vector = b""
        with suppress(ModelsFailed, NothingToKeep):
            vector = await self._with_models.vector_of(caller, doing, words)

        def known(held: ScopeView) -> list[Entry]:
            """Those that share words with what was said, and those that are near to it."""
            worded = held.search(Query(words, where, SHOWN)).hits
            near = held.nearest(vector, where)[0][:SHOWN] if vector else []
            found = ((held.get(id=number), cosine) for number, cosine in near)
            hits = [Hit(entry, cosine, NOTHING, scope_of(caller)) for entry, cosine in found if entry is not None]
            return [hit.entry for hit in by_ranks(worded, hits)[:SHOWN]]

        shown_ = await self.store.read(scope_of(caller), known)
        system = self.options.extraction_prompt or EXTRACTION
        system += f"\n{prompt}" if prompt else ""
        facts = await self._with_models.ask(doing, "extract", system, asked(texts, shown_), FACTS_SCHEMA, facts_of)
        await self._with_models.embed(caller, doing, [fact.text for fact in facts])
        what: list[tuple[str, Entry]] = []

        def decide(held: ScopeView) -> list[Change]:
            what[:] = decided(held, where, facts, shown_, base)
            return [entry for event, entry in what if event != "NONE"]

        entries, change = await self._commit(caller, doing, "add", by, decide)
        stored = iter(entries)
        done = tuple((event, entry if event == "NONE" else next(stored)) for event, entry in what)
        return Outcome(done, "inference", None if facts else _("the model found nothing to keep"), change)

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
        """Memories by words in any language (`text`), by meaning (`vector`) or by both (`hybrid`). Where the meaning of
        no model gives that of the query, by words. `other_words` for the same count less, and not for the meaning.
        Raises InvalidInput: the query is empty, or the other words are too many or too long."""
        async with self._noting(caller, "search", by) as doing:
            query, reason, vector = without_surrogates(query), None, b""
            if not query.strip():
                raise InvalidInput("The query is empty; write words of what you look for.")
            others = other_words_of(other_words, ()).texts
            if search_type != "text":
                try:
                    vector = await self._with_models.vector_of(caller, doing, query)
                except (ModelsFailed, NothingToKeep) as failure:
                    reason = str(failure)
                search_type = search_type if vector else "text"
            most = limit if search_type == "text" else FUSED
            words = Query(query, where_of(caller), most, self.options.least_share, others)

            def by_vector(held: ScopeView) -> tuple[list[Hit], set[int], int]:
                """The nearest memories, the numbers of all that are near enough, and how many have no vector."""
                found, missing = held.nearest(vector, words.where)
                near = {number: cosine for number, cosine in found if cosine >= self.options.min_similarity}
                entries = ((held.get(id=number), near[number]) for number in list(near)[:FUSED])
                hits = [Hit(entry, cosine, NOTHING, scope_of(caller)) for entry, cosine in entries if entry is not None]
                return by_meaning(hits), set(near), missing

            def read(held: ScopeView) -> tuple[list[Hit], int, int]:
                if search_type == "vector":
                    hits, near, missing = by_vector(held)
                    return hits[:limit], len(near), missing
                found = held.search(words)
                if search_type == "text":
                    return by_relevance(found.hits), found.total, 0
                hits, near, missing = by_vector(held)
                both = sum(hit.entry.id in near for hit in found.hits)
                return by_ranks(by_relevance(found.hits), hits)[:limit], found.total + len(near) - both, missing

            hits, total, missing = await self.store.read(scope_of(caller), read)
            if missing:
                what = counted(missing, "memory")
                reason = _("no vector yet for {what}; `memory-server knowledge cleanup` makes them", what)
            doing.ids = [each.entry.id for each in hits]
            doing.detail |= {"search_type": search_type}
            return SessionHits(tuple(hits), total, search_type, reason, doing.took_ms)

    async def page(
        self, caller: SessionIds, *, limit: int = 100, offset: int = 0, by: str = "api"
    ) -> tuple[list[Entry], int]:
        """Memories, made last first, and how many there are."""
        async with self._noting(caller, "get_all", by) as doing:
            where = where_of(caller)
            entries, total = await self.store.read(
                scope_of(caller),
                lambda held: (held.entries(where, order="made", limit=limit, offset=offset), held.count(where)),
            )
            doing.ids = [each.id for each in entries]
            return entries, total

    async def update(
        self,
        caller: SessionIds,
        memory_id: int,
        data: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        mode: Mode | None = None,
        by: str = "api",
    ) -> Outcome:
        """Replace the text of a memory, and its metadata where they are given; what it was is kept in the history.
        `inference`, the default where there is a model: by what a model makes of the old text and `data`.

        Raises:
            MemoryNotFound: it is not in this session. InvalidInput: the text is empty or too long. ModelsFailed: no
            model answered; nothing was changed.
        """
        async with self._noting(caller, "update", by) as doing:
            doing.ids = [memory_id]
            self.refuse()
            text, used = to_keep(without_surrogates(data)), mode or ("direct" if self.models is None else "inference")
            reason = NO_MODEL if used == "inference" and self.models is None else None
            used = "direct" if reason else used
            for _ in range(MOST_TRIES):
                before: Entry = await self.store.read(scope_of(caller), lambda held: own(held, caller, memory_id))
                body = text if used == "direct" else await self._with_models.merged(doing, before.body, text)
                await self._with_models.embed(caller, doing, [body])

                def decide(held: ScopeView, before: Entry = before, body: str = body) -> list[Change]:
                    now = own(held, caller, memory_id)
                    if used == "inference" and now.version != before.version:
                        return []  # merged with a text that is not there any more
                    origin: Literal["stated", "inferred"] = "stated" if used == "direct" else "inferred"
                    now = replace(now, body=body, origin=origin, updated_ms=max(self.clock(), now.updated_ms + 1))
                    return [usable(now if metadata is None else replace(now, metadata=dict(metadata)))]

                entries, change = await self._commit(caller, doing, "update", by, decide)
                if entries:
                    return Outcome((("UPDATE", entries[0]),), used, reason, change)
            raise InvalidInput("Memory {memory} was changed meanwhile; read it again.", memory_id)

    async def delete(self, caller: SessionIds, memory_id: int, *, by: str = "api") -> Outcome:
        """Put a memory into the archive; it, as it was. Raises MemoryNotFound: it is not in this session."""
        async with self._noting(caller, "delete", by) as doing:
            doing.ids = [memory_id]
            gone: list[Entry] = []

            def decide(held: ScopeView) -> list[Change]:
                gone[:] = [own(held, caller, memory_id)]
                return [Archive(memory_id, "deleted", self.clock())]

            _, change = await self._commit(caller, doing, "delete", by, decide)
            return Outcome((("DELETE", gone[0]),), change_id=change)

    async def delete_all(self, caller: SessionIds, *, confirm: bool, by: str = "api") -> tuple[int, str | None]:
        """Put all memories of this session into the archive, as one change; how many.

        Raises:
            InvalidInput: it is not confirmed; the sentence says how many it would be.
        """
        async with self._noting(caller, "delete_all", by) as doing:
            where = where_of(caller)
            if not confirm:
                count = await self.store.read(scope_of(caller), lambda held: held.count(where))
                raise InvalidInput(
                    "This would delete {memories}; to delete them, give confirm: true.", counted(count, "memory")
                )
            gone: list[int] = []

            def decide(held: ScopeView) -> list[Change]:
                gone[:] = held.ids(where)
                return [Archive(each, "deleted", self.clock()) for each in gone]

            _, change = await self._commit(caller, doing, "delete_all", by, decide)
            return len(gone), change

    async def history(self, caller: SessionIds, *, limit: int = 50, before: int | None = None) -> list[Operation]:
        """What was done in this session, newest first; `before` is the id of the last one of the page before."""
        found = await self.store.operations(scope_of(caller), before=before, limit=limit, caller=narrowed(caller))
        return [operation for _, operation in found]

    async def note_refusal(self, caller: SessionIds, op: str, sentence: str, *, by: str) -> None:
        """Note in the history of a user a call that was refused before it began. What cannot be written is left out."""
        note = Operation(op, by, caller=caller_json(caller), error=shown(sentence, 200), took_ms=0.0)
        with suppress(StorageError):
            await self.store.log_operation(scope_of(caller), note, passing=True)

    async def statistics(self, caller: SessionIds) -> SessionFigures:
        """Counts and sizes of the memories of this session, and figures of its newest operations."""
        where = where_of(caller)

        def read(held: ScopeView) -> tuple[Figures, dict[str, int], dict[str, int], int, int]:
            by_agent, by_run = (held.counted(name, where) for name in ("agent_id", "run_id"))
            figures = held.figures(replace(where, archived=None))
            return figures, by_agent, by_run, held.stored_bytes(where), held.vectors(where)

        counts = await self.store.read(scope_of(caller), read)
        operations = await self.history(caller, limit=MEASURED)
        return SessionFigures(*counts, measured(operations), spent(operations), sources_of(operations))

    async def _commit(
        self,
        caller: SessionIds,
        doing: OperationInProgress,
        op: str,
        by: str,
        decide: Callable[[ScopeView], Sequence[Change]],
    ) -> tuple[tuple[Entry, ...], str | None]:
        """Commit what `decide` says, with its note; the entries as they are stored, and the id of the change."""
        operation = Operation(op, by, 0, caller_json(caller), took_ms=doing.took_ms, detail=doing.detail)
        done = await self.store.commit(scope_of(caller), lambda held: (decide(held), None), operation)
        doing.noted = done.seq is not None
        return done.entries, None if done.seq is None else change_id(done.seq)

    @asynccontextmanager
    async def _noting(self, caller: SessionIds, op: str, by: str) -> AsyncIterator[OperationInProgress]:
        """Note a call in the history of its user, unless a commit has done it: also one that is refused. A note that
        cannot be written now is left out, so that a search does not wait for writers."""
        doing, error = OperationInProgress(), None
        try:
            yield doing
        except MemoryServerError as problem:
            error = shown(str(problem), 200)
            raise
        finally:
            if not doing.noted:
                ids = tuple(doing.ids)
                note = Operation(op, by, 0, caller_json(caller), ids, error, doing.took_ms, doing.detail)
                with suppress(StorageError):
                    await self.store.log_operation(scope_of(caller), note, passing=True)
