"""Fixture files: what their keys mean, and the sentence for every mistake. No sandbox runs here."""

from __future__ import annotations

import json
import os
import threading
from datetime import datetime
from pathlib import Path

import pytest

from sandbox.workbench.fixtures import (
    DEFAULT_NOW,
    Case,
    Unusable,
    fixture_files,
    read_fixture,
)
from sandbox.workbench.terminal import UsageError
from sandbox.workbench.testing import collect

MINIMAL = "trigger: 'true'\nexpect: fired\n"


def read(folder: Path, text: str, name: str = "a.trigger.yaml") -> list[Case]:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    cases = read_fixture(path)
    assert not [case for case in cases if isinstance(case, Unusable)]
    return [case for case in cases if isinstance(case, Case)]


def test_a_file_without_cases_is_one_case(tmp_path: Path) -> None:
    (case,) = read(tmp_path, MINIMAL)
    assert (case.source, case.messages, case.expected) == ("true", (), "fired")
    assert (case.timezone, case.seed, case.conversation_id, case.window) == (
        "UTC",
        0,
        "default",
        20,
    )
    assert case.now == DEFAULT_NOW


def test_cases_stand_over_the_keys_above_them(tmp_path: Path) -> None:
    (tmp_path / "t.js").write_text("1", "utf-8")
    (tmp_path / "c.txt").write_text("user: a\nuser: b\n", "utf-8")
    first, second = read(
        tmp_path,
        "trigger_file: t.js\nchat_file: c.txt\ntz: Asia/Shanghai\nnow: 2026-07-17\ncases:\n"
        "  - {name: one, expect: quiet}\n"
        "  - {name: two, trigger: '2', chat: [{user: x}], seed: 7, now: 2026-07-17T10:00Z,\n"
        "     expect: {failed: timeout}}\n",
    )
    assert (first.source, len(first.messages), first.line) == ("1", 2, 6)
    assert first.now == datetime.fromisoformat("2026-07-17T00:00+08:00")
    assert (second.source, second.messages, second.seed) == (
        "2",
        ({"role": "user", "content": "x"},),
        7,
    )
    assert second.now == datetime.fromisoformat("2026-07-17T10:00+00:00")
    assert second.expected == "failed (timeout)"


def test_times_of_messages_count_along_a_chat_and_for_a_verdict_without_now(tmp_path: Path) -> None:
    chat = "chat: [{user: a, timestamp: 2026-01-02T03:04}, {user: b}]\nnow: 2026-05-05T05:05\n"
    (along,) = read(tmp_path, f"trigger: '1'\n{chat}fires_at: [1, 2]\n")
    assert along.expected == (1, 2)
    assert along.moments()[0].isoformat() == "2026-01-02T03:04:00+00:00"
    assert along.moments()[1].isoformat() == "2026-05-05T05:05:00+00:00"
    (verdict,) = read(tmp_path, f"trigger: '1'\n{chat}at: 1\nexpect: fired\n")
    assert len(verdict.messages) == 1
    assert verdict.now.isoformat() == "2026-05-05T05:05:00+00:00"


def test_the_window_bounds_what_a_trigger_is_given(tmp_path: Path) -> None:
    (case,) = read(
        tmp_path, "trigger: '1'\nchat: [user: a, user: b, user: c]\nwindow: 2\nfires_at: []\n"
    )
    assert [message["content"] for message in case.context(3)["messages"]] == ["b", "c"]
    assert [message["content"] for message in case.context(1)["messages"]] == ["a"]


def test_words_that_yaml_1_1_takes_for_something_else_stay_words(tmp_path: Path) -> None:
    (case,) = read(
        tmp_path,
        "trigger: '1'\nparticipants: {on: yes, day: 2026-07-17}\nchat: [user: no]\nexpect: fired\n",
    )
    assert case.participants == {"on": "yes", "day": "2026-07-17"}
    assert case.messages[0]["content"] == "no"


def test_json_fixtures_and_text_chats_work(tmp_path: Path) -> None:
    text = json.dumps({"trigger": "1", "chat": "user: hi\nassistant: 你好", "expect": "fired"})
    (case,) = read(tmp_path, text, "a.trigger.json")
    assert [message["role"] for message in case.messages] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("- a\n", "a fixture is a mapping"),
        ("trigger: [\n", "is not YAML: line 2"),
        ("trigger: a\ntrigger: b\n", "line 2: the key 'trigger' is there twice"),
        ("1: a\n", "the key 1 is not text"),
        ("expect: fired\n", "line 1: the trigger is missing; give `trigger`, `trigger_file`"),
        ("trigger: '1'\n", "`expect` is missing; add `expect: fired`"),
        ("trigger: '1'\nexpect: yes\n", "`expect` must be fired, quiet, failed"),
        ("trigger: '1'\nexpect: {failed: badly}\n", "with a kind of syntax, reference"),
        ("trigger: '1'\nexpct: fired\n", "unknown key `expct`; did you mean `expect`"),
        (
            "trigger: '1'\nexpect: fired\nfires_at: [1]\n",
            "`expect` and `fires_at` exclude each other",
        ),
        (
            "trigger: '1'\ntrigger_file: a.js\nexpect: fired\n",
            "`trigger` and `trigger_file` exclude each other",
        ),
        ("trigger_file: nowhere.js\nexpect: fired\n", "nowhere.js cannot be read: No such file"),
        ("trigger: '1'\nchat_file: nowhere.txt\nexpect: fired\n", "nowhere.txt cannot be read"),
        ("pack: nowhere.json\nmemory: a\nexpect: fired\n", "nowhere.json cannot be read"),
        ("pack: pack.json\nexpect: fired\n", "`memory` must be text, and it is missing"),
        (
            "pack: pack.json\nmemory: birthdy\nexpect: fired\n",
            "no memory is called 'birthdy'; did you mean 'birthday'",
        ),
        ("trigger: '1'\ntz: Mars/Olympus\nexpect: fired\n", "`tz`: no time zone 'Mars/Olympus'"),
        ("trigger: '1'\nnow: soon\nexpect: fired\n", "`now` is not an ISO time: 'soon'"),
        ("trigger: '1'\nseed: x\nexpect: fired\n", "`seed` must be a whole number, not 'x'"),
        ("trigger: '1'\nwindow: 0\nexpect: fired\n", "`window` must be at least 1"),
        (
            "trigger: '1'\nat: 2\nchat: [user: a]\nexpect: fired\n",
            "`at` is 2, but the chat has 1 message",
        ),
        (
            "trigger: '1'\nchat: [user: a]\nfires_at: [2]\n",
            "`fires_at` names message 2, but the chat has 1",
        ),
        ("trigger: '1'\nfires_at: 3\n", "`fires_at` must be a list of message numbers"),
        ("trigger: '1'\nchat: [bot: a]\nexpect: fired\n", "message 1 of `chat` is not a message"),
        (
            "trigger: '1'\nchat: ['user: a']\nexpect: fired\n",
            "write it as {user: text}, without quotation marks",
        ),
        (
            "trigger: '1'\nchat: hello\nexpect: fired\n",
            "line 1: `chat`: line 1 must begin with user:",
        ),
        ("trigger: '1'\nchat: 5\nexpect: fired\n", "`chat` must be a list"),
        ("trigger: '1'\nparticipants: [a]\nexpect: fired\n", "`participants` must be a mapping"),
        ("trigger: '1'\ncases: []\n", "`cases` must be a list of mappings"),
        (
            "trigger: '1'\ncases:\n  - {name: a, expect: fired}\n  - {name: b}\n",
            "line 4: `expect` is missing",
        ),
    ],
)
def test_every_mistake_gets_one_sentence_with_its_place(
    tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "pack.json").write_text(
        '[{"name": "birthday", "prompt": "p", "trigger": "1"}]', "utf-8"
    )
    (tmp_path / "a.trigger.yaml").write_text(text, "utf-8")
    (unusable,) = [
        case for case in collect([tmp_path / "a.trigger.yaml"]) if isinstance(case, Unusable)
    ]
    assert sentence in unusable.reason
    assert unusable.reason.count("\n") == 0


def test_a_broken_json_fixture_says_its_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not JSON: line 2"):
        read(tmp_path, "{\n", "a.trigger.json")


def test_folders_are_searched_and_files_taken_once(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    for name in ("b.trigger.yaml", "deep/a.trigger.json", "other.yaml"):
        (tmp_path / name).write_text(MINIMAL, "utf-8")
    paths = fixture_files(
        [str(tmp_path), str(tmp_path / "b.trigger.yaml"), str(tmp_path / "other.yaml")]
    )
    assert [path.name for path in paths] == ["b.trigger.yaml", "a.trigger.json", "other.yaml"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("nowhere", "does not exist"), ("empty", "has no fixtures"), ("x.js", "is not a fixture")],
)
def test_paths_that_hold_no_fixture_are_said(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "x.js").write_text("1", "utf-8")
    with pytest.raises(UsageError, match=sentence):
        fixture_files([str(tmp_path / name)])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize(
    "keys", ["trigger: 'true'\nchat_file: odd", "trigger_file: odd", "pack: odd\nmemory: a"]
)
def test_a_pipe_that_a_fixture_names_is_not_waited_for(tmp_path: Path, keys: str) -> None:
    os.mkfifo(tmp_path / "odd")
    # So that a test that fails ends: who waits for the pipe is let go.
    letting_go = threading.Timer(
        20, lambda: os.close(os.open(tmp_path / "odd", os.O_WRONLY | os.O_NONBLOCK))
    )
    letting_go.start()
    (tmp_path / "a.trigger.yaml").write_text(f"{keys}\nexpect: fired\n", encoding="utf-8")
    try:
        [case] = collect([tmp_path / "a.trigger.yaml"])
    finally:
        letting_go.cancel()
    assert isinstance(case, Unusable)
    assert "odd is not a file; name a file" in case.reason
