"""The edits of `install` and `uninstall`: the new texts of files. Nothing is read or written here.

Strict JSON is parsed, changed and written with its former indentation. A file with comments or trailing commas would
lose them, so it is never changed: a message says what to add or remove by hand. In TOML only the table of the server
is written or cut, and the rest stays as it is.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

from languages import MessageError, _
from memory_server.kernel.values import frozen
from memory_server.operations.install.clients import (
    CLIENTS,
    TOOL_EVENTS,
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


class NotJson(MessageError, ValueError):
    """A text is not strict JSON, or has another form than a client's settings; the message is the end of a sentence."""


class NotStrictJson(NotJson):
    """A text is not strict JSON."""


class NameTaken(MessageError, ValueError):
    """Another program has the name that the server should have; the message is the end of a sentence."""


@frozen
class Edits:
    """How an entry is added to a file, and how it is removed. `entry` names it in words; `trace` matches the text of
    a file that has the entry and cannot be parsed. `strict` means that the client ignores a file that is not strict
    JSON. `toml` means that the file is TOML."""

    entry: str
    trace: re.Pattern[str]
    put: Edit
    take: Edit
    strict: bool = False
    toml: bool = False


def of_server(server: Server, client: Client) -> Edits:
    """Make the edits of the list of servers of a client. Its `put` raises NameTaken if the name
    belongs to another server; its `take` leaves such a server."""
    form = CLIENTS[client]
    entry = server_entry(server, client)

    def put(document: Document) -> None:
        """Add the entry. Raises NameTaken if another server has its name."""
        servers = _inner(document, form.listed, {})
        present_entry = servers.get(server.name)
        if present_entry is not None and not is_our_server(present_entry):
            raise NameTaken(
                "the name `{name}` belongs to another server; give this one another name with --name, or "
                "remove that one first",
                server.name,
            )
        servers[server.name] = entry

    def take(document: Document) -> None:
        servers = document.get(form.listed)
        if isinstance(servers, dict) and is_our_server(servers.get(server.name)):
            del servers[server.name]
            if not servers:
                del document[form.listed]

    return Edits(
        entry=_("`{name}` of `{listed}`", server.name, form.listed),
        trace=re.compile(r'memory[-_]server(\.exe)?"'),
        put=put,
        take=take,
        strict=client == "claude-code",
        toml=form.toml,
    )


HooksAtTools = Literal["wanted", "left out", "kept"]
"""Whether hooks for calls of tools are added, are removed, or stay as they are."""


def of_hooks(
    server: Server,
    system: System,
    client: Client = "claude-code",
    at_tools: HooksAtTools = "wanted",
) -> Edits:
    """Make the edits of the lists of hooks of a client: `put` adds ours or brings them up to date,
    and `take` removes them. Hooks of others stay. `at_tools`: what becomes of hooks at tools."""
    events = CLIENTS[client].hooks

    def put(document: Document) -> None:
        """Add our hooks, or bring them up to date; at most one of ours stays for an event."""
        if client == "cursor":
            document.setdefault("version", 1)
        hooks = _inner(document, "hooks", {})
        for event in events:
            had_list = event in hooks
            items = _inner(hooks, event, [])

            entries = [hook_entry(server, event, system, client)]
            our_items = [item for item in items if is_our_hook(item)]

            # Hooks for tools are added only on request, but updated if they exist.
            is_kept = at_tools == "kept" and not our_items
            if event in TOOL_EVENTS and (at_tools == "left out" or is_kept):
                entries = []

            if our_items != entries:
                hooks[event] = [*_without_ours(items), *entries]
            if not hooks[event] and (our_items or not had_list):
                del hooks[event]

    def take(document: Document) -> None:
        """Remove our hooks, and the lists that are empty then."""
        hooks = document.get("hooks")
        if not isinstance(hooks, dict):
            return
        any_event = False
        for event in events:
            items = hooks.get(event)
            if not isinstance(items, list):
                continue
            any_event = True
            hooks[event] = _without_ours(items)
            if items and not hooks[event]:
                del hooks[event]

        if any_event and not hooks:
            del document["hooks"]

            # `put` added the version, which alone says nothing.
            if client == "cursor" and document == {"version": 1}:
                del document["version"]

    return Edits(
        entry=_("the hooks with `memory-server` in `hooks`"),
        trace=re.compile(r'memory[-_]server[^\n]* hook"'),
        put=put,
        take=take,
        strict=client == "claude-code",
    )


def _without_ours(items: Sequence[Any]) -> list[Any]:
    return [item for item in items if not is_our_hook(item)]


def of_origins(origins: Sequence[str]) -> Edits:
    """Make the edits of the origins of web pages in our own settings file: a list, or names with commas between."""

    def put(document: Document) -> None:
        http = _inner(document, "http", {})
        present_origins = _names(http.get("origins"))
        missing = [origin for origin in origins if origin not in present_origins]
        if missing:
            http["origins"] = present_origins + missing

    def take(document: Document) -> None:
        http = document.get("http")
        if not isinstance(http, dict):
            return

        present_origins = _names(http.get("origins"))
        remaining = [origin for origin in present_origins if origin not in origins]
        if len(remaining) == len(present_origins):
            return

        if remaining:
            http["origins"] = remaining
        else:
            del http["origins"]
        if not http:
            del document["http"]

    return Edits(
        entry=_("{origins} of `http.origins`", ", ".join(origins)),
        trace=re.compile(re.escape(origins[0])),
        put=put,
        take=take,
        toml=True,
    )


def _names(value: Any) -> list[str]:
    """Return the names in a list, or in a text with commas between them."""
    if isinstance(value, str):
        items: Sequence[Any] = value.split(",")
    else:
        items = value or ()
    names = [str(item).strip() for item in items]
    return [name for name in names if name]


def edited(text: str, edit: Edit, *, toml: bool = False) -> str:
    """Return `text` after `edit`: the same text if nothing has to change. Raises NotJson if it is not strict JSON (or
    TOML), or has another form than a client's settings; NameTaken if another server has the name."""
    try:
        document = parsed(text, toml=toml)
        after = _after(document, edit)
        if _same(after, document):
            return text
        if toml:
            return _written_toml(after, document, text)
        return _written(after, text)
    except RecursionError as error:
        raise NotJson("it is nested too deeply") from error


def taken_back(text: str, before: str | None, edits: Edits) -> str | None:
    """Return the text of a file without the entry, or None if the file should be removed. `before` is the former
    text, if it is known: if nothing else was changed since, it is restored byte for byte. Raises NotJson if it cannot
    be edited."""
    taken = edited(text, edits.take, toml=edits.toml)
    if before is not None:
        if _differ_by_entry_only(text, before, edits):
            return before
        return taken
    if taken != text and not parsed(taken, toml=edits.toml):
        return None
    return taken


def parsed(text: str, *, toml: bool = False) -> Document:
    """Parse a text of strict JSON, or of TOML. Raises NotJson if it is not a JSON object, or if an object in it has a
    name twice."""
    if toml:
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise NotJson("it is not valid TOML ({reason})", error) from error

    if not text.strip(_BLANK):
        return {}
    try:
        value = json.loads(text, object_pairs_hook=_object)
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
    """Make the object with these members. Raises NotJson if a name is in it twice."""
    document = dict(members)
    if len(document) < len(members):
        counts = Counter(name for name, _value in members)
        [(name_of_most, _count)] = counts.most_common(1)
        raise NotJson("an object in it has `{twice}` twice", name_of_most)
    return document


def _after(document: Document, *edits: Edit) -> Document:
    after = copy.deepcopy(document)
    for edit in edits:
        edit(after)
    return after


def _inner(document: Document, name: str, empty: T) -> T:
    """Return the object or array `name` in `document`; add `empty` if it is missing. Raises NotJson if
    a value of another type has the name."""
    inner = document.setdefault(name, empty)
    if not isinstance(inner, type(empty)):
        kind = _("array") if isinstance(empty, list) else _("object")
        raise NotJson("`{name}` is not an {isinstance}", name, kind)
    return inner


def _same(first: Document, second: Document) -> bool:
    return _comparable(first) == _comparable(second)


def _comparable(document: Document) -> str:
    # Not the document itself, because `True == 1`. `repr` is for the dates of TOML, which JSON does not have.
    return json.dumps(document, sort_keys=True, default=repr)


def _differ_by_entry_only(text: str, before: str, edits: Edits) -> bool:
    """Return whether `before` had no entry of ours, and becomes `text` if it gets one."""
    try:
        document = parsed(text, toml=edits.toml)
        former = parsed(before, toml=edits.toml)
        if not _same(_after(former, edits.take), former):
            return False
        # The entry of `text` may be older: both get the present one.
        return _same(_after(document, edits.take, edits.put), _after(former, edits.take, edits.put))
    except (NotJson, NameTaken):
        return False


def _written(document: Document, like: str) -> str:
    """Write `document` in the form of the text `like`: its indentation, line ends and end. Raises
    NotJson if it holds a number that JSON does not have."""
    body = like.strip(_BLANK)
    try:
        text = json.dumps(document, ensure_ascii=False, indent=_indentation(body), allow_nan=False)
    except ValueError as error:
        raise NotJson("it holds a number that JSON cannot hold") from error
    # Half of a surrogate pair, which UTF-8 cannot write, stays an escape.
    text = text.encode(errors="backslashreplace").decode()

    if "\r\n" in like:
        text = text.replace("\n", "\r\n")

    if not body:
        return text + "\n"
    blanks_at_end = like[len(like.rstrip(_BLANK)) :]
    return text + blanks_at_end


def _indentation(body: str) -> str | None:
    """Return the indentation of a text of JSON, or None if it is on one line. An empty text or object gets two blanks."""
    if body in ("", "{}"):
        return "  "
    if "\n" not in body:
        return None
    indent = _INDENT.search(body)
    if indent is None:
        return "  "
    return indent[1]


def _written_toml(after: Document, document: Document, text: str) -> str:
    """Return `text`, which says `document`, with the tables of the servers that differ in `after`.
    Raises NotJson if the entry is not a separate table."""
    listed = CLIENTS["codex"].listed
    former_servers = document.get(listed, {})
    servers = after.get(listed, {})
    end = "\r\n" if "\r\n" in text else "\n"

    for name in {**former_servers, **servers}:
        if former_servers.get(name) != servers.get(name):
            text = _with_server(text, name, servers.get(name), listed=listed, end=end)

    former_http = _http_of(document)
    http = _http_of(after)
    if former_http != http:
        text = _with_origins(text, http.get("origins"), end)

    # Text is replaced by expressions, so a table in an unusual form may not be found.
    if not _same({listed: {}} | parsed(text, toml=True), {listed: {}} | after):
        raise NotJson("the entry of this server is not a separate TOML table")
    return text


def _http_of(document: Document) -> Document:
    http = document.get("http")
    return {} if http is None else http


def _with_server(text: str, name: str, entry: Document | None, *, listed: str, end: str) -> str:
    """Return `text` with this table for the server `name` at its end, or without any table of it."""
    key = name
    if not re.fullmatch(r"[A-Za-z0-9_-]+", name):
        key = json.dumps(name, ensure_ascii=False)
    # A table ends with its last value: comments after it belong to the next one.
    value_line = r"(?:[ \t\r]*(?:#[^\n]*)?\n)*[ \t]*[^\[\s#][^\n]*(?:\n|\Z)"
    text = re.sub(
        rf"^\[{listed}\.{re.escape(key)}(?:\.[^\]\n]*)?\][^\n]*\n(?:{value_line})*",
        "",
        text,
        flags=re.MULTILINE,
    )

    if entry is None:
        return text

    lines = [f"[{listed}.{key}]"]
    lines += [
        f"{field} = {json.dumps(value, ensure_ascii=False)}" for field, value in entry.items()
    ]
    return _with_blank_line(text, end) + end.join([*lines, ""])


def _with_blank_line(text: str, end: str) -> str:
    """End `text` with an empty line, after which a table can begin; an empty text stays empty."""
    if not text.strip():
        return ""
    return text.rstrip() + end * 2


def _with_origins(text: str, origins: Sequence[str] | None, end: str) -> str:
    """Return `text` with these origins in its table `http`, or without any."""
    head = r"^\[http\][^\n]*(?:\n|\Z)"
    present_line = r"origins[ \t]*=[^\n]*(?:\n|\Z)"

    line = ""
    if origins is not None:
        line = f"origins = {json.dumps(origins)}{end}"

    text, replaced = re.subn(
        rf"({head}(?:(?!\[)[^\n]*\n)*?){present_line}", rf"\g<1>{line}", text, flags=re.MULTILINE
    )

    if not line:
        # The table may be empty now.
        return re.sub(rf"{head}(?=\s*(?:\[|\Z))", "", text, flags=re.MULTILINE)

    # The table exists without this line, or does not exist yet.
    if not replaced:
        text, replaced = re.subn(rf"({head})", rf"\g<1>{line}", text, count=1, flags=re.MULTILINE)
    if not replaced:
        text = _with_blank_line(text, end) + f"[http]{end}{line}"
    return text
