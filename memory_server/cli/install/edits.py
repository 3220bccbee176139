"""The edits of `install` and `uninstall`: how the texts of files should be. Nothing is read or written here.

Strict JSON is parsed, changed and written with its former indentation. A file with comments or trailing commas would
lose them, so it is never changed: a message says what to add or remove by hand.
"""

from __future__ import annotations

import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_server.cli.install.clients import (
    CLIENTS,
    HOOK_EVENTS,
    Client,
    Server,
    System,
    hook_entry,
    is_our_hook,
    is_our_server,
    server_entry,
)

Document = dict[str, Any]
"""A client's settings: the JSON object that a file holds."""
Edit = Callable[[Document], None]
"""Changes a document in place."""
T = TypeVar("T", dict[str, Any], list[Any])

_BLANK = " \t\r\n"
_INDENT = re.compile(r"^([ \t]+)[^ \t\r\n]", re.MULTILINE)


class NotJson(ValueError):
    """A text is not strict JSON, or not of the form of a client's settings; the message is the end of a sentence."""


class NameTaken(ValueError):
    """Another program has the name that the server should have; the message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Edits:
    """How an entry is added to a file, and how it is removed. `entry` names it in words; `trace` matches the text of a
    file that has the entry and cannot be parsed."""

    entry: str
    trace: re.Pattern[str]
    put: Edit
    take: Edit


def of_server(server: Server, client: Client) -> Edits:
    """The edits of a client's list of servers."""
    listed, entry = CLIENTS[client].listed, server_entry(server, client)

    def put(document: Document) -> None:
        servers = _inner(document, listed, {})
        if servers.get(server.name) is not None and not is_our_server(servers[server.name]):
            raise NameTaken(
                f"the name `{server.name}` belongs to another server; give this one another name with --name, or "
                "remove that one first"
            )
        servers[server.name] = entry

    def take(document: Document) -> None:
        servers = document.get(listed)
        if isinstance(servers, dict) and is_our_server(servers.get(server.name)):
            del servers[server.name]
            if not servers:
                del document[listed]

    return Edits(f"`{server.name}` of `{listed}`", re.compile(r'memory[-_]server(\.exe)?"'), put, take)


def of_hooks(server: Server, system: System) -> Edits:
    """The edits of Claude Code's list of hooks."""

    def put(document: Document) -> None:
        hooks = _inner(document, "hooks", {})
        for event in HOOK_EVENTS:
            listed, entry = _inner(hooks, event, []), hook_entry(server, event, system)
            if [item for item in listed if is_our_hook(item)] != [entry]:
                hooks[event] = [*(item for item in listed if not is_our_hook(item)), entry]

    def take(document: Document) -> None:
        hooks = document.get("hooks")
        if not isinstance(hooks, dict):
            return
        had = {event: listed for event in HOOK_EVENTS if isinstance(listed := hooks.get(event), list)}
        for event, listed in had.items():
            hooks[event] = [item for item in listed if not is_our_hook(item)]
            if listed and not hooks[event]:
                del hooks[event]
        if had and not hooks:
            del document["hooks"]

    found = re.compile(r'memory[-_]server[^\n]* hook"')
    return Edits("the hooks with `memory-server` in `hooks`", found, put, take)


def edited(text: str, edit: Edit) -> str:
    """`text` after `edit`: the same text if nothing has to change.

    Raises:
        NotJson: the text is not strict JSON, or something in it has another form than a client's settings.
        NameTaken: another server has the name.
    """
    try:
        document = parsed(text)
        after = _after(document, edit)
        return text if _same(after, document) else _written(after, text)
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error


def taken_back(text: str, before: str | None, edits: Edits) -> str | None:
    """The text of a file without the entry; None if the file should be removed.

    `before` is the former text, if it is known: if nothing else was changed since, it is restored byte for byte.

    Raises:
        NotJson: the text cannot be edited.
    """
    taken = edited(text, edits.take)
    if before is not None and _differ_by_entry_only(text, before, edits):
        return before
    return None if before is None and taken != text and not parsed(taken) else taken


def parsed(text: str) -> Document:
    """The value of a text of strict JSON. Raises NotJson if it is not a JSON object, or an object in it has a name
    twice."""
    try:
        value = json.loads(text if text.strip(_BLANK) else "{}", object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotJson(
            f"it is not valid JSON at line {error.lineno}, column {error.colno}, and comments or trailing commas "
            "would be lost"
        ) from error
    except NotJson:
        raise
    except ValueError as error:  # an integer of more than 4,300 digits
        raise NotJson("it holds a number that is too long") from error
    if not isinstance(value, dict):
        raise NotJson("it is not an object")
    return value


def _object(members: list[tuple[str, Any]]) -> Document:
    made = dict(members)
    if len(made) < len(members):
        ((twice, _),) = Counter(name for name, _ in members).most_common(1)
        raise NotJson(f"an object in it has `{twice}` twice")
    return made


def _after(document: Document, *edits: Edit) -> Document:
    after = copy.deepcopy(document)
    for edit in edits:
        edit(after)
    return after


def _inner(document: Document, name: str, empty: T) -> T:
    """The object or array `name` in `document`; it is made if it is missing."""
    inner = document.setdefault(name, empty)
    if not isinstance(inner, type(empty)):
        raise NotJson(f"`{name}` is not an {'array' if isinstance(empty, list) else 'object'}")
    return inner


def _same(one: Document, other: Document) -> bool:
    # Not ==, because `True == 1`.
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _differ_by_entry_only(text: str, before: str, edits: Edits) -> bool:
    try:
        was = parsed(before)
        now_with, was_with = (_after(one, edits.take, edits.put) for one in (parsed(text), was))
        return _same(_after(was, edits.take), was) and _same(now_with, was_with)
    except (NotJson, NameTaken):
        return False


def _written(document: Document, like: str) -> str:
    """`document` in the form of the text `like`: its indentation, line ends and end."""
    body = like.strip(_BLANK)
    indent = _INDENT.search(body)
    on_one_line = "\n" not in body and body not in ("", "{}")
    width = None if on_one_line else indent[1] if indent else "  "
    try:
        text = json.dumps(document, ensure_ascii=False, indent=width, allow_nan=False)
    except ValueError as error:
        raise NotJson("it holds a number that JSON cannot hold") from error
    # Half of a surrogate pair, which UTF-8 cannot write, stays an escape.
    text = text.encode(errors="backslashreplace").decode()
    if "\r\n" in like:
        text = text.replace("\n", "\r\n")
    return text + (like[len(like.rstrip(_BLANK)) :] if body else "\n")
