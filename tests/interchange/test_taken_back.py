"""A file that only grows is not a list: what the user took back does not come, and what a client only branched does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hook_transcripts import TOOL_USE, assistant, event, user

from memory_server.conversations.earlier_turns import retirements
from memory_server.conversations.model import ConversationState
from memory_server.interchange import branches, claude_code, codex, gemini_cli
from memory_server.interchange.incoming import Incoming
from memory_server.interchange.spoken_places import TAKEN_BACK
from memory_server.interchange.transcripts import role_of
from memory_server.operations.hook_events import event_of, turn_ended

Line = dict[str, Any]


def asked(uuid: str, parent: str | None, text: str, **rest: Any) -> Line:
    return user(text, f"p-{uuid}", uuid=uuid, **{"parentUuid": parent, "sessionId": "s1"} | rest)


def told(uuid: str, parent: str, text: Any, **rest: Any) -> Line:
    return assistant(text, uuid=uuid, **{"parentUuid": parent, "sessionId": "s1"} | rest)


def api_error(uuid: str, parent: str) -> Line:
    return {"type": "system", "subtype": "api_error", "uuid": uuid, "parentUuid": parent}


def result(uuid: str, parent: str) -> Line:
    content = [{"type": "tool_result", "tool_use_id": uuid, "content": "done"}]
    return user(content, None, uuid=uuid, parentUuid=parent, sessionId="s1")


def lines(*rows: Line) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def read(**files: bytes) -> Incoming:
    named = {f"p/{name}.jsonl": data for name, data in files.items()}
    folders = claude_code.WorkingFolders(lambda folder: folder, lambda folder: "")
    return claude_code.read(named, "default", {}, folders)


def texts(incoming: Incoming) -> str:
    contents = incoming.conversations[0].short_term if incoming.conversations else ()
    return " ".join(sorted(message.content for memory in contents for message in memory.messages))


BEFORE = (asked("u1", None, "one"), told("a1", "u1", "first"))
WRONG = (asked("u2", "a1", "wrong"), told("a2", "u2", "mistaken"))
RIGHT = (asked("u3", "a1", "right"), told("a3", "u3", "correct"))
STAYS = "correct first one right"


def test_a_turn_that_was_rewound_does_not_come_and_is_counted() -> None:
    incoming = read(s1=lines(*BEFORE, *WRONG, *RIGHT))
    assert texts(incoming) == STAYS
    assert incoming.lost[TAKEN_BACK] == 1


def test_all_turns_after_the_place_of_a_rewind_are_taken_back() -> None:
    later = (asked("u9", "a2", "more of it"), told("a9", "u9", "more mistakes"))
    incoming = read(s1=lines(*BEFORE, *WRONG, *later, *RIGHT))
    assert texts(incoming) == STAYS
    assert incoming.lost[TAKEN_BACK] == 2


def test_a_prompt_that_was_rewound_before_its_answer_is_not_a_part_of_the_next_turn() -> None:
    assert texts(read(s1=lines(*BEFORE, WRONG[0], *RIGHT))) == STAYS


def test_what_was_rewound_twice_leaves_the_last_one() -> None:
    again = (asked("u4", "a1", "third"), told("a4", "u4", "better"))
    assert texts(read(s1=lines(*BEFORE, *WRONG, *RIGHT, *again))) == "better first one third"


def test_what_the_client_writes_around_a_prompt_does_not_hide_a_rewind() -> None:
    around: Line = {"type": "system", "subtype": "turn_duration", "uuid": "x1", "parentUuid": "a1"}
    wrong = asked("u2", "x1", "wrong")
    assert texts(read(s1=lines(*BEFORE, around, wrong, WRONG[1], *RIGHT))) == STAYS


def test_a_rewind_to_the_beginning_counts_where_the_client_says_so() -> None:
    beginning = (asked("u3", None, "right"), told("a3", "u3", "correct"))
    leaf = {"type": "last-prompt", "leafUuid": "a3", "sessionId": "s1"}
    assert texts(read(s1=lines(*BEFORE, *beginning, leaf))) == "correct right"
    assert texts(read(s1=lines(*BEFORE, *beginning))) == STAYS  # in doubt, all stays


def test_a_rewind_after_which_nothing_was_said_counts_where_the_client_names_it() -> None:
    leaf = {"type": "last-prompt", "leafUuid": "a1", "explicit": True, "sessionId": "s1"}
    assert texts(read(s1=lines(*BEFORE, *WRONG, leaf))) == "first one"
    del leaf["explicit"]
    assert texts(read(s1=lines(*BEFORE, *WRONG, leaf))) == "first mistaken one wrong"


def test_an_error_of_the_api_takes_nothing_back() -> None:
    late = (api_error("e2", "u2"), asked("u3", "e2", "right"), told("a3", "u3", "correct"))
    assert "mistaken" in texts(read(s1=lines(*BEFORE, *WRONG, *late)))
    failed = (WRONG[0], api_error("e2", "u2"))
    assert "wrong" in texts(read(s1=lines(*BEFORE, *failed, *RIGHT)))


def test_tools_that_ran_at_the_same_time_take_nothing_back() -> None:
    tools = (told("t1", "u2", TOOL_USE), told("t2", "t1", TOOL_USE))
    results = (result("r1", "t1"), result("r2", "t2"))
    end = (told("a2", "r1", "mistaken"), asked("u3", "r2", "right"), told("a3", "u3", "correct"))
    incoming = read(s1=lines(*BEFORE, WRONG[0], *tools, *results, *end))
    assert texts(incoming) == "correct first mistaken one right wrong"


def test_a_loader_that_took_a_line_in_the_middle_of_a_turn_takes_nothing_back() -> None:
    tool = told("t1", "u1", TOOL_USE)
    rest = (result("r1", "t1"), told("a1", "r1", "first"))
    lost = (asked("u3", "t1", "right"), told("a3", "u3", "correct"))
    incoming = read(s1=lines(BEFORE[0], tool, *rest, *WRONG, *lost))
    assert "mistaken" in texts(incoming)


def test_two_branches_that_both_go_on_both_stay() -> None:
    later = (asked("u9", "a2", "more of it"), told("a9", "u9", "more"))
    assert "mistaken" in texts(read(s1=lines(*BEFORE, *WRONG, *RIGHT, *later)))


def test_lines_that_are_no_tree_all_stay() -> None:
    circle = (asked("u2", "a2", "wrong"), WRONG[1])
    assert "mistaken" in texts(read(s1=lines(*BEFORE, *circle, *RIGHT)))
    twice = told("a2", "u1", "mistaken")
    assert "mistaken" in texts(read(s1=lines(*BEFORE, *WRONG, twice, *RIGHT)))


def test_a_compaction_takes_nothing_back() -> None:
    boundary: Line = {
        "type": "system",
        "subtype": "compact_boundary",
        "uuid": "b1",
        "parentUuid": None,
        "logicalParentUuid": "a1",
    }
    summary = asked("c1", "b1", "summary", isCompactSummary=True)
    after = (asked("u3", "c1", "right"), told("a3", "u3", "correct"))
    assert "mistaken" in texts(read(s1=lines(*BEFORE, *WRONG, boundary, summary, *after)))


def forked(row: Line, session: str, *, says_so: bool) -> Line:
    origin = {"forkedFrom": {"sessionId": "s1", "messageUuid": row["uuid"]}} if says_so else {}
    return row | {"sessionId": session} | origin


def test_a_fork_is_the_same_turns_under_the_name_of_the_first_session() -> None:
    original = lines(*BEFORE)
    own = forked(asked("u3", "a1", "right", timestamp="2026-06-21T08:00:00Z"), "a0", says_so=False)
    alone = {memory.id for memory in read(s1=original).conversations[0].short_term}
    for says_so in (True, False):
        copies = [forked(row, "a0", says_so=says_so) for row in BEFORE]
        incoming = read(s1=original, a0=lines(*copies, own))
        ids = {memory.id for memory in incoming.conversations[0].short_term}
        assert len(ids) == 2
        assert alone < ids
    copies = [forked(row, "a0", says_so=True) for row in BEFORE]
    ids = {memory.id for memory in read(a0=lines(*copies)).conversations[0].short_term}
    assert ids == alone


def test_what_was_taken_back_in_one_session_stays_in_its_fork() -> None:
    copies = [forked(row, "a0", says_so=True) for row in (*BEFORE, *WRONG)]
    incoming = read(s1=lines(*BEFORE, *WRONG, *RIGHT), a0=lines(*copies))
    assert "mistaken" in texts(incoming)
    assert not incoming.conversations[0].taken_back


def stop(*rows: Line, answer: str, prompt_id: str) -> Any:
    fields = {"prompt_id": prompt_id, "last_assistant_message": answer}
    return turn_ended(event_of(event("Stop", **fields)), lines(*rows))


def test_the_hook_retires_what_the_turn_that_ended_replaces_and_only_then() -> None:
    first = read(s1=lines(*BEFORE, *WRONG)).conversations[0]
    state = ConversationState(
        "default", short_term={memory.id: memory for memory in first.short_term}
    )
    ended = stop(*BEFORE, *WRONG, *RIGHT, answer="correct", prompt_id="p-u3")
    assert [change.memory.text for change in retirements(state, ended.corrections.taken_back)] == [
        memory.text for memory in first.short_term if "wrong" in memory.text
    ]
    assert "wrong" not in str(ended.messages)
    later = (asked("u4", "a3", "and then"), told("a4", "u4", "so"))
    assert not stop(*BEFORE, *WRONG, *RIGHT, *later, answer="so", prompt_id="p-u4").corrections


def test_what_is_said_again_in_the_same_words_stays() -> None:
    same = (asked("u3", "a1", "wrong"), told("a3", "u3", "mistaken"))
    assert not stop(*BEFORE, *WRONG, *same, answer="mistaken", prompt_id="p-u3").corrections


def codex_lines(*events: tuple[str, Line]) -> bytes:
    meta = ("session_meta", {"id": "c1", "cwd": "/w", "source": "cli"})
    return lines(
        *(
            {"type": kind, "payload": payload, "timestamp": f"2026-06-20T08:00:{number:02}Z"}
            for number, (kind, payload) in enumerate((meta, *events))
        )
    )


def codex_turn(number: int, *texts_of_user: str, turn_id: str = "") -> list[tuple[str, Line]]:
    turn_id = turn_id or f"0199aaaa-0000-7000-8000-00000000000{number}"
    rows: list[tuple[str, Line]] = [("event_msg", {"type": "task_started", "turn_id": turn_id})]
    rows += [("event_msg", {"type": "user_message", "message": text}) for text in texts_of_user]
    answer = {"type": "message", "role": "assistant", "content": [{"text": f"answer {number}"}]}
    return [*rows, ("response_item", answer), ("event_msg", {"type": "task_complete"})]


def rolled_back(count: int) -> tuple[str, Line]:
    return "event_msg", {"type": "thread_rolled_back", "num_turns": count}


def of_codex(**files: bytes) -> Incoming:
    named = {f"{name}.jsonl": data for name, data in files.items()}
    return codex.read(named, "default", lambda folder: folder)


def test_codex_rolls_back_turns_and_not_messages() -> None:
    steered = codex_turn(2, "two", "and this")
    data = codex_lines(*codex_turn(1, "one"), *steered, rolled_back(1), *codex_turn(3, "three"))
    incoming = of_codex(a=data)
    assert texts(incoming) == "answer 1 answer 3 one three"
    assert incoming.lost[TAKEN_BACK] == 1


def test_codex_rolls_back_several_turns_and_again() -> None:
    turns = [*codex_turn(1, "one"), *codex_turn(2, "two"), *codex_turn(3, "three")]
    data = codex_lines(*turns, rolled_back(1), rolled_back(1), *codex_turn(4, "four"))
    assert texts(of_codex(a=data)) == "answer 1 answer 4 four one"
    data = codex_lines(*turns, rolled_back(9), *codex_turn(4, "four"))
    assert texts(of_codex(a=data)) == "answer 4 four"


def test_a_turn_of_codex_that_was_aborted_is_rolled_back_alone() -> None:
    started, said = codex_turn(2, "two")[:2]
    aborted = ("event_msg", {"type": "turn_aborted"})
    turns = [*codex_turn(1, "one"), started, said, aborted, rolled_back(1)]
    assert texts(of_codex(a=codex_lines(*turns, *codex_turn(3, "three")))) == (
        "answer 1 answer 3 one three"
    )


def test_a_fork_of_codex_brings_no_turn_twice() -> None:
    original = codex_lines(*codex_turn(1, "one"), *codex_turn(2, "two"))
    fork = codex_lines(*codex_turn(1, "one"), *codex_turn(3, "three")).replace(b"c1", b"c2")
    assert len(of_codex(a=original, b=fork).conversations[0].short_term) == 3


def test_old_files_of_codex_number_their_turns_and_none_is_lost() -> None:
    first = codex_lines(*codex_turn(1, "one", turn_id="1"))
    second = codex_lines(*codex_turn(2, "two", turn_id="1")).replace(b"c1", b"c2")
    assert len(of_codex(a=first, b=second).conversations[0].short_term) == 2


def gemini_lines(*records: Line) -> bytes:
    return lines({"sessionId": "g1", "projectHash": "x"}, *records)


def gemini_turn(number: int, text: str) -> list[Line]:
    at = f"2026-06-20T08:0{number}:00Z"
    return [
        {"id": f"u{number}", "type": "user", "timestamp": at, "content": [{"text": text}]},
        {"id": f"m{number}", "type": "gemini", "timestamp": at, "content": f"answer {number}"},
    ]


def of_gemini(**files: bytes) -> Incoming:
    named = {name.replace("_", "/") + ".jsonl": data for name, data in files.items()}
    return gemini_cli.read(named, "default", lambda folder: folder)


def test_gemini_rewinds_to_a_message() -> None:
    turns = [*gemini_turn(1, "one"), *gemini_turn(2, "two"), *gemini_turn(3, "three")]
    rewind = {"$rewindTo": "u2"}
    incoming = of_gemini(chats_a=gemini_lines(*turns, rewind, *gemini_turn(4, "four")))
    assert texts(incoming) == "answer 1 answer 4 four one"
    assert incoming.lost[TAKEN_BACK] == 2
    unknown = {"$rewindTo": "not there"}
    incoming = of_gemini(chats_a=gemini_lines(*turns, unknown))
    assert texts(incoming) == "answer 1 answer 2 answer 3 one three two"


def test_an_exchange_that_a_checkpoint_has_twice_comes_twice_and_no_copy_of_it() -> None:
    exchange = [
        {"role": "user", "parts": [{"text": "continue"}]},
        {"role": "model", "parts": [{"text": "done"}]},
    ]
    twice, longer = (json.dumps(exchange * count).encode() for count in (2, 3))
    assert texts(of_gemini(checkpoint=twice)) == "continue continue done done"
    assert len(of_gemini(a=twice, b=longer).conversations[0].short_term) == 3


def test_a_checkpoint_of_gemini_repeats_no_turn_of_its_session() -> None:
    history = json.dumps(
        [
            {"role": "user", "parts": [{"text": "one"}]},
            {"role": "model", "parts": [{"text": "answer 1"}]},
            {"role": "user", "parts": [{"text": "only here"}]},
            {"role": "model", "parts": [{"text": "yes"}]},
        ]
    ).encode()
    session = gemini_lines(*gemini_turn(1, "one"), *gemini_turn(2, "two"))
    incoming = of_gemini(chats_a=session, checkpoint=history)
    assert texts(incoming) == "answer 1 answer 2 one only here two yes"


IMPOSSIBLE = "9999-12-31T23:59:59-12:00"


def test_a_turn_with_an_impossible_time_that_was_taken_back_costs_nothing_else() -> None:
    wrong = [row | {"timestamp": IMPOSSIBLE} for row in WRONG]
    assert texts(read(s1=lines(*BEFORE, *wrong, *RIGHT))) == STAYS
    assert not stop(*BEFORE, *wrong, *RIGHT, answer="correct", prompt_id="p-u3").corrections

    rows = codex_lines(*codex_turn(1, "one"), *codex_turn(2, "two"), rolled_back(1)).splitlines()
    late = [json.loads(row) for row in rows]
    for row in late[5:9]:
        row["timestamp"] = IMPOSSIBLE
    assert texts(of_codex(a=lines(*late))) == "answer 1 one"

    taken = [row | {"timestamp": IMPOSSIBLE} for row in gemini_turn(2, "two")]
    rewound = gemini_lines(*gemini_turn(1, "one"), *taken, {"$rewindTo": "u2"})
    assert texts(of_gemini(chats_a=rewound)) == "answer 1 one"


def test_a_rewind_at_the_line_where_a_session_was_forked_counts() -> None:
    incoming = read(s1=lines(*BEFORE), s2=lines(*BEFORE, *WRONG, *RIGHT))
    assert texts(incoming) == STAYS
    assert incoming.lost[TAKEN_BACK] == 1


def test_each_line_around_a_prompt_is_read_a_few_times_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0

    def role(row: Line) -> object:
        nonlocal looked_at
        looked_at += 1
        return role_of(row)

    monkeypatch.setattr(branches, "role_of", role)
    rows: list[Line] = [*BEFORE]
    for number in range(400):
        parent = f"x{number - 1}" if number else "a1"
        for side in "xy":
            line = {"type": "progress", "uuid": f"{side}{number}", "parentUuid": parent}
            left = {"type": "last-prompt", "explicit": True, "leafUuid": parent}
            rows += [line, left]
    rows += [asked("u2", "x399", "two"), told("a2", "u2", "second")]
    assert len(branches.branches_of(rows).live) == len(rows)
    assert looked_at < 4 * len(rows)
