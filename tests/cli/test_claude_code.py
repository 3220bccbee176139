"""What a hook takes from Claude Code: the words of people and model, and nothing that a program wrote."""

from __future__ import annotations

from typing import Any

import pytest
from hook_transcripts import TOOL_RESULT, TOOL_USE, assistant, compacted, event, transcript, user

from memory_server.kernel.messages import FIRST_MS, Session
from memory_server.kernel.recalled_block import marked
from memory_server.operations.hook_events import (
    event_of,
    messages_before,
    messages_now,
    session_of,
    turn_ended,
)


def spoken(messages: Any) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in messages]


def messages_for(
    prompt: str, *entries: dict[str, Any], prompt_id: str | None = "p9"
) -> list[tuple[str, str]]:
    fields = event("UserPromptSubmit", prompt=prompt)
    if prompt_id is not None:
        fields["prompt_id"] = prompt_id
    return spoken(messages_now(event_of(fields), transcript(*entries)))


def turn_at_end(*entries: dict[str, Any], **fields: Any) -> list[tuple[str, str]] | None:
    turn = turn_ended(event_of(event("Stop", **fields)), transcript(*entries))
    if turn is None:
        return None
    return spoken(turn.messages)


def test_a_new_session_is_searched_by_its_prompt() -> None:
    assert spoken(messages_now(event_of(event("UserPromptSubmit", prompt="你好")), b"")) == [
        ("user", "你好")
    ]


def test_the_last_few_messages_come_before_the_prompt() -> None:
    entries = [
        user("一", "p1"),
        assistant("二"),
        user("三", "p2"),
        assistant("四"),
        user("五", "p3"),
        assistant("六"),
    ]
    assert messages_for("七", *entries) == [
        ("assistant", "四"),
        ("user", "五"),
        ("assistant", "六"),
        ("user", "七"),
    ]


def test_a_prompt_that_is_in_the_transcript_already_comes_once() -> None:
    assert messages_for("问", user("答", "p1"), user("问", "p9")) == [
        ("user", "答"),
        ("user", "问"),
    ]


@pytest.mark.parametrize(
    "entry",
    [
        user(TOOL_RESULT),
        assistant(TOOL_USE),
        assistant({"type": "thinking", "thinking": "hm"}),
        user("of a subagent", isSidechain=True),
        user("Caveat: of the client", isMeta=True),
        user("summary of what was before", isCompactSummary=True),
        user("<command-name>/compact</command-name><command-args></command-args>"),
        user("<local-command-stdout>done</local-command-stdout>"),
        user("<system-reminder>\nthe date\n</system-reminder>"),
        user("[Request interrupted by user for tool use]"),
        user(marked("小明（3 天前）：下周三是我生日")),
        user(None),
        user([{"type": "text"}, 5, {"type": "image", "source": {}}]),
        {"type": "user"},
        {"type": "user", "message": "text"},
        {"type": "assistant", "message": {"content": {}}},
    ],
)
def test_what_no_person_and_no_model_said_is_left_out(entry: dict[str, Any]) -> None:
    assert messages_for("问", entry) == [("user", "问")]


def test_words_beside_what_the_client_wrote_stay() -> None:
    text = f"<system-reminder>x</system-reminder>\n我喜欢披萨\n{marked('y')}"
    assert messages_for("问", user(text)) == [("user", "我喜欢披萨"), ("user", "问")]


def test_a_line_that_was_cut_or_is_being_written_is_passed_over() -> None:
    content = transcript(user("一"), assistant("二"))
    prompt = event_of(event("UserPromptSubmit", prompt="三"))
    assert spoken(messages_now(prompt, content[700:] + b'{"type":"user","message":{"ro'))[-1] == (
        "user",
        "三",
    )
    for cut in range(0, len(content), 17):
        assert spoken(messages_now(prompt, content[cut:]))[-1] == ("user", "三")
        assert spoken(messages_now(prompt, content[:cut]))[-1] == ("user", "三")


@pytest.mark.parametrize("prompt", ["", "   ", "<system-reminder>x</system-reminder>"])
def test_a_prompt_without_words_recalls_nothing(prompt: str) -> None:
    assert messages_for(prompt, user("before")) == []


def test_a_turn_is_the_prompt_and_the_last_answer() -> None:
    entries = [
        user("旧", "p0"),
        assistant("旧答"),
        user("我叫小明", "p1"),
        assistant("看一下", TOOL_USE),
    ]
    entries += [user(TOOL_RESULT, "p1"), assistant("你好，小明")]
    assert turn_at_end(*entries, prompt_id="p1", last_assistant_message="你好，小明") == [
        ("user", "我叫小明"),
        ("assistant", "你好，小明"),
    ]
    # Older clients give neither: the whole answer, as the transcript has it.
    assert turn_at_end(*entries) == [("user", "我叫小明"), ("assistant", "看一下\n你好，小明")]


def test_the_answer_of_the_event_counts_before_that_of_the_transcript() -> None:
    # anthropics/claude-code issues 15812 and 74340: the transcript may lag behind.
    turn = turn_at_end(user("问", "p1"), prompt_id="p1", last_assistant_message="答")
    assert turn == [("user", "问"), ("assistant", "答")]


def test_a_turn_without_words_of_the_user_is_none() -> None:
    assert turn_at_end(prompt_id="p1", last_assistant_message="答") is None
    assert (
        turn_at_end(user("问", "p0"), assistant("答"), prompt_id="p1", last_assistant_message="新")
        is None
    )


def test_a_turn_has_one_id_and_another_turn_another() -> None:
    def turn(prompt_id: str, **fields: Any) -> str:
        turn_end = turn_ended(
            event_of(event("Stop", prompt_id=prompt_id, **fields)),
            transcript(user("问", prompt_id)),
        )
        assert turn_end is not None
        return turn_end.id

    assert turn("p1", last_assistant_message="答") == turn("p1", last_assistant_message="答")
    assert turn("p1") != turn("p2")
    assert turn("p1") != turn("p1", session_id="s2")


@pytest.mark.parametrize("value", [None, [], "x", {}, {"hook_event_name": 5}, {"prompt": "你好"}])
def test_something_else_is_no_event(value: Any) -> None:
    with pytest.raises(ValueError, match="not a hook event"):
        event_of(value)


BEFORE = "2026-06-20T08:30:00.000Z"
COMPACTED = "2026-06-20T09:00:00.000Z"
COMPACTED_MS = 1_781_946_000_000


def context_of(*entries: dict[str, Any], **about: Any) -> Session | None:
    return session_of(
        event_of(event("UserPromptSubmit", prompt="问")), transcript(*entries), **about
    )


def test_what_was_said_since_the_last_compaction_is_in_the_context() -> None:
    long_ago = [user("一", "p1"), compacted(BEFORE), user("二", "p2"), compacted(COMPACTED)]
    assert context_of(*long_ago, user("三", "p3")) == Session("s1", COMPACTED_MS)
    assert context_of(user("一", "p1"), user("二", "p2")) == Session("s1", FIRST_MS)


@pytest.mark.parametrize(
    "entry",
    [
        user('what does {"subtype":"compact_boundary"} mean?', at=COMPACTED),
        assistant("It is called", {"type": "text", "text": "compact_boundary"}, at=COMPACTED),
        compacted(COMPACTED) | {"subtype": "other", "content": "compact_boundary"},
        compacted("at noon"),
    ],
)
def test_only_a_compaction_counts_as_one(entry: dict[str, Any]) -> None:
    assert context_of(compacted(BEFORE), entry) == Session("s1", COMPACTED_MS - 30 * 60_000)


def test_what_was_said_before_the_end_that_is_read_counts_as_gone() -> None:
    content = transcript(user("一", at=BEFORE), user("二", at=COMPACTED))
    prompt = event_of(event("UserPromptSubmit", prompt="问"))
    second_at = content.index("二".encode())
    assert session_of(prompt, content[content.index("一".encode()) :], whole=False) == Session(
        "s1", COMPACTED_MS
    )
    assert session_of(prompt, content[second_at:], whole=False) == Session("s1", None)
    for cut in range(len(transcript(user("一"))), len(content), 7):
        assert session_of(prompt, content[:cut]) == Session("s1", FIRST_MS)


def test_without_a_transcript_nobody_knows_what_is_in_the_context() -> None:
    assert session_of(event_of(event("UserPromptSubmit", prompt="问")), None) == Session("s1", None)
    assert session_of(event_of(event("UserPromptSubmit", prompt="问", session_id=" ")), b"") is None


def test_a_client_that_gives_no_ids_of_prompts_has_what_was_said_before_too() -> None:
    lines = transcript(user("one", None), assistant("two"), user("three", None), assistant("four"))
    asked = event_of(event("UserPromptSubmit", prompt="five"))
    assert [content for _role, content in spoken(messages_now(asked, lines))] == [
        "two",
        "three",
        "four",
        "five",
    ]


@pytest.mark.parametrize(
    ("most", "most_chars", "contents"),
    [
        (4, 100, []),
        (5, 100, ["b4"]),
        (7, 100, ["b2", "b3", "b4"]),
        (50, 100, ["b0", "b1", "b2", "b3", "b4"]),
        (50, 5, ["b3", "b4"]),
    ],
)
def test_messages_before_a_search_are_bounded_in_number_and_length(
    most: int, most_chars: int, contents: list[str]
) -> None:
    lines = transcript(*(user(f"b{number}", f"p{number}") for number in range(8)))
    asked = event_of(event("UserPromptSubmit", prompt="now", prompt_id="p9"))
    before = messages_before(asked, lines, most=most, most_chars=most_chars)
    assert [message.content for message in before] == contents
