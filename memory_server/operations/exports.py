"""Read what is stored, or what a conversation or a family holds, and write it in a format of a file or folder."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from languages import _
from memory_server.conversations.contents import Contents, contents_of
from memory_server.conversations.model import conversation_id_of
from memory_server.interchange import folder_forms, own
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.items import OF_CONVERSATIONS, Family
from memory_server.kernel.values import frozen
from memory_server.knowledge.entry import Entry, Filter
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.operations.ports import OpenMemory, Progress, no_progress
from memory_server.operations.whereabouts import not_copied, whereabouts

WITH_ENTRIES = ("native", "csv")
"""Forms that hold the entries of all families."""


@frozen
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


@frozen
class ExportContent:
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
) -> ExportContent:
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
        entries = await KnowledgeLifecycle(view.knowledge).live(
            family, Filter(kinds=kinds, tags=request.tags)
        )

    if request.has_filter and not entries:
        raise InvalidInput(
            "No entry has this type and these tags; `memory-server list` lists all entries."
        )
    return ExportContent(conversations, entries, unread)


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


def folder_content(exported: ExportContent) -> Mapping[str, bytes]:
    """Return the files of the format `node`, which is a folder, by their paths."""
    return folder_forms.write_node(exported.conversations)


def file_content(view: OpenMemory, exported: ExportContent, form: str) -> Iterable[bytes]:
    """Return the content of a file in a format, in pieces. Raises InvalidInput if there is no such
    format."""
    match form:
        case "pack":
            return [own.write_pack(exported.conversations)]
        case "csv":
            return [own.write_csv(exported.conversations, exported.entries)]
        case "markdown":
            return own.write_page(exported.conversations, view.zone)
        case "native":
            return own.write_native(exported.conversations, view.clock(), exported.entries)
    raise InvalidInput(
        "There is no format {form} of a file; the formats are native, csv, markdown and pack.", form
    )


# --- what a linked machine sends ---------------------------------------------------------------------------------

# Prepare the memories of a linked machine for its server, in portions that a request can hold.

_PORTION_BYTES = 1_000_000
"""Bytes of text that are sent together: other requests of the server wait meanwhile."""
_PORTION_MEMORIES = 200
"""Memories that are sent together."""
_MOST_BYTES = 4 * 1024 * 1024 - 16_384
"""Bytes that the server takes in a request (serving/http/middleware.py), less the bytes around the text."""
T = TypeVar("T")


@frozen
class SharedNames:
    """The names that a folder and the key of a project have on all machines."""

    folder: Callable[[str | None], str | None]
    project: Callable[[str], str]


@frozen
class Shipment:
    """The `texts` to send, each of which fits a request. `too_large` counts portions that do not fit. `remarks` are
    sentences about memories that are in neither."""

    texts: Sequence[str]
    too_large: int
    remarks: Sequence[str]


async def shipment_of(view: OpenMemory, names: SharedNames) -> Shipment:
    """Read what is remembered here, to be sent. Raises InvalidInput if there is nothing, StorageError if a
    conversation cannot be read."""
    stored = await exported(view, ExportRequest())
    for reason in stored.unread:
        raise StorageError(reason)
    now_ms = view.clock()
    texts: list[str] = []
    too_large = 0
    for part in _parts(stored, names):
        text = b"".join(own.write_native(part.conversations, now_ms, part.entries)).decode()
        if len(json_text.dumps(text)) <= _MOST_BYTES:
            texts.append(text)
        else:
            too_large += 1

    if not texts and not too_large:
        raise InvalidInput("This machine has no memories to send.")
    return Shipment(texts, too_large, await not_copied(view, layers=True))


def _parts(stored: ExportContent, names: SharedNames) -> Iterator[ExportContent]:
    """Yield what is sent, in parts that a request can hold; folders have the names that they have on all machines. An
    item that is too large for a request is alone in its part."""
    for contents in stored.conversations:
        # Paths of this machine mean nothing on the server.
        memories = [
            replace(memory, folder=names.folder(memory.folder)) for memory in contents.short_term
        ]

        for short in _portions(memories, lambda memory: 2 * _bytes(memory.text)):
            yield ExportContent([replace(contents, short_term=tuple(short), long_term=())])

        for long in _portions(
            contents.long_term, lambda memory: _bytes(memory.trigger, memory.created_context)
        ):
            yield ExportContent([replace(contents, short_term=(), long_term=tuple(long))])

    shared_entries = [
        (scope, replace(entry, project=names.project(entry.project)))
        for scope, entry in stored.entries
    ]

    for portion in _portions(
        shared_entries, lambda item: _bytes(item[1].body, item[1].title, *item[1].examples)
    ):
        yield ExportContent([], portion)


def _bytes(*texts: str) -> int:
    return sum(len(text.encode(errors="replace")) for text in texts)


def _portions(items: Sequence[T], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the items in order, in lists of at most `_PORTION_MEMORIES` and `_PORTION_BYTES`; a larger item is alone."""
    portion: list[T] = []
    size = 0

    for item in items:
        item_size = size_of(item)
        is_full = len(portion) == _PORTION_MEMORIES or size + item_size > _PORTION_BYTES
        if portion and is_full:
            yield portion
            portion = []
            size = 0
        portion.append(item)
        size += item_size

    if portion:
        yield portion
