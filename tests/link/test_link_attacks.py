"""A linked machine and its server, where one of them is hostile: a token of one tenant reaches nothing else of the
server by a command, and no answer of a server harms the machine that asked."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import httpx2
import pytest
from cli_program import in_process
from http_server import Asker, Server, give, said, serving
from linked_machines import answering, linked, says
from postgres import postgres

from memory_server.cli import show
from memory_server.command_table import COMMANDS
from memory_server.kernel.errors import NotReached
from memory_server.kernel.link import Link
from memory_server.process import remote
from memory_server.process.remote import Remote
from memory_server.storage.link_files import LinkFile

OFTEN = {"http__requests_per_minute": "600000"}
MARK = "zanzibar"
"""A word that only others have: the user of the server, and another tenant."""


class House(NamedTuple):
    server: Server
    folder: Path
    mine: Asker
    reads: Asker


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A server whose user has a layer of all projects, and two tenants."""
    home = tmp_path_factory.mktemp("home")
    folder = home / "data"
    layer = home / ".multi-agent-mcp" / "memory"
    layer.mkdir(parents=True)
    (layer / f"{MARK}.md").write_text(
        f"---\nkey: {MARK}\n---\n\nThe {MARK} of the server's user.\n", "utf-8"
    )
    tokens = [give(folder, name, "--tenant", name) for name in ("mine", f"{MARK}-other")]
    reads = give(folder, "reads", "--tenant", "mine", "--read-only")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        with serving(
            folder, "--toolsets=all,notes,layers", ready=False, upkeep__enabled="false", **OFTEN
        ) as server:
            house = House(server, folder, Asker(server.url, tokens[0]), Asker(server.url, reads))
            Asker(server.url, tokens[1]).done("remember_turn", **said(f"{MARK} is where I live"))
            house.mine.done("remember_turn", **said("my cat is Miso"))
            yield house


def command(asker: Asker, *arguments: str, name: str | None = None, **more: Any) -> httpx2.Response:
    return asker.call(f"commands/{name or arguments[0]}", {"arguments": list(arguments), **more})


def files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    "arguments",
    [
        ["list"],
        ["list", "--family", "layers", "--json"],
        ["search", MARK],
        ["search", MARK, "--family", "layers", "--json"],
        ["search", MARK, "--scope", "all", "--archived"],
        ["show", MARK],
        ["history", "--json"],
        ["recalls", "--json"],
        ["explain", MARK, "--ask", MARK],
        ["forget", MARK, "--dry-run"],
        ["forget", MARK, "--yes"],
        ["undo", "--pattern", MARK],
        ["import", "-", "--format", "native", "--ask", f"where is {MARK}?"],
    ],
)
def test_a_command_reaches_nothing_of_the_servers_user_and_of_other_tenants(
    house: House, arguments: list[str]
) -> None:
    layer = files(house.folder.parent / ".multi-agent-mcp")
    answer = command(house.mine, *arguments)
    text = answer.text.replace("conversation", "")
    for word in arguments:
        text = text.replace(f"`{word}`", "").replace(f"words of {word}", "")
    assert f"the {MARK}" not in text.lower()
    assert f"{MARK} is" not in text
    assert f"{MARK}-other" not in text
    assert str(house.folder.parent) not in text
    assert files(house.folder.parent / ".multi-agent-mcp") == layer


@pytest.mark.parametrize(
    "arguments",
    [
        ["list", "--data-dir", "/"],
        ["list", "--data", "/"],
        ["--data-dir", "/", "list"],
        ["list", "--tenant", "zanzibar-other"],
        ["list", "--tenan", "zanzibar-other"],
        ["list", "--config=/etc/passwd"],
        ["list", "--now", "2020-01-01"],
        ["list", "--seed", "1"],
        ["search", "x", "--toolsets", "all"],
        ["list", "--timezone", "../../etc/passwd"],
        ["list", "-c", "../../x"],
        ["import", "/etc/passwd"],
        ["import", "-", "/etc/passwd"],
        ["import", "@/etc/passwd"],
        ["forget", "x", "--for-g", "--yes"],
        ["forget", "x", "--in-b", "--yes"],
        ["list", "--help"],
        ["list", "--version"],
        ["doctor"],
        ["list", "--limit", "1000000"],
        ["recalls", "-n", "1000000"],
    ],
)
def test_a_command_names_nothing_of_the_server(house: House, arguments: list[str]) -> None:
    before = command(house.mine, "history", "--json").text
    name = next(
        word
        for word in arguments
        if word in ("list", "import", "forget", "search", "recalls", "doctor")
    )
    answer = command(house.mine, *arguments, name=name)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["error"]["message"].strip(" :.") != "The arguments cannot be used"
    assert "root:" not in answer.text
    assert command(house.mine, "history", "--json").text == before
    assert command(house.mine, *arguments, name="pin").status_code == 400
    assert command(house.mine, "list").json()["status"] == 0
    assert "usage:" not in house.server.said()


def test_a_token_that_only_reads_changes_nothing(house: House) -> None:
    record = {"format": "memory-server", "version": 1, "conversation": "c"}
    commands: list[tuple[list[str], dict[str, Any]]] = [
        (["import", "-", "--format", "chat"], {"input": "user: hello\nassistant: hi\n"}),
        (["import", "-"], {"input": json.dumps(record)}),
        (["forget", "cat", "--yes"], {}),
        (["undo", "--pattern", "cat"], {}),
        (["pin", "ab"], {}),
        (["mute", "ab"], {}),
        (["books", "off", "ab"], {}),
        (["books", "remove", "ab"], {}),
        (["edit", "ab", "x", "y"], {}),
        (["pause"], {}),
        (["resume"], {}),
    ]
    before = command(house.reads, "history", "--json").text
    for arguments, more in commands:
        assert command(house.reads, *arguments, **more).status_code in (400, 403), arguments
    stop = {"event": "Stop", "turn": "t1", "messages": said("a dog")["messages"], "session": "s"}
    refused = house.reads.call("commands/hook", stop)
    assert (refused.status_code, refused.json()["error"]["kind"]) == (403, "scope")
    prompt_event = {
        "event": "UserPromptSubmit",
        "messages": said("my cat")["messages"],
        "session": "s",
        "prompt_id": "p",
    }
    assert house.reads.call("commands/hook", prompt_event).status_code == 200
    assert command(house.reads, "history", "--json").text == before
    assert json.loads(command(house.reads, "recalls", "--json").text)["output"] == ""


def test_what_a_linked_machine_sends_counts_for_the_room_of_its_tenant(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    asker_token = give(folder, "a", "--tenant", "a")
    with serving(
        folder, ready=False, http__tenant_mb="0.02", http__tenant_idle_minutes="0.005"
    ) as server:
        asker = Asker(server.url, asker_token)
        for number in range(5):
            asker.call("add_short_term_memory", said(f"{number} " + "word " * 2_000))
        asker.call("add_short_term_memory", said("more"))
        stop = {
            "event": "Stop",
            "turn": "t1",
            "messages": said("a dog " * 200)["messages"],
            "session": "s",
        }
        assert asker.call("commands/hook", stop).status_code == 507
        chat = {"input": "user: hello\nassistant: hi\n"}
        assert command(asker, "import", "-", "--format", "chat", **chat).status_code == 507
        assert command(asker, "forget", "word", "--yes").status_code == 200


def test_no_tenant_sees_where_the_database_is(tmp_path: Path) -> None:
    url = postgres()
    tenant = f"test-{token_hex(8)}"
    token = give(tmp_path / "data", "a", "--tenant", tenant)
    with serving(tmp_path / "data", "--toolsets=all", ready=False, store=url) as server:
        asker = Asker(server.url, token)
        asker.done("remember_turn", **said("my cat is Miso"))
        answers = [
            command(asker, "search", "x"),
            command(asker, "show", "abcd"),
            command(asker, "list"),
        ]
        answers.append(asker.call("health_check"))
    assert "the database" in answers[0].text + answers[1].text
    for answer in answers:
        assert "postgresql:" not in answer.text


# --- a hostile server ----------------------------------------------------------------------------------------

ESCAPES = "\x1b]52;c;cm0gLXJm\x07\x1b[2J\x9b2J\r\x08 red \x1b[31mthis\x1b[0m"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def answer_of(url: str) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        asker = Remote(Link(url, "token"), "t")
        try:
            return await asker.ask("/v1/me", seconds=20)
        finally:
            await asker.aclose()

    return asyncio.run(ask())


def endless(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b" " * 100_000)
    except OSError:
        handler.close_connection = True


@pytest.mark.parametrize(
    "answer",
    [
        endless,
        says(200, gzip.compress(b'{"a": "' + b" " * 2_000_000 + b'"}'), content_encoding="gzip"),
        says(200, b"[" * 100_000),
        says(200, b'{"a": ' * 100_000),
        says(200, b'{"a": ' + b"9" * 100_000 + b"}"),
        says(302, b"{}", location="http://127.0.0.2:1/v1/me"),
        says(307, b"{}", location="http://127.0.0.2:1/v1/me"),
        says(200, b"<script>", content_type="text/html"),
    ],
)
def test_no_answer_of_a_server_harms_who_asked(
    answer: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "MOST_BYTES", 1_000_000)
    with answering(answer) as url, pytest.raises(NotReached) as refused:
        answer_of(url)
    assert url in str(refused.value)
    assert str(refused.value).count("\n") == 0


ASKING_COMMANDS = [
    ["books", "remove", "x"],
    *([name] for name in ("list", "books", "history", "recalls", "undo", "pause", "resume")),
    *([name, "x"] for name in ("search", "show", "explain", "pin", "mute", "forget")),
    ["forget", "x", "--yes"],
    ["edit", "x", "y", "z"],
    ["recall", "x"],
    ["recall", "x", "--json"],
    ["remember", "x"],
    ["remember", "x", "--json"],
    ["call", "get_memory_stats"],
    ["link", "--send", "--yes"],
]
"""Each command that asks the server."""
assert {words[0] for words in ASKING_COMMANDS} > {
    name for name, command in COMMANDS.items() if command.linked in ("sent", "tool")
}


@pytest.mark.parametrize("words", ASKING_COMMANDS, ids=" ".join)
@pytest.mark.parametrize("stored", [True, pytest.param(False, marks=pytest.mark.full)])
def test_a_terminal_obeys_nothing_of_an_answer(
    machine: Path, words: list[str], stored: bool
) -> None:
    names = ("name", "output", "errors", "prompt", "note", "text", "version")
    answer = dict.fromkeys(names, ESCAPES) | {
        "status": 0,
        "stored": stored,
        "scopes": ["write"],
        ESCAPES: [ESCAPES],
    }
    in_process("--data-dir", str(machine), "remember", "Said before the link.")
    with answering(says(200, json.dumps(answer).encode())) as url:
        linked(machine, url)
        _, out, err = in_process("--data-dir", str(machine), *words)
    for text in (out, err):
        assert not set(text.replace("\x1b[31m", "").replace("\x1b[0m", "")) & set(
            "\x1b\x07\x08\x9b\r"
        )
    refusal = {"error": {"kind": "arguments", "message": ESCAPES}}
    with answering(says(400, json.dumps(refusal).encode())) as url:
        LinkFile(machine).write(Link(url, str(machine.parent / "token")))
        _, out, err = in_process("--data-dir", str(machine), *words)
        _, where, _ = in_process("--data-dir", str(machine), "where")
    assert not set(out + err + where) & set("\x1b\x07\x08\x9b\r")


@pytest.mark.parametrize("status", [0, "x", [], None, {}, 1e400, -7, 10**30])
def test_a_terminal_obeys_nothing_that_a_server_says(machine: Path, status: object) -> None:
    answer = {
        "name": ESCAPES,
        "scopes": 7,
        "version": "1",
        "output": ESCAPES,
        "errors": ESCAPES,
        "status": status,
    }
    with answering(says(200, json.dumps(answer).encode())) as url:
        linked(machine, url)
        exit_status, out, err = in_process("--data-dir", str(machine), "list")
    assert (exit_status == 0) == (status == 0)
    assert exit_status in (0, 1)
    for text in (out, err):
        assert "\x1b[31mthis\x1b[0m" in text
        assert not set(text.replace("\x1b[31m", "").replace("\x1b[0m", "")) & set(
            "\x1b\x07\x08\x9b\r"
        )
    refusal = {"error": {"kind": "x", "message": ESCAPES}}
    with answering(says(403, json.dumps(refusal).encode())) as url:
        (machine / ".memory-server" / "link.json").write_text(
            json.dumps({"url": url, "token_file": "token"})
        )
        (machine.parent / "token").chmod(0o600)
        _, out, err = in_process("--data-dir", str(machine), "list")
    assert not set(out + err) & set("\x1b\x07\x08\x9b\r")


def test_a_terminal_obeys_nothing_that_somebody_said(machine: Path) -> None:
    def run(*arguments: str) -> str:
        status, out, err = in_process("--no-daemon", "--data-dir", str(machine), *arguments)
        assert status == 0, err
        return out + err

    run("remember", f"miso {ESCAPES}", "-c", "c")
    outputs = [
        run("list", "-c", "c"),
        run("show", ""),
        run("search", "miso"),
        run("forget", "miso", "--dry-run"),
    ]
    for text in (*outputs, run("history"), run("explain", "miso", "--ask", "miso")):
        assert "miso" in text
        assert not set(text) & set("\x1b\x07\x08\x9b\r")


def test_an_id_that_all_memories_begin_with_shows_no_thousands(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "MOST", 1)
    for number in range(2):
        in_process(
            "--no-daemon", "--data-dir", str(machine), "remember", f"The cat is number {number}."
        )
    status, out, err = in_process("--no-daemon", "--data-dir", str(machine), "show", "")
    assert (status, out) == (2, "")
    assert "write more of it" in err


def test_a_turn_that_is_none_is_put_aside_and_the_token_goes_to_no_other_server(
    machine: Path,
) -> None:
    paths: list[str] = []

    def elsewhere(handler: BaseHTTPRequestHandler) -> None:
        paths.append(handler.path)
        says(200, b"{}")(handler)

    answer = {
        "name": "a",
        "scopes": ["write"],
        "version": "1",
        "status": 0,
        "stored": True,
        "id": "1",
    }
    with (
        answering(says(200, json.dumps(answer).encode())) as url,
        answering(elsewhere) as other_url,
    ):
        outbox = linked(machine, url) / ".memory-server" / "outbox"
        outbox.mkdir()
        good = {"path": "/v1/remember_turn", "body": {}, "headers": {}}
        bad = [
            {"path": f"{other_url}/x"},
            {"path": 7},
            {"path": None},
            {"headers": []},
            {"headers": {"a": 1}},
        ]
        turns = [
            *(good | change for change in bad),
            good | {"headers": {"a": "b\r\nc: d"}},
            {"body": 1},
            [],
            good,
        ]
        for number, turn in enumerate(turns, 1):
            (outbox / f"{number:012}.json").write_text(json.dumps(turn))
        status, out, err = in_process(
            "--data-dir", str(machine), "remember", "The ferry leaves at nine."
        )
    assert (status, out, err) == (0, f"Remembered on {url}.\n", "")
    assert paths == []
    assert len(list((outbox / "refused").iterdir())) == len(turns) - 1
    assert not list(outbox.glob("*.json"))


def test_a_link_to_a_server_that_is_not_encrypted_is_not_used(machine: Path) -> None:
    link_file = machine / ".memory-server" / "link.json"
    link_file.parent.mkdir(parents=True)
    link_file.write_text(
        json.dumps({"url": "http://home.example", "token_file": str(machine / "token")})
    )
    status, _, err = in_process("--data-dir", str(machine), "list")
    assert status == 2
    assert "not encrypted" in err
