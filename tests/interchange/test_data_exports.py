"""The data exports of ChatGPT and Claude come as people get them: the zip, its folder, and what was pasted."""

from __future__ import annotations

import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.kernel.messages import MAX_CONTENT_CHARS

AT = 1_750_000_000


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """The command in UTC, in the folder of the test."""
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "UTC")
    monkeypatch.chdir(tmp_path)
    return cli.with_flags("--data-dir", "data")


def node(name: str, parent: str | None, message: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"id": name, "parent": parent, "children": [], "message": message}


def gpt_message(
    role: str, *parts: Any, kind: str = "text", to: str = "all", **metadata: Any
) -> dict[str, Any]:
    content: dict[str, Any] = {"content_type": kind, "parts": list(parts)}
    return {
        "author": {"role": role},
        "create_time": AT,
        "content": content,
        "recipient": to,
        "metadata": metadata,
    }


def gpt(title: str, *messages: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """A conversation of ChatGPT whose messages follow each other."""
    mapping = {"root": node("root", None, None)}
    last = "root"
    for number, message in enumerate(messages):
        mapping[f"n{number}"] = node(f"n{number}", last, message)
        last = f"n{number}"
    return {"title": title, "create_time": AT, "current_node": last, "mapping": mapping, **fields}


def gpt_talk(title: str, question: str, **fields: Any) -> dict[str, Any]:
    return gpt(title, gpt_message("user", question), gpt_message("assistant", "Noted."), **fields)


CHATGPT: Mapping[str, Any] = {
    "conversations-000.json": [gpt_talk("a", "My sister Wanda plays the oboe")],
    "conversations-001.json": [
        gpt_talk("b", "The kiln fires at 1240 degrees"),
        gpt_talk("c", "The code of the safe is 4711", is_do_not_remember=True),
        gpt_talk("d", "A temporary thought of herons", is_temporary_chat=True),
        {"title": "broken"},
    ],
    "user.json": {"id": "user-1", "email": "a@example.org", "chatgpt_plus_user": False},
    "chat.html": "<html></html>",
    "file-abc-photo.png": "x",
}


def claude_message(number: int, sender: str, text: str = "", **fields: Any) -> dict[str, Any]:
    blocks = []
    if text:
        blocks.append({"type": "text", "text": text})
    at = f"2026-03-01T10:00:{number:02}.000000Z"
    return {
        "uuid": f"m{number}",
        "sender": sender,
        "text": text,
        "content": blocks,
        "created_at": at,
        **fields,
    }


def paste(text: str, name: str = "paste.txt") -> dict[str, Any]:
    return {
        "file_name": name,
        "file_type": "txt",
        "file_size": len(text),
        "extracted_content": text,
    }


def artifact(kind: str | None, text: str, command: str = "create") -> dict[str, Any]:
    fields = {"command": command, "title": "Rooms", "content": text}
    if kind:
        fields["type"] = kind
    return {"type": "tool_use", "name": "artifacts", "input": fields}


LETTER = "Dear Mr Okafor, the boiler of flat seven fails each Tuesday."
CLAUDE_CHAT = {
    "uuid": "c",
    "name": "Lease",
    "account": {"uuid": "u"},
    "chat_messages": [
        claude_message(1, "human", attachments=[paste(LETTER)], files=[{"file_name": "photo.png"}]),
        claude_message(2, "assistant", "I made the letter shorter."),
        claude_message(3, "human", "What is a pantry?", attachments=[paste("", "scan.pdf")]),
        claude_message(4, "assistant")
        | {
            "content": [
                artifact("text/markdown", "| pantry | 4 m2 |"),
                artifact("application/vnd.ant.code", "x = 1"),
            ]
        },
    ],
}
CLAUDE: Mapping[str, Any] = {
    "conversations.json": [CLAUDE_CHAT],
    "projects.json": [
        {
            "uuid": "p1",
            "name": "Bakery",
            "description": "All about the bakery",
            "prompt_template": "Answer in verse.",
            "docs": [
                {"uuid": "d1", "filename": "ovens.md", "content": "The oven door sticks on Mondays"}
            ],
            "created_at": "2026-01-01T00:00:00Z",
            "updated_at": "2026-01-02T00:00:00Z",
        },
        {
            "uuid": "p2",
            "name": "How to use Claude",
            "is_starter_project": True,
            "docs": [],
            "prompt_template": "",
        },
    ],
    "memories.json": [
        {
            "account_uuid": "u",
            "conversations_memory": "**Work**\n\nOttilie runs a bakery in Graz.\n\n**Home**\n\nShe has a heron.",
            "project_memories": {"p1": "The rye is milled on site."},
        }
    ],
    "users.json": [{"uuid": "u", "full_name": "Ottilie", "email_address": "o@example.org"}],
}
EXPORTS = {"chatgpt": CHATGPT, "claude": CLAUDE}


def text_of(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value)


def write_folder(folder: str, files: Mapping[str, Any]) -> str:
    for name, value in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text_of(value), encoding="utf-8")
    return folder


def write_zip(name: str, files: Mapping[str, Any], prefix: str = "") -> str:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, value in files.items():
            archive.writestr(f"{prefix}{path}", text_of(value))
        archive.writestr("__MACOSX/._conversations.json", "x")
    return name


def counts_of(report: str) -> list[str]:
    """The lines of a report that do not name the file."""
    return [line for line in report.splitlines() if line.startswith(("left out", "lost"))]


def test_a_file_of_another_name_does_not_hide_the_chats_of_an_archive(cli: CommandLine) -> None:
    files = EXPORTS["chatgpt"] | {"data.json": {"something": 1}}
    assert cli("import", write_zip("export.zip", files))[1].startswith(
        "export.zip has the format chat-export.\n"
    )


@pytest.mark.parametrize("service", EXPORTS)
def test_the_zip_and_the_folder_are_the_same_and_come_once(cli: CommandLine, service: str) -> None:
    folder = write_folder(service, EXPORTS[service])
    archive = write_zip("export.zip", EXPORTS[service], "data-2026-03-01/")
    tried = cli("import", archive, "--dry-run")[1]
    status, first, _err = cli("import", archive)
    assert status == 0
    assert first.startswith("export.zip has the format chat-export.\n")
    assert counts_of(tried) == counts_of(first), "a dry run reports the same"
    again = cli("import", folder)[1]
    assert "new" not in again
    assert "replaced" not in cli("import", archive)[1]
    assert [line.replace("data-2026-03-01/", "") for line in counts_of(first)] == counts_of(again)


def test_chats_that_must_not_be_remembered_stay_out(cli: CommandLine) -> None:
    report = cli("import", write_folder("chatgpt", CHATGPT))[1]
    assert "default: 2 new" in report
    assert "lost  chats that are temporary or marked as not to be remembered: 2" in report
    assert "left out  conversation 3: it has neither" not in report
    assert "it has neither `mapping` nor `chat_messages`" in report
    assert "4711" not in cli("search", "safe code")[1]
    assert "herons" not in cli("search", "herons")[1]


def test_what_was_pasted_is_said_and_what_cannot_come_is_counted(cli: CommandLine) -> None:
    Path("conversations.json").write_text(json.dumps([CLAUDE_CHAT]), encoding="utf-8")
    report = cli("import", "conversations.json")[1]
    assert "pictures and files: 2" in report
    assert "programs and pages that the model wrote beside the chat: 1" in report
    assert "Okafor" in cli("search", "boiler")[1]
    assert "4 m2" in cli("search", "pantry")[1]


def test_a_text_on_a_canvas_is_what_the_model_said(cli: CommandLine) -> None:
    def canvas(tool: str, **fields: Any) -> dict[str, Any]:
        return gpt_message("assistant", json.dumps(fields), to=f"canmore.{tool}")

    chat = gpt(
        "letter",
        gpt_message("user", "Write to the landlord"),
        canvas(
            "create_textdoc", name="Letter", type="document", content="The boiler fails on Tuesdays"
        ),
        canvas("create_textdoc", name="Code", type="code/python", content="print('walrus')"),
        canvas("update_textdoc", updates=[{"pattern": ".*", "replacement": "x"}]),
    )
    Path("conversations.json").write_text(json.dumps([chat]), encoding="utf-8")
    report = cli("import", "conversations.json")[1]
    assert "programs and pages that the model wrote beside the chat: 1" in report
    assert "later changes of a text that the model wrote beside the chat: 1" in report
    assert "Tuesdays" in cli("search", "boiler")[1]


def test_projects_and_memories_of_claude_are_notes_and_refs(cli: CommandLine) -> None:
    report = cli("import", write_folder("claude", CLAUDE))[1]
    assert "notes: 4 new" in report
    assert "refs/long-term: 1 new" in report
    assert "projects that Claude made as an example: 1" in report
    assert "runs a bakery in Graz" in cli("search", "--family", "notes", "Ottilie")[1]
    assert "oven" in cli("search", "--family", "refs", "oven")[1]
    assert "in verse" in cli("search", "--family", "notes", "verse")[1]


def test_a_project_and_a_memory_in_files_of_their_own(cli: CommandLine) -> None:
    project = CLAUDE["projects.json"][0]
    memory = CLAUDE["memories.json"][0]
    files = {
        "projects/p1.json": project,
        "memories/u.json": memory,
        "design_chats/x.json": {"messages": []},
    }
    report = cli("import", write_zip("memories-000.zip", files))[1]
    assert "notes: 4 new" in report
    assert "lost  what stands in the file design_chats/x.json" in report
    Path("one.json").write_text(json.dumps(memory), encoding="utf-8")
    assert "notes (dry run): 3 " in cli("import", "one.json", "--dry-run")[1]


def test_an_import_of_an_export_is_undone(cli: CommandLine) -> None:
    cli("import", write_zip("export.zip", CLAUDE))
    for family in ("memories", "notes", "refs"):
        assert cli("undo", "--family", family, "--yes")[0] == 0
    words = {"memories": "boiler", "notes": "Ottilie", "refs": "oven"}
    assert not any(
        re.search("[1-9] [a-z]+ found", cli("search", "--family", *pair)[1])
        for pair in words.items()
    )
    cli("import", "export.zip")
    assert all(
        re.search("1 [a-z]+ found", cli("search", "--family", *pair)[1]) for pair in words.items()
    )


def test_a_part_in_another_archive_is_named(cli: CommandLine) -> None:
    folder = write_folder("claude", CLAUDE)
    write_zip("claude/memories-000.zip", {})
    report = cli("import", folder)[1]
    assert (
        "left out  memories-000.zip: it is a zip archive in the folder; import it separately"
        in report
    )


def test_a_long_paste_comes_whole_in_several_messages(cli: CommandLine) -> None:
    long = "plover " * (MAX_CONTENT_CHARS // 7 * 2) + "the last word is avocet"
    chat = {
        **CLAUDE_CHAT,
        "chat_messages": [claude_message(1, "human", "Read this", attachments=[paste(long)])],
    }
    Path("conversations.json").write_text(json.dumps([chat]), encoding="utf-8")
    report = cli("import", "conversations.json")[1]
    assert "0 records left out" in report
    assert "avocet" in cli("search", "avocet", "--json")[1]


REFUSED: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "takeout": (
        {"Takeout/My Activity/Gemini Apps/MyActivity.json": []},
        "is an export of Google Takeout",
    ),
    "grok": ({"x/prod-grok-backend.json": {}}, "is an export of Grok"),
    "pages": ({"chat.html": "<html></html>"}, "holds only web pages"),
    "Cherry Studio": ({"IndexedDB/1.log": "", "metadata.json": {}}, "is a backup of Cherry Studio"),
    "unknown": ({"notes.json": {}}, "is a zip archive; unpack it and import the files inside"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_archive_of_another_kind_is_refused_by_its_name(cli: CommandLine, name: str) -> None:
    files, sentence = REFUSED[name]
    status, out, err = cli("import", write_zip("other.zip", files))
    assert (status, out) == (2, "")
    assert f"other.zip {sentence}" in err


def _with_password(name: str) -> None:
    write_zip(name, {"conversations.json": [CLAUDE_CHAT]})
    data = bytearray(Path(name).read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        start = data.find(signature)
        while start >= 0:
            data[start + offset] |= 1
            start = data.find(signature, start + 4)
    Path(name).write_bytes(data)


def _cut(name: str) -> None:
    write_zip(name, {"conversations.json": [CLAUDE_CHAT]})
    Path(name).write_bytes(Path(name).read_bytes()[:-40])


def _says_it_is_small(name: str) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b" " * 50_000_000)
    data = bytearray(buffer.getvalue())
    for signature, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        start = data.find(signature) + offset
        data[start : start + 4] = (10).to_bytes(4, "little")
    Path(name).write_bytes(data)


def _damaged_lzma(name: str) -> None:
    with zipfile.ZipFile(name, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("conversations.json", json.dumps([CLAUDE_CHAT]))
    data = bytearray(Path(name).read_bytes())
    # After the header of 30 bytes and the name: four bytes of the version and the size of the properties of LZMA.
    start = 30 + len("conversations.json") + 4
    data[start : start + 5] = b"\xff" * 5
    Path(name).write_bytes(data)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_with_password, "is a zip archive with a password; unpack it and import the folder"),
        (_cut, "is a zip archive that cannot be read"),
        (_damaged_lzma, "is a zip archive that cannot be read"),
        (_says_it_is_small, "is a zip archive that cannot be read"),
    ],
)
def test_a_hostile_archive_is_refused_in_one_sentence(
    cli: CommandLine, make: Callable[[str], None], sentence: str
) -> None:
    make("bad.zip")
    status, out, err = cli("import", "bad.zip")
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert sentence in err


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("chat.html", "<!DOCTYPE html><html></html>", "is a web page; import `conversations.json`"),
        (
            "users.json",
            [{"email_address": "a", "full_name": "b"}],
            "only says who the user is; it belongs to an export of Claude",
        ),
        (
            "MyActivity.json",
            [{"header": "Gemini Apps", "products": []}],
            "is an activity of Google Takeout",
        ),
        ("conversations.json", [{"inserted_at": "x", "mapping": {}}], "holds no messages"),
        (
            "grok.json",
            {"conversations": [{"conversation": {}, "responses": []}]},
            "is an export of Grok",
        ),
    ],
)
def test_a_file_without_a_form_is_refused_by_its_name(
    cli: CommandLine, name: str, text: Any, sentence: str
) -> None:
    Path(name).write_text(text_of(text), encoding="utf-8")
    status, out, err = cli("import", name)
    assert (status, out) == (2, "")
    assert f"{name} {sentence}" in err


def test_a_folder_or_file_given_as_another_form_names_its_own(cli: CommandLine) -> None:
    session = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "s"}}
    Path("codex").mkdir()
    Path("codex/rollout-1.jsonl").write_text(json.dumps(session), encoding="utf-8")
    for source in ("codex", "codex/rollout-1.jsonl"):
        err = cli("import", source, "--format", "claude-code")[2]
        assert "has the format codex, not claude-code; leave --format out" in err
    Path("empty").mkdir()
    assert "holds no file of a format that can be imported as a folder" in cli("import", "empty")[2]
    Path("graph").mkdir()
    Path("graph/memory.jsonl").write_text(
        '{"type":"entity","name":"a","observations":["b"]}', encoding="utf-8"
    )
    assert (
        "is a folder in which memory.jsonl has the format official; import that file"
        in cli("import", "graph")[2]
    )
