"""Layers: knowledge of a project and of all projects as Markdown files, which agents and people share (seed 003)."""

from __future__ import annotations

import difflib
import logging
import os
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from memory_server.core.errors import InvalidInput, MemoryNotFound, StorageError
from memory_server.core.model import without_surrogates
from memory_server.core.phrases import shown
from memory_server.knowledge.entry import (
    MAX_KEY_CHARS,
    Change,
    Entry,
    Filter,
    Operation,
    Purge,
    Query,
    Reason,
    Scope,
    live,
    usable,
)
from memory_server.knowledge.keeping import to_keep
from memory_server.knowledge.policies import MOST_AT_ONCE, to_archive
from memory_server.knowledge.ports import EntryFolder, EntryStore, Held
from memory_server.knowledge.ranking import LEAST_SHARE, Ranked, why_of
from memory_server.knowledge.roles import PATTERNS, Role, refuse_worker
from memory_server.recall.parameters import DAY_MS

log = logging.getLogger(__name__)
LayerName = Literal["project", "global"]
LAYER = Scope("layers")


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


@dataclass(frozen=True, slots=True)
class LayerOptions:
    """What the settings say. `folders` opens the folder of each layer; a project that is not known has none.
    `max_entries`: live entries of a layer. `ttl_days`: days without use after which an entry goes into the archive.
    `tidy`: whether the daily clean-up does that; without the toolset, the files may be another program's."""

    folders: Mapping[LayerName, Callable[[], EntryFolder]] = field(default_factory=dict)
    tidy: bool = False
    max_entries: int = 1_000
    ttl_days: float = 90.0
    role: Role = "owner"
    roles: Mapping[str, Role] = field(default_factory=lambda: dict(PATTERNS))
    least_share: float = LEAST_SHARE


@dataclass(frozen=True, slots=True)
class SavedEntry:
    """A saved entry. `archived`: how many others went into the archive to make room."""

    entry: Entry
    created: bool
    archived: int


@dataclass(frozen=True, slots=True)
class Summary:
    """What is in a layer or its archive; times in ms."""

    entries: int
    tags: tuple[str, ...]
    place: str
    oldest_ms: int | None
    newest_ms: int | None
    unreadable: Mapping[str, str]


class Layer:
    """The entries of one folder. `uses` notes when an entry was used, because a look must not change its file."""

    def __init__(
        self,
        name: LayerName,
        folder: EntryFolder,
        uses: EntryStore,
        clock: Callable[[], int],
        options: LayerOptions | None = None,
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.options = options or LayerOptions()
        self._uses = uses
        self._clock = clock
        self._refuse = refuse
        self._place = os.path.realpath(folder.place)

    async def save(self, key: str, content: str, tags: Sequence[str] | None = None, *, by: str = "api") -> SavedEntry:
        """Store an entry, or replace the content of the one of this key; its tags only if `tags` is given. Raises
        InvalidInput: the key or the content is empty or too long, or a file that cannot be read has its name.
        MemoryPaused: the memory is paused. NothingToKeep: all of it is private or recalled."""
        self._refuse()
        key = _usable_key(key)
        given = None if tags is None else tuple(" ".join(each.split()) for each in tags)
        body = to_keep(without_surrogates(content)).replace("\r\n", "\n").strip("\n")
        made = usable(Entry(body, key=key, title=key, tags=given or ()))
        now_ms = self._clock() // 1000 * 1000  # files have seconds
        used = await self._used()

        def decide(held: Held) -> tuple[Sequence[Change], bool]:
            there = held.keyed("", "", key)
            if there is None:
                due = _least_used(held, self.options.max_entries - 1, used)
                return [*to_archive(due, now_ms), replace(made, created_ms=now_ms, updated_ms=now_ms)], True
            kept = there.tags if given is None else made.tags
            if (there.body, there.tags) == (made.body, kept):
                return [there], False  # its file stays as it is, which git sees
            return [replace(there, body=made.body, tags=kept, updated_ms=max(now_ms, there.created_ms))], False

        done = await self.folder.commit(LAYER, decide, Operation("save", by))
        await self._note([key])
        return SavedEntry(done.entries[-1], done.result, len(done.entries) - 1)

    async def retrieve(
        self, query: str, *, tags: Sequence[str] = (), limit: int = 10, archive: bool = False, reinforce: bool = True
    ) -> tuple[list[Ranked], int]:
        """The entries that hold words of the query, best first, and how many there are; what comes from the layer is
        used now, unless `reinforce` is False. Raises InvalidInput: the query is empty."""
        query = without_surrogates(query).strip()
        if not query:
            raise InvalidInput(f"The query is empty; give words, or list all entries with {self._tool('list')}.")
        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        found = await self.folder.search(LAYER, Query(query, where, limit, self.options.least_share))
        if reinforce and not archive:
            await self._note([hit.entry.key or "" for hit in found.hits])
        ranked = [
            Ranked(hit.entry, hit.relevance, f"{why_of(hit)}, relevance {hit.relevance:.2f}", hit) for hit in found.hits
        ]
        return ranked, found.total

    async def get(self, key: str) -> Entry:
        """The entry of a key, which is used now. Raises MemoryNotFound: no such key; the message names close keys,
        and the archive where it lies there."""
        key = _usable_key(key)
        entry = await self._found(key)
        await self._note([key])
        return entry

    async def page(
        self, *, tags: Sequence[str] = (), limit: int | None = None, offset: int = 0, archive: bool = False
    ) -> tuple[list[Entry], int]:
        """The entries, changed last first, or of the archive those archived last first; and how many there are."""
        where = Filter(tags=tuple(map(without_surrogates, tags)), archived=archive)
        order: Literal["removed", "newest"] = "removed" if archive else "newest"
        return await self.folder.page(LAYER, where, order=order, limit=limit, offset=offset)

    async def delete(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Remove the file of an entry, without the archive. Raises InvalidInput: the caller is a worker.
        MemoryNotFound: as in `get`."""
        refuse_worker(caller, self.options.role, self.options.roles, "deletes entries")
        key = _usable_key(key)
        entry = await self._found(key)

        def decide(held: Held) -> tuple[Sequence[Change], None]:
            there = held.keyed("", "", key)
            return [] if there is None else [Purge(there.id)], None

        await self.folder.commit(LAYER, decide, Operation("delete", by))
        return entry

    async def restore(self, key: str, *, caller: str | None = None, by: str = "api") -> Entry:
        """Bring the entry of a key that was archived last back; it is used now. Raises InvalidInput: the caller is a
        worker, or an entry of this key is live. MemoryNotFound: the archive does not have it."""
        refuse_worker(caller, self.options.role, self.options.roles, "restores entries")
        key = _usable_key(key)
        used = await self._used()

        def decide(held: Held) -> tuple[Sequence[Change], None]:
            if held.keyed("", "", key) is not None:
                raise InvalidInput(f"An entry `{shown(key)}` is there already; delete or rename it first.")
            there = held.entries(Filter(archived=True), order="removed")
            found = next((each for each in there if each.key == key), None)
            if found is None:
                said = _close(key, there) or f"{self._tool('list_archive')} shows all keys."
                raise MemoryNotFound(f"There is no `{shown(key)}` in the archive; {said}")
            due = _least_used(held, self.options.max_entries - 1, used)
            return [*to_archive(due, self._clock() // 1000 * 1000), live(found)], None

        done = await self.folder.commit(LAYER, decide, Operation("restore", by))
        await self._note([key])
        return done.entries[-1]

    async def summary(self, *, archive: bool = False) -> Summary:
        """What is there."""
        entries, total = await self.page(archive=archive)
        unreadable = await self.folder.unreadable()
        inside = {name: said for name, said in unreadable.items() if name.startswith("archive/") == archive}
        return Summary(
            total,
            tuple(sorted({tag for each in entries for tag in each.tags})),
            str(self.folder.place / "archive" if archive else self.folder.place),
            min((each.created_ms for each in entries), default=None),
            max((each.updated_ms for each in entries), default=None),
            inside,
        )

    async def clean_up(self, *, dry_run: bool = False, by: str = "cleanup") -> list[tuple[Entry, Reason]]:
        """Put into the archive what nobody used for `ttl_days`, and what is too much, used longest ago first; with
        `dry_run` only say so. An entry that this machine has not seen before counts as used now."""
        entries, _ = await self.page()
        noted, seen = await self._uses.uses(self._place), await self._uses.uses(self._seen)
        new = [each.key or "" for each in entries if each.key not in seen and each.key not in noted]
        now_ms = self._clock()
        if not dry_run:
            await self._uses.use(self._seen, new, now_ms)
        # After a leave, the time goes on from the last day on which something was used.
        newest = max((at for at, _ in noted.values()), default=now_ms)
        due_ms = min(now_ms, newest + DAY_MS) - round(self.options.ttl_days * DAY_MS)
        used = await self._used() | (dict.fromkeys(new, now_ms) if dry_run else {})

        def decide(held: Held) -> tuple[Sequence[Change], list[tuple[Entry, Reason]]]:
            old = [each for each in held.entries(Filter(), order="oldest") if _last_used(each, used) <= due_ms]
            over: list[tuple[Entry, Reason]] = [(each, "expired") for each in old[:MOST_AT_ONCE]]
            if not over:
                over = _least_used(held, self.options.max_entries, used)
            return [] if dry_run else to_archive(over, now_ms // 1000 * 1000), over

        return (await self.folder.commit(LAYER, decide, Operation("cleanup", by))).result

    @property
    def _seen(self) -> str:
        return f"{self._place}#seen"

    async def _used(self) -> dict[str, int]:
        """When each key was used or seen here last."""
        both = (await self._uses.uses(self._seen), await self._uses.uses(self._place))
        return {key: max(uses[key][0] for uses in both if key in uses) for key in both[0].keys() | both[1].keys()}

    async def _note(self, keys: Sequence[str]) -> None:
        try:
            await self._uses.use(self._place, keys, self._clock())
        except StorageError as error:
            log.warning("the use of entries was not noted: %s", error)

    async def _found(self, key: str) -> Entry:
        entries, _ = await self.page()
        found = next((each for each in entries if each.key == key), None)
        if found is not None:
            return found
        gone, _ = await self.page(archive=True)
        if any(each.key == key for each in gone):
            said = f"it is in the archive, and {self._tool('restore')} brings it back."
        else:
            said = _close(key, entries) or f"{self._tool('list')} shows all keys."
        raise MemoryNotFound(f"There is no entry `{shown(key)}`; {said}")

    def _tool(self, action: str) -> str:
        return tool_name(action, self.name)


class Layers:
    """The layers of a server, by name."""

    def __init__(
        self,
        uses: EntryStore,
        clock: Callable[[], int],
        options: LayerOptions,
        refuse: Callable[[], None] = lambda: None,
    ) -> None:
        self._folders = options.folders
        self._made: dict[LayerName, Layer] = {}
        self._rest = (uses, clock, options, refuse)

    def __getitem__(self, name: LayerName) -> Layer:
        """A layer, opened at first use. Raises InvalidInput: no project, or no home folder, is known."""
        if name not in self._folders:
            raise InvalidInput(
                "No project is known here; start the server in one or set layers.project_dir."
                if name == "project"
                else "No home folder is known here; set HOME for the server."
            )
        if name not in self._made:
            self._made[name] = Layer(name, self._folders[name](), *self._rest)
        return self._made[name]

    @property
    def known(self) -> list[Layer]:
        """The layers that there are."""
        return [self[name] for name in self._folders]

    async def promote(self, key: str, *, by: str = "api") -> Entry:
        """Move an entry of the project to the global layer, with its times and tags. Raises InvalidInput: no project is
        known, or a global entry has the key. MemoryNotFound: there is no such entry."""
        project, everywhere = self["project"], self["global"]
        refuse_worker(None, project.options.role, project.options.roles, "moves entries")
        entry = await project.get(key)

        def decide(held: Held) -> tuple[Sequence[Change], None]:
            if held.keyed("", "", entry.key or "") is not None:
                raise InvalidInput(f"A global entry `{shown(key)}` is in the way; delete or rename one of the two.")
            return [replace(entry, id=0, ref="", version=0)], None

        done = await everywhere.folder.commit(LAYER, decide, Operation("promote", by))
        await project.delete(key, by=by)
        return done.entries[0]

    async def aclose(self) -> None:
        """Release the folders; idempotent."""
        for layer in self._made.values():
            await layer.folder.aclose()


def _usable_key(key: str) -> str:
    """The key in normal form. Raises InvalidInput: it is empty, too long, or has a line break."""
    key = unicodedata.normalize("NFC", without_surrogates(key)).strip()
    if not key:
        raise InvalidInput("The key is empty; give a name such as `api-auth-decision`.")
    if len(key) > MAX_KEY_CHARS:
        raise InvalidInput(f"The key has {len(key)} characters; shorten it to at most {MAX_KEY_CHARS}.")
    if any(unicodedata.category(character) in ("Cc", "Zl", "Zp") for character in key):
        raise InvalidInput("The key has a line break or another control character; write it on one line.")
    return key


def _last_used(entry: Entry, used: Mapping[str, int]) -> int:
    return max(entry.updated_ms, used.get(entry.key or "", 0))


def _least_used(held: Held, most: int, used: Mapping[str, int]) -> list[tuple[Entry, Reason]]:
    """The live entries above `most`, used longest ago first."""
    above = held.count(Filter()) - most
    if above <= 0:
        return []
    entries = sorted(held.entries(Filter(), order="oldest"), key=lambda each: _last_used(each, used))
    return [(entry, "over_limit") for entry in entries[: min(above, MOST_AT_ONCE)]]


def _close(key: str, entries: Sequence[Entry]) -> str:
    close = difflib.get_close_matches(key, [each.key or "" for each in entries], n=3)
    return f"did you mean {' or '.join(f'`{shown(each)}`' for each in close)}?" if close else ""
