"""When a turn leaves the outbox of a linked machine: only for an answer that says what became of it, or when it is
refused for good. And what is refused for good stands in the way of no other turn."""

from __future__ import annotations

import io
import json
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cli_program import in_process, run_on
from hook_transcripts import assistant, event, transcript, user
from http_server import TOKEN, give, serving
from linked_machines import answering, link, linked, says, token_file

from memory_server.kernel.errors import RemoteError
from memory_server.operations.delivery import TurnEnd, TurnResult, is_refused_for_good, result_of
from memory_server.process import linked_commands
from memory_server.storage.link_files import Link, LinkFile, Outbox

ME = {
    "name": "a",
    "scopes": ["read", "write"],
    "version": "1",
    "paused": None,
    "read_only": False,
    "status": 0,
}


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def give_input(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(value).encode())))


def stop_hook(
    machine: Path, text: str, prompt: str, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, str]:
    """What the hook prints after a turn, and what it complains about."""
    path = machine.parent / f"{prompt}.jsonl"
    path.write_bytes(transcript(user(text, prompt), assistant("Noted.")))
    stop_event = event("Stop", transcript_path=str(path), prompt_id=prompt, session_id="s")
    give_input(stop_event, monkeypatch)
    status, out, err = run_on(machine, "hook")
    assert status == 0
    return out, err


def texts_of(machine: Path) -> list[str]:
    """What waits in the outbox."""
    box = Outbox(machine)
    turns = [box.read(number) for number in box.waiting()]
    return [json.dumps(turn) for turn in turns]


# --- a token or a server that only reads -----------------------------------------------------------------------


@pytest.mark.parametrize("only", ["the token", "the server"])
def test_turns_wait_while_nothing_may_be_written_and_are_delivered_with_another_token(
    machine: Path, only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    writes = give(home, "writes")
    reads = give(home, "reads", "--read-only")
    token_file(machine.parent, reads if only == "the token" else writes)
    flags = ("--read-only",) if only == "the server" else ()
    with serving(home, *flags, ready=False) as server:
        status, _, err = run_on(
            machine, "link", server.url, "--token-file", str(machine.parent / "token")
        )
        assert status == 0
        assert "turns of this machine are kept here" in err
        out, err = stop_hook(machine, "My boat is called Nessie.", "p1", monkeypatch)
        assert "kept on this machine" in json.loads(out)["systemMessage"]
        assert err.count("\n") == 1
        assert stop_hook(machine, "The boat is green.", "p2", monkeypatch) == ("", ""), (
            "it is told once in a session"
        )
        assert (
            "turns waiting: 3"
            in run_on(machine, "remember", "The second boat is called Kelpie.").out
        )
    first, second, third = texts_of(machine)
    assert "Nessie" in first
    assert "green" in second
    assert "Kelpie" in third
    token_file(machine.parent, writes)
    with serving(home, ready=False) as server:
        LinkFile(machine).write(Link(server.url, str(machine.parent / "token")))
        assert run_on(machine, "list").status == 0
        listing = run_on(machine, "list").out
    assert not Outbox(machine).waiting()
    for name in ("Nessie", "green", "Kelpie"):
        assert name in listing


# --- what an answer with status 200 means ----------------------------------------------------------------------

STORED = TurnResult(TurnEnd.STORED)
NOTHING = TurnResult(TurnEnd.NOTHING_KEPT, "private")
ANSWERS: list[tuple[dict[str, Any], TurnResult | None]] = [
    ({"stored": True}, STORED),
    ({"stored": True, "id": "ab", "success": True}, STORED),
    ({"stored": False, "id": "ab"}, STORED),
    ({"stored": False, "note": "private"}, NOTHING),
    ({"text": "", "output": "", "errors": ""}, None),
    ({}, None),
    ({"status": "ok"}, None),
    ({"success": True}, None),
    ({"stored": "true"}, None),
    ({"stored": 1}, None),
    ({"stored": False}, None),
    ({"stored": False, "note": ""}, None),
    ({"stored": None, "id": "ab"}, None),
    ({"stored": False, "id": 7}, None),
]


@pytest.mark.parametrize(("answer", "result"), ANSWERS)
def test_only_an_answer_that_says_so_is_a_delivery(
    answer: dict[str, Any], result: TurnResult | None
) -> None:
    assert result_of(answer) == result


NO_DELIVERIES = [answer for answer, result in ANSWERS if result is None]


@pytest.mark.parametrize(
    "answer",
    [
        *NO_DELIVERIES[:2],
        *(pytest.param(answer, marks=pytest.mark.full) for answer in NO_DELIVERIES[2:]),
    ],
)
@pytest.mark.parametrize("told_by", ["remember", "hook"])
def test_a_turn_waits_where_something_else_answers_well(
    machine: Path, answer: dict[str, Any], told_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with answering(says(200, json.dumps(answer).encode())) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        if told_by == "remember":
            status, out, err = run_on(machine, "remember", "The ferry leaves at nine.")
            assert (status, out) == (
                0,
                "Kept on this machine until the server answers; turns waiting: 1.\n",
            )
            assert "did not confirm that it stored the turn" in err
        else:
            stop_hook(machine, "The ferry leaves at nine.", "p1", monkeypatch)
    assert len(Outbox(machine).waiting()) == 1


def test_what_only_looks_does_not_take_an_answer_of_something_else_for_nothing_found(
    machine: Path,
) -> None:
    with answering(says(200, b'{"status": "ok"}')) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        for words in (
            ["list"],
            ["search", "ferry"],
            ["recall", "ferry"],
            ["forget", "ferry", "--yes"],
        ):
            status, out, err = run_on(machine, *words)
            assert (status, out) == (1, ""), words
            assert "does not answer as a memory server" in err
        assert link(machine.parent / "other", url)[0] == 1


# --- what is refused -------------------------------------------------------------------------------------------

OURS = '{"error": {"kind": "%s", "message": "It is not taken."}}'
PAGE = "<html>no</html>"


def refusal(status: int, kind: str) -> tuple[str, str]:
    """Body and type of a refusal: ours with this `kind`, or the page of another program."""
    if kind == "a page":
        return PAGE, "text/html"
    return OURS % kind, "application/json"


REFUSALS = [
    *((status, "arguments", True) for status in (400, 405, 410, 413, 415, 422, 431)),
    (404, "not found", True),
    (404, "path", False),
    (404, "", False),
    *((status, "", False) for status in (400, 402, 405, 410, 415, 422, 451)),
    *(
        (status, "x", False)
        for status in (401, 403, 407, 408, 409, 421, 425, 429, 500, 502, 503, 504, 507)
    ),
    *((status, "a page", True) for status in (413, 414, 431)),
    *((status, "a page", False) for status in (400, 401, 403, 404, 405, 500, 503)),
]


def _whole_way() -> list[Any]:
    """All refusals; those whose decision is in the table without an answer are tried in the long form, but for one of
    each kind."""
    rows: list[Any] = []
    kinds = set()
    for row in REFUSALS:
        is_in_table = row[1:] in kinds and row[1] != "a page"
        kinds.add(row[1:])
        rows.append(pytest.param(*row, marks=pytest.mark.full) if is_in_table else row)
    return rows


@pytest.mark.parametrize(("status", "kind", "is_final"), _whole_way())
def test_what_is_refused_for_good_is_set_aside_with_its_reason_and_the_rest_goes_on(
    machine: Path, status: int, kind: str, is_final: bool
) -> None:
    body, content_type = refusal(status, kind)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if b"the first" in getattr(handler, "body", b""):
            says(status, body.encode(), content_type=content_type)(handler)
        else:
            says(200, json.dumps(ME | {"stored": True, "output": "", "errors": ""}).encode())(
                handler
            )

    box = Outbox(machine)
    with answering(answer) as url:
        linked(machine, url)
        for text in ("the first", "the second"):
            box.add({"path": "/v1/remember_turn", "headers": {}, "body": {"messages": text}})
        status_of_list, _, err = run_on(machine, "list")
        assert status_of_list == 0, err
        assert len(box.waiting()) == (0 if is_final else 2), err
        refused = box.refused()
        assert len(refused) == is_final
        if is_final:
            assert refused[0].reason
            assert "the first" in refused[0].path.read_text()
            assert str(refused[0].path) in err
            where = run_on(machine, "where").out
            assert refused[0].reason in where
            assert str(refused[0].path) in where
            assert json.loads(run_on(machine, "where", "--json").out)["refused"] == [
                {"file": str(refused[0].path), "reason": refused[0].reason}
            ]
            assert "kept here: 1 turn;" in link(machine, url)[2]


@pytest.mark.parametrize(
    ("status", "kind", "is_final"), [row for row in REFUSALS if row[1] != "a page"]
)
def test_the_decision_is_that_of_the_table(status: int, kind: str, is_final: bool) -> None:
    assert is_refused_for_good(RemoteError("", status, kind)) == is_final


def test_a_turn_that_is_refused_is_not_said_to_be_remembered(machine: Path) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    with serving(home, ready=False, http__token=TOKEN) as server:
        linked(machine, server.url)
        status, out, err = run_on(machine, "remember", "--turn", "x" * 20_000, "The first turn.")
        assert (status, out) == (2, "")
        assert "refused a turn" in err
        assert (
            run_on(machine, "remember", "--session", "s" * 17_000, "The second turn.").status == 2
        )
        assert run_on(machine, "remember", "--session", "文" * 256, "The third turn.").status == 0
        assert "The third turn." in run_on(machine, "list").out
        assert not Outbox(machine).waiting()


def test_a_folder_with_a_long_name_keeps_no_turn_back(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    deep = machine.parent
    for _ in range(12):
        deep = deep / ("文" * 80)
        deep.mkdir()
    monkeypatch.chdir(deep)
    with serving(home, ready=False, http__token=TOKEN) as server:
        linked(machine, server.url)
        assert (
            run_on(machine, "remember", "The ferry leaves at nine.", "-c", "文" * 256).status == 0
        )
        assert not Outbox(machine).waiting()
        assert not Outbox(machine).refused()


# --- the state of a chat -----------------------------------------------------------------------------------------


def test_when_memories_came_in_a_chat_is_the_servers(machine: Path) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    token_file(machine.parent, give(home, "writes"))
    row = {
        "name": "Ferry",
        "prompt": "It leaves at nine.",
        "trigger": "true",
        "once": True,
        "createdAt": 1767225600000,
    }
    pack = machine.parent / "pack.json"
    pack.write_text(json.dumps([row]), encoding="utf-8")
    assert in_process("--data-dir", str(home), "import", str(pack)).status == 0
    arguments = json.dumps({"messages": [{"role": "user", "content": "When?"}], "session": "s"})
    with serving(home) as server:
        assert (
            run_on(
                machine, "link", server.url, "--token-file", str(machine.parent / "token")
            ).status
            == 0
        )
        ferry_comes = [
            "nine" in run_on(machine, "call", "recall_turn", arguments).out for _ in range(2)
        ]
    assert ferry_comes == [True, False]
    states = [
        path for path in machine.rglob("conversation.json") if "firings" in path.read_text("utf-8")
    ]
    assert not states, "this machine keeps none"


@pytest.mark.parametrize(
    "content",
    ["a <private>secret</private>", [{"type": "text", "text": "a <private>secret</private>"}]],
)
def test_private_parts_stay_on_this_machine_in_each_form_of_a_message(content: Any) -> None:
    sent = linked_commands._without_private(
        [{"role": "human", "content": content, "createdAt": 1795860000}]
    )
    assert sent == [{"role": "user", "content": "a", "timestamp": 1_795_860_000_000}]


def test_of_a_turn_that_forgets_only_the_call_leaves_this_machine() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "forget"}}]}
    assert linked_commands._without_private(
        [{"role": "user", "content": "forget my secret"}, call]
    ) == [call]


SAID = {"role": "user", "content": "likes jam <private>secret</private>"}


@pytest.mark.parametrize("command", ["remember", "recall"])
@pytest.mark.parametrize(
    ("given", "is_read"),
    [
        ([SAID | {"time": "12:30"}], True),
        ({"messages": SAID}, True),
        ({"messages": {"messages": [SAID]}}, True),
        (SAID, True),
        ([SAID | {"timestamp": "soon"}], False),
        ([SAID | {"content": [SAID["content"], 5]}], False),
        ([SAID["content"]], False),
        ({"messages": SAID["content"]}, False),
        ({"messages": {"messages": SAID}}, False),
    ],
)
def test_private_parts_stay_here_in_each_form_of_the_input(
    machine: Path, command: str, given: Any, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies: list[bytes] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        bodies.append(getattr(handler, "body", b""))
        says(200, json.dumps(ME | {"stored": True, "prompt": ""}).encode())(handler)

    with answering(answer) as url:
        linked(machine, url)
        give_input(given, monkeypatch)
        assert run_on(machine, command).status == (0 if is_read else 2)
    sent = b"".join(bodies)
    assert b"secret" not in sent
    assert (b"likes jam" in sent) == is_read
    assert not Outbox(machine).waiting()


def test_an_older_server_gets_a_turn_without_the_fields_that_it_refuses(machine: Path) -> None:
    bodies: list[dict[str, Any]] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(getattr(handler, "body", b"") or b"{}")
        bodies.append(body)
        if "said_by" in body:
            says(422, (OURS % "arguments").encode())(handler)
        else:
            says(200, json.dumps(ME | {"stored": True, "output": ""}).encode())(handler)

    known = {"event": "Stop", "turn": "t", "messages": [SAID]}
    with answering(answer) as url:
        linked(machine, url)
        turn = {"path": "/v1/commands/hook", "headers": {}, "body": known | {"said_by": "bot"}}
        Outbox(machine).add(turn)
        assert run_on(machine, "list").status == 0
    assert known in bodies
    assert not Outbox(machine).waiting()
    assert not Outbox(machine).refused()


def test_a_turn_that_is_all_private_takes_back_the_one_in_whose_place_it_was_said(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    path = machine.parent / "t.jsonl"
    lines = [
        user("The ferry leaves at nine.", "p1", uuid="u1", parentUuid=None),
        assistant("Noted.", uuid="a1", parentUuid="u1"),
        user("It is green.", "p2", uuid="u2", parentUuid="a1"),
        assistant("I see.", uuid="a2", parentUuid="u2"),
        user("<private>It is red.</private>", "p3", uuid="u3", parentUuid="a1"),
        assistant("I see.", uuid="a3", parentUuid="u3"),
    ]
    with serving(home, ready=False, http__token=TOKEN) as server:
        linked(machine, server.url)
        for count in (2, 4, 6):
            path.write_bytes(transcript(*lines[:count]))
            stop_event = event(
                "Stop", transcript_path=str(path), prompt_id=f"p{count // 2}", session_id="s"
            )
            give_input(stop_event, monkeypatch)
            assert run_on(machine, "hook").status == 0
        listing = run_on(machine, "list").out
    assert "ferry" in listing
    assert "green" not in listing
    assert "red" not in listing
