"""Refs: long texts that stay out of a model's context; it keeps a summary and an id (seed 004)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import methodcaller
from typing import Any
from uuid import uuid4

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, MemoryServerError
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS
from memory_server.knowledge.entry import Archive, Change, Entry, Filter, Hit, Hits, Operation, Query, Share, usable
from memory_server.knowledge.options import NAMESPACES, Namespace, RefSettings
from memory_server.knowledge.policies import expired, over_limit, to_archive, to_keep
from memory_server.knowledge.ports import Committed, EntryStore, ScopeView
from memory_server.knowledge.ranking import why_of
from memory_server.knowledge.ref_ranking import RefScoring, ScoredRef, best_first, words_held
from nlp.index_terms import sought_in
from sandbox.locale import _, joined

log = logging.getLogger(__name__)
ID_CHARS, LEAST_ID_CHARS = 16, 6
"""Hexadecimal digits of an id, and of a beginning that is enough where only one id has it."""
_ID = re.compile(f"[0-9a-f]{{{LEAST_ID_CHARS},{ID_CHARS}}}")
_SUMMARIZED_AT_ONCE = 20
"""Refs that get a summary in one commit: each may have 500,000 characters."""
_ENDS = re.compile(r"\s|(?<=[。！？!?.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefOptions(RefSettings):
    """`page_bytes`: JSON of a page of a content. `store`: where refs are, if not where all knowledge is; their changes
    then have no id."""

    page_bytes: int = 30_000
    store: EntryStore | None = None


@dataclass(eq=False)
class Refs:
    """The refs in `store`. `refuse` raises where nothing may be stored now."""

    store: EntryStore
    clock: Callable[[], int]
    options: RefOptions = field(default_factory=RefOptions)
    refuse: Callable[[], None] = lambda: None
    _summarized: bool = field(default=False, init=False)

    async def add(
        self,
        content: str,
        namespace: Namespace = "short-term",
        *,
        tags: Sequence[str] = (),
        source: str | None = None,
        importance: float | None = None,
        metadata: Mapping[str, Any] | None = None,
        by: str = "api",
    ) -> Committed[int]:
        """Store a text; the result is how many characters were above the bound of its namespace, and cut off. The
        oldest refs above the bound of the number go into the archive. Raises InvalidInput: the content is empty, the
        namespace unknown, or a value out of its bounds. MemoryPaused: the memory is paused. NothingToKeep: all of it is
        private or recalled."""
        bounds = self.options.bounds(_known(namespace))
        if importance is not None and not 0 <= importance <= 1:
            raise InvalidInput(
                "The importance is a number from 0 to 1, not {importance:g}; correct or leave it out.", importance
            )
        self.refuse()
        kept = to_keep(without_surrogates(content))
        body, now_ms = kept[: bounds.content_chars], self.clock()
        given = Entry(
            body,
            title=summary_of(body, self.options.summary_chars),
            ref=uuid4().hex[:ID_CHARS],
            tags=tuple(tags),
            metadata=dict(metadata or {}),
            source=source,
            importance=importance,
            created_ms=now_ms,
            updated_ms=now_ms,
            expires_ms=now_ms + round(bounds.days * DAY_MS),
        )
        entry = self.with_summary(usable(given, "refs", most_chars=bounds.content_chars))

        def decide(held: ScopeView) -> tuple[Sequence[Change], int]:
            above = to_archive(over_limit(held, bounds.entries, coming=1), now_ms)
            return [entry, *above], len(kept) - len(body)

        return await self.store.commit(_scope(namespace), decide, Operation("add", by))

    async def search(
        self,
        query: str,
        namespace: Namespace | None = None,
        *,
        tags: Sequence[str] = (),
        limit: int | None = None,
        other_words: Sequence[str] = (),
    ) -> Hits:
        """The refs that hold words of the query, or words that begin so, best first, and how many there are above the
        least score; then those that only `other_words` for the same bring above it. Single Latin letters and digits
        count only where there is nothing else. A query that is an id, or the beginning of exactly one, gives that ref.
        Raises InvalidInput: the query is empty, the namespace unknown, or the other words are too many or too long."""
        query = without_surrogates(query).strip()
        if not query:
            raise InvalidInput("The query is empty; give words, or a referenceId.")
        namespaces = NAMESPACES if namespace is None else (_known(namespace),)
        await self._summarize_once()
        if len(named := await self._named(query, namespaces)) == 1:
            ((name, entry),) = named
            return Hits((Hit(entry, 1.0, {}, _scope(name), 1.0, _("it has this id")),), 1)
        now_ms, wanted = self.clock(), tuple(map(without_surrogates, tags))
        sought = sought_in(query)
        sought = tuple(each for each in sought if len(each.word) > 1 or not each.word.isascii()) or sought
        words = " ".join(each.word for each in sought)
        others = other_words_of(other_words, ()).texts
        asked = Query(words or query, Filter(tags=wanted, unexpired_at_ms=now_ms), limit=100, other_words=others)
        scoring = RefScoring(asked, max(1, len(sought)), now_ms, self.options.min_score)
        refs: list[ScoredRef] = []
        for name in namespaces:
            shares = await self.store.read(_scope(name), lambda held: _shares(held, asked))
            scored = (scoring.scored(share, _scope(name)) for share in shares)
            refs += [ref for ref in scored if ref is not None]
        best = best_first(refs)
        found = []
        for ref in best[: self.options.top_k if limit is None else limit]:
            there: Entry | None = await self.store.read(ref.scope, methodcaller("get", id=ref.share.id))
            if there is not None:  # another process may have removed it just now
                hit = Hit(
                    self.with_summary(there),
                    ref.score,
                    words_held(ref.share, sought),
                    ref.scope,
                    ref.score,
                    other_matched=words_held(ref.share, scoring.others, scoring.first_other),
                    by_other_words=ref.by_other_words,
                )
                added = (_(what) + f" {part:.3f}" for what, part in ref.parts.items() if part)
                why = joined("; ", (why_of(hit, title=_("summary")), joined(", ", added)))
                found.append(replace(hit, why=why))
        return Hits(tuple(found), len(best))

    async def get(self, ref: str) -> tuple[Namespace, Entry]:
        """The ref of this id, or of the only id that begins so.

        Raises:
            MemoryNotFound: it does not exist or has expired. InvalidInput: several ids begin so.
        """
        named = await self._named(ref.strip(), NAMESPACES)
        if len(named) > 1:
            raise InvalidInput("Several ids begin with {ref}; write more digits of the id.", ref.strip())
        if not named:
            raise MemoryNotFound("There is no reference {ref}; memorySearch finds references by words.", shown(ref))
        return named[0]

    async def count(self, namespace: Namespace) -> int:
        """How many refs a search can find."""
        where = Filter(unexpired_at_ms=self.clock())
        return await self.store.read(_scope(namespace), lambda held: held.count(where))

    async def delete(self, ref: str, *, by: str = "api") -> tuple[Entry, str | None]:
        """Put a ref into the archive; it, and the id of the change. Raises as `get`."""
        namespace, entry = await self.get(ref)
        _, change_id = await self._archive(namespace, lambda _: [entry.id], "delete", by)
        return entry, change_id

    async def clear(self, namespace: Namespace, *, by: str = "api") -> tuple[int, str | None]:
        """Put all refs of a namespace into the archive; how many, and the id of the change."""
        return await self._archive(_known(namespace), lambda held: held.ids(Filter()), "clear", by)

    async def clean_up(self, namespace: Namespace, *, by: str = "cleanup") -> tuple[int, str | None]:
        """Put into the archive what is over or too much; how many, and the id of the change."""

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            now_ms = self.clock()
            due = expired(held, now_ms) or over_limit(held, self.options.bounds(namespace).entries)
            return to_archive(due, now_ms), None

        done = await self.store.commit(_scope(namespace), decide, Operation("cleanup", by))
        return len(done.entries), done.change_id

    async def _archive(
        self, namespace: Namespace, chosen: Callable[[ScopeView], list[int]], operation: str, by: str
    ) -> tuple[int, str | None]:
        """Without reading the texts, which may be many and long."""

        def decide(held: ScopeView) -> tuple[Sequence[Change], int]:
            changes = [Archive(each, "deleted", self.clock()) for each in chosen(held)]
            return changes, len(changes)

        done = await self.store.commit(_scope(namespace), decide, Operation(operation, by))
        return done.result, done.change_id

    async def _named(self, text: str, namespaces: Sequence[Namespace]) -> list[tuple[Namespace, Entry]]:
        """The refs whose id begins with `text`, if it can be a beginning; two are enough."""
        if not _ID.fullmatch(text):
            return []
        where = Filter(ref_prefix=text, unexpired_at_ms=self.clock())
        found = [
            (name, await self.store.read(_scope(name), lambda held: held.entries(where, limit=2)))
            for name in namespaces
        ]
        return [(name, self.with_summary(entry)) for name, entries in found for entry in entries]

    def with_summary(self, entry: Entry) -> Entry:
        """`entry` with a summary: its own, or the beginning of its text."""
        if entry.title:
            return entry
        return replace(entry, title=summary_of(entry.body.lstrip(), self.options.summary_chars))

    async def summarize(self, *, by: str = "cleanup") -> None:
        """Give a summary to every ref without one: an earlier version imported such refs.

        Raises StorageError: it cannot be written.
        """
        for namespace in NAMESPACES:
            while await self._summarize_some(namespace, by):
                pass
        self._summarized = True

    async def _summarize_some(self, namespace: Namespace, by: str) -> int:
        untitled = Filter(archived=None, untitled=True)
        if not await self.store.read(_scope(namespace), lambda held: held.count(untitled)):
            return 0

        def decide(held: ScopeView) -> tuple[Sequence[Change], int]:
            entries = map(self.with_summary, held.entries(untitled, limit=_SUMMARIZED_AT_ONCE))
            changes = [entry for entry in entries if entry.title]
            return changes, len(changes)

        return (await self.store.commit(_scope(namespace), decide, Operation("update", by))).result

    async def _summarize_once(self) -> None:
        """Before the first search of this process: a search counts the words of summaries."""
        if self._summarized:
            return
        self._summarized = True
        try:
            await self.summarize(by="memorySearch")
        except MemoryServerError as error:
            log.warning("refs without a summary are found by their text only: %s", error)


def summary_of(text: str, most_chars: int) -> str:
    """The beginning of a text: at most `most_chars` characters, ended at the last space or end of a sentence in the
    last fifth, if there is one."""
    if len(text) <= most_chars:
        return text
    cut = text[:most_chars]
    ends = [each.end() for each in _ENDS.finditer(cut, most_chars * 4 // 5)]
    return (cut[: ends[-1]] if ends else cut).rstrip()


def _shares(held: ScopeView, query: Query) -> list[Share]:
    if sought_in(query.text):
        return held.shares(query)
    # Only punctuation, such as `->`: the text as it is written is the one term.
    found = (hit.entry for hit in held.search(replace(query, other_words=())).hits)
    shares = {
        each.id: Share(each.id, each.created_ms, each.importance, query.text in each.title, 0, 1) for each in found
    }
    for share in held.shares(query) if query.other_words else ():
        own = shares.get(share.id, share._replace(title=0, tags=0, body=0))
        fields = {name: getattr(own, name) | getattr(share, name) << 1 for name in ("title", "tags", "body")}
        shares[share.id] = own._replace(**fields)
    return list(shares.values())


def _known(namespace: Namespace) -> Namespace:
    if namespace not in NAMESPACES:
        raise InvalidInput("`{namespace}` is not a namespace; use short-term or long-term.", namespace)
    return namespace


def _scope(namespace: Namespace) -> Scope:
    return Scope("refs", namespace)
