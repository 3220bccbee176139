"""The files of the outbox: refused turns are sent again when somebody says so, one that cannot be read holds up no
other, and erasing takes the reasons too."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from cli_program import run_on
from http_server import TOKEN, serving
from linked_machines import answering, says, token_file

from memory_server.kernel.link import Link
from memory_server.storage import link_files
from memory_server.storage.link_files import LinkFile, Outbox

ME = {
    "name": "a",
    "scopes": ["read", "write"],
    "version": "1",
    "paused": None,
    "read_only": False,
    "status": 0,
}
STORED = json.dumps(ME | {"stored": True, "output": "", "errors": ""}).encode()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("HOME", "XDG_CONFIG_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def turn_of(text: str) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    body = {"messages": messages, "turn_id": text, "session": "s"}
    return {"path": "/v1/remember_turn", "headers": {}, "body": body}


class Answers:
    """A server that stores each turn, and says which ones came; `refuses`: those that hold this text, for good."""

    def __init__(self, refuses: bytes = b"nothing") -> None:
        self.refuses = refuses
        self.came: list[str] = []

    def __call__(self, handler: BaseHTTPRequestHandler) -> None:
        body = getattr(handler, "body", b"")
        if self.refuses in body:
            says(422, b'{"error": {"kind": "arguments", "message": "It is not taken."}}')(handler)
            return
        if b"turn_id" in body:
            self.came.append(json.loads(body)["turn_id"])
        says(200, STORED)(handler)


# --- refused turns are sent again ------------------------------------------------------------------------------


def test_refused_turns_are_sent_again_in_the_order_in_which_they_were_said(machine: Path) -> None:
    home = machine.parent / "home" / "data"
    home.parent.mkdir()
    box = Outbox(machine)
    for number in range(3):
        box.refuse(box.add(turn_of(f"The boat {number} sails.")), "it was too long then")
    box.add(turn_of("The boat 3 sails."))
    with serving(home, ready=False, http__token=TOKEN) as server:
        LinkFile(machine).write(Link(server.url, str(token_file(machine.parent))))
        status, out, err = run_on(machine, "link", "--retry-refused")
        assert (status, err) == (0, "")
        assert "3 turns sent again: 3 delivered, 0 refused again, 0 still waiting." in out
        history = run_on(machine, "history", "--json").out
    texts = [json.loads(line)["steps"][0]["text"] for line in history.splitlines()]
    assert [text.removeprefix("user: ") for text in reversed(texts)] == [
        f"The boat {n} sails." for n in range(4)
    ]
    assert not box.refused()
    assert not box.waiting()
    assert "There is no refused turn" in run_on(machine, "link", "--retry-refused").out


def test_what_is_refused_again_is_set_aside_again_and_said(machine: Path) -> None:
    box = Outbox(machine)
    answers = Answers(refuses=b"the first")
    with answering(answers) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        for text in ("the first", "the second"):
            box.refuse(box.add(turn_of(text)), "it was too long then")
        status, out, err = run_on(machine, "link", "--retry-refused")
    assert status == 1
    assert "2 turns sent again: 1 delivered, 1 refused again, 0 still waiting." in out
    assert "It is not taken." in err
    assert answers.came == ["the second"]
    assert [turn.reason for turn in box.refused()] == ["It is not taken."]


def test_what_holds_no_turn_stays_and_is_said(machine: Path) -> None:
    box = Outbox(machine)
    answers = Answers()
    with answering(answers) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        torn = box.refuse(box.add(turn_of("torn")), "its file does not hold a turn")
        torn.write_text('{"path": "/v1/rem')
        other_server = box.refuse(box.add(turn_of("other")), "its file does not hold a turn")
        other_server.write_text(json.dumps(turn_of("other") | {"path": "//evil.example/v1/x"}))
        note = torn.with_name("my-note.txt")
        note.write_text("a note of somebody")
        box.refuse(box.add(turn_of("good")), "it was too long then")
        status, out, err = run_on(machine, "link", "--retry-refused")
    assert status == 0
    assert "1 turn sent again: 1 delivered" in out
    assert f"3 files in {torn.parent} hold no turn that can be read, and stay there" in err
    assert answers.came == ["good"]
    assert {turn.path for turn in box.refused()} == {torn, other_server, note}


@pytest.mark.parametrize("name", ["²².json", "٣.json", "7.json", "-1.json", "0000000000007.json"])
def test_a_file_with_a_name_that_is_not_the_programs_holds_nothing_up(
    machine: Path, name: str
) -> None:
    box = Outbox(machine)
    box.add(turn_of("first"))
    (machine / ".memory-server" / "outbox" / name).write_text(json.dumps(turn_of("odd")))
    box.add(turn_of("second"))
    assert box.waiting() == [1, 2]


@pytest.mark.parametrize(
    "path", ["/v1/../metrics", "/v1/get_metrics", "/v1/%2e%2e/metrics", "/v1/"]
)
def test_a_turn_for_another_path_is_set_aside_and_the_rest_goes_on(
    machine: Path, path: str
) -> None:
    box = Outbox(machine)
    box.add(turn_of("odd") | {"path": path})
    box.add(turn_of("good"))
    answers = Answers()
    with answering(answers) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        run_on(machine, "remember", "a seal")
    assert answers.came[:1] == ["good"]
    assert box.waiting() == []
    assert len(box.refused()) == 1


def test_a_dry_run_sends_nothing_and_moves_nothing(machine: Path) -> None:
    box = Outbox(machine)
    answers = Answers()
    with answering(answers) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        box.refuse(box.add(turn_of("good")), "it was too long then")
        status, out, _ = run_on(machine, "link", "--retry-refused", "--dry-run")
    assert (status, "1 turn would be sent again." in out) == (0, True)
    assert answers.came == []
    assert [turn.reason for turn in box.refused()] == ["it was too long then"]


def test_a_machine_that_is_not_linked_says_what_to_do_first(machine: Path) -> None:
    box = Outbox(machine)
    box.refuse(box.add(turn_of("good")), "it was too long then")
    status, _, err = run_on(machine, "link", "--retry-refused")
    assert status == 2
    assert "run `memory-server link` first" in err
    assert len(box.refused()) == 1


def test_where_and_link_say_how_refused_turns_are_sent_again(machine: Path) -> None:
    box = Outbox(machine)
    box.refuse(box.add(turn_of("good")), "it was too long then")
    assert "memory-server link --retry-refused" in run_on(machine, "where").out
    with answering(Answers()) as url:
        status, _, err = run_on(
            machine, "link", url, "--token-file", str(token_file(machine.parent))
        )
    assert (status, "memory-server link --retry-refused" in err) == (0, True)


def test_a_new_turn_never_takes_the_number_of_a_refused_one(machine: Path) -> None:
    box = Outbox(machine)
    first_number = box.add(turn_of("first"))
    box.refuse(first_number, "it was too long then")
    (machine / ".memory-server" / "outbox" / "numbers").unlink()
    second_number = box.add(turn_of("second"))
    assert second_number > first_number
    assert box.retry(first_number)
    assert box.waiting() == [first_number, second_number]


# --- a file that cannot be read --------------------------------------------------------------------------------


def make_unreadable(box: Outbox, number: int, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the file of a turn one that the system does not read: tests run as root, whom no rights stop."""
    path = box.path_of(number)
    usual_read = link_files.folders.read_file

    def read_file(file: Path, **more: Any) -> bytes:
        if file == path:
            raise PermissionError(13, "Permission denied", str(path))
        return usual_read(file, **more)

    monkeypatch.setattr(link_files.folders, "read_file", read_file)
    return path


@pytest.mark.parametrize("why", ["permission", "a folder"])
def test_a_turn_that_cannot_be_read_is_said_and_those_behind_it_are_delivered(
    machine: Path, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Outbox(machine)
    answers = Answers()
    numbers = [box.add(turn_of(text)) for text in ("first", "second", "third")]
    with answering(answers) as url:
        LinkFile(machine).write(Link(url, str(token_file(machine.parent))))
        with monkeypatch.context() as patch:
            if why == "permission":
                path = make_unreadable(box, numbers[0], patch)
            else:
                path = box.path_of(numbers[0])
                path.rename(path.with_suffix(".kept"))
                path.mkdir()
            status, _, err = run_on(machine, "list")
        assert status == 0
        assert answers.came == ["second", "third"]
        assert err.count("a turn was not delivered and stays in") == 1
        assert f"{path}, while later turns are delivered: " in err
        reason = "Permission denied" if why == "permission" else "it is a folder and not a file"
        assert reason in err
        assert box.waiting() == numbers[:1], "it stays, because it may be readable later"
        if why == "a folder":
            path.rmdir()
            path.with_suffix(".kept").rename(path)
        assert run_on(machine, "list").status == 0
    assert answers.came == ["second", "third", "first"]
    assert not box.waiting()


# --- reasons are erased ----------------------------------------------------------------------------------------


def test_erasing_takes_the_reasons_of_erased_turns_and_those_that_quote_the_words(
    machine: Path,
) -> None:
    box = Outbox(machine)
    reasons = {
        "My keeper is Quxlantern.": "it has 20,000 characters",
        "The ferry leaves at nine.": "a memory says `Quxlantern` already",
        "The boat is green.": "it is too long",
    }
    for text, reason in reasons.items():
        box.refuse(box.add(turn_of(text)), reason)
    box.erase(lambda value: "Quxlantern" in json.dumps(value))
    folder = machine / ".memory-server" / "outbox"
    assert [
        path for path in folder.rglob("*") if path.is_file() and b"Quxlantern" in path.read_bytes()
    ] == []
    assert [turn.reason for turn in box.refused()] == ["", "it is too long"]
    assert "20,000" not in (folder / "reasons").read_text()


def test_erasing_for_good_finds_words_that_only_a_reason_quotes(machine: Path) -> None:
    assert run_on(machine, "remember", "The cat is called Miso.").status == 0
    box = Outbox(machine)
    box.refuse(box.add(turn_of("The boat is green.")), "a memory says Quxlantern already")
    status, out, err = run_on(machine, "forget", "Quxlantern", "--for-good", "--yes")
    assert (status, "found in 0 places" in out) == (0, True), out + err
    assert len(box.refused()) == 1
    assert "Quxlantern" not in (machine / ".memory-server" / "outbox" / "reasons").read_text()


def test_erasing_where_nothing_waits_makes_no_folder(machine: Path) -> None:
    Outbox(machine).erase(lambda _value: True)
    assert not machine.exists()
