"""The form of a file or folder of memories, told by its content and never by its name; and for what has none, a
sentence that names it and says what to give instead."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import islice
from pathlib import PurePosixPath
from typing import Any, Literal, get_args

from languages import N_, _
from memory_server.conversations.record_lines import FORMAT as NATIVE
from memory_server.interchange import (
    chat_exports,
    chats,
    claude_mem,
    folder_forms,
    livingmemory,
    lore_astrbot,
    lore_forms,
    mem0,
    memory_service,
    official,
    own,
    seed_stores,
)
from memory_server.interchange.folder_forms import LONG_TERM, SHORT_TERM, is_node_backup
from memory_server.interchange.incoming import Incoming, NotThisFormat, Tables
from memory_server.kernel import json_text
from memory_server.kernel.values import frozen
from memory_server.knowledge.notes.pages import MARK
from sandbox import begins_with_role, chat, joined_values, may_be_chat

Foreign = Literal[
    "chat-export",
    "claude-code",
    "claude-mem",
    "codex",
    "gemini-cli",
    "livingmemory",
    "mem0",
    "memory-service",
    "notes-db",
    "pages",
    "refs-log",
    "sillytavern",
]
"""Forms of other programs that keep memories or chats."""
Format = Literal["native", "node", "gentian", "pack", "worldinfo", "official", "chat", Foreign]
FORMATS: tuple[Format, ...] = get_args(Format)
SESSIONS: tuple[Format, ...] = ("claude-code", "codex", "gemini-cli")
"""Forms of the sessions of programs, of which a folder has many."""
FOLDERS: tuple[Format, ...] = (
    "chat",
    "chat-export",
    *SESSIONS,
    "gentian",
    "node",
    "pages",
    "sillytavern",
)
"""Forms that a folder can have."""
_SHOWN_TABLES = 5
"""Tables of a database that a refusal names."""
MOST_LINES = 50
"""Lines in which a file of JSON lines shows its form."""
SQLITE = b"SQLite format 3\0"
"""How a database of SQLite begins."""
ZIP = b"PK\x03\x04"
JPEG = b"\xff\xd8\xff"
FILES: Mapping[Format, Callable[[bytes, str], Incoming]] = {
    "native": own.read_native,
    "node": folder_forms.read_node_list,
    "gentian": folder_forms.read_gentian_list,
    "pack": own.read_pack,
    "official": official.read,
    "livingmemory": livingmemory.read,
    "claude-mem": claude_mem.read,
    "mem0": mem0.read,
    "memory-service": memory_service.read,
    "refs-log": seed_stores.read_refs,
}
"""The readers of single files: each takes the bytes and a conversation."""


@frozen
class _Database:
    """A database. `marks`: a table and a column of it that only this form has; a single match is enough. `tables`: the
    tables and columns that are read; `read`: makes memories of them for a conversation."""

    marks: Sequence[tuple[str, str]]
    tables: Mapping[str, Collection[str]]
    read: Callable[[Tables, str], Incoming]


DATABASES: Mapping[Format, _Database] = {
    "livingmemory": _Database(
        [("documents", "metadata"), ("messages", "sender_id")],
        livingmemory.TABLES,
        livingmemory.read_tables,
    ),
    "claude-mem": _Database(
        [("observations", "narrative")], claude_mem.TABLES, claude_mem.read_tables
    ),
    "notes-db": _Database([("memories", "topic")], seed_stores.TABLES, seed_stores.read_notes),
}
"""The formats of databases."""
_MAGIC = {
    b"\x1f\x8b": N_(
        "is compressed; if it is a backup, put it into the folder of the backups and use `backup restore`."
    ),
    ZIP: N_("is a zip archive; unpack it and import the files inside."),
    JPEG: N_("is a picture without a character card; export the character as PNG or JSON."),
    b"o\x00": N_(
        "is a module of RisuAI in its packed form; export it there as JSON, or export its lorebook."
    ),
    b"\x89PNG": N_("is a damaged picture; export the character again."),
    b"SQLite format 3": N_("is a database; name its file instead of standard input."),
}
_HTML = (b"<!doctype html", b"<html")
_PAGE = N_(
    "is a web page; import `conversations.json` of the same export, its folder, or the zip as it was sent."
)
_LINES_OF_MESSAGES = N_(
    'write it as lines such as {"role": "user", "content": "text", "timestamp": "2026-07-17T09:00Z"}'
)
_NOT_MEMORIES = {
    ("email_address", "full_name"): N_(
        "only says who the user is; it belongs to an export of Claude. Import the folder or zip that contains it."
    ),
    ("email", "chatgpt_plus_user"): N_(
        "only says who the user is; it belongs to an export of ChatGPT. Import the folder or zip that contains it."
    ),
    ("rating", "conversation_id"): N_(
        "only lists ratings of answers; it belongs to an export of ChatGPT. Import the folder or zip "
        "that contains it."
    ),
    ("is_anonymous", "conversation_id"): N_(
        "only lists shared links; it belongs to an export of ChatGPT. Import the folder or zip that contains it."
    ),
    ("header", "products"): N_(
        "is an activity of Google Takeout, a format that cannot be imported; {step}."
    ),
    ("conversation", "responses"): N_(
        "is an export of Grok, a format that cannot be imported; {step}."
    ),
    ("workspace", "prompt", "response"): N_(
        "is an export of AnythingLLM without roles; export the chats there as JSONL, and import that."
    ),
    ("power_user", "oai_settings"): N_(
        "has the settings of SillyTavern; import the folder that holds it, with its chats and lorebooks."
    ),
    ("prompts", "prompt_order"): N_("is a preset of SillyTavern: it has prompts and no memories."),
    ("members", "allow_self_responses"): N_(
        "is a group of SillyTavern; import its chat in `group chats`, or the whole folder of the user."
    ),
    ("findRegex", "replaceString"): N_(
        "is a regex script of SillyTavern: it changes texts and has no memories."
    ),
    ("qrList", "version"): N_("is a set of quick replies of SillyTavern: it has no memories."),
    ("data_visible", "data"): N_(
        "is a chat of text-generation-webui, a format that cannot be imported; {step}."
    ),
    ("moduleVersion", "data"): N_(
        "is a module of NovelAI, which changes its model: it has no memories."
    ),
    ("presetVersion", "parameters"): N_("is a preset of NovelAI: it has settings and no memories."),
}
"""Fields of files that people give and that have no form, and what is said about them."""


def format_of(data: bytes, names: Collection[str] = ()) -> Format:
    """Return the format of a file. `names`: the names of the speakers of a chat, if they are known. Raises
    NotThisFormat with what to do if it is not known."""
    for start, advice in _MAGIC.items():
        if data.startswith(start):
            raise NotThisFormat(advice)

    if not data.strip():
        raise NotThisFormat("is empty.")
    if data.removeprefix(codecs.BOM_UTF8).lstrip()[:20].lower().startswith(_HTML):
        raise NotThisFormat(_PAGE)

    value: Any = None
    for value in _values_of(data):
        _refuse_known(value)
        form = _form_of_chat(value) or _form_of_memories(value)
        if form is not None:
            return form

    if isinstance(value, list) and value and isinstance(value[0], dict):
        raise NotThisFormat(
            "is a list of an unknown kind; name its format with --format: {formats}; or {step}.",
            ", ".join(FORMATS),
            _(_LINES_OF_MESSAGES),
        )

    # After JSON: a file of JSON is YAML too.
    if lore_astrbot.document_in(data) is not None:
        return "worldinfo"

    text = data.decode("utf-8-sig", errors="replace")
    if value is None and begins_with_role(text, names):
        return "chat"

    if data.removeprefix(codecs.BOM_UTF8).startswith(
        (b"---\n", b"---\r\n", b"# ", b"## ", MARK.encode())
    ):
        return "pages"

    if value is None and may_be_chat(text):
        raise NotThisFormat(
            "looks like a chat: add `--format chat --user NAME --char NAME`, with its two speakers."
        )

    raise NotThisFormat(
        "has an unknown format; name one with --format: {formats}; or {step}.",
        ", ".join(FORMATS),
        _(_LINES_OF_MESSAGES),
    )


def _values_of(data: bytes) -> Iterator[Any]:
    """Yield the JSON of a file, of a list also without its first items, or the JSON of its first lines: the first may
    be cut off, or of a kind that says nothing."""
    with suppress(ValueError):
        value = json_text.loads(data)
        yield value
        if isinstance(value, list):
            yield from (value[start:] for start in range(1, min(len(value), chats.FIRST_ITEMS)))
        return

    text = data.removeprefix(codecs.BOM_UTF8).lstrip()
    if text[:1] not in (b"{", b"["):
        return  # a page may quote JSON

    lines = (line for line in BytesIO(text) if line.strip())
    for line in islice(lines, MOST_LINES):
        try:
            yield json_text.loads(line)
        except ValueError:
            values, _rest = joined_values(line.decode(errors="replace"))
            yield from values


def _refuse_known(value: Any) -> None:
    """Raise NotThisFormat if the fields are those of a known file that holds no memories; the
    sentence says what to give instead."""
    rows = value.get("conversations") if isinstance(value, dict) else value
    first = value
    if isinstance(rows, list) and rows:
        first = rows[0]
    if not isinstance(first, dict):
        return
    is_chat = chat.is_chat(first)
    for fields, sentence in _NOT_MEMORIES.items():
        if first.keys() >= set(fields) and (not is_chat or "mapping" in fields):
            if "{step}" in sentence:
                raise NotThisFormat(sentence, _(_LINES_OF_MESSAGES))
            raise NotThisFormat(sentence)


def _form_of_chat(value: Any) -> Format | None:
    """Return the form of a session of Codex or Gemini CLI, by its first line or as a whole; of a
    chat; and of what exports of chats hold beside them. Return None for anything else."""
    match value:
        case {"type": str(), "payload": dict()} | {
            "id": str(),
            "timestamp": str(),
            "instructions": _,
        }:
            return "codex"
        case {"sessionId": str(), "projectHash": str()}:
            return "gemini-cli"
        case {"history": [{"role": "user" | "model", "parts": list()}, *_]}:
            return "gemini-cli"
        case [{"role": "user" | "model", "parts": [{"type": str()}, *_]}, *_]:
            return "chat"  # of the AI SDK; a part of Gemini has no type
        # A checkpoint of Gemini CLI is a bare list.
        case [{"role": "user" | "model", "parts": list()}, *_]:
            return "gemini-cli"

    if chat.is_chat(value) or (isinstance(value, list) and value and chat.is_chat(value[0])):
        return "chat"
    if chat_exports.is_beside_chats(value):
        return "chat-export"

    return None


def _form_of_memories(value: Any) -> Format | None:
    """Return the form of a JSON value that holds memories; the first test that fits decides, so
    their order matters. Return None if none fits."""
    if official.graph_in(value) is not None:
        return "official"
    if is_node_backup(value):
        return "node"
    if mem0.is_of_openmemory(value):
        return "mem0"
    if lore_forms.is_of_another_program(value):
        return "worldinfo"

    match value:
        case {"format": str(name)} if name == NATIVE:
            return "native"
        case {"type": "entity" | "relation"}:
            return "official"
        case {"format": "livingmemory"}:
            return "livingmemory"
        case {"observations": list(), "summaries": list()}:
            return "claude-mem"
        case {"export_metadata": dict(), "memories": list()} | {
            "memories": [{"content": _, "content_hash": _}, *_]
        }:
            return "memory-service"
        case {"results": [{"memory": str()}, *_]} | [{"memory": str(), "id": _}, *_]:
            return "mem0"
        case {"op": "add" | "update" | "delete"} | {"namespace": _, "content": _}:
            return "refs-log"
        case (
            {"type": "session.start", "data": dict()}  # of Copilot CLI
            | {"type": str(), "sessionId": _}
            | {"type": str(), "leafUuid": _}
            | {"type": str(), "messageId": _}
        ):
            return "claude-code"
        case {"entries": _} | {"spec": _} | {"character_book": _}:
            return "worldinfo"
        case [{"chat_name": _} | {"prompt_content": _} | {"prompt_name": _}, *_]:
            return "gentian"
        case [{"trigger": _}, *_]:
            return "pack"
        case [{"text": _}, *_]:
            return "node"
        case []:
            return "node"

    return None


def format_of_tables(tables: Mapping[str, Collection[str]]) -> Format:
    """Return the form of a database, by the columns of its tables. Raises NotThisFormat if they are
    of an unknown program."""
    for form, database in DATABASES.items():
        if any(column in tables.get(table, ()) for table, column in database.marks):
            return form
    names = ", ".join(sorted(tables)[:_SHOWN_TABLES]) or "-"
    raise NotThisFormat(
        "is a database of an unknown program (its tables: {tables}); export it as JSON first.",
        names,
    )


def format_of_folder(files: Mapping[str, bytes], others: Sequence[str] = ()) -> Format:
    """Return the form of a folder: of GentianAphrodite, the Node original, sessions, an export of chats, chats, or
    pages. `others`: paths of files that no form reads. Raises NotThisFormat for any other folder."""
    # The files of the Node original have the same names, so their form decides.
    own_file = files.get(SHORT_TERM) or files.get(LONG_TERM)
    if own_file is not None:
        return "gentian" if format_of(own_file) in ("gentian", "pack") else "node"
    if any(path.endswith((SHORT_TERM, LONG_TERM)) for path in files):
        return "node"

    forms: dict[str, Format] = {}
    for path, data in files.items():
        if path.endswith((".json", ".jsonl")):
            with suppress(NotThisFormat):
                forms[path] = format_of(data)
                if forms[path] in SESSIONS:
                    return forms[path]

    # Before single chats: an export also has projects and memories, which a chat does not have.
    parts_of_export = filter(chat_exports.is_part, files)
    if any(forms.get(path) in ("chat", "chat-export") for path in parts_of_export):
        return "chat-export"
    if "chat" in forms.values():
        return "chat"
    if any(path.endswith(".md") for path in files):
        return "pages"

    for path, form in forms.items():
        raise NotThisFormat(
            "is a folder in which {path} has the format {form}; import that file.", path, form
        )

    forms_of_folders = ", ".join(sorted(FOLDERS))
    raise NotThisFormat(
        _known_by_names([*files, *others])
        or _(
            "holds no file of a format that can be imported as a folder ({forms}); import a file in it.",
            forms_of_folders,
        )
    )


def refusal_of_zip(paths: Sequence[str]) -> str:
    """Return what is said about a zip archive with these files, in which no chat is."""
    return _known_by_names(paths) or _(_MAGIC[ZIP])


def _known_by_names(paths: Sequence[str]) -> str:
    """Return what is said about the export of a known service that cannot be imported, or ""."""
    names = {PurePosixPath(path).name.lower() for path in paths}
    if any(name.startswith(("myactivity.", "my activity")) for name in names):
        return _(
            "is an export of Google Takeout, a format that cannot be imported; {step}.",
            _(_LINES_OF_MESSAGES),
        )

    if any(path.startswith("IndexedDB/") for path in paths):
        return _(
            "is a backup of Cherry Studio that only Cherry Studio can read; {step}.",
            _(_LINES_OF_MESSAGES),
        )

    if "prod-grok-backend.json" in names:
        return _(
            "is an export of Grok, a format that cannot be imported; {step}.", _(_LINES_OF_MESSAGES)
        )

    if "chat.html" in names:
        return _(
            "holds only web pages of an export; ask for the export again: it must have `conversations.json`."
        )

    return ""
