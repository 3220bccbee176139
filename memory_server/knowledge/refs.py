"""Refs: long texts that stay out of a model's context; it keeps a summary and an id (seed 004)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any
from uuid import uuid4

from languages import _, joined
from memory_server.kernel.errors import InvalidInput, MemoryNotFound
from memory_server.kernel.items import Scope
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.other_words import other_words_of
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import (
    Archive,
    Entry,
    Filter,
    Hit,
    Hits,
    Operation,
    Query,
    Share,
    usable,
)
from memory_server.knowledge.options import NAMESPACES, Namespace, RefSettings
from memory_server.knowledge.policies import expired, over_limit, to_archive, to_keep
from memory_server.knowledge.ports import Committed, Decided, EntryStore, ScopeView
from memory_server.knowledge.ranking import RefScorer, ScoredRef, best_first, why_of, words_held
from nlp.index_terms import IndexTerm, sought_in

ID_CHARS = 16
"""The hexadecimal digits of an id."""
LEAST_ID_CHARS = 6
"""The digits of a beginning that is enough where only one id has it."""
_ID = re.compile(f"[0-9a-f]{{{LEAST_ID_CHARS},{ID_CHARS}}}")
_ENDS = re.compile(r"\s|(?<=[。！？!?.])")


@dataclass(frozen=True, slots=True, kw_only=True)
class RefOptions(RefSettings):
    """`page_bytes`: JSON of a page of a content. `store`: where refs are, if not where all knowledge is; their changes
    then have no id."""

    page_bytes: int = 30_000
    store: EntryStore | None = None


@dataclass(eq=False)
class Refs:
    """The refs.

    `refuse` raises where nothing may be stored now.
    """

    store: EntryStore
    clock: Callable[[], int]
    options: RefOptions = field(default_factory=RefOptions)
    refuse: Callable[[], None] = lambda: None
    secrets: SecretFilter = SecretFilter()

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
        """Store a text. The result is the number of characters that were cut off. The oldest refs above the limit go
        into the archive. Raise InvalidInput if the content is empty, the namespace unknown, or a value out of its
        bounds; MemoryPaused if the memory is paused; NothingToKeep if all of it is private or recalled."""
        bounds = self.options.bounds(_checked(namespace))
        if importance is not None and not 0 <= importance <= 1:
            raise InvalidInput(
                "The importance is a number from 0 to 1, not {importance:g}; correct or leave it out.",
                importance,
            )

        self.refuse()
        text = to_keep(self.secrets.of(without_surrogates(content)))
        body = text[: bounds.content_chars]
        cut_chars = len(text) - len(body)

        now_ms = self.clock()
        ref = Entry(
            body,
            title=summary_of(body, self.options.summary_chars),
            ref=uuid4().hex[:ID_CHARS],
            tags=self.secrets.of(tuple(tags)),
            metadata=self.secrets.of(dict(metadata or {})),
            source=self.secrets.of(source),
            importance=importance,
            created_ms=now_ms,
            updated_ms=now_ms,
            expires_ms=now_ms + round(bounds.days * DAY_MS),
        )

        usable_ref = usable(ref, "refs", most_chars=bounds.content_chars)
        # A content that begins with white space may have a blank summary until here.
        ref_with_summary = self.with_summary(usable_ref)

        def decide(view: ScopeView) -> Decided[int]:
            refs_above = over_limit(view, bounds.entries, coming=1)
            return [ref_with_summary, *to_archive(refs_above, now_ms)], cut_chars

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
        """Return the refs that hold words of the query, or words that begin so, best first, and their number above the
        least score; then the refs that only `other_words` find. Single Latin letters and digits count only if the query
        has nothing else. A query that is an id, or the beginning of exactly one id, returns that ref. Raise
        InvalidInput if the query is empty, the namespace unknown, or the other words are too many or too long."""
        query = without_surrogates(query).strip()
        if not query:
            raise InvalidInput("The query is empty; give words, or a referenceId.")

        namespaces: Sequence[Namespace] = NAMESPACES
        if namespace is not None:
            namespaces = [_checked(namespace)]

        # A model often searches for an id that it has seen.
        named = await self._named(query, namespaces)
        if len(named) == 1:
            name, entry = named[0]
            named_hit = Hit(
                entry, 1.0, matched={}, scope=_scope(name), score=1.0, why=_("it has this id")
            )
            return Hits((named_hit,), 1)

        now_ms = self.clock()
        counted = _counted_terms(query)
        words = " ".join(term.word for term in counted)
        words_query = Query(
            words or query,
            Filter(tags=tuple(map(without_surrogates, tags)), unexpired_at_ms=now_ms),
            limit=100,
            other_words=other_words_of(other_words, ()).texts,
        )
        scoring = RefScorer(
            words_query, max(1, len(counted)), now_ms=now_ms, least=self.options.min_score
        )

        refs: list[ScoredRef] = []
        for name in namespaces:
            refs += await self._scored(scoring, _scope(name))

        best = best_first(refs)
        most = self.options.top_k if limit is None else limit
        hits = []
        # Only refs that are shown are read whole: their texts may be long.
        for ref in best[:most]:
            hit = await self._hit_of(ref, scoring, counted)
            if hit is not None:
                hits.append(hit)
        return Hits(tuple(hits), len(best))

    async def _scored(self, scoring: RefScorer, scope: Scope) -> list[ScoredRef]:
        """Return the refs of a scope that the scoring finds."""
        shares = await self.store.read(scope, lambda view: _shares(view, scoring.query))
        scored = [scoring.scored(share, scope) for share in shares]
        return [ref for ref in scored if ref is not None]

    async def _hit_of(
        self, ref: ScoredRef, scoring: RefScorer, counted: Sequence[IndexTerm]
    ) -> Hit | None:
        """Return the hit of a ref, or None if another process has just removed it."""
        entry = await self.store.read(ref.scope, lambda view: view.get(id=ref.share.id))
        if entry is None:
            return None
        hit = Hit(
            self.with_summary(entry),
            ref.score,
            matched=words_held(ref.share, counted),
            scope=ref.scope,
            score=ref.score,
            other_matched=words_held(ref.share, scoring.others, scoring.first_other),
            by_other_words=ref.by_other_words,
        )
        parts = [_(name) + f" {part:.3f}" for name, part in ref.parts.items() if part]
        why = joined("; ", (why_of(hit, title=_("summary")), joined(", ", parts)))
        return replace(hit, why=why)

    async def get(self, ref: str) -> tuple[Namespace, Entry]:
        """Return the ref of this id, or of the only id that begins so.

        Raises:
            MemoryNotFound: it does not exist or has expired. InvalidInput: several ids begin so.
        """
        named = await self._named(ref.strip(), NAMESPACES)
        if len(named) > 1:
            raise InvalidInput(
                "Several ids begin with {ref}; write more digits of the id.", ref.strip()
            )
        if not named:
            raise MemoryNotFound(
                "There is no reference {ref}; memorySearch finds references by words.", shown(ref)
            )
        return named[0]

    async def count(self, namespace: Namespace) -> int:
        """Count the refs that a search can find."""
        where = Filter(unexpired_at_ms=self.clock())
        return await self.store.read(_scope(namespace), lambda view: view.count(where))

    async def delete(self, ref: str, *, by: str = "api") -> tuple[Entry, str | None]:
        """Put a ref into the archive. Return the ref and the id of the change. Raise as `get`."""
        namespace, entry = await self.get(ref)
        _, change_id = await self._archive(
            namespace, lambda _: [entry.id], operation="delete", by=by
        )
        return entry, change_id

    async def clear(self, namespace: Namespace, *, by: str = "api") -> tuple[int, str | None]:
        """Put all refs of a namespace into the archive. Return their number and the id of the change (None without
        any)."""
        return await self._archive(
            _checked(namespace), lambda view: view.ids(Filter()), operation="clear", by=by
        )

    async def clean_up(
        self, namespace: Namespace, *, by: str = "cleanup"
    ) -> tuple[int, str | None]:
        """Archive the expired refs of a namespace, or if none exist, those above its limit.
        Return their number and the id of the change (None without any)."""

        def decide(view: ScopeView) -> Decided[None]:
            now_ms = self.clock()
            due = expired(view, now_ms) or over_limit(view, self.options.bounds(namespace).entries)
            return to_archive(due, now_ms), None

        committed = await self.store.commit(_scope(namespace), decide, Operation("cleanup", by))
        return len(committed.entries), committed.change_id

    async def _archive(
        self,
        namespace: Namespace,
        chosen: Callable[[ScopeView], list[int]],
        operation: str,
        by: str,
    ) -> tuple[int, str | None]:
        """Archive the refs that `chosen` returns, without reading their texts, which may be many
        and long. Return their number, and the id of the change (None without any)."""

        def decide(view: ScopeView) -> Decided[int]:
            changes = [Archive(entry_id, "deleted", self.clock()) for entry_id in chosen(view)]
            return changes, len(changes)

        committed = await self.store.commit(_scope(namespace), decide, Operation(operation, by))
        return committed.result, committed.change_id

    async def _named(
        self, text: str, namespaces: Sequence[Namespace]
    ) -> list[tuple[Namespace, Entry]]:
        """Return the refs whose id begins with `text`, if it can be the beginning of an id; at most two of each
        namespace."""
        if not _ID.fullmatch(text):
            return []
        where = Filter(ref_prefix=text, unexpired_at_ms=self.clock())
        named: list[tuple[Namespace, Entry]] = []
        for namespace in namespaces:
            entries = await self.store.read(
                _scope(namespace), lambda view: view.entries(where, limit=2)
            )
            named += [(namespace, self.with_summary(entry)) for entry in entries]
        return named

    def with_summary(self, entry: Entry) -> Entry:
        """Return `entry` with a summary: its own, or the beginning of its text."""
        if entry.title:
            return entry
        return replace(entry, title=summary_of(entry.body.lstrip(), self.options.summary_chars))


def summary_of(text: str, most_chars: int) -> str:
    """Return the beginning of a text: at most `most_chars` characters, ended at the last space or end of a sentence in
    its last fifth, if there is one."""
    if len(text) <= most_chars:
        return text
    summary = text[:most_chars]
    ends = [match.end() for match in _ENDS.finditer(summary, most_chars * 4 // 5)]
    if ends:
        summary = summary[: ends[-1]]
    return summary.rstrip()


def _counted_terms(query: str) -> tuple[IndexTerm, ...]:
    """Return the terms of a query that count: without single Latin letters and digits, unless it has nothing else."""
    terms = sought_in(query)
    telling = tuple(term for term in terms if len(term.word) > 1 or not term.word.isascii())
    return telling or terms


def _shares(view: ScopeView, query: Query) -> list[Share]:
    """Return which terms of a query each entry of the scope holds, in no order."""
    if sought_in(query.text):
        return view.shares(query)
    # Only punctuation, such as `->`: the text as it is written is the one term.
    hits = view.search(replace(query, other_words=())).hits
    shares = {hit.entry.id: _share_of_text(hit.entry, query.text) for hit in hits}
    if query.other_words:
        for share in view.shares(query):
            own = shares.get(share.id, share._replace(title=0, tags=0, body=0))
            shares[share.id] = _with_bits_of(own, share)
    return list(shares.values())


def _share_of_text(entry: Entry, text: str) -> Share:
    return Share(entry.id, entry.created_ms, entry.importance, text in entry.title, 0, 1)


def _with_bits_of(own: Share, other: Share) -> Share:
    """Add the bits of other words to a share whose first bit is the text of the query."""
    return own._replace(
        title=own.title | other.title << 1,
        tags=own.tags | other.tags << 1,
        body=own.body | other.body << 1,
    )


def _checked(namespace: Namespace) -> Namespace:
    """Return the namespace. Raise InvalidInput if it does not exist."""
    if namespace not in NAMESPACES:
        raise InvalidInput(
            "`{namespace}` is not a namespace; use short-term or long-term.", namespace
        )
    return namespace


def _scope(namespace: Namespace) -> Scope:
    return Scope("refs", namespace)
