"""What installing and uninstalling come to: the texts of files as they should be. Nothing is read or written here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from memory_server.clients.entries import HOOK_EVENTS, Server, hook_entry, is_our_hook, is_our_server, server_entry
from memory_server.clients.json_text import value_at, with_item, with_member, without_items, without_member
from memory_server.clients.places import Client, System, servers_name

Edit = Callable[[str], str]
"""From the text of a file to its text afterwards; the same text where nothing has to change."""


class NameTaken(Exception):
    """The name that a server is to have is another program's."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"under `{name}` there is another server; give this one a name of its own with --name, or take that one "
            "out first"
        )


@dataclass(frozen=True, slots=True)
class Edits:
    """How one file is brought to hold an entry, and to hold it no more."""

    put: Edit
    take: Edit


def of_server(server: Server, client: Client) -> Edits:
    """Those of a client's list of servers."""
    path = (servers_name(client), server.name)
    entry = server_entry(server, client)

    def another(text: str) -> bool:
        there = value_at(text, path) if text.strip() else None
        return there is not None and not is_our_server(there)

    def put(text: str) -> str:
        if not text.strip():
            return with_member(text, path, entry) + "\n"
        if another(text):
            raise NameTaken(server.name)
        return text if value_at(text, path) == entry else with_member(text, path, entry)

    def take(text: str) -> str:
        return text if not text.strip() or another(text) else without_member(text, path)

    return Edits(put, take)


def of_hooks(server: Server, system: System) -> Edits:
    """Those of Claude Code's list of hooks."""
    entries: Mapping[str, object] = {event: hook_entry(server, event, system) for event in HOOK_EVENTS}

    def take(text: str) -> str:
        for event in HOOK_EVENTS if text.strip() else ():
            text = without_items(text, ("hooks", event), is_our_hook)
        return text

    def put(text: str) -> str:
        for event, entry in entries.items():
            listed = value_at(text, ("hooks", event)) if text.strip() else None
            ours = [item for item in listed if is_our_hook(item)] if isinstance(listed, list) else []
            if ours == [entry]:
                continue
            if ours:
                text = without_items(text, ("hooks", event), is_our_hook)
            text = with_item(text if text.strip() else "{}\n", ("hooks", event), entry)
        return text

    return Edits(put, take)


def taken_back(text: str, before: str | None, edits: Edits) -> str | None:
    """The text of a file without what was put there; None where the file is to be removed.

    `before` is the text it had then, if that is known: where nothing else was changed since, it comes back to the byte.
    """
    if before is not None and edits.put(before) == text and edits.take(before) == before:
        return before
    taken = edits.take(text)
    return None if before is None and taken != text and taken.split() in (["{}"], ["{", "}"]) else taken
