"""Prepare the memories of a linked machine for its server, in portions that a request can hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from memory_server.conversations.contents import Contents
from memory_server.interchange import own
from memory_server.kernel import json_text
from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.values import dataclass
from memory_server.knowledge.entry import Entry
from memory_server.operations.exports import Exported, ExportRequest, exported
from memory_server.operations.ports import OpenMemory
from memory_server.operations.whereabouts import not_copied

_PORTION_BYTES = 1_000_000
"""Bytes of text that are sent together: other requests of the server wait meanwhile."""
_PORTION_MEMORIES = 200
"""Memories that are sent together."""
_MOST_BYTES = 4 * 1024 * 1024 - 16_384
"""Bytes that the server takes in a request (serving/http/middleware.py), less the bytes around the text."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SharedNames:
    """The names that a folder and the key of a project have on all machines."""

    folder: Callable[[str | None], str | None]
    project: Callable[[str], str]


@dataclass(frozen=True, slots=True)
class _Part:
    """The content of a request to the server."""

    conversations: Sequence[Contents] = ()
    entries: Sequence[tuple[str, Entry]] = ()


@dataclass(frozen=True, slots=True)
class Portion:
    """A part as it is sent, and its bytes within JSON."""

    text: str
    bytes_sent: int

    @property
    def fits(self) -> bool:
        """Whether one request can hold it."""
        return self.bytes_sent <= _MOST_BYTES

    @classmethod
    def of(cls, part: _Part, now_ms: int) -> Portion:
        text = b"".join(own.write_native(part.conversations, now_ms, part.entries)).decode()
        return cls(text, len(json_text.dumps(text)))


@dataclass(frozen=True, slots=True)
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
    portions = [Portion.of(part, now_ms) for part in _parts(stored, names)]
    if not portions:
        raise InvalidInput("This machine has no memories to send.")
    texts = [portion.text for portion in portions if portion.fits]
    remarks = await not_copied(view, layers=True)
    return Shipment(texts, len(portions) - len(texts), remarks)


def _parts(stored: Exported, names: SharedNames) -> Iterator[_Part]:
    """Yield what is sent, in parts that a request can hold; folders have the names that they have on all machines. An
    item that is too large for a request is alone in its part."""
    for contents in stored.conversations:
        # Paths of this machine mean nothing on the server.
        memories = [
            replace(memory, folder=names.folder(memory.folder)) for memory in contents.short_term
        ]

        for short in _portions(memories, lambda memory: 2 * _bytes(memory.text)):
            yield _Part([replace(contents, short_term=tuple(short), long_term=())])

        for long in _portions(
            contents.long_term, lambda memory: _bytes(memory.trigger, memory.created_context)
        ):
            yield _Part([replace(contents, short_term=(), long_term=tuple(long))])

    shared_entries = [
        (scope, replace(entry, project=names.project(entry.project)))
        for scope, entry in stored.entries
    ]

    for portion in _portions(
        shared_entries, lambda item: _bytes(item[1].body, item[1].title, *item[1].examples)
    ):
        yield _Part(entries=portion)


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
