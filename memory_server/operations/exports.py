"""Read what is stored, or what a conversation or a family holds, and write it in a format of a file or folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from languages import _
from memory_server.conversations.contents import Contents, contents_of
from memory_server.conversations.model import conversation_id_of
from memory_server.interchange import csv_table, folder_forms, own
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import OF_CONVERSATIONS, Family
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Entry, Filter
from memory_server.operations.ports import OpenMemory, Progress, no_progress
from memory_server.operations.whereabouts import whereabouts

WITH_ENTRIES = ("native", "csv")
"""Forms that hold the entries of all families."""


@dataclass(frozen=True, slots=True)
class ExportRequest:
    """A request to export everything, or only what `conversation_id` or `family` holds, or only entries with this
    `kind` and these `tags`. None or empty means all."""

    conversation_id: str | None = None
    family: Family | None = None
    kind: str = ""
    tags: tuple[str, ...] = ()

    @property
    def is_everything(self) -> bool:
        return self.conversation_id is None and self.family is None and not self.has_filter

    @property
    def has_filter(self) -> bool:
        """Whether only entries are meant."""
        return bool(self.kind or self.tags)


@dataclass(frozen=True, slots=True)
class Exported:
    """The conversations, and the entries of knowledge with their places. `unread` says why conversations are missing."""

    conversations: Sequence[Contents]
    entries: Sequence[tuple[str, Entry]] = ()
    unread: Sequence[str] = ()

    def not_in(self, form: str) -> int:
        """Return how many memories of conversations a form does not hold."""
        if form != "pack":
            return 0
        return sum(len(contents.short_term) for contents in self.conversations)

    def is_empty_in(self, form: str) -> bool:
        return not self.conversations and (form not in WITH_ENTRIES or not self.entries)


async def exported(
    view: OpenMemory, request: ExportRequest, progress: Progress = no_progress
) -> Exported:
    """Read what is to be exported.

    Raises InvalidInput if the name of the conversation cannot be used, or if no entry has the kind and tags;
    StorageError if the named conversation cannot be read.
    """
    conversations: list[Contents] = []
    unread: list[str] = []
    if request.family in (None, *OF_CONVERSATIONS) and not request.has_filter:
        names = None
        if request.conversation_id is not None:
            names = [conversation_id_of(request.conversation_id)]
        conversation_ids = names or await view.memories.conversations.ids()

        with progress(_("reading"), len(conversation_ids)) as advance:
            for conversation_id in conversation_ids:
                try:
                    state = await view.store.read(conversation_id)
                except StorageError as error:
                    if names:
                        raise

                    # One damaged conversation must not keep the others from being exported.
                    unread.append(str(error))
                    continue

                contents = _of_family(contents_of(state), request.family)
                # An empty conversation is only in an export of everything.
                if contents.count or not (names or request.family):
                    conversations.append(contents)
                advance()

    entries: list[tuple[str, Entry]] = []
    if request.conversation_id is None and request.family not in OF_CONVERSATIONS:
        # Only notes have a kind.
        family = "notes" if request.kind else request.family
        kinds = (request.kind,) if request.kind else ()
        entries = await view.knowledge.lifecycle.live(
            family, Filter(kinds=kinds, tags=request.tags)
        )

    if request.has_filter and not entries:
        raise InvalidInput(
            "No entry has this type and these tags; `memory-server list` lists all entries."
        )
    return Exported(conversations, entries, unread)


async def nothing_to_export(view: OpenMemory) -> InvalidInput:
    """Say that the export is empty, and what is stored."""
    return InvalidInput(
        "There is nothing to export in this format: {whereabouts}", await whereabouts(view)
    )


def _of_family(contents: Contents, family: str | None) -> Contents:
    """Return the contents, or only the part of a family of conversations."""
    match family:
        case "memories":
            return replace(contents, long_term=())
        case "triggers":
            return replace(contents, short_term=())
    return contents


def folder_content(exported: Exported) -> Mapping[str, bytes]:
    """Return the files of the format `node`, which is a folder, by their paths."""
    return folder_forms.write_node(exported.conversations)


def file_content(view: OpenMemory, exported: Exported, form: str) -> Iterable[bytes]:
    """Return the content of a file in a format, in pieces."""
    match form:
        case "pack":
            return [own.write_pack(exported.conversations)]
        case "csv":
            return [csv_table.write_csv(exported.conversations, exported.entries)]
        case "markdown":
            return own.write_page(exported.conversations, view.zone)
        case "native":
            return own.write_native(exported.conversations, view.clock(), exported.entries)
    raise InvalidInput(
        "There is no format {form} of a file; the formats are native, csv, markdown and pack.", form
    )
