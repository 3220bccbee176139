"""Notes: technique, decisions and facts under a topic, found by words, and shown as pages (seed 000)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from functools import partial
from typing import Literal, TypeVar
from uuid import uuid4

from languages import _, counted
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import without_recalled
from memory_server.kernel.text import shown
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import (
    Entry,
    Filter,
    Hit,
    Hits,
    Operation,
    Query,
    archived,
    live,
    usable,
)
from memory_server.knowledge.notes import duplicates
from memory_server.knowledge.notes.duplicates import ReindexedNotes, notes_to_reindex, reindex_plan
from memory_server.knowledge.notes.pages import KINDS, Kind, page
from memory_server.knowledge.notes.settling import (
    NOTES,
    OF_PROJECTS,
    AssignmentResult,
    NoteAssigner,
    assigning,
)
from memory_server.knowledge.policies import Options, to_keep
from memory_server.knowledge.ports import Committed, Decide, Decided, EntryStore, ScopeView
from memory_server.knowledge.projects import Project, shown_names
from memory_server.knowledge.ranking import RERANKED, by_relevance
from nlp.index_terms import index_form

_PAGES_SECONDS = 2.0
"""The time that pages wait for the next change after one."""


@dataclass(eq=False)
class PagePublisher:
    """Writes the pages of `make_pages` with `publish`."""

    make_pages: Callable[[], Awaitable[Mapping[Kind, str]]]
    publish: Callable[[Mapping[Kind, str]], None]
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def changed(self) -> None:
        """Make the pages of the changed notes in a while."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._write_later())

    async def aclose(self) -> None:
        """Bring the pages up to date that are still to be made; idempotent."""
        if self._waiting is None:
            return
        self._waiting.cancel()
        with suppress(asyncio.CancelledError):
            await self._waiting
        self._waiting = None
        await self._write()

    async def _write_later(self) -> None:
        """Write the pages after a pause, so that several changes are written at once."""
        await asyncio.sleep(_PAGES_SECONDS)
        self._waiting = None
        await self._write()

    async def _write(self) -> None:
        """Make the pages and publish them; log a warning if that fails."""
        try:
            await asyncio.to_thread(self.publish, await self.make_pages())
        except (InvalidInput, StorageError) as error:
            log.warning("the pages of notes are not current: %s", error)


T = TypeVar("T")
log = logging.getLogger(__name__)
_SIMILAR = 20
"""The most notes that are compared with a new one: what 10,000 notes need in 10 ms."""


@frozen
class Remembered:
    """The outcome of `remember`. `similar`: how many other notes of the type say nearly the same."""

    action: Literal["created", "updated"]
    similar: int


@dataclass(eq=False)
class Notes:
    """The notes. `project` is the caller's; if it is None, the options name it. A caller without a project sees the
    notes of all projects, if it asks for them."""

    store: EntryStore
    clock: Callable[[], int]
    options: Options = field(default_factory=Options)
    settling: NoteAssigner = field(init=False)

    def __post_init__(self) -> None:
        self.settling = NoteAssigner(
            self.store, self.options.is_elsewhere, refuse=self.options.refuse, clock=self.clock
        )
        self._publisher: PagePublisher | None = None
        if self.options.publish is not None:
            self._publisher = PagePublisher(partial(self.pages, stable=True), self.options.publish)

    def project_of(self, given: Project | None = None) -> Project | None:
        """Return the project of a caller, or None if it is not known."""
        project = given or self.options.here
        if project is None and self.options.project:
            return Project(self.options.project)
        return project

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
        """Store a note. It replaces the note of the same topic, type and project, whose former text stays in the
        history. Private parts and recalled memories are left out.

        Raises:
            InvalidInput: the type is unknown, the topic or the content empty, something too long, or the note is of a
                project and none is known.
            MemoryPaused: the memory is paused. NothingToKeep: all of it is private or recalled.
        """
        _check(kind)
        self.options.refuse()
        secrets = self.options.secrets
        topic = secrets.of(" ".join(without_surrogates(topic).split()))
        if not index_form(topic).strip():
            raise InvalidInput("The topic is empty; give a title such as `error handling`.")

        caller_project = self.project_of(project)
        if kind == "project-tech" and caller_project is None and self.options.needs_project:
            raise InvalidInput(
                "No project is known here, so this note would come in all of them; start the server in the folder "
                "of the project, set knowledge.project, or give another type."
            )

        project_key = ""
        if caller_project is not None and kind == "project-tech":
            project_key = caller_project.key
        note = usable(
            Entry(
                secrets.of(to_keep(content)),
                ref=str(uuid4()),
                kind=kind,
                project=project_key,
                key=index_form(topic),
                title=topic,
                tags=secrets.of(tuple(tags)),
                examples=tuple(
                    secrets.of(without_recalled(without_private(example))) for example in examples
                ),
                source=secrets.of(source),
            )
        )

        if note.project and caller_project is not None:
            # Otherwise the note would not replace the same note from before projects had keys.
            await self.settling.settle(caller_project)
        similar = await self._similar_to(note)
        now_ms = self.clock()

        def decide(view: ScopeView) -> Decided[Remembered]:
            """Store the note as a new one, or as the text of the note of the same topic, which
            counts as used."""
            present = view.keyed(note.kind, note.project, note.key or "")
            if present is None:
                return [replace(note, created_ms=now_ms, updated_ms=now_ms)], Remembered(
                    "created", similar
                )

            changed = replace(
                present,
                title=note.title,
                body=note.body,
                tags=note.tags,
                examples=note.examples,
                source=note.source,
                # A note that is told again counts as used.
                uses=present.uses + 1,
                updated_ms=now_ms,
            )
            return [changed], Remembered("updated", similar)

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
        """Return the notes that hold words of `query`, best first, then the notes that only `other_words` find. Without
        both, return all notes, the most certain and most used first. Each returned note counts one reference, unless
        `reinforce` is False. With `unasked`, only notes without a project are returned if the project is not known.
        Raise InvalidInput if there are too many other words, or a word is too long."""
        other_texts = other_words_of(other_words, ()).texts
        where = await self._where(kind, tags, project)
        if unasked and where.projects is None:
            where = replace(where, projects=("",))

        if not (query.strip() or other_texts):
            return await self._all(where, limit, offset)

        words = Query(
            without_surrogates(query),
            where,
            # Uses may lift a note into this page, so more hits than the page are ranked.
            limit=max(RERANKED, offset + limit),
            least_share=self.options.least_share,
            other_words=other_texts,
        )
        matches = await self.store.read(NOTES, lambda view: view.search(words))
        ranked = by_relevance(matches.hits, boosted=True)
        page_of_hits = tuple(ranked[offset : offset + limit])

        if reinforce:
            try:
                await self.store.count_use([hit.entry.id for hit in page_of_hits], self.clock())
            except StorageError as error:
                log.warning("the use of notes was not counted: %s", error)
        return replace(matches, hits=page_of_hits)

    async def _all(self, where: Filter, limit: int, offset: int) -> Hits:
        """Return a page of the notes that meet a condition, the most certain and most used first."""

        def read(view: ScopeView) -> Hits:
            notes = view.entries(where, order="best", limit=limit, offset=offset)
            hits = tuple(
                Hit(note, 0.0, matched=NOTHING, scope=NOTES, why=_("no query")) for note in notes
            )
            return Hits(hits, view.count(where))

        return await self.store.read(NOTES, read)

    async def get(self, note_id: int | str) -> Entry:
        """Return the note of this number or id, live or archived. Raise MemoryNotFound."""
        return await self.store.read(NOTES, lambda view: _existing(view, note_id))

    async def edit(
        self,
        note_id: int | str,
        *,
        find: str = "",
        replacement: str = "",
        append: str = "",
        by: str = "api",
    ) -> Committed[None]:
        """Replace `find`, which the content must have once, by `replacement`, and add the lines of `append`. The former
        text stays in the history.

        Raises:
            MemoryNotFound: no such live note exists. InvalidInput: nothing is to be changed, the content has `find`
            not at all or several times, or it would be empty or too long. MemoryPaused, NothingToKeep: as `remember`.
        """
        if not find and not append.strip():
            raise InvalidInput("Nothing is to be changed; give `find` with `replace`, or `append`.")

        self.options.refuse()
        new_text = self.options.secrets.of(to_keep(replacement))
        appended_text = self.options.secrets.of(to_keep(append))

        def decide(view: ScopeView) -> Decided[None]:
            """Change the text of the note as it is now. Raises MemoryNotFound if it is deleted,
            InvalidInput if it does not have `find` exactly once, or would be empty or too long."""
            note = _existing(view, note_id)
            if note.archived_ms is not None:
                raise MemoryNotFound(
                    "The note {title} was deleted; `remember` stores it as a new one.", note.title
                )
            body = note.body
            if find:
                _check_once(note, find)
                body = body.replace(find, new_text)
            if appended_text.strip():
                body = f"{body.rstrip()}\n{appended_text}"
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
        """Return a page of the notes, by type and topic, and their number. No reference is counted."""
        where = await self._where(kind, tags, project)

        def read(view: ScopeView) -> tuple[list[Entry], int]:
            return view.entries(where, order="title", limit=limit, offset=offset), view.count(where)

        return await self.store.read(NOTES, read)

    async def delete(self, note_id: int | str, *, by: str = "api") -> str | None:
        """Put a note into the archive. Return the id of the change.

        Raises:
            MemoryNotFound: it does not exist. InvalidInput: it is there already.
        """

        def decide(view: ScopeView) -> Decided[None]:
            note = _existing(view, note_id)
            if note.archived_ms is not None:
                raise InvalidInput(
                    "The note {title} is in the archive already; nothing was changed.", note.title
                )
            return [archived(note, "deleted", self.clock())], None

        return (await self._commit(decide, "delete", by)).change_id

    async def restore(self, note_id: int | str, *, by: str = "api") -> str | None:
        """Bring a note back out of the archive. Return the id of the change.

        Raises:
            MemoryNotFound: it does not exist.
            InvalidInput: it is not in the archive, or another note has its topic now.
        """

        def decide(view: ScopeView) -> Decided[None]:
            note = _existing(view, note_id)
            if note.archived_ms is None:
                raise InvalidInput(
                    "The note {title} is not in the archive; nothing was changed.", note.title
                )
            return [live(note)], None

        return (await self._commit(decide, "restore", by)).change_id

    async def project_names(self) -> Mapping[str, str]:
        """Return the shown name of each project that has a note, by its key."""
        return shown_names(await self.project_counts())

    async def project_counts(self) -> Mapping[str, int]:
        """Count the notes of each project, including the archive, by its key."""
        counts = await self.store.read(NOTES, lambda view: view.counted("project", OF_PROJECTS))
        return {key: count for key, count in counts.items() if key}

    async def hint_of_waiting(self, project: Project | None = None) -> str | None:
        """Return a sentence for each bare name of a folder with notes that may belong to this
        project, and how to assign them, or None if there are no such notes or no project is known."""
        caller_project = self.project_of(project)
        counts = (
            {} if caller_project is None else await self.settling.counts_waiting(caller_project)
        )
        sentences = [
            _(
                "{notes} from before have only the name `{name}`, which several folders have; in the folder that they "
                "are of, run `memory-server knowledge assign {name}`.",
                counted(count, "note"),
                name,
            )
            for name, count in counts.items()
        ]
        return " ".join(sentences) if sentences else None

    async def assign(
        self,
        chosen: Callable[[ScopeView], Sequence[Entry]],
        key: str,
        *,
        dry_run: bool = False,
        by: str = "api",
    ) -> Committed[AssignmentResult]:
        """Move the chosen notes to the project `key`, except notes whose place a note of that
        project has; with `dry_run` only return what would be moved."""
        decide = assigning(chosen, key)
        if not dry_run:
            return await self._commit(decide, "assign", by)
        _changes, outcome = await self.store.read(NOTES, decide)
        return Committed(outcome, (), None)

    async def pages(
        self, *, stable: bool = False, project: Project | None = None
    ) -> dict[Kind, str]:
        """Return the page of each type, with the notes that a call for `project` sees. A `stable` page changes only
        with an edit."""
        where = await self._where(None, (), project)
        notes = await self.store.read(NOTES, lambda view: view.entries(where, order="best"))
        pages: dict[Kind, str] = {}
        for kind in KINDS:
            notes_of_kind = [note for note in notes if note.kind == kind]
            pages[kind] = page(kind, notes_of_kind, stable=stable)
        return pages

    async def reindex(self, *, dry_run: bool = False, by: str = "api") -> ReindexedNotes:
        """Copy the database, merge notes that say the same, remove deleted notes for good, and build the index
        again; `dry_run` only returns the plan. Merged notes stay in the archive for its time, so that a merge can be
        undone. Raises StorageError if the database is read-only, damaged or cannot be written."""
        now_ms = self.clock()
        merged_by_ms = now_ms - self.options.keep_ms
        notes = await self.store.read(NOTES, lambda view: notes_to_reindex(view, merged_by_ms))
        plan = await asyncio.to_thread(reindex_plan, notes, now_ms)
        if dry_run:
            return plan.report
        copy = await self.store.set_aside()
        purged = await self._commit(plan.purge, "purge", by)
        merged = await self._commit(plan.merge, "merge", by)
        await self.store.rebuild()
        return replace(plan.report, removed=purged.result, copy=copy, change_id=merged.change_id)

    async def aclose(self) -> None:
        """Bring the pages up to date that are still to be made; idempotent."""
        if self._publisher is not None:
            await self._publisher.aclose()

    def changed(self) -> None:
        """Make the pages that are kept current again in a while, because notes were changed."""
        if self._publisher is not None:
            self._publisher.changed()

    async def _where(
        self, kind: Kind | None, tags: Sequence[str], project: Project | None
    ) -> Filter:
        """Return the filter for what a call sees: all projects if none is known, otherwise notes without a project
        and notes of this one, which first gets its notes from before."""
        kinds = () if kind is None else (_check(kind),)
        caller_project = self.project_of(project)
        projects = None
        if caller_project is not None:
            unsettled_keys = await self.settling.settle(caller_project)
            projects = ("", caller_project.key, *unsettled_keys)
        return Filter(kinds, projects, tuple(map(without_surrogates, tags)))

    async def _similar_to(self, note: Entry) -> int:
        """Count the notes of the same kind and project that say the same, without the note itself."""
        text = duplicates.text_of(note)
        where = Filter(kinds=(note.kind,), projects=(note.project,))
        candidates = await self.store.read(NOTES, lambda view: view.alike(text, where, _SIMILAR))
        candidate_texts = [
            duplicates.text_of(candidate) for candidate in candidates if candidate.key != note.key
        ]
        return await asyncio.to_thread(duplicates.count_same, text, candidate_texts)

    async def _commit(self, decide: Decide[T], operation: str, by: str) -> Committed[T]:
        """Commit what `decide` says, and tell the pages if anything changed."""
        committed = await self.store.commit(NOTES, decide, Operation(operation, by))
        if committed.seq is not None:
            self.changed()
        return committed


def _check(kind: Kind) -> Kind:
    """Return the type. Raise InvalidInput if it is unknown."""
    if kind not in KINDS:
        raise InvalidInput(
            "`{kind}` is not a type of notes; use tech, project-tech or domain.", kind
        )
    return kind


def _check_once(note: Entry, text: str) -> None:
    """Raise InvalidInput unless a note has a text exactly once."""
    count = note.body.count(text)
    if count == 1:
        return
    advice = _("read the note by recall")
    if count:
        advice = _("give more of the text around it")
    raise InvalidInput(
        "`find` is {number} times in the note {title}, and it must be there once; {advice}.",
        count,
        note.title,
        advice,
    )


def _existing(view: ScopeView, note_id: int | str) -> Entry:
    """Return the note of this number or id. Raise MemoryNotFound if it does not exist."""
    note = view.get(id=note_id) if isinstance(note_id, int) else view.get(ref=note_id)
    if note is None:
        raise MemoryNotFound(
            "There is no note {note}; `memory-server knowledge list` shows all notes.",
            shown(str(note_id)),
        )
    return note
