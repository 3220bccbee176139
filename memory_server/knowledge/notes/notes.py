"""Notes: technique, decisions and facts under a topic, found by words, and shown as pages (seed 000)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar, get_args
from uuid import uuid4

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import NOTHING, without_surrogates
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import shown
from memory_server.knowledge.entry import (
    Change,
    Entry,
    Filter,
    Hit,
    Hits,
    Operation,
    Purge,
    Query,
    Reason,
    archived,
    live,
    usable,
)
from memory_server.knowledge.notes import duplicates
from memory_server.knowledge.notes.pages import KINDS, Kind, page
from memory_server.knowledge.policies import Options, to_keep
from memory_server.knowledge.ports import Committed, Decide, EntryStore, ScopeView
from memory_server.knowledge.ranking import RERANKED, by_relevance
from nlp.index_terms import index_form
from sandbox.locale import _

T = TypeVar("T")
log = logging.getLogger(__name__)
NOTES = Scope("notes")
_SIMILAR = 20
"""Notes that are compared with a new one at most: what 10,000 notes need in 10 ms."""
_PAGES_SECONDS = 2.0
"""After a change, pages wait so long for the next one."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What `remember` did. `similar`: how many other notes of the type say nearly the same."""

    action: Literal["created", "updated"]
    similar: int


@dataclass(frozen=True, slots=True)
class ReindexedNotes:
    """What a reindex did or would do. `kept_apart`: alike, but with a fact in which they differ."""

    merged: tuple[duplicates.Pair, ...]
    kept_apart: tuple[duplicates.Pair, ...]
    removed: int
    remaining: int
    copy: Path | None = None
    change_id: str | None = None


@dataclass(eq=False)
class Notes:
    """The notes in `store`."""

    store: EntryStore
    clock: Callable[[], int]
    options: Options = field(default_factory=Options)
    _publishing: asyncio.Task[None] | None = field(default=None, init=False)

    async def remember(
        self,
        kind: Kind,
        topic: str,
        content: str,
        *,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        source: str | None = None,
        by: str = "api",
    ) -> Committed[Remembered]:
        """Store a note. One of the same topic, type and project is replaced; its former text stays in the history.

        Private parts and recalled memories are left out, as in messages.

        Raises:
            InvalidInput: the type is unknown, the topic or the content empty, or something too long.
            MemoryPaused: the memory is paused. NothingToKeep: all of it is private or recalled.
        """
        _check(kind)
        self.options.refuse()
        topic = " ".join(without_surrogates(topic).split())
        if not topic:
            raise InvalidInput("The topic is empty; give a title such as `error handling`.")
        given = usable(
            Entry(
                to_keep(content),
                ref=str(uuid4()),
                kind=kind,
                project=(self.options.project or "") if kind == "project-tech" else "",
                key=index_form(topic),
                title=topic,
                tags=tuple(tags),
                examples=tuple(without_recalled(without_private(each)) for each in examples),
                source=source,
            )
        )
        similar = await self._similar_to(given)
        now_ms = self.clock()

        def decide(held: ScopeView) -> tuple[Sequence[Change], Remembered]:
            there = held.keyed(given.kind, given.project, given.key or "")
            if there is None:
                return [replace(given, created_ms=now_ms, updated_ms=now_ms)], Remembered("created", similar)
            new = {name: getattr(given, name) for name in ("title", "body", "tags", "examples", "source")}
            return [replace(there, **new, uses=there.uses + 1, updated_ms=now_ms)], Remembered("updated", similar)

        return await self._commit(decide, "remember", by)

    async def recall(
        self,
        query: str = "",
        kind: Kind | None = None,
        *,
        tags: Sequence[str] = (),
        limit: int = 10,
        offset: int = 0,
        reinforce: bool = True,
    ) -> Hits:
        """The notes that hold words of `query`, best first; without a query all of them, the most certain and most used
        first. Each that a query brought counts one reference, unless `reinforce` is False."""
        where = self._where(kind, tags)
        if not query.strip():

            def listed(held: ScopeView) -> Hits:
                notes = held.entries(where, order="best", limit=limit, offset=offset)
                hits = tuple(Hit(note, 0.0, NOTHING, NOTES, why=_("no query")) for note in notes)
                return Hits(hits, held.count(where))

            return await self.store.read(NOTES, listed)
        wanted = Query(without_surrogates(query), where, max(RERANKED, offset + limit), self.options.least_share)
        found = await self.store.read(NOTES, lambda held: held.search(wanted))
        shown = tuple(by_relevance(found.hits, boosted=True)[offset : offset + limit])
        if reinforce:
            try:
                await self.store.count_use([each.entry.id for each in shown], self.clock())
            except StorageError as error:
                log.warning("the use of notes was not counted: %s", error)
        return replace(found, hits=shown)

    async def get(self, note_id: int | str) -> Entry:
        """The note of this number or id, live or archived. Raises MemoryNotFound."""
        return await self.store.read(NOTES, lambda held: _there(held, note_id))

    async def edit(
        self, note_id: int | str, *, find: str = "", replacement: str = "", append: str = "", by: str = "api"
    ) -> Committed[None]:
        """Put `replacement` in the place of `find`, which the content has once, and add the lines of `append` at the
        end. What it was stays in the history.

        Raises:
            MemoryNotFound: there is no such live note. InvalidInput: nothing is to be changed, the content has `find`
            not at all or several times, or it would be empty or too long. MemoryPaused, NothingToKeep: as `remember`.
        """
        if not find and not append.strip():
            raise InvalidInput("Nothing is to be changed; give `find` with `replace`, or `append`.")
        self.options.refuse()
        new = to_keep(replacement)
        more = to_keep(append)

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            note = _there(held, note_id)
            if note.archived_ms is not None:
                raise MemoryNotFound("The note {title} was deleted; `remember` stores it as a new one.", note.title)
            if find and (count := note.body.count(find)) != 1:
                raise InvalidInput(
                    "`find` is {number} times in the note {title}, and it must be there once; {advice}.",
                    count,
                    note.title,
                    _("give more of the text around it") if count else _("read the note by recall"),
                )
            body = note.body.replace(find, new) if find else note.body
            if more.strip():
                body = f"{body.rstrip()}\n{more}"
            return [usable(replace(note, body=body, updated_ms=self.clock()))], None

        return await self._commit(decide, "edit", by)

    async def listed(
        self, kind: Kind | None = None, *, tags: Sequence[str] = (), limit: int = 10, offset: int = 0
    ) -> tuple[list[Entry], int]:
        """A page of the notes, by type and topic, and how many there are. It counts no reference."""
        where = self._where(kind, tags)
        return await self.store.read(
            NOTES, lambda held: (held.entries(where, order="title", limit=limit, offset=offset), held.count(where))
        )

    async def delete(self, note_id: int | str, *, by: str = "api") -> str | None:
        """Put a note into the archive; the id of the change.

        Raises:
            MemoryNotFound: it does not exist. InvalidInput: it is there already.
        """

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            note = _there(held, note_id)
            if note.archived_ms is not None:
                raise InvalidInput("The note {title} is in the archive already; nothing was changed.", note.title)
            return [archived(note, "deleted", self.clock())], None

        return (await self._commit(decide, "delete", by)).change_id

    async def restore(self, note_id: int | str, *, by: str = "api") -> str | None:
        """Bring a note back out of the archive; the id of the change.

        Raises:
            MemoryNotFound: it does not exist.
            InvalidInput: it is not in the archive, or another note has its topic now.
        """

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            note = _there(held, note_id)
            if note.archived_ms is None:
                raise InvalidInput("The note {title} is not in the archive; nothing was changed.", note.title)
            return [live(note)], None

        return (await self._commit(decide, "restore", by)).change_id

    async def pages(self, *, stable: bool = False) -> dict[Kind, str]:
        """The page of each type."""
        notes = await self.store.read(NOTES, lambda held: held.entries(self._where(None, ()), order="best"))
        return {kind: page(kind, [each for each in notes if each.kind == kind], stable=stable) for kind in KINDS}

    async def reindex(self, *, dry_run: bool = False, by: str = "api") -> ReindexedNotes:
        """Set a copy of the database aside, merge notes that say the same, remove for good what was deleted before, and
        make the index anew; `dry_run` only says what would happen. What was merged before stays in the archive for its
        time, so that the merge can be undone."""
        now_ms = self.clock()
        others = Filter(archived=True, reasons=tuple(each for each in get_args(Reason) if each != "merged"))
        over = (others, Filter(archived=True, archived_by_ms=now_ms - self.options.keep_ms, reasons=("merged",)))
        notes, old = await self.store.read(
            NOTES, lambda held: (held.entries(Filter()), [each for where in over for each in held.entries(where)])
        )
        pairs = await asyncio.to_thread(duplicates.pairs_among, notes)
        done = await asyncio.to_thread(duplicates.merges, [pair for pair in pairs if not pair.differs], now_ms)
        apart, left = tuple(pair for pair in pairs if pair.differs), len(notes) - len(done)
        report = ReindexedNotes(tuple(pair for pair, _, _ in done), apart, len(old), left)
        if dry_run:
            return report

        def purge(held: ScopeView) -> tuple[Sequence[Change], int]:
            # Only what is in the copy as it is now: another process may have archived more meanwhile.
            there = [(each, held.get(id=each.id)) for each in old]
            due = [Purge(each.id) for each, now in there if now is not None and now.version == each.version]
            return due, len(due)

        def merge(held: ScopeView) -> tuple[Sequence[Change], None]:
            became = {entry.id: entry for _, whole, gone in done for entry in (whole, gone)}
            there = [held.get(id=entry.id) for entry in became.values()]
            if any(each is None or each.version != became[each.id].version for each in there):
                raise InvalidInput("Notes were changed meanwhile; run `memory-server knowledge reindex` again.")
            return list(became.values()), None

        copy = await self.store.set_aside()
        removed = (await self._commit(purge, "purge", by)).result
        change_id = (await self._commit(merge, "merge", by)).change_id
        await self.store.rebuild()
        return replace(report, removed=removed, copy=copy, change_id=change_id)

    async def aclose(self) -> None:
        """Bring the pages up to date that are still to be made; idempotent."""
        if self._publishing is not None:
            self._publishing.cancel()
            with suppress(asyncio.CancelledError):
                await self._publishing
            self._publishing = None
            await self._write_pages()

    def changed(self) -> None:
        """Notes were changed: pages that are kept current are made in a while."""
        if self.options.publish is not None and self._publishing is None:
            self._publishing = asyncio.create_task(self._write_later())

    async def _write_later(self) -> None:
        await asyncio.sleep(_PAGES_SECONDS)
        self._publishing = None
        await self._write_pages()

    async def _write_pages(self) -> None:
        assert self.options.publish is not None
        try:
            await asyncio.to_thread(self.options.publish, await self.pages(stable=True))
        except (InvalidInput, StorageError) as error:
            log.warning("the pages of notes are not current: %s", error)

    def _where(self, kind: Kind | None, tags: Sequence[str]) -> Filter:
        kinds = () if kind is None else (_check(kind),)
        projects = None if self.options.project is None else ("", self.options.project)
        return Filter(kinds, projects, tuple(map(without_surrogates, tags)))

    async def _similar_to(self, note: Entry) -> int:
        text = duplicates.text_of(note)
        where = Filter(kinds=(note.kind,), projects=(note.project,))
        found = await self.store.read(NOTES, lambda held: held.alike(text, where, _SIMILAR))
        others = [duplicates.text_of(each) for each in found if each.key != note.key]
        return await asyncio.to_thread(duplicates.count_same, text, others)

    async def _commit(self, decide: Decide[T], operation: str, by: str) -> Committed[T]:
        done = await self.store.commit(NOTES, decide, Operation(operation, by))
        if done.seq is not None:
            self.changed()
        return done


def _check(kind: Kind) -> Kind:
    if kind not in KINDS:
        raise InvalidInput("`{kind}` is not a type of notes; use tech, project-tech or domain.", kind)
    return kind


def _there(held: ScopeView, note_id: int | str) -> Entry:
    note = held.get(id=note_id) if isinstance(note_id, int) else held.get(ref=note_id)
    if note is None:
        raise MemoryNotFound(
            "There is no note {note}; `memory-server knowledge list` shows all notes.", shown(str(note_id))
        )
    return note
