"""`POST /v1/import` and `/v1/export`: files come and go over HTTP, by the rules of the commands."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import threading
import time
import unicodedata
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cli_program import in_process
from http_server import TOKEN, Asker, give, said, serving

from memory_server.config import Settings
from memory_server.interchange.forms import format_of
from memory_server.kernel.errors import InvalidInput
from memory_server.operations import incoming_files
from memory_server.operations.lore_import import check_reports
from memory_server.runtime.app import App, open_memory
from memory_server.runtime.runtime import Runtime
from memory_server.serving.http import exchange
from memory_server.serving.http.refusals import HttpError
from sandbox import CheckReport

CHAT = "user: The spare key is under the fern.\nassistant: I will remember the fern.\n"
"""A chat of one exchange."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home") / "data", http__token=TOKEN) as server:
        yield server.url


def refusal(asker: Asker, path: str, arguments: dict[str, Any]) -> tuple[int, str]:
    answer = asker.call(path, arguments)
    return answer.status_code, answer.json()["error"]["message"]


def test_what_is_imported_comes_to_mind_and_is_exported_again(url: str) -> None:
    asker = Asker(url)
    chat = {"content": CHAT, "format": "chat", "conversation_id": "home"}
    planned = asker.done("import", **chat, dry_run=True)
    assert [(place["place"], place["added"]) for place in planned["places"]] == [("home", 1)]
    assert asker.call("export", {"conversation_id": "home"}).status_code == 400, "it was a dry run"

    done = asker.done("import", **chat)
    assert done["formats"] == ["chat"]
    assert (done["usable"], done["leftOut"]) == (1, 0)
    again = asker.done("import", **chat)
    assert again["places"][0]["added"] == 0
    assert again["places"][0]["unchanged"] == 1

    exported = asker.call("export", {"conversation_id": "home"})
    assert exported.headers["content-type"] == "application/x-ndjson"
    assert "under the fern" in exported.text
    other = asker.done("import", content=exported.text)
    assert other["places"][0]["unchanged"] == 1
    page = asker.call("export", {"format": "markdown"})
    assert page.headers["content-type"].startswith("text/markdown")
    assert "under the fern" in page.text


def test_a_file_that_is_not_text_is_given_in_base64(url: str) -> None:
    asker = Asker(url)
    asker.done("import", content=CHAT, format="chat", conversation_id="packed")
    exported = asker.call("export", {"conversation_id": "packed"})
    packed = base64.b64encode(gzip.compress(exported.content)).decode()
    done = asker.done("import", base64=packed, dry_run=True)
    assert done["formats"] == ["native"]
    assert done["places"][0]["unchanged"] == 1


@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("import", {}, "Give the file as `content`"),
        ("import", {"content": CHAT, "base64": "eA=="}, "Give the file as `content`"),
        ("import", {"content": CHAT, "format": "novel"}, "no format novel"),
        ("import", {"content": CHAT, "format": "codex"}, "the content has the format chat, not"),
        ("import", {"content": CHAT, "format": "codex"}, "leave `format` out"),
        ("import", {"content": "hello", "name": "a.txt"}, "a.txt has an unknown format; name one"),
        ("import", {"content": "hello"}, "name one with `format`: native"),
        (
            "import",
            {"content": "Ann: Hi.\nBob: Yes.\nAnn: Good.\n"},
            "add `format` chat, and `user` and `char`",
        ),
        ("import", {"base64": "1tDOxLrNuavUsNPQw6g=", "format": "chat"}, "`encoding` gb18030"),
        ("import", {"base64": base64.b64encode(b"SQLite format 3\0").decode()}, "no database"),
        ("import", {"content": CHAT, "source": "/etc/passwd"}, "Extra inputs are not permitted"),
        ("import", {"content": CHAT, "dry_run": "yes"}, "valid boolean"),
        ("import", {"base64": "===", "dry_run": True}, "base64"),
        ("export", {"format": "node"}, "'native'"),
        ("export", {"conversation_id": "nobody was here"}, "There is nothing to export"),
        ("export", {"conversation_id": ""}, "conversation_id is empty"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(
    url: str, path: str, arguments: dict[str, Any], reason: str
) -> None:
    status, message = refusal(Asker(url), path, arguments)
    assert status == 400
    assert reason in message
    assert "/data" not in message, "a path of the server"


def test_each_token_has_its_own_and_one_that_reads_imports_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tokens = {
        "a": give(folder, "a", "--tenant", "a"),
        "b": give(folder, "b", "--tenant", "b"),
        "reads": give(folder, "reads", "--tenant", "a", "--read-only"),
    }
    with serving(folder, ready=False) as server:
        askers = {name: Asker(server.url, token) for name, token in tokens.items()}
        chat = {"content": CHAT, "format": "chat"}
        assert askers["a"].done("import", **chat)["usable"] == 1
        assert "under the fern" in askers["reads"].call("export").text
        assert refusal(askers["b"], "export", {})[0] == 400
        status, message = refusal(askers["reads"], "import", chat)
        assert (status, "only reads" in message) == (403, True)
        assert askers["reads"].done("import", **chat, dry_run=True)["usable"] == 1
        assert Asker(server.url, None).call("export").status_code == 401


def test_a_tenant_without_room_imports_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "a", "--tenant", "a")
    with serving(
        folder, ready=False, http__tenant_mb="0.02", http__tenant_idle_minutes="0.005"
    ) as server:
        asker = Asker(server.url, token)
        for number in range(5):
            asker.call("add_short_term_memory", said(f"{number} " + "word " * 2_000))
        asker.call("add_short_term_memory", said("more"))
        assert refusal(asker, "import", {"content": CHAT, "format": "chat"})[0] == 507


def test_a_server_that_only_reads_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", "--read-only", http__token=TOKEN) as server:
        status, message = refusal(Asker(server.url), "import", {"content": CHAT})
    assert (status, "only reads" in message) == (403, True)


def transcript(folder: Path) -> str:
    """A transcript of Claude Code of one turn, in a working folder."""
    common = {"sessionId": "s", "cwd": str(folder), "timestamp": "2026-07-01T10:00:00Z"}
    lines = [
        {**common, "type": "user", "uuid": "1", "message": {"role": "user", "content": "Hello?"}},
        {
            **common,
            "type": "assistant",
            "uuid": "2",
            "parentUuid": "1",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Hello."}]},
        },
    ]
    return "".join(f"{json.dumps(line)}\n" for line in lines)


def test_a_folder_in_a_transcript_is_not_looked_for_on_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (tmp_path / "secret place").mkdir()
    link = tmp_path / "link"
    link.symlink_to("secret place")
    tokens = {"owner": give(folder, "owner"), "a": give(folder, "a", "--tenant", "a")}
    with serving(folder, ready=False) as server:
        for token in tokens.values():
            asker = Asker(server.url, token)
            asker.done("import", content=transcript(link), format="claude-code")
            exported = asker.call("export").text
            assert "Hello?" in exported
            assert str(link) in exported
            assert "secret place" not in exported


def test_layers_are_no_part_of_it_unless_they_are_offered(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    settings = {"http__token": TOKEN, "layers__project_dir": str(tmp_path / "project")}
    with serving(tmp_path / "data", toolsets="short-term,layers", **settings) as server:
        asker = Asker(server.url)
        asker.done("import", content=CHAT, format="chat")
        asker.done("save_to_memory", key="garden", content="The hose is in the shed.")
        exported = asker.call("export").text
        assert "in the shed" in exported
        asker.done("save_to_memory", key="garden", content="The hose is gone.")
    with serving(tmp_path / "data", **settings) as server:
        asker = Asker(server.url)
        assert "The hose" not in asker.call("export").text
        done = asker.done("import", content=exported)
        assert done["leftOut"] == 1
        [page] = tmp_path.rglob("garden.md")
        assert "is gone" in page.read_text("utf-8")


def test_import_and_export_come_with_the_toolset_of_conversations(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", "--tools", "recall_turn", http__token=TOKEN) as server:
        asker = Asker(server.url)
        for path, arguments in (("import", {"content": CHAT}), ("export", {})):
            status, message = refusal(asker, path, arguments)
            assert status == 404
            assert "--toolsets" in message
        paths = asker.http.get("/v1/openapi.json").json()["paths"]
        assert "/v1/import" not in paths


def test_a_tenant_has_room_for_what_a_packed_file_unpacks_to(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "a", "--tenant", "a")
    owner = give(folder, "owner")
    lines = "".join(f"user: {number} {'word ' * 40}\nassistant: Yes.\n" for number in range(2_000))
    with serving(folder, ready=False, http__tenant_mb="0.1") as server:
        owners = Asker(server.url, owner)
        owners.done("import", content=lines, format="chat")
        packed = base64.b64encode(gzip.compress(owners.call("export").content)).decode()
        asker = Asker(server.url, token)
        assert asker.done("import", base64=packed, dry_run=True)["usable"] == 2_000
        status, message = refusal(asker, "import", {"base64": packed})
        assert (status, "may take" in message) == (507, True)
        assert refusal(asker, "export", {})[0] == 400, "nothing was stored"


class SlowRunner:
    """A runner of triggers that counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    async def check_all(self, sources: list[str], **_more: object) -> list[CheckReport]:
        self.asked.append(len(sources))
        await asyncio.sleep(0.05)
        return [CheckReport((), ())] * len(sources)


@pytest.mark.anyio
async def test_triggers_are_checked_as_long_as_there_is_time() -> None:
    runner: Any = SlowRunner()
    now = datetime(2026, 7, 1, tzinfo=UTC)
    assert len(await check_reports(runner, ["true"] * 450, now=now)) == 450
    assert runner.asked == [200, 200, 50]
    until = time.monotonic() + 0.01
    with pytest.raises(InvalidInput, match="Only 200 of 450 triggers"):
        await check_reports(runner, ["true"] * 450, now=now, until=until)


@pytest.mark.anyio
async def test_triggers_of_an_import_wait_for_their_turn(tmp_path: Path) -> None:
    turns = asyncio.Semaphore(1)
    settings = Settings(data_dir=tmp_path)
    pack = b'[{"name": "tea", "prompt": "Oolong.", "trigger": "true"}]'
    async with App(settings, runtime=Runtime(settings, trigger_turns=turns)) as app:
        async with turns:
            waiting = asyncio.create_task(app.import_source(pack, form="pack"))
            await asyncio.sleep(1)
            assert not waiting.done()
        assert (await waiting).count == 1


@pytest.mark.anyio
async def test_others_are_answered_while_the_form_of_a_file_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def noted(*arguments: Any) -> Any:
        threads.append(threading.current_thread())
        return format_of(*arguments)

    monkeypatch.setattr(incoming_files, "format_of", noted)
    async with open_memory(tmp_path) as memory:
        await memory.import_source(b'[{"role": "user", "content": "Hello."}]', dry_run=True)
    assert threads
    assert threading.main_thread() not in threads


def lorebook(**texts: str) -> str:
    """A lorebook of SillyTavern without a name, with these contents by key."""
    entries = {
        str(number): {"uid": number, "key": [key], "comment": key, "content": content}
        for number, (key, content) in enumerate(texts.items())
    }
    return json.dumps({"entries": entries})


def test_a_new_version_of_a_lorebook_takes_the_place_of_the_old_one(url: str) -> None:
    asker = Asker(url)
    place = {"conversation_id": "fantasy"}
    first = lorebook(dragon="Dragons sleep.", elf="Elves sing.", orc="Orcs eat.", cat="Cats nap.")
    done = asker.done("import", content=first, name="world.json", **place)
    assert done["books"][0].startswith("lorebook world in fantasy")
    second = lorebook(dragon="Dragons fly.", elf="Elves sing.", orc="Orcs eat.", cat="Cats nap.")
    planned = asker.done("import", content=second, name="new.json", dry_run=True, **place)
    assert any("repeat it with `book` world" in line["text"] for line in planned["remarks"])
    renamed = {"content": second.replace("Elves", "{{char}}"), "book": "world", "char": "Lin"}
    asker.done("import", name="world.json", **renamed, **place)
    exported = asker.call("export", place).text
    assert "Dragons fly." in exported
    assert "Lin sing." in exported
    assert "Dragons sleep." not in exported


def test_a_header_names_the_conversation_of_both(url: str) -> None:
    asker = Asker(url)
    named = {"X_Memory_Conversation": "Ann"}
    imported = asker.call("import", {"content": CHAT.replace("fern", "mat")}, **named)
    assert imported.json()["places"][0]["place"] == "Ann"
    asker.done("import", content=CHAT, conversation_id="Zoe")
    exported = asker.call("export", **named).text
    assert "under the mat" in exported
    assert "Zoe" not in exported
    assert "Zoe" in asker.call("export", {"conversation_id": "Zoe"}, **named).text
    document = asker.http.get("/v1/openapi.json").json()
    for path in ("/v1/import", "/v1/export"):
        headers = document["paths"][path]["post"]["parameters"]
        assert "X-Memory-Conversation" in [header["name"] for header in headers]
    kinds = document["paths"]["/v1/export"]["post"]["responses"]["200"]["content"]
    assert "application/x-ndjson" in kinds


def test_an_export_stops_where_it_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def pieces(*_arguments: object) -> Iterator[bytes]:
        for number in range(100):
            made.append(number)
            yield b"x" * 1_000_000

    monkeypatch.setattr(exchange, "file_content", pieces)
    nothing: Any = None
    with pytest.raises(HttpError, match="export each conversation") as raised:
        exchange._bounded(nothing, nothing, "native")
    assert (raised.value.status, raised.value.kind) == (413, "size")
    assert len(made) == 65


def test_during_a_pause_nothing_is_imported(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    assert in_process("pause", "--data-dir", str(folder)).status == 0
    with serving(folder, http__token=TOKEN) as server:
        asker = Asker(server.url)
        wanted = {"content": CHAT, "format": "chat"}
        status, message = refusal(asker, "import", wanted)
        assert (status, "paused" in message) == (409, True)
        assert asker.done("import", **wanted, dry_run=True)["usable"] == 1


def test_a_name_is_the_same_conversation_however_it_is_typed(url: str) -> None:
    asker = Asker(url)
    name = "Zoë"
    asker.done("import", content=CHAT, format="chat", conversation_id=name)
    typed = unicodedata.normalize("NFD", name)
    assert "under the fern" in asker.call("export", {"conversation_id": typed}).text
