"""The toolset `layers`: knowledge of a project, and of all projects, as Markdown files (seed 003).

Ten definitions make the tools of both layers: `save_to_memory` and `save_to_global_memory` differ in their folder only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from languages import Sentence, _, counted
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import iso
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import MAX_BODY_CHARS, Entry
from memory_server.knowledge.layers import Layer, LayerName, tool_name
from memory_server.memories.memories import Call
from memory_server.tools.base.result import From, Pagination, Result, listed
from memory_server.tools.base.shapes import Offset, Text, between
from memory_server.tools.base.tool import Function, Tool, tool
from memory_server.tools.refs import RefDone

MAX_LIMIT = 100
Key = Annotated[Text, Field(min_length=1), "Such as api-auth-decision"]
Tags = Annotated[list[Text], "With any of these"]
Caller = Annotated[Text | None, Field(max_length=200), "Who asks, such as worker_3"]


class LayerEntry(Result):
    key: str
    content: Annotated[str, From("body")]
    tags: list[str]
    created_at: Annotated[str, From("created_ms", iso)]
    updated_at: Annotated[str, From("updated_ms", iso)]
    archived_at: Annotated[str | None, From("archived_ms", iso)] = None
    why: str | None = Field(None, description="Which words it has, and where")

    def __str__(self) -> str:
        heading = f"## {one_line(self.key)}"
        if self.tags:
            heading += f" [{', '.join(self.tags)}]"
        text = f"{heading}\n{self.content}"
        if self.why:
            text += _("\n({why})", self.why)
        return text


class EntryResult(RefDone):
    entry: LayerEntry
    message: str | None = None

    def __str__(self) -> str:
        return self.message or str(self.entry)


class EntriesResult(RefDone):
    entries: list[LayerEntry]
    count: int = Field(description="How many there are, shown or not")

    def __str__(self) -> str:
        return listed(
            self.entries,
            _("{shown} of {all}.", len(self.entries), counted(self.count, "entry")),
            "\n\n",
        )


class DeletedResult(RefDone):
    key: str
    message: str

    def __str__(self) -> str:
        return self.message


class LayerSummary(Result):
    total_entries: int
    unique_tags: list[str]
    tag_count: int
    storage_dir: str | None = None
    archive_dir: str | None = None
    max_entries: int
    ttl_days: float
    oldest_entry: str | None = None
    newest_entry: str | None = None
    unreadable: dict[str, str] | None = Field(
        None, description="Files that cannot be read, with the reason"
    )


class SummaryResult(RefDone):
    summary: LayerSummary

    def __str__(self) -> str:
        summary = self.summary
        where = summary.storage_dir or summary.archive_dir or _("this layer")
        lines = [_("{entries} in {where}.", counted(summary.total_entries, "entry"), where)]
        if summary.unique_tags:
            lines.append(_("Tags: {counts}.", ", ".join(summary.unique_tags)))
        for name, reason in (summary.unreadable or {}).items():
            lines.append(_("{name} cannot be read: {reason}.", name, reason))
        return "\n".join(lines)


def _shown(entry: Entry, why: str | None = None) -> LayerEntry:
    return LayerEntry.of(entry, key=entry.key or "", why=why)


@frozen
class _LayerWords:
    """What the descriptions of the tools of a layer call it."""

    whose: str
    """In English, for a description."""
    place: Sentence


_LAYER_WORDS: Mapping[LayerName, _LayerWords] = {
    "project": _LayerWords("this project's", Sentence("the project")),
    "global": _LayerWords("all projects'", Sentence("all projects")),
}


def _tools(name: LayerName) -> tuple[Tool, ...]:
    """Make the tools of a layer. Only the project has the tool that returns a single entry."""
    whose = _LAYER_WORDS[name].whose
    place = _LAYER_WORDS[name].place

    def layer(call: Call) -> Layer:
        return call.memories.knowledge.layers[name]

    async def save(
        call: Call,
        key: Key,
        content: Annotated[Text, Field(min_length=1, max_length=MAX_BODY_CHARS), "Markdown"],
        tags: Annotated[list[Text] | None, "Replace those that are there"] = None,
        caller_agent_id: Caller = None,
    ) -> EntryResult:
        saved = await layer(call).save(key, content, tags, by=tool_name("save", name))
        if saved.result:
            message = _("Saved `{key}` of {place}.", saved.entry.key, place)
        else:
            message = _("Updated `{key}` of {place}.", saved.entry.key, place)
        # A full layer archives others to make room.
        archived = len(saved.entries) - 1
        if archived:
            message += _(" {entries} went into the archive.", counted(archived, "entry"))
        return EntryResult(entry=_shown(saved.entry), message=message)

    def search_tool(*, archive: bool) -> Function:
        """Make the tool that searches the layer, or its archive."""

        async def retrieve(
            call: Call,
            query: Annotated[Text, Field(min_length=1, max_length=10_000)],
            tags: Tags = [],
            limit: Annotated[int, between(1, MAX_LIMIT, "entries"), "Entries at most"] = 10,
            caller_agent_id: Caller = None,
        ) -> EntriesResult:
            matches = await layer(call).retrieve(query, tags=tags, limit=limit, archive=archive)
            entries = [_shown(hit.entry, hit.why) for hit in matches.hits]
            return EntriesResult(entries=entries, count=matches.total)

        return retrieve

    async def get(call: Call, key: Key, caller_agent_id: Caller = None) -> EntryResult:
        return EntryResult(entry=_shown(await layer(call).get(key)))

    async def list_all(
        call: Call, tags: Tags = [], caller_agent_id: Caller = None, offset: Offset = None
    ) -> EntriesResult:
        entries, total = await layer(call).page(tags=tags)
        return EntriesResult(entries=list(map(_shown, entries)), count=total)

    async def list_archive(
        call: Call,
        limit: Annotated[int, between(1, 1_000, "entries"), "Entries at most"] = 50,
        caller_agent_id: Caller = None,
        offset: Offset = None,
    ) -> EntriesResult:
        entries, total = await layer(call).page(limit=limit, archive=True)
        return EntriesResult(entries=list(map(_shown, entries)), count=total)

    async def delete(call: Call, key: Key, caller_agent_id: Caller = None) -> DeletedResult:
        deleted = await layer(call).delete(
            key, caller=caller_agent_id, by=tool_name("delete", name)
        )
        return DeletedResult(
            key=deleted.key or "", message=_("Deleted `{key}` of {place}.", deleted.key, place)
        )

    async def restore(call: Call, key: Key, caller_agent_id: Caller = None) -> EntryResult:
        restored = await layer(call).restore(
            key, caller=caller_agent_id, by=tool_name("restore", name)
        )
        return EntryResult(
            entry=_shown(restored), message=_("`{key}` of {place} is back.", restored.key, place)
        )

    def summed(*, archive: bool) -> Function:
        """Make the tool that tells the figures of the layer, or of its archive."""

        async def summary(call: Call, caller_agent_id: Caller = None) -> SummaryResult:
            fields = await layer(call).summary(archive=archive)
            if call.memories.hidden:
                fields |= _without_paths(call, fields)
            return SummaryResult(summary=LayerSummary(**fields))

        return summary

    def named(action: str, function: Function) -> Function:
        function.__name__ = tool_name(action, name)
        return function

    pages: dict[str, Any] = {"recalls": True, "paging": Pagination("entries")}
    single: list[Tool] = []
    if name == "project":
        # The original has a tool for one entry only for the project.
        of_one_entry = tool(
            title=Sentence("One entry of {place}", place),
            description="The entry of this key.",
            reinforces=True,
            recalls=True,
        )
        single.append(of_one_entry(named("get", get)))

    return (
        tool(
            title=Sentence("Save knowledge of {place}", place),
            description=f"Save {whose} knowledge that others need later: a decision with its reason, a convention, a "
            "lesson. Not the state of a task, and no secrets. The same key replaces the content.",
            always_loaded=True,
            search_hint="save decision knowledge file share agents",
        )(named("save", save)),
        tool(
            title=Sentence("Find knowledge of {place}", place),
            description=f"Find {whose} saved knowledge by words in any language, before you decide something.",
            reinforces=True,
            always_loaded=True,
            search_hint="find decision knowledge convention",
            **pages,
        )(named("retrieve", search_tool(archive=False))),
        *single,
        tool(
            title=Sentence("List knowledge of {place}", place),
            description=f"All of {whose} entries, changed last first.",
            read_only=True,
            **pages,
        )(named("list", list_all)),
        tool(
            title=Sentence("Delete knowledge of {place}", place),
            description="Delete the file of an entry, without the archive; for owners and admins.",
            destructive=True,
        )(named("delete", delete)),
        tool(
            title=Sentence("Figures of the knowledge of {place}", place),
            description=f"How many of {whose} entries there are, their tags, and files that cannot be read.",
            read_only=True,
        )(named("summary", summed(archive=False))),
        tool(
            title=Sentence("Find what was archived of {place}", place),
            description=f"Find {whose} entries that went into the archive, because nobody used them.",
            read_only=True,
            **pages,
        )(named("search_archive", search_tool(archive=True))),
        tool(
            title=Sentence("List what was archived of {place}", place),
            description=f"All of {whose} entries in the archive, archived last first.",
            read_only=True,
            **pages,
        )(named("list_archive", list_archive)),
        tool(
            title=Sentence("Restore knowledge of {place}", place),
            description="Bring an entry back out of the archive; for owners and admins.",
        )(named("restore", restore)),
        tool(
            title=Sentence("Figures of the archive of {place}", place),
            description=f"How many of {whose} entries are in the archive.",
            read_only=True,
        )(named("archive_summary", summed(archive=True))),
    )


def _without_paths(call: Call, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a summary that name files, for a caller who may not know where these are."""
    unreadable = fields["unreadable"]
    if unreadable:
        unreadable = {
            name: call.memories.for_callers(reason) for name, reason in unreadable.items()
        }
    return {"storage_dir": None, "archive_dir": None, "unreadable": unreadable}


LAYERS = (*_tools("project"), *_tools("global"))
