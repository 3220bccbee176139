"""A small sample of each form that `import` reads, with a mark (`kiwi1`, `kiwi2`, …) in each record, so that a test can
see which of them came."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memory_server.kernel.values import dataclass

EACH = "*"
"""A step of a path that stands for any item."""
_ISO = "2026-01-02T03:04:05Z"
_SECONDS = 1_767_323_045
_MS = 1_767_323_045_000

Encode = Callable[[Any], bytes]


def as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def as_lines(rows: Any) -> bytes:
    rows = rows if isinstance(rows, list) else [rows]
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_file(name: str, value: Any) -> bytes:
    """A file of a folder, by the ending of its name."""
    return as_lines(value) if name.endswith(".jsonl") else as_json(value)


def as_page(fields: Any) -> bytes:
    if not isinstance(fields, dict):
        fields = {"title": fields}
    lines = [f"{key}: {json.dumps(value)}\n" for key, value in fields.items()]
    return "".join(["---\n", *lines, "---\n\nText.\n"]).encode()


def as_yaml(value: Any) -> bytes:
    triggers = value.get("trigger")
    notes = json.dumps(value.get("authors_note"))
    return f"trigger:\n  {json.dumps(triggers)}\nauthors_note: {notes}\n".encode()


@dataclass(frozen=True, slots=True)
class Sample:
    """`value`: of its file, of a folder by the path of each file, or of the tables of a database. `records`: the paths
    of the parts that may be lost alone, with EACH for any item. `deciding`: the paths of what decides on the whole
    file, such as its form, or on several records."""

    form: str
    value: Any
    records: Sequence[tuple[Any, ...]]
    encode: Encode = as_json
    kind: str = "file"
    deciding: Sequence[tuple[Any, ...]] = ()


def _message(number: int, role: str = "user") -> dict[str, Any]:
    content = f"I like kiwi{number} very much."
    return {"role": role, "content": content, "timestamp": _MS + number * 30_000_000, "name": "Ann"}


def _tavern(number: int) -> dict[str, Any]:
    return {
        "name": "Ann",
        "is_user": True,
        "is_system": False,
        "mes": f"I like kiwi{number} very much.",
        "send_date": f"January {number}, 2026 1:02pm",
        "swipes": ["a", "b"],
        "extra": {"type": "", "image": "", "reasoning": "because"},
    }


_TAVERN = [
    {
        "user_name": "Ann",
        "character_name": "Zoe",
        "create_date": "2026-01-01@10h00m00s",
        "chat_metadata": {"world_info": "plants"},
    },
    _tavern(1),
    _tavern(2),
]


def _chatgpt(number: int) -> dict[str, Any]:
    user = {
        "author": {"role": "user", "name": None},
        "content": {"content_type": "text", "parts": [f"I like kiwi{number}.", {"asset": "x"}]},
        "create_time": _SECONDS + number,
        "recipient": "all",
        "metadata": {"attachments": [{"name": "a.png"}]},
    }
    model = {
        "author": {"role": "assistant"},
        "content": {"content_type": "text", "parts": ["Good."]},
        "create_time": _SECONDS + number + 1,
    }
    canvas = {
        "author": {"role": "assistant"},
        "content": {
            "content_type": "code",
            "text": '{"name": "a", "type": "document", "content": "b"}',
        },
        "recipient": "canmore.create_textdoc",
        "create_time": _SECONDS + number + 2,
    }
    return {
        "title": f"chat {number}",
        "create_time": _SECONDS,
        "is_temporary_chat": False,
        "current_node": "d",
        "mapping": {
            "a": {"id": "a", "parent": None, "children": ["b"], "message": None},
            "b": {"id": "b", "parent": "a", "children": ["c"], "message": user},
            "c": {"id": "c", "parent": "b", "children": ["d"], "message": model},
            "d": {"id": "d", "parent": "c", "children": [], "message": canvas},
        },
    }


def _claude(number: int) -> dict[str, Any]:
    tool = {
        "type": "tool_use",
        "name": "artifacts",
        "input": {"type": "text/markdown", "command": "create", "content": "b", "title": "t"},
    }
    return {
        "uuid": f"chat{number}",
        "name": f"chat {number}",
        "summary": "",
        "current_leaf_message_uuid": "b",
        "chat_messages": [
            {
                "uuid": "a",
                "parent_message_uuid": "root",
                "sender": "human",
                "text": f"I like kiwi{number}.",
                "content": [{"type": "text", "text": f"I like kiwi{number}."}],
                "created_at": _ISO,
                "attachments": [{"file_name": "n.txt", "extracted_content": "x"}],
                "files": [{"file_name": "n.txt"}],
                "sync_sources": [],
            },
            {
                "uuid": "b",
                "parent_message_uuid": "a",
                "sender": "assistant",
                "text": "",
                "content": [{"type": "text", "text": "Good."}, tool],
                "created_at": _ISO,
            },
        ],
    }


_PROJECTS = [
    {
        "uuid": f"p{number}",
        "name": f"project {number}",
        "description": f"About kiwi{number}.",
        "prompt_template": "Be brief.",
        "is_starter_project": False,
        "created_at": _ISO,
        "updated_at": _ISO,
        "docs": [{"uuid": "d", "filename": "a.txt", "content": "text", "created_at": _ISO}],
    }
    for number in (3, 4)
]
_MEMORIES = [
    {
        "conversations_memory": f"**Taste**\n\nLikes kiwi{number}.",
        "project_memories": {"p3": "**Work**\n\nA plan."},
        "account_uuid": f"u{number}",
        "memory_files": [],
    }
    for number in (5, 6)
]


def _world_entry(number: int) -> dict[str, Any]:
    return {
        "uid": number,
        "key": ["mango", "/pear/i"],
        "keysecondary": ["plum"],
        "comment": f"Fruit {number}",
        "content": f"@@depth 3\nAll like kiwi{number}.",
        "constant": False,
        "selective": True,
        "selectiveLogic": 0,
        "order": 100,
        "position": 0,
        "disable": False,
        "excludeRecursion": False,
        "preventRecursion": False,
        "delayUntilRecursion": 0,
        "probability": 100,
        "useProbability": True,
        "depth": 4,
        "role": 0,
        "group": "fruit",
        "groupWeight": 100,
        "groupOverride": False,
        "useGroupScoring": None,
        "scanDepth": None,
        "caseSensitive": None,
        "matchWholeWords": None,
        "vectorized": False,
        "sticky": 0,
        "cooldown": 0,
        "delay": 0,
        "ignoreBudget": False,
        "outletName": "",
        "automationId": "",
        "triggers": [],
        "matchPersonaDescription": False,
        "characterFilter": {"isExclude": False, "names": ["Zoe"], "tags": ["cat"]},
    }


def _book_entry(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "keys": ["mango"],
        "secondary_keys": ["plum"],
        "selective": True,
        "name": f"Fruit {number}",
        "comment": "",
        "content": f"All like kiwi{number}.",
        "enabled": True,
        "constant": False,
        "insertion_order": 10,
        "case_sensitive": None,
        "use_regex": False,
        "priority": 1,
        "position": "before_char",
        "extensions": {"depth": 4, "probability": 100, "group": "", "role": None},
    }


_BOOK = {
    "name": "Plants",
    "description": "d",
    "scan_depth": 4,
    "token_budget": 100,
    "recursive_scanning": False,
    "extensions": {},
    "entries": [_book_entry(1), _book_entry(2)],
}
_WORLD = {
    "name": "Plants",
    "scan_depth": 4,
    "entries": {"0": _world_entry(1), "1": _world_entry(2)},
}
_CARD = {
    "spec": "chara_card_v2",
    "spec_version": "2.0",
    "data": {
        "name": "Zoe",
        "description": "d",
        "tags": ["x"],
        "extensions": {"world": ""},
        "character_book": _BOOK,
    },
}
_NOVELAI = {
    "lorebookVersion": 5,
    "categories": [{"id": "c", "name": "n", "enabled": True}],
    "entries": [
        {
            "id": f"e{number}",
            "text": f"All like kiwi{number}.",
            "keys": ["mango", "a & b"],
            "displayName": f"Fruit {number}",
            "enabled": True,
            "forceActivation": False,
            "category": "c",
            "contextConfig": {"budgetPriority": 400},
            "loreBiasGroups": [],
        }
        for number in (1, 2)
    ],
}
_AGNAI = {
    "kind": "memory",
    "name": "Plants",
    "entries": [
        {
            "name": f"Fruit {number}",
            "entry": f"All like kiwi{number}.",
            "keywords": ["mango"],
            "priority": 0,
            "weight": 0,
            "enabled": True,
        }
        for number in (1, 2)
    ],
}
_RISU_ENTRIES = [
    {
        "id": f"e{number}",
        "key": "mango, pear",
        "secondkey": "plum",
        "selective": False,
        "comment": f"Fruit {number}",
        "content": f"All like kiwi{number}.",
        "mode": "normal",
        "alwaysActive": False,
        "insertorder": 100,
        "activationPercent": 100,
        "useRegex": False,
        "extentions": {"risu_case_sensitive": False},
    }
    for number in (1, 2)
]
_KOBOLD = {
    "prompt": "Once",
    "actions": [],
    "memory": "",
    "worldinfo": [
        {
            "key": "mango, pear",
            "keysecondary": "plum",
            "keyanti": "fig",
            "content": f"All like kiwi{number}.",
            "comment": f"Fruit {number}",
            "selective": False,
            "constant": False,
            "probability": 100,
            "widisabled": False,
        }
        for number in (1, 2)
    ],
}
_STORY_CARDS = [
    {
        "keys": "mango, pear",
        "value": f"All like kiwi{number}.",
        "title": f"Fruit {number}",
        "type": "x",
    }
    for number in (1, 2)
]
_ASTRBOT = {
    "trigger": [
        {
            "type": "keywords",
            "name": f"fruit {number}",
            "match": "mango&pear~plum",
            "content": f"All like kiwi{number}.",
            "priority": "1",
            "probability": "1",
            "use_logic": "true",
            "block": "false",
            "actions": [],
            "conditional": "",
        }
        for number in (1, 2)
    ],
    "authors_note": [{"content": "Be kind.", "priority": "1", "probability": "1"}],
}


def _codex(kind: str, /, **payload: Any) -> dict[str, Any]:
    return {"timestamp": _ISO, "type": kind, "payload": payload}


def _codex_answer(number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": f"Good {number}."}]
    return _codex("response_item", type="message", role="assistant", content=content)


_CODEX_HEAD = _codex("session_meta", id="s1", cwd="/x", source="cli")
_CODEX = [
    _CODEX_HEAD,
    _codex("turn_context", cwd="/x", turn_id="t1"),
    _codex("event_msg", type="task_started", turn_id="t1"),
    _codex("event_msg", type="user_message", message="I like kiwi1.", kind="plain", images=[]),
    _codex_answer(1),
    _codex("event_msg", type="user_message", message="I like kiwi2.", local_images=[]),
    _codex(
        "response_item",
        type="function_call",
        name="request_user_input",
        call_id="c",
        arguments='{"questions": [{"id": "q", "question": "Which?"}]}',
    ),
    _codex(
        "response_item",
        type="function_call_output",
        call_id="c",
        output='{"answers": {"q": {"answers": ["this"]}}}',
    ),
    _codex_answer(2),
    _codex("event_msg", type="task_complete"),
    _codex("event_msg", type="user_message", message="I like kiwi3."),
]
_CODEX_ITEMS = [
    _CODEX_HEAD,
    _codex(
        "event_msg",
        type="item_completed",
        item={"type": "UserMessage", "content": [{"type": "text", "text": "I like kiwi1."}]},
    ),
    _codex_answer(1),
    _codex(
        "event_msg",
        type="item_completed",
        item={"type": "UserMessage", "content": [{"type": "text", "text": "I like kiwi2."}]},
    ),
]
_CODEX_OLD = [
    {"id": "s1", "timestamp": _ISO, "instructions": None},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "I like kiwi1."}],
    },
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Good."}]},
    {
        "type": "message",
        "role": "user",
        "content": [{"type": "input_text", "text": "I like kiwi2."}],
    },
]


def _gemini(number: int) -> list[dict[str, Any]]:
    call = {
        "name": "ask_user",
        "args": {"questions": [{"question": "Which?"}]},
        "result": [{"functionResponse": {"response": {"output": '{"answers": {"0": "this"}}'}}}],
    }
    return [
        {
            "id": f"u{number}",
            "timestamp": _ISO,
            "type": "user",
            "content": [{"text": f"I like kiwi{number}."}],
            "displayContent": "",
        },
        {
            "id": f"c{number}",
            "timestamp": _ISO,
            "type": "gemini",
            "content": "",
            "toolCalls": [call],
            "thoughts": [],
        },
        {"id": f"m{number}", "timestamp": _ISO, "type": "gemini", "content": "Good."},
    ]


_GEMINI = {
    "sessionId": "s",
    "projectHash": "h",
    "kind": "main",
    "messages": [*_gemini(1), *_gemini(2)],
}
_GEMINI_LINES = [
    {"sessionId": "s", "projectHash": "h", "kind": "main"},
    *_gemini(1),
    {"$set": {"lastUpdated": _ISO}},
    *_gemini(2),
]
_CHECKPOINT = [
    {"role": "user", "parts": [{"text": "I like kiwi1."}]},
    {"role": "model", "parts": [{"text": "Good."}]},
    {"role": "user", "parts": [{"text": "I like kiwi2."}]},
    {"role": "model", "parts": [{"text": "Good."}, {"functionCall": {"name": "x", "args": {}}}]},
]


def _claude_code(number: int) -> list[dict[str, Any]]:
    head = {"sessionId": "s", "cwd": "/x", "timestamp": _ISO, "version": "2.1"}
    result = {
        "questions": [{"question": "Which?"}],
        "answers": {"Which?": "this"},
        "annotations": {},
    }
    return [
        head
        | {
            "type": "user",
            "uuid": f"a{number}",
            "promptId": f"p{number}",
            "message": {"role": "user", "content": f"I like kiwi{number}."},
        },
        head
        | {
            "type": "assistant",
            "uuid": f"b{number}",
            "message": {
                "role": "assistant",
                "content": [{"type": "tool_use", "name": "AskUserQuestion", "input": {}}],
            },
        },
        head
        | {
            "type": "user",
            "uuid": f"c{number}",
            "toolUseResult": result,
            "message": {"role": "user", "content": [{"type": "tool_result", "content": "x"}]},
        },
        head
        | {
            "type": "attachment",
            "uuid": f"d{number}",
            "attachment": {"type": "queued_command", "prompt": "and more", "timestamp": _ISO},
        },
        head
        | {
            "type": "assistant",
            "uuid": f"e{number}",
            "message": {"role": "assistant", "content": [{"type": "text", "text": "Good."}]},
        },
        head | {"type": "system", "uuid": f"f{number}", "subtype": "turn_duration"},
    ]


_MEM0 = {
    "results": [
        {
            "id": f"0b1c{number}",
            "memory": f"likes kiwi{number}",
            "user_id": f"ann{number}",
            "agent_id": "a",
            "run_id": None,
            "categories": ["food"],
            "metadata": {"a": 1},
            "created_at": _ISO,
            "updated_at": None,
            "expiration_date": None,
        }
        for number in (1, 2)
    ]
}
_OPENMEMORY = {
    "user": {"id": "u"},
    "apps": [],
    "categories": [{"id": "c", "name": "food"}],
    "memories": [
        {"id": f"m{number}", "content": f"likes kiwi{number}", "category_ids": ["c"]}
        for number in (1, 2)
    ],
    "export_meta": {},
}
_MEMORY_SERVICE = {
    "export_metadata": {"total": 2},
    "memories": [
        {
            "content": f"likes kiwi{number}",
            "content_hash": f"h{number}",
            "tags": ["food"],
            "memory_type": "note",
            "metadata": {"a": 1},
            "created_at": _SECONDS,
            "created_at_iso": _ISO,
            "updated_at": _SECONDS,
            "embedding": [0.1],
        }
        for number in (1, 2)
    ],
}
_LIVING_EXPORT = {
    "format": "livingmemory",
    "version": 1,
    "memories": [
        {
            "id": number,
            "original_id": number,
            "content": f"likes kiwi{number}",
            "session_id": "qq:FriendMessage:10001",
            "created_at": _ISO,
            "metadata": {
                "importance": 0.5,
                "topics": ["food"],
                "create_time": _SECONDS,
                "status": "active",
                "persona_id": "p",
            },
            "source_messages": [
                {
                    "role": "user",
                    "content": "hello",
                    "sender_name": "Ann",
                    "timestamp": _SECONDS,
                    "session_id": "x",
                }
            ],
        }
        for number in (1, 2)
    ],
}
_CLAUDE_MEM = {
    "observations": [
        {
            "project": "shop",
            "merged_into_project": None,
            "memory_session_id": "s",
            "created_at_epoch": _MS,
            "type": "discovery",
            "title": f"Fruit {number}",
            "subtitle": "s",
            "narrative": f"likes kiwi{number}",
            "facts": '["a"]',
            "text": None,
            "concepts": '["c"]',
            "files_read": "[]",
            "files_modified": "[]",
        }
        for number in (1, 2)
    ],
    "summaries": [
        {
            "project": "shop",
            "memory_session_id": "s",
            "created_at_epoch": _MS,
            "request": "buy",
            "learned": f"kiwi{number}",
            "files_edited": "[]",
        }
        for number in (3, 4)
    ],
    "prompts": [
        {
            "content_session_id": "s",
            "prompt_number": number,
            "prompt_text": f"I like kiwi{number}",
            "created_at_epoch": _MS,
        }
        for number in (5, 6)
    ],
}
_NODE = [
    {
        "timestamp": _MS,
        "text": f"user: I like kiwi{number}.",
        "keywords": [{"word": "kiwi", "weight": 3.5}],
        "score": 1,
        "conversation_id": "ann",
        "messages": [{"role": "user", "content": f"I like kiwi{number}.", "timestamp": _MS}],
    }
    for number in (1, 2)
]
_LONG = [
    {
        "name": f"fruit {number}",
        "prompt": f"likes kiwi{number}",
        "trigger": "true",
        "createdAt": _ISO,
        "createdContext": "c",
    }
    for number in (3, 4)
]
_GENTIAN = [
    {
        "time_stamp": _MS,
        "timestamp": _MS,
        "text": f"user: I like kiwi{number}.",
        "keywords": [{"word": "kiwi", "weight": 3.5}],
        "score": 1,
        "chat_name": "ann",
    }
    for number in (1, 2)
]
_OFFICIAL = [
    {
        "type": "entity",
        "name": f"fruit {number}",
        "entityType": "food",
        "observations": [f"kiwi{number}"],
    }
    for number in (1, 2)
] + [{"type": "relation", "from": "fruit 1", "to": "fruit 2", "relationType": "like"}]
_GRAPH = {"entities": _OFFICIAL[:2], "relations": _OFFICIAL[2:]}
_REFS = [
    {
        "op": "add",
        "entry": {
            "id": f"r{number}",
            "namespace": "short-term",
            "content": f"likes kiwi{number}",
            "summary": "s",
            "tags": ["x"],
            "createdAt": _ISO,
            "importance": 0.5,
            "source": "s",
            "metadata": {},
        },
    }
    for number in (1, 2)
]
_NATIVE = [
    {"format": "memory-server", "version": 1},
    {"conversation": "ann", "lastCleanup": None},
    *({"short": row} for row in _NODE),
    *({"long": row} for row in _LONG),
    {
        "place": "notes",
        "entry": {
            "ref": "n5",
            "title": "t",
            "body": "likes kiwi5",
            "kind": "domain",
            "tags": ["a"],
            "created_ms": _MS,
            "updated_ms": _MS,
        },
    },
    {
        "place": "refs/long-term",
        "entry": {
            "ref": "n6",
            "title": "t",
            "body": "likes kiwi6",
            "created_ms": _MS,
            "updated_ms": _MS,
        },
    },
    {"end": True, "conversations": 1, "entries": 2},
]
_SETTINGS = {
    "username": "Ann",
    "user_avatar": "ann.png",
    "world_info_settings": {
        "world_info": {
            "globalSelect": ["Plants"],
            "charLore": [{"name": "Zoe", "extraBooks": ["Plants"]}],
        },
        "world_info_depth": 2,
        "world_info_recursive": True,
    },
    "power_user": {
        "personas": {"ann.png": "Ann"},
        "default_persona": "ann.png",
        "persona_descriptions": {
            "ann.png": {"lorebook": "Plants", "connections": [{"id": "Zoe.png"}]}
        },
    },
}


def _numbered(value: Any, offset: int) -> Any:
    """The same value with other marks, so that each file of a folder has marks of its own."""
    text = json.dumps(value)
    for number in range(9, 0, -1):
        text = text.replace(f"kiwi{number}", f"kiwi{offset}{number}")
    return json.loads(text)


_TAVERN_FOLDER = {
    "settings.json": _SETTINGS,
    "worlds/Plants.json": _WORLD,
    "worlds/Trees.json": _numbered(_WORLD, 2),
    "characters/Zoe.json": _numbered(_CARD, 3),
    "groups/g.json": {
        "name": "Pals",
        "members": ["Zoe.json"],
        "chats": ["c"],
        "chat_id": "c",
        "chat_metadata": {"world_info": "Trees"},
        "past_metadata": {"c": {}},
    },
    "group chats/c.jsonl": _numbered(_TAVERN, 4),
    "chats/Zoe/a.jsonl": _numbered(_TAVERN, 5),
}
_TABLES_LIVING = {
    "documents": [
        {
            "id": number,
            "text": f"likes kiwi{number}",
            "metadata": '{"session_id": "qq:FriendMessage:1", "create_time": 1767323045}',
            "created_at": _ISO,
        }
        for number in (1, 2)
    ],
    "memory_sources": [{"memory_id": 1, "source_json": '[{"role": "user", "content": "hello"}]'}],
    "messages": [
        {
            "session_id": "s",
            "role": "user",
            "content": f"likes kiwi{number}",
            "sender_name": "Ann",
            "timestamp": _SECONDS + number * 90_000,
        }
        for number in (3, 4)
    ],
}
_TABLES_NOTES = {
    "memories": [
        {
            "id": f"i{number}",
            "type": "domain",
            "topic": f"t{number}",
            "tags": "a,b",
            "content": f"likes kiwi{number}",
            "examples": "[]",
            "reference_count": 1,
            "confidence": 0.5,
            "created_at": _SECONDS,
            "last_accessed": _SECONDS,
            "source": "s",
            "deleted": 0,
        }
        for number in (1, 2)
    ]
}
_TABLES_MEM = {
    "observations": _CLAUDE_MEM["observations"],
    "session_summaries": _CLAUDE_MEM["summaries"],
    "user_prompts": _CLAUDE_MEM["prompts"],
}
_PAGE_FIELDS = {
    f"{number}.md": {
        "title": f"Fruit {number}",
        "tags": ["a"],
        "type": "note",
        "created": _ISO,
        "modified": _ISO,
        "description": f"About kiwi{number}",
        "other": {"a": 1},
    }
    for number in (1, 2)
}


def _entry_of(*before: Any) -> tuple[Any, ...]:
    return (*before, "entries", EACH)


_LINE = [(EACH,)]
SAMPLES: Mapping[str, Sample] = {
    "messages in lines": Sample("chat", [_message(1), _message(2)], _LINE, as_lines),
    "messages in an array": Sample("chat", [_message(1), _message(2, "assistant")], _LINE),
    "SillyTavern chat": Sample("chat", _TAVERN, _LINE, as_lines),
    "Chub chat": Sample(
        "chat",
        [_TAVERN[0], _tavern(1) | {"mes": {"message": "I like kiwi1."}}, _tavern(2)],
        _LINE,
        as_lines,
    ),
    "Open-LLM-VTuber": Sample(
        "chat",
        [
            {"role": "metadata", "timestamp": _ISO},
            {"role": "human", "content": "kiwi1", "timestamp": _ISO},
            {"role": "ai", "content": "kiwi2", "timestamp": _ISO},
        ],
        _LINE,
    ),
    "ChatGPT": Sample("chat", [_chatgpt(1), _chatgpt(2)], _LINE),
    "Claude": Sample("chat", [_claude(1), _claude(2)], _LINE),
    "export of ChatGPT": Sample(
        "chat-export",
        {"conversations.json": [_chatgpt(1), _chatgpt(2)]},
        [(EACH, EACH)],
        kind="folder",
    ),
    "export of Claude": Sample(
        "chat-export",
        {
            "conversations.json": [_claude(1), _claude(2)],
            "projects.json": _PROJECTS,
            "memories.json": _MEMORIES,
        },
        [(EACH, EACH)],
        kind="folder",
    ),
    "folder of chats": Sample(
        "chat",
        {"a.jsonl": _TAVERN, "b.jsonl": _numbered(_TAVERN, 2)},
        [(EACH, EACH)],
        kind="folder",
    ),
    "Claude Code": Sample(
        "claude-code",
        {"p/s.jsonl": [*_claude_code(1), *_claude_code(2)]},
        [(EACH, EACH)],
        kind="folder",
    ),
    "Codex": Sample("codex", {"rollout-a.jsonl": _CODEX}, [(EACH, EACH)], kind="folder"),
    "Codex with items": Sample(
        "codex", {"rollout-a.jsonl": _CODEX_ITEMS}, [(EACH, EACH)], kind="folder"
    ),
    "Codex of 2025": Sample(
        "codex", {"rollout-a.jsonl": _CODEX_OLD}, [(EACH, EACH)], kind="folder"
    ),
    "two sessions of Codex": Sample(
        "codex",
        {"rollout-a.jsonl": _CODEX_ITEMS, "rollout-b.jsonl": _numbered(_CODEX_ITEMS, 2)},
        [(EACH, EACH)],
        kind="folder",
    ),
    "Gemini CLI": Sample(
        "gemini-cli", {"session-a.json": _GEMINI}, [(EACH, "messages", EACH)], kind="folder"
    ),
    "Gemini CLI in lines": Sample(
        "gemini-cli", {"session-a.jsonl": _GEMINI_LINES}, [(EACH, EACH)], kind="folder"
    ),
    "checkpoint of Gemini CLI": Sample(
        "gemini-cli", {"checkpoint-a.json": _CHECKPOINT}, [(EACH, EACH)], kind="folder"
    ),
    "world of SillyTavern": Sample("worldinfo", _WORLD, [_entry_of()]),
    "card of version 2": Sample("worldinfo", _CARD, [_entry_of("data", "character_book")]),
    "card of version 3": Sample(
        "worldinfo", _CARD | {"spec": "chara_card_v3"}, [_entry_of("data", "character_book")]
    ),
    "lorebook of version 3": Sample(
        "worldinfo", {"spec": "lorebook_v3", "data": _BOOK}, [_entry_of("data")]
    ),
    "book alone": Sample("worldinfo", _BOOK, [_entry_of()]),
    "NovelAI": Sample(
        "worldinfo", _NOVELAI, [_entry_of()], deciding=[("categories", 0, "enabled")]
    ),
    "story of NovelAI": Sample(
        "worldinfo",
        {"content": {"lorebook": _NOVELAI}, "metadata": {"title": "t"}},
        [_entry_of("content", "lorebook")],
        deciding=[("content", "lorebook", "categories", 0, "enabled")],
    ),
    "Agnai": Sample("worldinfo", _AGNAI, [_entry_of()]),
    "RisuAI": Sample(
        "worldinfo", {"type": "risu", "ver": 1, "data": _RISU_ENTRIES}, [("data", EACH)]
    ),
    "module of RisuAI": Sample(
        "worldinfo",
        {
            "type": "risuModule",
            "module": {"name": "m", "lorebook": _RISU_ENTRIES, "regex": [], "assets": []},
        },
        [("module", "lorebook", EACH)],
    ),
    "KoboldAI": Sample("worldinfo", _KOBOLD, [("worldinfo", EACH)]),
    "story cards": Sample("worldinfo", _STORY_CARDS, _LINE),
    "adventure of AI Dungeon": Sample(
        "worldinfo",
        {"title": "t", "data": {"storyCards": _STORY_CARDS}},
        [("data", "storyCards", EACH)],
    ),
    "AstrBot": Sample("worldinfo", _ASTRBOT, [("trigger", EACH), ("authors_note", EACH)], as_yaml),
    "folder of SillyTavern": Sample(
        "sillytavern",
        _TAVERN_FOLDER,
        [
            ("worlds/Plants.json", "entries", EACH),
            ("worlds/Trees.json", "entries", EACH),
            ("characters/Zoe.json", "data", "character_book", "entries", EACH),
            ("group chats/c.jsonl", EACH),
            ("chats/Zoe/a.jsonl", EACH),
        ],
        kind="folder",
        deciding=[("settings.json", "world_info_settings", "world_info_depth")],
    ),
    "mem0": Sample("mem0", _MEM0, [("results", EACH)]),
    "OpenMemory": Sample(
        "mem0", _OPENMEMORY, [("memories", EACH)], deciding=[("export_meta",), ("apps",)]
    ),
    "mcp-memory-service": Sample("memory-service", _MEMORY_SERVICE, [("memories", EACH)]),
    "LivingMemory": Sample("livingmemory", _LIVING_EXPORT, [("memories", EACH)]),
    "claude-mem": Sample("claude-mem", _CLAUDE_MEM, [(EACH, EACH)]),
    "official server": Sample("official", _OFFICIAL, _LINE, as_lines),
    "graph of the official server": Sample("official", _GRAPH, [(EACH, EACH)]),
    "log of refs": Sample("refs-log", _REFS, _LINE, as_lines),
    "Node original": Sample("node", _NODE, _LINE),
    "folder of the Node original": Sample(
        "node",
        {"ann/short-term-memory.json": _NODE, "ann/long-term-memory.json": _LONG},
        [(EACH, EACH)],
        kind="folder",
    ),
    "GentianAphrodite": Sample(
        "gentian",
        {"short-term-memory.json": _GENTIAN, "long-term-memory.json": _LONG},
        [(EACH, EACH)],
        kind="folder",
    ),
    "pack": Sample("pack", _LONG, _LINE),
    "native": Sample("native", _NATIVE, _LINE, as_lines, deciding=[(0,), (1,)]),
    "pages": Sample("pages", _PAGE_FIELDS, [(EACH,)], as_page, kind="folder"),
    "database of LivingMemory": Sample(
        "livingmemory", _TABLES_LIVING, [(EACH, EACH)], kind="database"
    ),
    "database of claude-mem": Sample("claude-mem", _TABLES_MEM, [(EACH, EACH)], kind="database"),
    "database of notes": Sample("notes-db", _TABLES_NOTES, [(EACH, EACH)], kind="database"),
}
