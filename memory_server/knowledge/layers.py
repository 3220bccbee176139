"""Layers: knowledge of a project and of all projects as Markdown files, which agents and people share (seed 003)."""

from __future__ import annotations

import difflib
import logging
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from memory_server.kernel.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.kernel.messages import NOTHING, without_surrogates
from memory_server.kernel.scopes import Scope
from memory_server.kernel.text import shown
from memory_server.kernel.times import DAY_MS, iso_or_none
from memory_server.knowledge.entry import (
    MAX_KEY_CHARS,
    Change,
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
from memory_server.knowledge.ports import Committed, EntryFolder, EntryStore, ScopeView
from memory_server.knowledge.ranking import LEAST_SHARE, by_relevance
from sandbox.locale import _

log = logging.getLogger(__name__)
LayerName = Literal["project", "global"]
LAYER = Scope("layers")
_MOST_UNASKED = 50
"""Entries that are looked at: what nobody used must not crowd out the others."""
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
    """The name of a tool, as in the seed."""
    return _TOOLS[action].format("global_" if layer == "global" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerOptions(LayerSettings):
    """`folders` opens the folder of each layer; a project that is not known has none. `tidy`: whether the daily
    clean-up archives entries; without the toolset, the files may be another program's."""

    folders: Mapping[LayerName, Callable[[], EntryFolder]] = field(default_factory=dict)
    tidy: bool = False
    least_share: float = LEAST_SHARE


@dataclass(eq=False)
class Layer:
    """The entries of one folder. `uses` notes when an entry was used, because a look must not change its file. `refuse`
    raises where nothing may be stored now."""

    name: LayerName
    folder: EntryFolder
    uses: EntryStore
    clock: Callable[[], int]
    options: LayerOptions = field(default_factory=LayerOptions)
    refuse: Callable[[], None] = lambda: None

    def __post_init__(self) -> None:
        self._place = os.path.realpath(self.folder.place)
        self._seen = f"{self._place}#seen"

    async def save(
        self, key: str, content: str, tags: Sequence[str] | None = None, *, by: str = "api"
    ) -> Committed[bool]:
        """Store an entry, or replace the content of the one of this key, its tags only if `tags` is given; the result
        is whether it is new. Others may go into the archive to make room. Raises InvalidInput: the key or the content
        is empty or too long, or a file that cannot be read has its name. MemoryPaused: the memory is paused.
        NothingToKeep: all of it is private or recalled."""
        self.refuse()
        key = usable_key(key)
        given = None if tags is None else tuple(" ".join(each.split()) for each in tags)
        body = to_keep(without_surrogates(content)).replace("\r\n", "\n").strip("\n")
        made = usable(Entry(body, key=key, title=key, tags=given or ()))
        now_ms, used = self._now_ms(), await self._used()

        def decide(held: ScopeView) -> tuple[Sequence[Change], bool]:
            there = held.keyed("", "", key)
            if there is None:
                due = _least_used(held, self.options.max_entries - 1, used)
                return [replace(made, created_ms=now_ms, updated_ms=now_ms), *to_archive(due, now_ms)], True
            kept = there.tags if given is None else made.tags
            if (there.body, there.tags) == (made.body, kept):
                return [there], False  # its file stays as it is, which git sees
            return [replace(there, body=made.body, tags=kept, updated_ms=max(now_ms, there.created_ms))], False

        done = await self.folder.commit(LAYER, decide, Operation("save", by))
        await self._note([key])
        return done

    async def retrieve(
        self, query: str, *, tags: Sequence[str] = (), limit: int = 10, archive: bool = False, reinforce: bool = True
    ) -> Hits:
        """The entries that hold words of the query, best first, then those that hold it as a part of a word, and how
        many there are; what comes from the layer is used now, unless `reinforce` is False. Raises InvalidInput: the
        query is empty."""
        query = without_surrogates(query).strip()
        if not query:
            raise InvalidInput("The query is empty; give words, or list all entries with {tool}.", self._tool("list"))
        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        asked = Query(query, where, limit, self.options.least_share)
        found = await self.folder.read(LAYER, lambda held: _with_parts(held.search(asked), held, asked))
        if reinforce and not archive:
            await self._note([hit.entry.key or "" for hit in found.hits])
        return replace(found, hits=tuple(by_relevance(found.hits)))

    async def unasked(self, question: str) -> list[Hit]:
        """The entries that may come to a conversation without a request, best first. Of a project, whose entries come
        with its repository, only those that this user saved, found or read once on this machine. Counts nothing."""
        hits = (await self.retrieve(question, limit=_MOST_UNASKED, reinforce=False)).hits
        if self.folder.project is None:
            return list(hits)
        used = await self.uses.uses(self._place)
        return [each for each in hits if each.entry.key in used]

    def file_of(self, entry: Entry) -> str:
        """The file of an entry with its layer, such as `project file .multi-agent-mcp/memory/pool.md`."""
        place, project = self.folder.place, self.folder.project
        shown = Path(*place.parts[-2:]) if project is None else place.relative_to(project)
        return f"{self.name} file {(shown / entry.ref).as_posix()}"

    async def get(self, key: str) -> Entry:
        """The entry of a key, which is used now. Raises MemoryNotFound: no such key; the message names close keys,
        and the archive where it lies there."""
        key = usable_key(key)
        entry = await self.folder.read(LAYER, lambda held: self._found(held, key))
        await self._note([key])
        return entry

    async def page(
        self, *, tags: Sequence[str] = (), limit: int | None = None, archive: bool = False
    ) -> tuple[list[Entry], int]:
        """The entries, changed last first, or of the archive those archived last first; and how many there are."""
        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        order: Literal["removed", "newest"] = "removed" if archive else "newest"
        return await self.folder.read(
            LAYER, lambda held: (held.entries(where, order=order, limit=limit), held.count(where))
        )

    async def delete(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Remove the file of an entry, without the archive. Raises InvalidInput: the caller is a worker.
        MemoryNotFound: as in `get`."""
        refuse_worker(caller, self.options.role, self.options.roles, _("deletes entries"))
        key = usable_key(key)

        def decide(held: ScopeView) -> tuple[Sequence[Change], Entry]:
            there = self._found(held, key)
            return [Purge(there.id)], there

        return (await self.folder.commit(LAYER, decide, Operation("delete", by))).result

    async def restore(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Bring the entry of a key that was archived last back; it is used now. Raises InvalidInput: the caller is a
        worker, or an entry of this key is live. MemoryNotFound: the archive does not have it."""
        refuse_worker(caller, self.options.role, self.options.roles, _("restores entries"))
        key = usable_key(key)
        now_ms, used = self._now_ms(), await self._used()

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            if held.keyed("", "", key) is not None:
                raise InvalidInput("An entry `{key}` is there already; delete or rename it first.", shown(key))
            there = held.entries(Filter(archived=True), order="removed")
            found = next((each for each in there if each.key == key), None)
            if found is None:
                said = _close(key, there) or _("{tool} shows all keys.", self._tool("list_archive"))
                raise MemoryNotFound("There is no `{key}` in the archive; {said}", shown(key), said)
            due = _least_used(held, self.options.max_entries - 1, used)
            return [live(found), *to_archive(due, now_ms)], None

        done = await self.folder.commit(LAYER, decide, Operation("restore", by))
        await self._note([key])
        return done.entry

    async def summary(self, *, archive: bool = False) -> dict[str, Any]:
        """What is there, in the words of the seed; times in ISO form."""
        entries, total = await self.page(archive=archive)
        tags = sorted({tag for each in entries for tag in each.tags})
        return {
            "total_entries": total,
            "unique_tags": tags,
            "tag_count": len(tags),
            "archive_dir" if archive else "storage_dir": str(self.folder.archive if archive else self.folder.place),
            "max_entries": self.options.max_entries,
            "ttl_days": self.options.ttl_days,
            "oldest_entry": iso_or_none(min((each.created_ms for each in entries), default=None)),
            "newest_entry": iso_or_none(max((each.updated_ms for each in entries), default=None)),
            "unreadable": dict(await self.folder.unreadable(archive=archive)) or None,
        }

    async def clean_up(self, *, dry_run: bool = False, by: str = "cleanup") -> list[tuple[Entry, Reason]]:
        """Put into the archive what nobody used for `ttl_days`, and what is too much, used longest ago first; with
        `dry_run` only say so. An entry that this machine has not seen before counts as used now."""
        entries, _ = await self.page()
        noted, used, now_ms = await self.uses.uses(self._place), await self._used(), self.clock()
        new = [each.key or "" for each in entries if each.key not in used]
        if not dry_run:
            await self.uses.mark_used(self._seen, new, now_ms)
        used |= dict.fromkeys(new, now_ms)
        # After a leave, the time goes on from the last day on which something was used.
        newest = max((at for at, _ in noted.values()), default=now_ms)
        due_ms = min(now_ms, newest + DAY_MS) - round(self.options.ttl_days * DAY_MS)

        def decide(held: ScopeView) -> tuple[Sequence[Change], list[tuple[Entry, Reason]]]:
            old = [each for each in held.entries(Filter(), order="oldest") if _last_used(each, used) <= due_ms]
            over: list[tuple[Entry, Reason]] = [(each, "expired") for each in old[:MOST_AT_ONCE]]
            over = over or _least_used(held, self.options.max_entries, used)
            return to_archive(over, self._now_ms()), over

        if dry_run:
            return await self.folder.read(LAYER, lambda held: decide(held)[1])
        return (await self.folder.commit(LAYER, decide, Operation("cleanup", by))).result

    def _now_ms(self) -> int:
        return self.clock() // 1000 * 1000  # files have seconds

    async def _used(self) -> dict[str, int]:
        """When each key was used or seen here last."""
        seen, used = await self.uses.uses(self._seen), await self.uses.uses(self._place)
        return {key: max(at[key][0] for at in (seen, used) if key in at) for key in seen | used}

    async def _note(self, keys: Sequence[str]) -> None:
        try:
            await self.uses.mark_used(self._place, keys, self.clock())
        except StorageError as error:
            log.warning("the use of entries was not noted: %s", error)

    def _found(self, held: ScopeView, key: str) -> Entry:
        if (found := held.keyed("", "", key)) is not None:
            return found
        if any(each.key == key for each in held.entries(Filter(archived=True))):
            said = _("it is in the archive, and {tool} brings it back.", self._tool("restore"))
        else:
            said = _close(key, held.entries(Filter())) or _("{tool} shows all keys.", self._tool("list"))
        raise MemoryNotFound("There is no entry `{key}`; {said}", shown(key), said)

    def _tool(self, action: str) -> str:
        return tool_name(action, self.name)


@dataclass(eq=False)
class Layers:
    """The layers of a server, by name; the fields as of a `Layer`."""

    uses: EntryStore
    clock: Callable[[], int]
    options: LayerOptions
    refuse: Callable[[], None]
    _made: dict[LayerName, Layer] = field(default_factory=dict, init=False)

    def __getitem__(self, name: LayerName) -> Layer:
        """A layer, opened at first use. Raises InvalidInput: no project, or no home folder, is known."""
        folders = self.options.folders
        if name not in folders:
            raise InvalidInput(
                _("No project is known here; start the server in one or set layers.project_dir.")
                if name == "project"
                else _("No home folder is known here; set HOME for the server.")
            )
        if name not in self._made:
            self._made[name] = Layer(name, folders[name](), self.uses, self.clock, self.options, self.refuse)
        return self._made[name]

    @property
    def known(self) -> list[Layer]:
        """The layers that there are."""
        return [self[name] for name in self.options.folders]

    async def promote(self, key: str, *, by: str = "api") -> Entry:
        """Move an entry of the project to the global layer, with its times and tags. Raises InvalidInput: no project is
        known, or a global entry has the key. MemoryNotFound: there is no such entry."""
        project, everywhere = self["project"], self["global"]
        refuse_worker(None, project.options.role, project.options.roles, _("moves entries"))
        entry = await project.get(key)

        def decide(held: ScopeView) -> tuple[Sequence[Change], None]:
            if held.keyed("", "", entry.key or "") is not None:
                raise InvalidInput("A global entry `{key}` is in the way; delete or rename one of the two.", shown(key))
            return [replace(entry, id=0, ref="", version=0)], None

        done = await everywhere.folder.commit(LAYER, decide, Operation("promote", by))
        await project.delete(key, by=by)
        return done.entry

    async def aclose(self) -> None:
        """Release the folders; idempotent."""
        for layer in self._made.values():
            await layer.folder.aclose()


def _with_parts(found: Hits, held: ScopeView, query: Query) -> Hits:
    """What was found by words, and where there is room, what holds the query as it is."""
    if not found.hits or len(found.hits) >= query.limit:
        return found
    there = {hit.entry.id for hit in found.hits}
    more = [each for each in held.ids(replace(query.where, text=query.text)) if each not in there]
    parts = (held.get(id=each) for each in more[: query.limit - len(there)])
    hits = (Hit(entry, query.least_share, NOTHING, LAYER) for entry in parts if entry is not None)
    return replace(found, hits=(*found.hits, *hits), total=found.total + len(more))


def usable_key(key: str) -> str:
    """The key in normal form. Raises InvalidInput: it is empty, too long, or has a line break."""
    key = unicodedata.normalize("NFC", without_surrogates(key)).strip()
    if not key:
        raise InvalidInput("The key is empty; give a name such as `api-auth-decision`.")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidInput("The key has {number} characters; shorten it to at most {most}.", len(key), MAX_KEY_CHARS)
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in key):
        raise InvalidInput("The key has a line break or another control character; write it on one line.")
    return key


def _last_used(entry: Entry, used: Mapping[str, int]) -> int:
    return max(entry.updated_ms, used.get(entry.key or "", 0))


def _least_used(held: ScopeView, most: int, used: Mapping[str, int]) -> list[tuple[Entry, Reason]]:
    """The live entries above `most`, used longest ago first."""
    above = held.count(Filter()) - most
    if above <= 0:
        return []
    entries = sorted(held.entries(Filter(), order="oldest"), key=lambda each: _last_used(each, used))
    return [(entry, "over_limit") for entry in entries[: min(above, MOST_AT_ONCE)]]


def _close(key: str, entries: Sequence[Entry]) -> str:
    close = difflib.get_close_matches(key, [each.key or "" for each in entries], n=3)
    return _("did you mean {near}?", " or ".join(f"`{shown(each)}`" for each in close)) if close else ""
