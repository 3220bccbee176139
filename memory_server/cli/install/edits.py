"""The edits of `install` and `uninstall`: how the texts of files should be. Nothing is read or written here.

Strict JSON is parsed, changed and written with its former indentation. A file with comments or trailing commas would
lose them, so it is never changed: a message says what to add or remove by hand. In TOML only the table of the server is
written or cut, and the rest stays as it is.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from memory_server.cli.install.clients import (
    CLIENTS,
    Client,
    Server,
    System,
    hook_entry,
    is_our_hook,
    is_our_server,
    server_entry,
)
from sandbox.locale import MessageError, _

Document = dict[str, Any]
"""A client's settings: the JSON object that a file holds."""
Edit = Callable[[Document], None]
"""Changes a document in place."""
T = TypeVar("T", dict[str, Any], list[Any])

_BLANK = " \t\r\n"
_INDENT = re.compile(r"^([ \t]+)[^ \t\r\n]", re.MULTILINE)


class NotJson(MessageError, ValueError):
    """A text is not strict JSON, or not of the form of a client's settings; the message is the end of a sentence."""


class NotStrictJson(NotJson):
    """A text is not strict JSON."""


class NameTaken(MessageError, ValueError):
    """Another program has the name that the server should have; the message is the end of a sentence."""


@dataclass(frozen=True, slots=True)
class Edits:
    """How an entry is added to a file, and how it is removed. `entry` names it in words; `trace` matches the text of a
    file that has the entry and cannot be parsed. `strict`: the client ignores a file that is not strict JSON. `toml`:
    the file is TOML."""

    entry: str
    trace: re.Pattern[str]
    put: Edit
    take: Edit
    strict: bool = False
    toml: bool = False


def of_server(server: Server, client: Client) -> Edits:
    listed, entry = CLIENTS[client].listed, server_entry(server, client)

    def put(document: Document) -> None:
        servers = _inner(document, listed, {})
        if servers.get(server.name) is not None and not is_our_server(servers[server.name]):
            raise NameTaken(
                "the name `{name}` belongs to another server; give this one another name with --name, or "
                "remove that one first",
                server.name,
            )
        servers[server.name] = entry

    def take(document: Document) -> None:
        servers = document.get(listed)
        if isinstance(servers, dict) and is_our_server(servers.get(server.name)):
            del servers[server.name]
            if not servers:
                del document[listed]

    found = re.compile(r'memory[-_]server(\.exe)?"')
    strict, toml = client == "claude-code", CLIENTS[client].toml
    return Edits(_("`{name}` of `{listed}`", server.name, listed), found, put, take, strict, toml)


def of_hooks(server: Server, system: System, client: Client = "claude-code") -> Edits:
    events = CLIENTS[client].hooks

    def put(document: Document) -> None:
        if client == "cursor":
            document.setdefault("version", 1)
        hooks = _inner(document, "hooks", {})
        for event in events:
            listed, entry = _inner(hooks, event, []), hook_entry(server, event, system, client)
            if [item for item in listed if is_our_hook(item)] != [entry]:
                hooks[event] = [*(item for item in listed if not is_our_hook(item)), entry]

    def take(document: Document) -> None:
        hooks = document.get("hooks")
        if not isinstance(hooks, dict):
            return
        had = {event: listed for event in events if isinstance(listed := hooks.get(event), list)}
        for event, listed in had.items():
            hooks[event] = [item for item in listed if not is_our_hook(item)]
            if listed and not hooks[event]:
                del hooks[event]
        if had and not hooks:
            del document["hooks"]
            if client == "cursor" and document == {"version": 1}:
                del document["version"]

    found = re.compile(r'memory[-_]server[^\n]* hook"')
    return Edits(_("the hooks with `memory-server` in `hooks`"), found, put, take, client == "claude-code")


def of_origins(wanted: Sequence[str]) -> Edits:
    """The origins of web pages in our own settings file, a list or names with commas between."""

    def put(document: Document) -> None:
        http = _inner(document, "http", {})
        given = _names(http.get("origins"))
        if missing := [origin for origin in wanted if origin not in given]:
            http["origins"] = [*given, *missing]

    def take(document: Document) -> None:
        http = document.get("http")
        if not isinstance(http, dict) or not set(wanted) & set(given := _names(http.get("origins"))):
            return
        http["origins"] = [origin for origin in given if origin not in wanted]
        if not http["origins"]:
            del http["origins"]
        if not http:
            del document["http"]

    return Edits(
        _("{origins} of `http.origins`", ", ".join(wanted)), re.compile(re.escape(wanted[0])), put, take, toml=True
    )


def _names(given: Any) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given or ()
    return [name for one in listed if (name := str(one).strip())]


def edited(text: str, edit: Edit, *, toml: bool = False) -> str:
    """`text` after `edit`: the same text if nothing has to change. Raises NotJson: it is not strict JSON (or TOML), or
    has another form than a client's settings. NameTaken: another server has the name."""
    try:
        document = parsed(text, toml=toml)
        after = _after(document, edit)
        if _same(after, document):
            return text
        return _written_toml(after, document, text) if toml else _written(after, text)
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error


def taken_back(text: str, before: str | None, edits: Edits) -> str | None:
    """The text of a file without the entry; None if the file should be removed. `before` is the former text, if it is
    known: if nothing else was changed since, it is restored byte for byte. Raises NotJson: it cannot be edited."""
    taken = edited(text, edits.take, toml=edits.toml)
    if before is not None and _differ_by_entry_only(text, before, edits):
        return before
    return None if before is None and taken != text and not parsed(taken, toml=edits.toml) else taken


def parsed(text: str, *, toml: bool = False) -> Document:
    """The value of a text of strict JSON, or of TOML. Raises NotJson if it is not a JSON object, or an object in it has
    a name twice."""
    if toml:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise NotJson("it is not valid TOML ({reason})", error) from error
    try:
        value = json.loads(text if text.strip(_BLANK) else "{}", object_pairs_hook=_object)
    except json.JSONDecodeError as error:
        raise NotStrictJson(
            "it is not valid JSON at line {lineno}, column {colno}, and comments or trailing commas would be lost",
            error.lineno,
            error.colno,
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
        raise NotJson("an object in it has `{twice}` twice", twice)
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
        raise NotJson("`{name}` is not an {isinstance}", name, _("array") if isinstance(empty, list) else _("object"))
    return inner


def _same(one: Document, other: Document) -> bool:
    # Not ==, because `True == 1`.
    # The dates of TOML are not in JSON.
    return json.dumps(one, sort_keys=True, default=repr) == json.dumps(other, sort_keys=True, default=repr)


def _differ_by_entry_only(text: str, before: str, edits: Edits) -> bool:
    try:
        was = parsed(before, toml=edits.toml)
        now_with, was_with = (_after(one, edits.take, edits.put) for one in (parsed(text, toml=edits.toml), was))
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


def _written_toml(after: Document, document: Document, text: str) -> str:
    """`text`, which says `document`, with the tables of the servers that differ in `after`."""
    listed = CLIENTS["codex"].listed
    was, now = document.get(listed, {}), after.get(listed, {})
    end = "\r\n" if "\r\n" in text else "\n"
    for name in [name for name in {**was, **now} if was.get(name) != now.get(name)]:
        # A table ends with its last value: comments after it belong to the next one.
        key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name, ensure_ascii=False)
        value = r"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*[^\[\s#][^\n]*(?:\n|\Z)"
        text = re.sub(
            rf"^\[{listed}\.{re.escape(key)}(?:\.[^\]\n]*)?\][^\n]*\n(?:{value})*", "", text, flags=re.MULTILINE
        )
        if name in now:
            values = [f"{one} = {json.dumps(value, ensure_ascii=False)}" for one, value in now[name].items()]
            begin = text.rstrip() + end * 2 if text.strip() else ""
            text = begin + end.join([f"[{listed}.{key}]", *values, ""])
    was, now = ({} if one.get("http") is None else one["http"] for one in (document, after))
    if was != now:
        text = _with_origins(text, now.get("origins"), end)
    if not _same({listed: {}} | parsed(text, toml=True), {listed: {}} | after):
        raise NotJson("the table of the server is not written as a table of its own")
    return text


def _with_origins(text: str, origins: Sequence[str] | None, end: str) -> str:
    """`text` with these origins in its table `http`, or without any."""
    line = "" if origins is None else f"origins = {json.dumps(origins)}{end}"
    head, there = r"^\[http\][^\n]*(?:\n|\Z)", r"origins[ \t]*=[^\n]*(?:\n|\Z)"
    text, replaced = re.subn(rf"({head}(?:(?!\[)[^\n]*\n)*?){there}", rf"\g<1>{line}", text, flags=re.MULTILINE)
    if not replaced and line:
        text, replaced = re.subn(rf"({head})", rf"\g<1>{line}", text, count=1, flags=re.MULTILINE)
    if not replaced and line:
        return (text.rstrip() + end * 2 if text.strip() else "") + f"[http]{end}{line}"
    return text if line else re.sub(rf"{head}(?=\s*(?:\[|\Z))", "", text, flags=re.MULTILINE)
