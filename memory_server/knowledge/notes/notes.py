"""Notes: technique, decisions and facts under a topic, found by words, and shown as pages (seed 000)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args
from uuid import uuid4

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import NOTHING, without_surrogates
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
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
from memory_server.knowledge.notes.duplicates import ReindexedNotes
from memory_server.knowledge.notes.pages import KINDS, Kind, page
from memory_server.knowledge.notes.settling import NOTES, OF_PROJECTS, Moved, Settling, assigning
from memory_server.knowledge.policies import Options, to_keep
from memory_server.knowledge.ports import Committed, Decide, EntryStore, ScopeView
from memory_server.knowledge.projects import Project, shown_names
from memory_server.knowledge.ranking import RERANKED, by_relevance
from nlp.index_terms import index_form
from sandbox.locale import _, counted, joined

T = TypeVar("T")
log = logging.getLogger(__name__)
_SIMILAR = 20
"""Notes that are compared with a new one at most: what 10,000 notes need in 10 ms."""
_PAGES_SECONDS = 2.0
"""After a change, pages wait so long for the next one."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What `remember` did. `similar`: how many other notes of the type say nearly the same."""

    action: Literal["created", "updated"]
    similar: int


@dataclass(eq=False)
class Notes:
    """The notes in `store`. Where a method takes a `project`, it is that of the caller; None: that of the options. A
    caller without a project sees those of all projects, if it asks for them."""

    store: EntryStore
    clock: Callable[[], int]
    options: Options = field(default_factory=Options)
    settling: Settling = field(init=False)
    _publishing: asyncio.Task[None] | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.settling = Settling(self.store, self.options.is_elsewhere, self.options.refuse, self.clock)

    def project_of(self, given: Project | None = None) -> Project | None:
        """The project of a caller; None: it is not known."""
        if given is not None or self.options.here is not None:
            return given or self.options.here
        return Project(self.options.project) if self.options.project else None

    async def remember(
        self,
        kind: Kind,
        topic: str,
        content: str,
        *,
        tags: Sequence[str] = (),
        examples: Sequence[str] = (),
        source: str | None = None,
        project: Project | None = None,
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
        if not index_form(topic).strip():
            raise InvalidInput("The topic is empty; give a title such as `error handling`.")
        here = self.project_of(project)
        given = usable(
            Entry(
                to_keep(content),
                ref=str(uuid4()),
                kind=kind,
                project=here.key if here is not None and kind == "project-tech" else "",
                key=index_form(topic),
                title=topic,
                tags=tuple(tags),
                examples=tuple(without_recalled(without_private(each)) for each in examples),
                source=source,
            )
        )
        if given.project and here is not None:
            await self.settling.settle(here)  # else it would not replace the note of before
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
        project: Project | None = None,
        unasked: bool = False,
        other_words: Sequence[str] = (),
    ) -> Hits:
        """The notes that hold words of `query`, best first, then those that only `other_words` for the same find;
        without both all of them, the most certain and most used first. Each that a query brought counts one reference,
        unless `reinforce` is False. `unasked`: where the project is not known, only those of none. Raises InvalidInput:
        there are too many other words, or one is too long."""
        others = other_words_of(other_words, ()).texts
        where = await self._where(kind, tags, project)
        if unasked and where.projects is None:
            where = replace(where, projects=("",))
        if not (query.strip() or others):

            def listed(held: ScopeView) -> Hits:
                notes = held.entries(where, order="best", limit=limit, offset=offset)
                hits = tuple(Hit(note, 0.0, NOTHING, NOTES, why=_("no query")) for note in notes)
                return Hits(hits, held.count(where))

            return await self.store.read(NOTES, listed)
        most, least_share = max(RERANKED, offset + limit), self.options.least_share
        wanted = Query(without_surrogates(query), where, most, least_share, others)
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
        self,
        kind: Kind | None = None,
        *,
        tags: Sequence[str] = (),
        limit: int = 10,
        offset: int = 0,
        project: Project | None = None,
    ) -> tuple[list[Entry], int]:
        """A page of the notes, by type and topic, and how many there are. It counts no reference."""
        where = await self._where(kind, tags, project)
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

    async def project_names(self) -> Mapping[str, str]:
        """What each project is called that has a note, by its key."""
        return shown_names(await self.project_counts())

    async def project_counts(self) -> Mapping[str, int]:
        """How many notes each project has, with those in the archive, by its key."""
        counts = await self.store.read(NOTES, lambda held: held.counted("project", OF_PROJECTS))
        return {key: count for key, count in counts.items() if key}

    async def waiting(self, project: Project | None = None) -> str | None:
        """A sentence about notes of before that may be of this project; None: there are none."""
        here = self.project_of(project)
        counts = {} if here is None else await self.settling.waiting(here)
        sentences = [
            _(
                "{notes} from before have only the name `{name}`, which several folders have; in the folder that they "
                "are of, run `memory-server knowledge assign {name}`.",
                counted(count, "note"),
                name,
            )
            for name, count in counts.items()
        ]
        return joined(" ", sentences) if sentences else None

    async def assign(
        self, chosen: Callable[[ScopeView], Sequence[Entry]], key: str, *, dry_run: bool = False, by: str = "api"
    ) -> Committed[Moved]:
        """Give notes to the project `key`; those stay that are in the way of one of its own."""
        decide = assigning(chosen, key)
        if dry_run:
            return Committed(await self.store.read(NOTES, lambda held: decide(held)[1]), (), None)
        return await self._commit(decide, "assign", by)

    async def pages(self, *, stable: bool = False, project: Project | None = None) -> dict[Kind, str]:
        """The page of each type."""
        where = await self._where(None, (), project)
        notes = await self.store.read(NOTES, lambda held: held.entries(where, order="best"))
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

    async def _where(self, kind: Kind | None, tags: Sequence[str], project: Project | None) -> Filter:
        kinds = () if kind is None else (_check(kind),)
        here = self.project_of(project)
        projects = None if here is None else ("", here.key, *await self.settling.settle(here))
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
