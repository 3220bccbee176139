"""A machine that is linked to a server: which memory it uses, what is said where the server does not answer as it
should, and that nothing is lost then."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cli_program import in_process, run_on
from forked_programs import run as run_program
from hook_transcripts import assistant, event, transcript, user
from http_server import ERAS, HANDSHAKE, MODERN, TOKEN, Server, serving
from linked_machines import answering, certificate, link, linked, network, says, token_file
from stdio_process import command, running

from memory_server.kernel.errors import InvalidInput, QuotaReached, StorageUnwritable
from memory_server.kernel.link import shared_name, url_of
from memory_server.storage import link_files
from memory_server.storage.link_files import LinkFile, Outbox

BOUND = 5.0
SLACK = 1.0
"""Seconds that a hook may take; and by which a busy machine may make it longer."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(
        tmp_path_factory.mktemp("home") / "data", ready=False, http__token=TOKEN
    ) as server:
        yield server


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def hook(
    machine: Path, hook_event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], str]:
    """The output of the hook, and what it complained about."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(hook_event).encode())))
    status, out, err = run_on(machine, "hook")
    assert status == 0
    output = json.loads(out) if out.strip() else {}
    return output, err


def turn_end(machine: Path, text: str, prompt: str, **fields: Any) -> dict[str, Any]:
    path = machine.parent / f"{prompt}.jsonl"
    path.write_bytes(transcript(user(text, prompt), assistant("Noted.")))
    return event("Stop", transcript_path=str(path), prompt_id=prompt, **fields)


def number_waiting(machine: Path) -> int:
    return int(json.loads(run_on(machine, "where", "--json").out)["waiting"])


# --- which memory --------------------------------------------------------------------------------------------


def test_commands_and_hooks_use_the_memory_of_the_server_until_the_link_is_taken_away(
    machine: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(machine, server.url)
    second_machine = linked(machine.parent / "other", server.url)
    assert server.url in run_on(machine, "where").out
    assert run_on(machine, "remember", "The ferry leaves at nine.", "-c", "trip").status == 0
    hook(
        machine,
        turn_end(machine, "The red bicycle is in the cellar.", "p1", session_id="a"),
        monkeypatch,
    )
    prompt_event = event(
        "UserPromptSubmit", session_id="b", prompt="Where is the red bicycle?", prompt_id="q"
    )
    out, err = hook(second_machine, prompt_event, monkeypatch)
    assert "cellar" in out["hookSpecificOutput"]["additionalContext"]
    assert err == ""
    assert (
        "nine" in run_on(second_machine, "recall", "When does the ferry leave?", "-c", "trip").out
    )
    begun, _ = hook(
        second_machine, event("SessionStart", session_id="c", source="startup"), monkeypatch
    )
    assert "cellar" in begun["hookSpecificOutput"]["additionalContext"]
    for words in (["list"], ["search", "bicycle"], ["history"], ["recalls"], ["list", "--json"]):
        status, text, _ = run_on(second_machine, *words)
        assert (status, bool(text)) == (0, True)
    assert run_on(second_machine, "show", "zz")[:2] == (1, "")
    assert not list(machine.glob("*/short-term-memory.json")), "nothing of it is here"
    assert run_on(second_machine, "call", "get_memory_stats", "{}").status == 0
    assert run_on(machine, "unlink").status == 0
    assert run_on(machine, "recall", "Where is the red bicycle?") == (0, "", "")
    assert run_on(machine, "unlink").status == 2


def test_books_of_the_server_are_listed_switched_and_brought_back(
    machine: Path, tmp_path: Path
) -> None:
    book = {
        "name": "Venn",
        "entries": {"0": {"uid": 0, "comment": "Law", "constant": True, "content": "No lamps."}},
    }
    (tmp_path / "venn.json").write_text(json.dumps(book), "utf-8")
    home = tmp_path / "home"
    with serving(home, http__token=TOKEN) as server:
        linked(machine, server.url)
        assert run_on(machine, "books") == (
            0,
            "No lorebooks; `memory-server import FILE` brings one in.\n",
            "",
        )
        assert (
            in_process(
                "--data-dir", str(home), "-c", "tale", "import", str(tmp_path / "venn.json")
            ).status
            == 0
        )
        row = json.loads(run_on(machine, "books", "--json").out)
        assert (row["name"], row["conversation_id"], row["on"]) == ("Venn", "tale", True)
        assert "Law" in run_on(machine, "books", "show", "venn").out
        assert (
            "Law"
            in run_on(
                machine,
                "recall",
                "hello",
                "-c",
                "tale",
                "--messages",
                "3",
                "--other-words",
                "lamp, law",
            ).out
        )
        assert run_on(machine, "books", "off", "Venn").out.startswith("Venn is off: 1 entry.")
        assert run_on(machine, "recall", "hello", "-c", "tale", "--messages", "4") == (0, "", "")
        removed = run_on(machine, "books", "remove", "Venn").out
        assert (
            run_on(machine, "undo", removed.rpartition("Change ")[2].rstrip(".\n"), "--yes").status
            == 0
        )
        assert json.loads(run_on(machine, "books", "--json").out)["on"] is False


def test_a_link_that_cannot_be_removed_stays(
    machine: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    linked(machine, server.url)

    def refuse(path: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(path))

    with monkeypatch.context() as patched:
        patched.setattr("memory_server.kernel.files.remove_file", refuse)
        status, _, err = run_on(machine, "unlink")
    assert status == 1
    assert "Nothing was changed in" in err
    assert "it cannot be written" in err
    assert LinkFile(machine).read() is not None
    with monkeypatch.context() as patched:
        warned: list[str] = []
        patched.setattr("memory_server.kernel.files.sync_folder", refuse)
        patched.setattr(
            "memory_server.storage.small_files.log.warning", lambda text, *_: warned.append(text)
        )
        assert run_on(machine, "unlink").status == 0
        assert LinkFile(machine).read() is None
        LinkFile(machine).write(link_files.Link(server.url, str(token_file(machine.parent))))
    assert LinkFile(machine).read() is not None
    assert ["a power loss may take the last change back" in text for text in warned] == [True, True]


def test_what_only_the_server_can_do_is_said_in_a_sentence(machine: Path, server: Server) -> None:
    linked(machine, server.url)
    for name in (
        "doctor",
        "cleanup",
        "backup",
        "export out",
        "import x.json",
        "web",
        "tokens list",
        "knowledge list",
    ):
        status, out, err = run_on(machine, *name.split())
        assert (status, out) == (2, "")
        assert err.count("\n") == 1
        assert "works only on the server" in err
    status, _, err = run_on(machine, "serve", "--http", "0")
    assert status == 2
    assert "unlink" in err
    assert "works only on the server" in run_on(machine, "forget", "x", "--for-good", "--yes").err


def test_forgetting_and_taking_back_reach_the_server(machine: Path, server: Server) -> None:
    linked(machine, server.url)
    run_on(machine, "remember", "Dr. Halloran is my dentist.", "-c", "teeth")
    status, out, _err = run_on(machine, "forget", "Halloran")
    assert status == 2, "nobody is there to be asked"
    assert "Would forget 1 memory" in out
    status, out, _ = run_on(machine, "forget", "Halloran", "--yes")
    assert status == 0
    change = out.split("`memory-server undo ")[1].split("`")[0]
    assert "Halloran" not in run_on(machine, "list", "-c", "teeth").out
    assert run_on(machine, "undo", change).status == 0
    assert "Halloran" in run_on(machine, "list", "-c", "teeth").out


@pytest.mark.usefixtures("process")
@pytest.mark.parametrize("era", ERAS)
def test_a_window_speaks_with_the_server(machine: Path, server: Server, era: str) -> None:
    linked(machine, server.url)
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "lines", "version": "1"},
    }
    more = {"_meta": meta} if era == MODERN else {}
    with running(command(machine)) as client:
        if era == HANDSHAKE:
            client.connect()
        else:
            assert MODERN in client.ask(0, "server/discover", **more)["result"]["supportedVersions"]
        tools = client.ask(1, "tools/list", **more)["result"]["tools"]
        assert "remember_turn" in {tool["name"] for tool in tools}
        turn = {"messages": [{"role": "user", "content": f"The boat is named Era {era}."}]}
        for tool, arguments in (("remember_turn", turn), ("get_memory_stats", {})):
            answer = client.ask(tool, "tools/call", name=tool, arguments=arguments, **more)
            assert not answer["result"].get("isError"), answer
        assert client.ask(3, "tools/call", name="no_tool", arguments={}, **more)["result"][
            "isError"
        ]
        assert "error" in client.ask(4, "no/method", **more)
        client.stdin.close()
        assert client.ended() < BOUND
    assert f"Era {era}" in run_on(machine, "search", "boat").out


# --- what is here is sent --------------------------------------------------------------------------------------


def test_what_was_remembered_here_is_sent_after_a_dry_run_and_twice_is_once(
    machine: Path, server: Server
) -> None:
    for number in range(3):
        run_on(machine, "remember", f"Letter {number} came from Norway.", "-c", "mail")
    linked(machine, server.url)
    assert "3 new" in run_on(machine, "link", "--send", "--dry-run").out
    status, _, _err = run_on(machine, "link", "--send")
    assert status == 2, "nobody is there to be asked"
    assert "Norway" not in run_on(machine, "list", "-c", "mail").out
    assert run_on(machine, "link", "--send", "--yes").status == 0
    assert run_on(machine, "list", "-c", "mail").out.count("Norway") == 3
    assert "3 unchanged" in run_on(machine, "link", "--send", "--yes").out
    assert run_on(machine, "list", "-c", "mail").out.count("Norway") == 3


def test_the_longest_texts_are_sent_in_parts_that_a_request_holds_and_what_none_holds_is_named(
    machine: Path, server: Server
) -> None:
    def call(tool: str, **arguments: Any) -> None:
        file = machine.parent / "arguments.json"
        file.write_text(json.dumps(arguments), "utf-8")
        status, _, err = run_on(machine, "call", tool, f"@{file}")
        assert status == 0, err

    def refs(of: Path) -> list[tuple[str, str]]:
        rows = [
            json.loads(line)
            for line in run_on(of, "list", "--family", "refs", "--json").out.splitlines()
        ]
        return sorted((row["id"], row["text"]) for row in rows)

    for number in range(3):  # two fit into a request
        call(
            "memoryAdd",
            content=f"{number} " + "日志" * 249_000,
            namespace="long-term",
            tags=[f"send{number}"],
        )
    call(
        "remember_turn",
        messages=[{"role": "user", "content": f"{n} " + "文" * 99_000} for n in range(10)],
    )
    call("remember_turn", messages=[{"role": "user", "content": "The short one of the long ones."}])
    before = refs(machine)
    linked(machine, server.url)
    status, out, err = run_on(machine, "link", "--send", "--yes")
    assert "Not sent, because they are too long for one request: 1 memory" in err
    assert status == 1
    assert set(before) <= set(refs(machine)), out
    assert "The short one of the long ones." in run_on(machine, "list", "-c", "default").out


# --- bad days ------------------------------------------------------------------------------------------------


def test_offline_a_turn_waits_and_keeps_its_time_and_the_session_is_told_once(
    machine: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with network(server.port) as net:
        linked(machine, net.url)
        net.target = 1  # nobody listens there
        prompt_event = event(
            "UserPromptSubmit", session_id="s", prompt="Where is the key?", prompt_id="q"
        )
        first_output, err = hook(machine, prompt_event, monkeypatch)
        assert "delivered later" in first_output["systemMessage"]
        assert err.count("\n") == 1
        assert hook(machine, prompt_event | {"prompt_id": "r"}, monkeypatch) == ({}, "")
        _, err = hook(
            machine,
            turn_end(machine, "The key is under the fern.", "p1", session_id="s"),
            monkeypatch,
        )
        assert err == ""
        status, out, err = run_on(machine, "remember", "The lamp is on.", "-c", "default")
        assert (status, out) == (
            0,
            "Kept on this machine until the server answers; turns waiting: 2.\n",
        )
        assert run_on(machine, "recall", "lamp").status == 1
        assert run_on(machine, "forget", "lamp", "--yes").status == 1, "forgetting does not wait"
        assert number_waiting(machine) == 2
        net.target = server.port
        status, out, _ = run_on(machine, "list", "-c", "default", "--json")
    assert number_waiting(machine) == 0
    listing = run_on(linked(machine, server.url), "list", "-c", "default", "--json").out
    rows = [json.loads(line) for line in listing.splitlines()]
    fern = next(row for row in rows if "fern" in row["text"])
    assert fern["at"].startswith("2026-06-20T08:00:05"), "the time at which it was said"


@pytest.mark.parametrize(
    "typed",
    [
        "forget lamp --yes",
        "undo",
        "pause",
        "list",
        "search lamp",
        "recall lamp",
        "call recall_turn",
    ],
)
def test_offline_a_command_does_not_wait_and_says_what_to_do(
    machine: Path, server: Server, typed: str
) -> None:
    with network(server.port) as net:
        linked(machine, net.url)
        net.target = 1  # nobody listens there
        status, out, err = run_on(machine, *typed.split())
    assert (status, out) == (1, "")
    command_name = typed.split()[0]
    assert f"run `memory-server {command_name}` again when it answers" in err
    assert number_waiting(machine) == 0


def test_a_turn_that_two_machines_tell_is_kept_once(
    machine: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    for computer in (machine, machine.parent / "other"):
        linked(computer, server.url)
        hook(
            computer,
            turn_end(machine, "The gate code is 4711.", "twin", session_id="same"),
            monkeypatch,
        )
    assert run_on(machine, "search", "4711").out.count("gate code") == 1


PATH = (
    b'{"error":{"kind":"path","message":"There is no such path, or it does not take this method."}}'
)
BAD = {
    "a sign-in page": (
        says(200, b"<html>Sign in</html>", content_type="text/html"),
        "sign-in page",
    ),
    "a redirect": (says(302, b"", location="http://127.0.0.1:9/login"), "another address"),
    "an older server": (says(404, PATH), "older version"),
    "another program": (says(200, b"[1]"), "does not answer as a memory server"),
    "a gateway": (says(502, b"bad gateway", content_type="text/plain"), "cannot answer now"),
    "a refusal": (
        says(401, b'{"error":{"kind":"token","message":"no"}}'),
        "does not accept the token",
    ),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_answer_of_a_server_is_said_and_a_turn_waits(
    machine: Path, server: Server, kind: str
) -> None:
    answer, sentence = BAD[kind]
    with answering(answer) as url:
        status, out, err = link(machine, url)
        assert (status, out) == (1, "")
        assert sentence in err
        assert err.count("\n") == 1
        assert not (machine / ".memory-server" / "link.json").exists()
        linked(machine, server.url)
        LinkFile(machine).write(link_files.Link(url, str(token_file(machine.parent))))
        status, out, err = run_on(machine, "remember", f"Said before {kind}.")
        assert status == 0
        assert sentence in err
        assert run_on(machine, "recall", "anything").status == 1
        assert number_waiting(machine) == 1
    LinkFile(machine).write(link_files.Link(server.url, str(token_file(machine.parent))))
    # The first search delivers the turn.
    results = (
        run_on(machine, "search", "said before").out + run_on(machine, "search", "said before").out
    )
    assert f"Said before {kind}." in results
    assert number_waiting(machine) == 0


def test_a_wrong_token_and_one_that_others_may_read_are_refused_and_never_shown(
    machine: Path, server: Server
) -> None:
    wrong = token_file(machine.parent, "w" * 40)
    status, out, err = run_on(machine, "link", server.url, "--token-file", str(wrong))
    assert (status, out) == (1, "")
    assert str(wrong) in err
    assert "wwww" not in err
    wrong.chmod(0o644)
    status, _, err = run_on(machine, "link", server.url, "--token-file", str(wrong))
    assert status == 2
    assert f"chmod 600 {wrong}" in err
    for text in ("", "two words"):
        token_file(machine.parent, text)
        assert "one token" in run_on(machine, "link", server.url, "--token-file", str(wrong)).err


def test_certificates_are_verified(
    machine: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls, ca = certificate(machine.parent)
    with network(server.port, tls=tls) as net:
        status, _, err = link(machine, net.url)
        assert status == 1
        assert "--ca" in err
        linked(machine, net.url, "--ca", str(ca))
        assert run_on(machine, "remember", "The kettle is blue.").status == 0
        assert "blue" in run_on(machine, "search", "kettle").out
        run_on(machine, "unlink")
        monkeypatch.setenv("SSL_CERT_FILE", str(ca))
        linked(machine, net.url)


@pytest.mark.parametrize(
    ("days", "name", "sentence"), [(-1, "127.0.0.1", "clock"), (1, "127.0.0.9", "another name")]
)
def test_a_certificate_that_has_expired_or_is_for_another_name_is_said(
    machine: Path, server: Server, days: float, name: str, sentence: str
) -> None:
    tls, ca = certificate(machine.parent, days=days, name=name)
    with network(server.port, tls=tls) as net:
        status, _, err = link(machine, net.url, "--ca", str(ca))
    assert status == 1
    assert sentence in err


def test_a_clock_that_is_wrong_by_a_day_is_said(machine: Path) -> None:
    me = b'{"name":"laptop","tenant":null,"scopes":["read","write"],"version":"1","paused":null}'

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.date_time_string = lambda timestamp=None: "Sat, 20 Jun 2020 08:00:00 GMT"  # type: ignore[method-assign]
        says(200, me)(handler)

    with answering(answer) as url:
        status, _, err = link(machine, url)
    assert status == 0
    assert "hours off" in err


def test_only_a_server_of_this_machine_is_reached_without_tls() -> None:
    assert url_of("https://home.example/mcp") == "https://home.example"
    assert url_of("http://localhost:8460/") == "http://localhost:8460"
    for url in (
        "http://home.example",
        "http://10.0.0.1",
        "ftp://x",
        "home.example",
        "https://u:p@x",
        "https://",
    ):
        with pytest.raises(InvalidInput):
            url_of(url)


def test_a_folder_has_one_name_on_all_machines() -> None:
    assert shared_name("/home/ann/shop", "/home/ann") == "~/shop"
    assert shared_name("/Users/ann/shop", "/Users/ann/") == "~/shop"
    assert shared_name("/srv/shop", "/home/ann") == "/srv/shop"
    assert shared_name("/home/anna", "/home/ann") == "/home/anna"
    assert shared_name(None, "/home/ann") is None


# --- the outbox -----------------------------------------------------------------------------------------------


def test_a_full_outbox_says_what_it_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link_files, "MOST_TURNS", 2)
    box = Outbox(tmp_path)
    turns = [
        {"path": "/v1/remember_turn", "headers": {}, "body": {"n": number}} for number in range(5)
    ]
    assert [box.add(turns[1]), box.add(turns[2])] == [1, 2]
    with pytest.raises(QuotaReached, match="2 turns wait"):
        box.add(turns[3])
    box.delivered(1)
    monkeypatch.setattr(link_files, "MOST_BYTES", 300)
    with pytest.raises(QuotaReached):
        box.add({"n": "x" * 300})
    assert box.add(turns[4]) == 3
    assert box.waiting() == [2, 3]
    assert box.read(2) == turns[2]


def test_a_turn_for_which_the_disk_has_no_room_is_not_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Outbox(tmp_path)
    box.add({"n": 1})

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device on device")

    with monkeypatch.context() as patch:
        patch.setattr(link_files.folders, "sync_file", full)
        with pytest.raises(StorageUnwritable, match="the disk is full"):
            box.add({"n": 2})
    assert box.waiting() == [1]
    assert box.add({"n": 3}) == 2


def test_one_process_delivers_at_a_time_and_a_refused_turn_stands_in_nobodys_way(
    machine: Path, server: Server
) -> None:
    linked(machine, server.url)
    box = Outbox(machine)
    box.add({"path": "/v1/remember_turn", "body": {"messages": "none"}, "headers": {}})
    with box.turn() as has_turn, box.turn() as second_has_turn:
        assert (has_turn, second_has_turn) == (True, False)
        status, out, _ = run_on(machine, "remember", "Somebody else delivers.")
        assert (status, out) == (
            0,
            "Kept on this machine until the server answers; turns waiting: 2.\n",
        )
    _, _, err = run_on(machine, "list")
    assert "refused a turn" in err
    assert (number_waiting(machine), len(box.refused())) == (0, 1)
    assert "Somebody else delivers." in run_on(machine, "search", "delivers").out


# --- time ----------------------------------------------------------------------------------------------------


@pytest.mark.alone
@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGSTOP")
@pytest.mark.parametrize("shares", [False, True])
def test_a_hook_is_within_its_bound_while_the_server_hangs(
    machine: Path, request: pytest.FixtureRequest, shares: bool
) -> None:
    if shares:
        request.getfixturevalue("shared")
    (machine.parent / "hanging").mkdir()

    def seconds(hook_event: dict[str, Any]) -> float:
        began = time.monotonic()
        hook_input = json.dumps(hook_event).encode()
        completed = run_program(["--data-dir", machine, "hook"], hook_input)
        assert completed.returncode == 0
        return time.monotonic() - began

    with serving(machine.parent / "hanging" / "data", http__token=TOKEN) as server:
        linked(machine, server.url)
        with running(command(machine)) as client:
            client.connect()
            prompt = event("UserPromptSubmit", prompt="Where?", prompt_id="q")
            usual = min(seconds(prompt) for _ in range(3))
            os.kill(server.process.pid, signal.SIGSTOP)
            try:
                # It gives up after a second; the rest is what a busy machine takes.
                assert seconds(prompt) < 1.0 + 2 * usual + SLACK
                assert seconds(turn_end(machine, "Here.", "p")) < 1.0 + 2 * usual + SLACK
            finally:
                os.kill(server.process.pid, signal.SIGCONT)
    assert number_waiting(machine) == 1
