"""SillyTavern lorebooks, read by the trigger authors' workbench: an entry becomes a long-term memory."""

from __future__ import annotations

from collections.abc import Collection

from memory_server.contents import Contents
from memory_server.interchange.incoming import Incoming, NotThisFormat, document
from memory_server.interchange.packs import from_pack, take_carried
from sandbox.workbench import carrying
from sandbox.workbench.worldinfo import Book, BookError, read_book
from sandbox.workbench.worldinfo_keys import Defaults
from sandbox.workbench.worldinfo_losses import lost_everywhere


def book(data: bytes) -> Book:
    """The lorebook in a file. Raises NotThisFormat."""
    try:
        return read_book(document(data))
    except BookError as error:
        raise NotThisFormat(f"{error}.") from error


def expressions(lorebook: Book) -> list[str]:
    """Keys that are expressions in form; which of them V8 does not compile is to be found out before `read`."""
    return carrying.expressions(lorebook)


def read(lorebook: Book, source: str, usual: str, invalid: Collection[str] = ()) -> Incoming:
    """The entries of a lorebook, for the conversation `usual`. `source`: name of its file."""
    found = Incoming()
    carried = carrying.carry(lorebook, Defaults(), source, invalid)
    found.conversations = [Contents(usual, (), from_pack(found, take_carried(found, carried)))]
    found.notes += [f"all entries: {line}" for line in lost_everywhere(lorebook)]
    return found
