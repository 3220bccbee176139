"""Layers: knowledge of a project and of all projects as Markdown files, which agents and people share (seed 003)."""

from __future__ import annotations

import difflib
import logging
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Literal

from languages import _
from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.items import Scope
from memory_server.kernel.json_text import without_surrogates
from memory_server.kernel.messages import NOTHING
from memory_server.kernel.secrets import SecretFilter
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS, iso_or_none
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import (
    MAX_KEY_CHARS,
    Entry,
    Filter,
    Hit,
    Hits,
    Operation,
    Purge,
    Query,
    Reason,
    live,
    usable,
)
from memory_server.knowledge.options import LayerSettings
from memory_server.knowledge.policies import MOST_AT_ONCE, refuse_worker, to_archive, to_keep
from memory_server.knowledge.ports import Committed, Decided, EntryFolder, EntryStore, ScopeView
from memory_server.knowledge.ranking import LEAST_SHARE, by_relevance

log = logging.getLogger(__name__)
LayerName = Literal["project", "global"]
LAYER = Scope("layers")
_MOST_UNASKED = 50
"""The number of entries that are looked at. Entries that were never used on this machine must not crowd out the others.
"""
_TOOLS = {
    "save": "save_to_{}memory",
    "retrieve": "retrieve_from_{}memory",
    "get": "get_{}memory_entry",
    "list": "list_{}memory_entries",
    "delete": "delete_{}memory_entry",
    "summary": "get_{}memory_summary",
    "search_archive": "search_{}memory_archive",
    "list_archive": "list_{}memory_archive",
    "restore": "restore_from_{}memory_archive",
    "archive_summary": "get_{}memory_archive_summary",
}


def tool_name(action: str, layer: LayerName) -> str:
    """Return the name of a tool, as in the seed."""
    prefix = "global_" if layer == "global" else ""
    return _TOOLS[action].format(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOptions(LayerSettings):
    """`folders` opens the folder of each layer; a project that is not known has none. `tidy`: whether the daily
    clean-up archives entries; without the toolset, the files may be another program's."""

    folders: Mapping[LayerName, Callable[[], EntryFolder]] = field(default_factory=dict)
    tidy: bool = False
    least_share: float = LEAST_SHARE


@dataclass(eq=False)
class Layer:
    """The entries of a folder.

    `uses` notes when an entry was used, because a look must not change its file. `refuse` raises where nothing may be
    stored now.
    """

    name: LayerName
    folder: EntryFolder
    uses: EntryStore
    clock: Callable[[], int]
    options: LayerOptions = field(default_factory=LayerOptions)
    refuse: Callable[[], None] = lambda: None
    secrets: SecretFilter = SecretFilter()

    def __post_init__(self) -> None:
        self._place = os.path.realpath(self.folder.place)
        self._seen = f"{self._place}#seen"

    async def save(
        self, key: str, content: str, tags: Sequence[str] | None = None, *, by: str = "api"
    ) -> Committed[bool]:
        """Store an entry, or replace the content of this key, and its tags if `tags` is given; the result is whether it
        is new. Others may go into the archive to make room. Raise InvalidInput if the key or the content is empty or
        too long, or if a file that cannot be read has its name; MemoryPaused if the memory is paused; NothingToKeep if
        all of it is private or recalled."""
        self.refuse()
        key = usable_key(key)

        new_tags = None if tags is None else tuple(" ".join(tag.split()) for tag in tags)
        body = to_keep(without_surrogates(content)).replace("\r\n", "\n").strip("\n")
        new = usable(self.secrets.of(Entry(body, key=key, title=key, tags=new_tags or ())))
        now_ms = self._now_ms()

        # Which entries go to make room depends on uses, which are not in the files.
        last_used = await self._last_used()

        def decide(view: ScopeView) -> Decided[bool]:
            """Store a new entry and archive the least used ones to make room, or replace the text
            and tags of the entry of this key. The result is whether it is new."""
            present = view.keyed("", "", key)
            if present is None:
                due = _least_used(view, self.options.max_entries - 1, last_used)
                return [
                    replace(new, created_ms=now_ms, updated_ms=now_ms),
                    *to_archive(due, now_ms),
                ], True
            tags_after = present.tags if new_tags is None else new.tags
            if (present.body, present.tags) == (new.body, tags_after):
                return [present], False  # its file stays as it is, which git sees
            updated_ms = max(now_ms, present.created_ms)
            return [replace(present, body=new.body, tags=tags_after, updated_ms=updated_ms)], False

        committed = await self.folder.commit(LAYER, decide, Operation("save", by))
        await self._note_use([key])
        return committed

    async def retrieve(
        self,
        query: str,
        *,
        tags: Sequence[str] = (),
        limit: int = 10,
        archive: bool = False,
        reinforce: bool = True,
    ) -> Hits:
        """Return the entries that hold words of the query, best first, then the entries that hold it as a part of a
        word, and how many match. Returned entries count as used now, unless `reinforce` is False or they are of the
        `archive`. Raise InvalidInput if the query is empty."""
        query = without_surrogates(query).strip()
        if not query:
            raise InvalidInput(
                "The query is empty; give words, or list all entries with {tool}.",
                self._tool("list"),
            )

        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        words = Query(query, where, limit=limit, least_share=self.options.least_share)
        matches = await self.folder.read(
            LAYER, lambda view: _with_parts(view.search(words), view, words)
        )

        if reinforce and not archive:
            await self._note_use([hit.entry.key or "" for hit in matches.hits])
        return replace(matches, hits=tuple(by_relevance(matches.hits)))

    async def unasked(self, question: str) -> list[Hit]:
        """Return the entries that may come to a conversation without a request, best first. Entries of a project come
        with its repository, so only those come which this user saved, found or read on this machine before. No use is
        counted."""
        matches = await self.retrieve(question, limit=_MOST_UNASKED, reinforce=False)
        if self.folder.project is None:
            return list(matches.hits)
        uses = await self.uses.uses(self._place)
        return [hit for hit in matches.hits if hit.entry.key in uses]

    def file_of(self, entry: Entry) -> str:
        """Return the file of an entry with its layer, such as `project file .multi-agent-mcp/memory/pool.md`."""
        folder = self.folder.place
        if self.folder.project is None:
            shown_folder = Path(*folder.parts[-2:])
        else:
            shown_folder = folder.relative_to(self.folder.project)
        return f"{self.name} file {(shown_folder / entry.ref).as_posix()}"

    async def get(self, key: str) -> Entry:
        """Return the entry of this key, which counts as used now. Raise MemoryNotFound if the layer has no such key;
        the message names close keys, or the archive if it has the entry."""
        key = usable_key(key)
        entry = await self.folder.read(LAYER, lambda view: self._keyed(view, key))
        await self._note_use([key])
        return entry

    async def page(
        self, *, tags: Sequence[str] = (), limit: int | None = None, archive: bool = False
    ) -> tuple[list[Entry], int]:
        """Return the entries, last changed first, or the entries of the archive, last archived first; and their number."""
        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        order: Literal["removed", "newest"] = "removed" if archive else "newest"

        def read(view: ScopeView) -> tuple[list[Entry], int]:
            return view.entries(where, order=order, limit=limit), view.count(where)

        return await self.folder.read(LAYER, read)

    async def delete(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Remove the file of an entry, without the archive, and return the entry. Raise
        InvalidInput if the caller is a worker, and MemoryNotFound as `get` does."""
        refuse_worker(self.options, caller, _("deletes entries"))
        key = usable_key(key)

        def decide(view: ScopeView) -> Decided[Entry]:
            entry = self._keyed(view, key)
            return [Purge(entry.id)], entry

        committed = await self.folder.commit(LAYER, decide, Operation("delete", by))
        return committed.result

    async def restore(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Bring back the entry of this key that was archived last; it counts as used now. Others may go into the
        archive to make room. Raise InvalidInput if the caller is a worker or an entry of this key is live, and
        MemoryNotFound if the archive does not have the key."""
        refuse_worker(self.options, caller, _("restores entries"))

        key = usable_key(key)
        now_ms = self._now_ms()

        # To make room, the entry with the oldest use goes.
        last_used = await self._last_used()

        def decide(view: ScopeView) -> Decided[None]:
            """Bring the newest archived entry of the key back, and archive the least used entries
            to make room. Raises InvalidInput if a live entry has the key, MemoryNotFound if none is
            archived."""
            if view.keyed("", "", key) is not None:
                raise InvalidInput(
                    "An entry `{key}` is there already; delete or rename it first.", shown(key)
                )
            archived_entries = view.entries(Filter(archived=True), order="removed")
            entry = next((entry for entry in archived_entries if entry.key == key), None)
            if entry is None:
                advice = _close(key, archived_entries) or _(
                    "{tool} shows all keys.", self._tool("list_archive")
                )
                raise MemoryNotFound(
                    "There is no `{key}` in the archive; {said}", shown(key), advice
                )
            due = _least_used(view, self.options.max_entries - 1, last_used)
            return [live(entry), *to_archive(due, now_ms)], None

        committed = await self.folder.commit(LAYER, decide, Operation("restore", by))
        await self._note_use([key])
        return committed.entry

    async def summary(self, *, archive: bool = False) -> dict[str, Any]:
        """Return figures of all entries of the layer or of its archive; times in ISO form."""
        entries, total = await self.page(archive=archive)
        tags: set[str] = set()
        for entry in entries:
            tags.update(entry.tags)

        if archive:
            folder_name = "archive_dir"
            folder = self.folder.archive
        else:
            folder_name = "storage_dir"
            folder = self.folder.place

        oldest_ms = min((entry.created_ms for entry in entries), default=None)
        newest_ms = max((entry.updated_ms for entry in entries), default=None)
        unreadable = await self.folder.unreadable(archive=archive)

        return {
            "total_entries": total,
            "unique_tags": sorted(tags),
            "tag_count": len(tags),
            folder_name: str(folder),
            "max_entries": self.options.max_entries,
            "ttl_days": self.options.ttl_days,
            "oldest_entry": iso_or_none(oldest_ms),
            "newest_entry": iso_or_none(newest_ms),
            "unreadable": dict(unreadable) or None,
        }

    async def clean_up(
        self, *, dry_run: bool = False, by: str = "cleanup"
    ) -> list[tuple[Entry, Reason]]:
        """Archive entries that were not used for `ttl_days`, at most `MOST_AT_ONCE`; if none exist, those above
        the limit, used longest ago first. With `dry_run` only return them. A file that is seen for the first time
        counts as used now."""
        entries, _total = await self.page()
        uses = await self.uses.uses(self._place)
        last_used = await self._last_used()
        now_ms = self.clock()

        # A file that was not seen before, such as one from git, counts as used today.
        new_keys = [entry.key or "" for entry in entries if entry.key not in last_used]
        if not dry_run:
            await self.uses.mark_used(self._seen, new_keys, now_ms)
        last_used |= dict.fromkeys(new_keys, now_ms)

        # After a leave, the time goes on from the last day on which something was used.
        past_uses_ms = [at_ms for at_ms, _count in uses.values() if at_ms <= now_ms]
        newest_ms = max(past_uses_ms, default=now_ms)
        due_ms = min(now_ms, newest_ms + DAY_MS) - round(self.options.ttl_days * DAY_MS)

        def decide(view: ScopeView) -> Decided[list[tuple[Entry, Reason]]]:
            oldest = view.entries(Filter(), order="oldest")
            old = [entry for entry in oldest if _last_use_of(entry, last_used) <= due_ms]
            due: list[tuple[Entry, Reason]] = [(entry, "expired") for entry in old[:MOST_AT_ONCE]]
            if not due:
                due = _least_used(view, self.options.max_entries, last_used)
            return to_archive(due, self._now_ms()), due

        if dry_run:
            return await self.folder.read(LAYER, lambda view: decide(view)[1])
        committed = await self.folder.commit(LAYER, decide, Operation("cleanup", by))
        return committed.result

    def _now_ms(self) -> int:
        return self.clock() // 1000 * 1000  # files have seconds

    async def _last_used(self) -> dict[str, int]:
        """Return the time at which each key was last used or first seen here, in milliseconds since 1970."""
        seen = await self.uses.uses(self._seen)
        used = await self.uses.uses(self._place)
        last_used: dict[str, int] = {}
        for uses in (seen, used):
            for key, (at_ms, _count) in uses.items():
                last_used[key] = max(at_ms, last_used.get(key, at_ms))
        return last_used

    async def _note_use(self, keys: Sequence[str]) -> None:
        """Note that these entries are used now; log a warning if that cannot be written."""
        try:
            await self.uses.mark_used(self._place, keys, self.clock())
        except StorageError as error:
            log.warning("the use of entries was not noted: %s", error)

    def _keyed(self, view: ScopeView, key: str) -> Entry:
        """Return the live entry of a key. Raise MemoryNotFound if no live entry has it."""
        entry = view.keyed("", "", key)
        if entry is not None:
            return entry
        if any(archived.key == key for archived in view.entries(Filter(archived=True))):
            advice = _("it is in the archive, and {tool} brings it back.", self._tool("restore"))
        else:
            advice = _close(key, view.entries(Filter())) or _(
                "{tool} shows all keys.", self._tool("list")
            )
        raise MemoryNotFound("There is no entry `{key}`; {said}", shown(key), advice)

    def _tool(self, action: str) -> str:
        return tool_name(action, self.name)


@dataclass(eq=False)
class Layers:
    """The layers, by name.

    The fields have the same meaning as in `Layer`.
    """

    uses: EntryStore
    clock: Callable[[], int]
    options: LayerOptions
    refuse: Callable[[], None]
    secrets: SecretFilter
    _made: dict[LayerName, Layer] = field(default_factory=dict, init=False)

    def __getitem__(self, name: LayerName) -> Layer:
        """Return a layer, opened at first use. Raise InvalidInput if no project, or no home folder, is known."""
        folders = self.options.folders
        if name not in folders and name == "project":
            raise InvalidInput(
                "No project is known here; start the server in one or set layers.project_dir."
            )

        if name not in folders:
            raise InvalidInput("No home folder is known here; set HOME for the server.")

        if name not in self._made:
            self._made[name] = Layer(
                name,
                folders[name](),
                uses=self.uses,
                clock=self.clock,
                options=self.options,
                refuse=self.refuse,
                secrets=self.secrets,
            )
        return self._made[name]

    @property
    def known(self) -> list[Layer]:
        """The layers that there are."""
        return [self[name] for name in self.options.folders]

    async def promote(self, key: str, *, by: str = "api") -> Entry:
        """Move an entry of the project to the global layer, with its times and tags, and return it.
        Raise InvalidInput if no project is known or a global entry has the key, and MemoryNotFound
        if the project has no such entry."""
        project = self["project"]
        everywhere = self["global"]
        refuse_worker(self.options, None, _("moves entries"))
        entry = await project.get(key)

        def decide(view: ScopeView) -> Decided[None]:
            if view.keyed("", "", entry.key or "") is not None:
                raise InvalidInput(
                    "A global entry `{key}` is in the way; delete or rename one of the two.",
                    shown(key),
                )
            return [replace(entry, id=0, ref="", version=0)], None

        committed = await everywhere.folder.commit(LAYER, decide, Operation("promote", by))
        # The entry was stored in the other layer first, so that it is never lost.
        await project.delete(key, by=by)
        return committed.entry

    async def aclose(self) -> None:
        """Release the folders; idempotent."""
        for layer in self._made.values():
            await layer.folder.aclose()


def _with_parts(matches: Hits, view: ScopeView, query: Query) -> Hits:
    """Return the matches by words, and if there are any and there is room, also the entries that hold the query
    literally. Without any, the search by words has looked for these itself."""
    if not matches.hits or len(matches.hits) >= query.limit:
        return matches
    matched_ids = {hit.entry.id for hit in matches.hits}
    holding_ids = view.ids(replace(query.where, text=query.text))
    further_ids = [entry_id for entry_id in holding_ids if entry_id not in matched_ids]
    room = query.limit - len(matched_ids)
    entries = [view.get(id=entry_id) for entry_id in further_ids[:room]]
    hits = [
        Hit(entry, query.least_share, matched=NOTHING, scope=LAYER)
        for entry in entries
        if entry is not None
    ]
    return replace(matches, hits=(*matches.hits, *hits), total=matches.total + len(further_ids))


def usable_key(key: str) -> str:
    """Return the key in normal form. Raise InvalidInput if it is empty, too long, or has a line break."""
    key = unicodedata.normalize("NFC", without_surrogates(key)).strip()
    if not key:
        raise InvalidInput("The key is empty; give a name such as `api-auth-decision`.")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidInput(
            "The key has {number} characters; shorten it to at most {most}.",
            len(key),
            MAX_KEY_CHARS,
        )
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in key):
        raise InvalidInput(
            "The key has a line break or another control character; write it on one line."
        )
    return key


def _last_use_of(entry: Entry, last_used: Mapping[str, int]) -> int:
    return max(entry.updated_ms, last_used.get(entry.key or "", 0))


def _least_used(
    view: ScopeView, most: int, last_used: Mapping[str, int]
) -> list[tuple[Entry, Reason]]:
    """Return the live entries above `most`, with the oldest use first."""
    above = view.count(Filter()) - most
    if above <= 0:
        return []
    entries = view.entries(Filter(), order="oldest")
    by_use = sorted(entries, key=lambda entry: _last_use_of(entry, last_used))
    return [(entry, "over_limit") for entry in by_use[: min(above, MOST_AT_ONCE)]]


def _close(key: str, entries: Sequence[Entry]) -> str:
    """Ask about keys that are nearly `key`; empty if no key is near."""
    keys = [entry.key or "" for entry in entries]
    close_keys = difflib.get_close_matches(key, keys, n=3)
    if not close_keys:
        return ""
    return _(
        "did you mean {near}?", " or ".join(f"`{shown(close_key)}`" for close_key in close_keys)
    )
