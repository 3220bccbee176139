"""Chats of programs that export a list or a tree of messages: what is shown comes, with its time, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_server.interchange import chats, folder_forms, mem0
from memory_server.interchange.forms import format_of
from memory_server.interchange.incoming import Incoming, NotThisFormat
from sandbox import chat as sandbox_chat
from sandbox import left_out

S = 1_763_629_200
MS = S * 1000
ISO = "2025-11-20T09:00:00.000Z"
Q = "Hanna is allergic to hazelnuts"
A = "I keep it in mind"
OLD = "an answer that nobody sees any more"
PROMPT = "You are a cook"


def text(words: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **fields}


def _open_webui() -> Any:
    tree = {
        "1": {"id": "1", "parentId": None, "role": "user", "content": Q, "timestamp": S},
        "2": {"id": "2", "parentId": "1", "role": "assistant", "content": OLD, "timestamp": S + 1},
        "3": {
            "id": "3",
            "parentId": "1",
            "role": "assistant",
            "content": f'<details type="reasoning" done="true"><summary>x</summary>hm</details>{A}',
            "timestamp": S + 2,
        },
    }
    history = {"messages": tree, "currentId": "3"}
    return [
        {"id": "w", "title": "Nuts", "chat": {"history": history, "messages": [*tree.values()]}}
    ]


def _librechat_row(name: str, parent: str, words: str, **fields: Any) -> dict[str, Any]:
    row = {"messageId": name, "parentMessageId": parent, "text": words, "createdAt": ISO}
    return row | {"isCreatedByUser": name == "q", "sender": "GPT-5"} | fields


def _librechat() -> Any:
    rows = [
        _librechat_row("q", "0", Q),
        _librechat_row("a", "q", OLD),
        _librechat_row("b", "q", "", content=[{"type": "think", "think": "hm"}, text(A)]),
    ]
    return {"conversationId": "l", "title": "Nuts", "messages": rows}


def _librechat_tree() -> Any:
    below = [
        _librechat_row("a", "q", OLD, children=[]),
        _librechat_row("b", "q", f"<think>hm</think>{A}", children=[]),
    ]
    return {"conversationId": "l", "messagesTree": [_librechat_row("q", "0", Q, children=below)]}


def _lobehub_rows() -> list[dict[str, Any]]:
    shared = {"sessionId": "inbox", "topicId": "t"}
    return [
        shared
        | {"id": "3", "role": "assistant", "content": A, "parentId": "1", "createdAt": MS + 3},
        shared | {"id": "1", "role": "user", "content": Q, "createdAt": MS},
        shared
        | {"id": "2", "role": "assistant", "content": OLD, "parentId": "1", "createdAt": MS + 2},
        shared | {"id": "0", "role": "tool", "content": "found", "createdAt": MS + 1},
    ]


def _cherry_studio() -> Any:
    messages = [
        {"id": "m1", "role": "user", "createdAt": ISO, "blocks": ["b1"]},
        {"id": "m2", "role": "assistant", "createdAt": ISO, "blocks": ["b2", "b3"]},
        {"id": "m3", "role": "assistant", "type": "clear", "createdAt": ISO, "blocks": []},
    ]
    blocks = [
        {"id": "b1", "type": "main_text", "content": Q},
        {"id": "b2", "type": "thinking", "content": "hm"},
        {"id": "b3", "type": "main_text", "content": A},
    ]
    tables = {"topics": [{"id": "t", "messages": messages}], "message_blocks": blocks}
    return {"time": MS, "version": 5, "localStorage": {}, "indexedDB": tables}


def _chatbox() -> Any:
    messages = [
        {"id": "0", "role": "system", "contentParts": [text(PROMPT)]},
        {"id": "1", "role": "user", "contentParts": [text(Q)], "timestamp": MS},
        {
            "id": "2",
            "role": "assistant",
            "contentParts": [{"type": "reasoning", "text": "hm"}, text(A)],
            "timestamp": MS,
        },
    ]
    fork = {"position": 0, "lists": [{"messages": [{"role": "assistant", "content": OLD}]}, {}]}
    session = {"id": "s", "name": "Nuts", "messages": messages, "messageForksHash": {"1": fork}}
    return {"session:s": session, "chat-sessions-list": [], "__exported_items": ["conversations"]}


def _opencode() -> Any:
    def row(name: str, role: str, *parts: dict[str, Any]) -> dict[str, Any]:
        return {"info": {"id": name, "role": role, "time": {"created": MS}}, "parts": [*parts]}

    return {
        "info": {"id": "ses", "title": "Nuts", "revert": {"messageID": "4"}},
        "messages": [
            row("1", "user", text(Q), text("a file", synthetic=True)),
            row("2", "assistant", text(OLD), {"type": "tool", "tool": "read", "state": {}}),
            row("3", "assistant", {"type": "reasoning", "text": "hm"}, text(A)),
            row("4", "user", text(OLD)),
        ],
    }


def _big_agi() -> Any:
    def row(role: str, words: str) -> dict[str, Any]:
        fragments = [{"ft": "content", "part": {"pt": "text", "text": words}}]
        return {"id": role, "role": role, "fragments": fragments, "created": MS}

    rows = [row("system", PROMPT), row("user", Q), row("assistant", A)]
    return {"conversations": [{"id": "c", "systemPurposeId": "Generic", "messages": rows}]}


def _vs_code() -> Any:
    answer = [{"value": A}, {"kind": "toolInvocationSerialized", "pastTenseMessage": OLD}]
    request = {"message": {"text": Q, "parts": []}, "response": answer, "timestamp": MS}
    taken_back = request | {"message": {"text": OLD}, "shouldBeRemovedOnSend": {"requestId": "1"}}
    return {
        "requesterUsername": "ann",
        "responderUsername": "Copilot",
        "requests": [request, taken_back],
    }


def _ai_studio() -> Any:
    chunks = [
        {"text": Q, "role": "user", "createTime": ISO},
        {"text": "hm", "role": "model", "isThought": True, "createTime": ISO},
        {"text": A, "role": "model", "createTime": ISO},
    ]
    return {
        "runSettings": {},
        "systemInstruction": {"text": PROMPT},
        "chunkedPrompt": {"chunks": chunks},
    }


def _deepseek() -> Any:
    def node(name: str, parent: str | None, *parts: tuple[str, str]) -> dict[str, Any]:
        fragments = [{"type": kind, "content": words} for kind, words in parts]
        message = {"fragments": fragments, "inserted_at": "2025-11-20T17:00:00.000000+08:00"}
        return {"id": name, "parent": parent, "message": message if parts else None}

    mapping = {
        "root": node("root", None),
        "1": node("1", "root", ("REQUEST", Q)),
        "2": node("2", "1", ("RESPONSE", OLD)),
        "3": node("3", "1", ("THINK", "hm"), ("RESPONSE", A)),
    }
    return [{"id": "c", "title": "Nuts", "inserted_at": ISO, "mapping": mapping}]


def _cline() -> Any:
    state = "<environment_details>\nopen tabs\n</environment_details>"
    done = f"<thinking>hm</thinking>\n<attempt_completion>\n<result>{A}</result>\n</attempt_completion>"
    result = text(f"[read_file for 'a.py'] Result:\n{OLD}")
    call = text(f"{OLD}<read_file><path>a</path></read_file>")
    return [
        {"role": "user", "content": [text(f"<task>\n{Q}\n</task>"), text(state)], "ts": MS},
        {"role": "assistant", "content": [call], "ts": MS},
        {"role": "user", "content": [result, text(state)], "ts": MS},
        {"role": "assistant", "content": [text(done)], "ts": MS},
    ]


SAID = [
    {"role": "user", "content": Q, "timestamp": MS},
    {"role": "assistant", "content": A, "time": ISO},
]
DATED = [message | {"timestamp": None, "date": "2025/11/20 09:00:00"} for message in SAID]
FILES: dict[str, Any] = {
    "Open WebUI": _open_webui(),
    "LibreChat": _librechat(),
    "LibreChat, as a tree": _librechat_tree(),
    "LobeHub": {"exportType": "sessions", "version": 7, "state": {"messages": _lobehub_rows()}},
    "LobeHub, from a server": {"mode": "postgres", "data": {"messages": _lobehub_rows()}},
    "Cherry Studio": _cherry_studio(),
    "Chatbox": _chatbox(),
    "Chatbox, of old": {"chat-sessions": [{"name": "Nuts", "messages": SAID}]},
    "opencode": _opencode(),
    "Cline": _cline(),
    "NextChat": {"chat-next-web-store": {"sessions": [{"topic": "Nuts", "messages": DATED}]}},
    "big-AGI": _big_agi(),
    "VS Code": _vs_code(),
    "AI Studio": _ai_studio(),
    "DeepSeek": _deepseek(),
    "Chatbot UI": {"version": 4, "history": [{"name": "Nuts", "messages": SAID}]},
    "an object with messages": {"messages": SAID},
    "ShareGPT": {"conversations": [{"from": "human", "value": Q}, {"from": "gpt", "value": A}]},
}
UNDATED = {"ShareGPT"}
WITH_BRANCHES = {name for name, value in FILES.items() if OLD in json.dumps(value)}


def read(value: Any) -> Incoming:
    data = json.dumps(value).encode()
    assert format_of(data) == "chat"
    return chats.read(data, chats.ChatOptions("c"))


@pytest.mark.parametrize("program", FILES)
def test_the_branch_that_is_shown_comes_and_nothing_else(program: str) -> None:
    incoming = read(FILES[program])
    memories = incoming.conversations[0].short_term
    said = [(each.role, each.content) for memory in memories for each in memory.messages]
    assert said == [("user", Q), ("assistant", A)]
    assert not incoming.skipped


@pytest.mark.parametrize("program", sorted(FILES.keys() - UNDATED))
def test_times_are_those_of_the_program(program: str) -> None:
    (memory,) = read(FILES[program]).conversations[0].short_term
    local = 15 * 3_600_000 if program == "NextChat" else 1000 * 10
    assert all(abs((each.time_ms or 0) - MS) <= local for each in memory.messages)


@pytest.mark.parametrize("program", sorted(WITH_BRANCHES))
def test_what_is_not_shown_is_counted(program: str) -> None:
    lost = read(FILES[program]).lost
    assert lost[left_out.BRANCHES] + lost[left_out.BEFORE_THE_LAST] + lost[left_out.TOOLS] >= 1


def test_prompts_and_thoughts_are_counted() -> None:
    assert read(_chatbox()).lost[left_out.CUSTOM_INSTRUCTIONS] == 1
    for program in ("Open WebUI", "LibreChat", "LibreChat, as a tree", "Cherry Studio", "Chatbox"):
        assert read(FILES[program]).lost[left_out.THOUGHTS] == 1, program


@pytest.mark.parametrize("program", FILES)
@pytest.mark.parametrize("damaged", [None, {}, {"id": "0", "chat": None}, "text"])
def test_a_damaged_chat_before_the_others_costs_only_itself(program: str, damaged: Any) -> None:
    value = FILES[program]
    incoming = read([damaged, *(value if isinstance(value, list) else [value])])
    (memory,) = incoming.conversations[0].short_term
    assert [message.content for message in memory.messages] == [Q, A]


LISTS = ("messages", "messagesTree", "conversations", "history", "sessions", "requests", "chunks")


def with_damaged_items(value: Any) -> Any:
    """The file with an item of nothing at the beginning of each list of messages or of chats."""
    if isinstance(value, list):
        return [with_damaged_items(item) for item in value]
    if not isinstance(value, dict):
        return value
    damaged: dict[str, Any] = {}
    for name, item in value.items():
        damaged[name] = with_damaged_items(item)
        if name in LISTS and isinstance(item, list):
            damaged[name].insert(0, None)
    return damaged


@pytest.mark.parametrize("program", FILES)
def test_a_damaged_message_before_the_others_costs_only_itself(program: str) -> None:
    (memory,) = read(with_damaged_items(FILES[program])).conversations[0].short_term
    assert [message.content for message in memory.messages] == [Q, A]


@pytest.mark.parametrize("mark", ["<task>", "<environment_details>"])
def test_a_chat_that_speaks_of_a_mark_of_cline_is_a_chat(mark: str) -> None:
    question = f"What does {mark} mean?"
    first = {"role": "user", "content": question}
    answers = [{"role": "assistant", "content": words} for words in (OLD, A)]
    (memory,) = read([first, *answers]).conversations[0].short_term
    assert [message.content for message in memory.messages] == [question, OLD, A]


@pytest.mark.parametrize(
    "answer",
    [
        "Use `<think>` and `</think>` tags around the plan.",
        "Use <think> and </think> tags around the plan.",
        'In it, <details type="reasoning"> and </details> fold a text.',
    ],
)
def test_tags_of_which_an_answer_speaks_stay(answer: str) -> None:
    said = [SAID[0], {"role": "assistant", "content": answer}]
    file = {"chat-next-web-store": {"sessions": [{"topic": "Nuts", "messages": said}]}}
    (memory,) = read(file).conversations[0].short_term
    assert memory.messages[1].content == answer


def test_thoughts_and_calls_that_follow_each_other_are_left_out() -> None:
    answer = f'<think>a</think><think>b</think> <details type="tool_calls">c</details>\n{A}\n<think>d</think>'
    said = [SAID[0], {"role": "assistant", "content": answer}]
    file = {"chat-next-web-store": {"sessions": [{"topic": "Nuts", "messages": said}]}}
    (memory,) = read(file).conversations[0].short_term
    assert memory.messages[1].content == A


def test_a_tag_that_a_task_of_cline_quotes_stays() -> None:
    answer = "Write `<my_tag>` and `</my_tag>`."
    task = [_cline()[0], {"role": "assistant", "content": [text(answer)]}]
    (memory,) = read(task).conversations[0].short_term
    assert memory.messages[1].content == answer


def test_lines_may_each_be_a_chat() -> None:
    data = "\n".join(json.dumps({"messages": SAID}) for _number in range(3)).encode()
    assert format_of(data) == "chat"
    assert len(sandbox_chat.read(data.decode()).conversations) == 3


def test_messages_of_the_ai_sdk_are_a_chat_and_those_of_gemini_a_checkpoint() -> None:
    sdk = [{"id": "1", "role": "user", "parts": [text(Q)]}]
    assert format_of(json.dumps(sdk).encode()) == "chat"
    assert (
        format_of(json.dumps([{"role": "user", "parts": [{"text": Q}]}]).encode()) == "gemini-cli"
    )


@pytest.mark.parametrize(
    "line",
    [
        {"type": "system", "content": "compacted", "sessionId": "s", "uuid": "u"},
        {"type": "user", "message": {"role": "user", "content": Q}, "sessionId": "s"},
    ],
)
def test_a_line_of_a_transcript_is_not_a_message(line: dict[str, Any]) -> None:
    assert format_of(json.dumps(line).encode()) == "claude-code"


def test_a_backup_of_the_node_original_is_read() -> None:
    short = {
        "text": f"user: {Q}",
        "keywords": [],
        "score": 5,
        "conversation_id": "小明",
        "timestamp": ISO,
    }
    long = {"name": "n", "prompt": "p", "trigger": "true", "createdAt": ISO}
    backup = {"version": "1.0", "timestamp": ISO, "conversation_id": "小明"}
    data = json.dumps(backup | {"short_term": [short], "long_term": [long]}).encode()
    assert format_of(data) == "node"
    (contents,) = folder_forms.read_node_list(data, "default").conversations
    assert (contents.conversation_id, len(contents.short_term), len(contents.long_term)) == (
        "小明",
        1,
        1,
    )
    data = json.dumps(backup | {"short_term": None, "long_term": [long]}).encode()
    (contents,) = folder_forms.read_node_list(data, "default").conversations
    assert (len(contents.short_term), len(contents.long_term)) == (0, 1)


def test_what_was_deleted_in_openmemory_does_not_come() -> None:
    rows = [
        {"id": str(number), "user_id": "u", "content": words, "state": state, "created_at": ISO}
        for number, (words, state) in enumerate(((Q, "active"), (A, "paused"), (OLD, "deleted")))
    ]
    export = {"user": {}, "apps": [], "categories": [], "memories": rows, "export_meta": {}}
    data = json.dumps(export).encode()
    assert format_of(data) == "mem0"
    incoming = mem0.read(data)
    assert [entry.body for entry in incoming.entries["notes"]] == [Q, A]
    assert incoming.lost.total() == 1


def test_an_unknown_file_is_told_what_to_write() -> None:
    with pytest.raises(NotThisFormat, match="write it as lines such as"):
        format_of(b'{"something": 1}')


@pytest.mark.parametrize("value", [None, 5, [None], {"type": []}])
@pytest.mark.parametrize("program", FILES)
def test_a_wrong_value_in_any_place_is_read_or_refused(program: str, value: Any) -> None:
    def places(inner: Any) -> Iterator[tuple[Any, Any]]:
        keys = list(inner) if isinstance(inner, dict) else range(len(inner))
        for key in keys:
            yield inner, key
            if isinstance(inner[key], dict | list):
                yield from places(inner[key])

    whole = json.loads(json.dumps(FILES[program]))
    for holder, key in list(places(whole)):
        right = holder[key]
        holder[key] = value
        with suppress(NotThisFormat):
            format_of(json.dumps(whole).encode())
            chats.read(json.dumps(whole).encode(), chats.ChatOptions("c"))
        holder[key] = right


VALUES = st.sampled_from([None, 5, "x", [], {}, [None], {"type": []}, True])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(FILES)), VALUES, st.randoms(use_true_random=False))
def test_any_value_in_any_place_is_read_or_refused(program: str, value: Any, rng: Any) -> None:
    copy = json.loads(json.dumps(FILES[program]))
    place = copy
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = rng.choice(keys)
        inner = place[key]
        if not isinstance(inner, dict | list) or not inner or rng.random() < 0.2:
            place[key] = value
            break
        place = inner
    with suppress(NotThisFormat):
        chats.read(json.dumps(copy).encode(), chats.ChatOptions("c"))
