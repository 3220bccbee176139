"""Bad input, case by case: tool, arguments, and what the sentence must say."""

from __future__ import annotations

import math
from typing import Any

HELLO = [{"role": "user", "content": "我喜欢吃披萨"}]
TRIGGER = "match_keys(context.messages, ['披萨']) > 0"


def message(**fields: Any) -> list[dict[str, Any]]:
    return [HELLO[0] | fields]


# tool, arguments, what the sentence must say
CASES: list[tuple[str, dict[str, Any], str]] = [
    # wrong types
    ("add_short_term_memory", {"messages": "hello"}, '`messages` must be a list, not "hello"'),
    ("add_short_term_memory", {"messages": ["hello"]}, "`messages[0]` must be an object"),
    (
        "add_short_term_memory",
        {"messages": message(content=5)},
        "`messages[0].content` must be text, not 5",
    ),
    (
        "add_short_term_memory",
        {"messages": HELLO, "conversation_id": 7},
        "`conversation_id` must be text, not 7",
    ),
    ("add_short_term_memory", {"messages": "小明"}, '`messages` must be a list, not "小明"'),
    (
        "add_short_term_memory",
        {"messages": HELLO, "roleWeights": {"user": "much"}},
        "must be a number",
    ),
    ("add_short_term_memory", {"messages": HELLO, "roleWeights": {"user": -1}}, "at least 0"),
    ("add_short_term_memory", {"messages": HELLO, "roleWeights": {"user": math.inf}}, "at least 0"),
    (
        "search_long_term_memories",
        {"messages": HELLO, "participants": ["a"]},
        "`participants` must be an object",
    ),
    # missing and unknown
    ("add_short_term_memory", {}, "`messages` is missing"),
    ("add_short_term_memory", {"mesages": HELLO}, "did you mean `messages`?"),
    (
        "search_short_term_memories",
        {"recentMessages": HELLO, "limit": 3},
        "has no argument `limit`; it takes",
    ),
    ("get_frequent_conversation", {"conversation_id": "x"}, "it takes no arguments"),
    (
        "add_short_term_memory",
        {"messages": [{"role": "user", "contnet": "hello"}]},
        "`messages[0].content` is missing",
    ),
    # empty
    ("add_short_term_memory", {"messages": []}, "`messages` is empty"),
    ("add_short_term_memory", {"messages": message(content=" \n")}, "no text to remember"),
    (
        "search_short_term_memories",
        {"recentMessages": message(role="tool")},
        "no message in it has a content that somebody said",
    ),
    ("delete_short_term_memories", {"pattern": ""}, "`pattern` is empty"),
    # values
    (
        "add_short_term_memory",
        {"messages": message(role="wizard")},
        "must be 'user', 'assistant' or 'system', not \"wizard\"",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp=math.nan)},
        "is not a date; give",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp=math.inf)},
        "is not a date; give",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp="today")},
        "is not a date; give",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp=True)},
        "is not a date; give",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp=10**18)},
        "is beyond the year 9999; give milliseconds since 1970",
    ),
    (
        "add_short_term_memory",
        {"messages": message(timestamp=10**400)},
        "is beyond the year 9999; give milliseconds since 1970",
    ),
    (
        "add_short_term_memory",
        {"messages": message(content="长" * 5_000_000)},
        "5,000,000 characters",
    ),
    ("add_short_term_memory", {"messages": HELLO * 501}, "at most 500"),
    (
        "search_short_term_memories",
        {"recentMessages": HELLO, "maxBytes": 199},
        "a number of bytes from 200 to 100,000",
    ),
    (
        "search_short_term_memories",
        {"recentMessages": HELLO, "scope": "家"},
        "There is no scope `家`; use",
    ),
    # ids
    (
        "add_short_term_memory",
        {"messages": HELLO, "conversation_id": "小" * 300},
        "300 characters; use at most 256",
    ),
    (
        "add_short_term_memory",
        {"messages": HELLO, "conversation_id": "  "},
        "conversation_id is empty",
    ),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "a\nb"}, "line break"),
    ("add_short_term_memory", {"messages": HELLO, "conversation_id": "\ud83d"}, "broken surrogate"),
    # expressions
    ("delete_short_term_memories", {"pattern": "/(/"}, "nvalid regular expression"),
    ("delete_short_term_memories", {"pattern": "/" + "a" * 2_000 + "/"}, "at most 1,000"),
    # triggers
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": "if (a {"},
        "line 1, column 7",
    ),
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": "1 +\n  ) 2"}, "line 2"),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": "match_kyes([], [])"},
        "did you mean match_keys",
    ),
    ("add_long_term_memory", {"name": "a", "prompt": "p", "trigger": " "}, "trigger is empty"),
    (
        "add_long_term_memory",
        {"name": " ", "prompt": "p", "trigger": TRIGGER},
        "needs a name and a prompt",
    ),
    (
        "add_long_term_memory",
        {"name": "n" * 201, "prompt": "p", "trigger": TRIGGER},
        "201 characters",
    ),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p" * 20_001, "trigger": TRIGGER},
        "at most 20,000",
    ),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": TRIGGER, "order": "high"},
        "`order` must be",
    ),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": TRIGGER, "sticky": -1},
        "`sticky` should be",
    ),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": TRIGGER, "group": [""]},
        "`group[0]` is empty",
    ),
    (
        "add_long_term_memory",
        {"name": "a", "prompt": "p", "trigger": TRIGGER, "probability": 101},
        "`probability`",
    ),
    ("update_long_term_memory", {"name": "披萨", "cooldown": 1.5}, "`cooldown`"),
    ("update_long_term_memory", {"name": "披萨", "group": ["g"] * 21}, "`group` is too long"),
    ("switch_book", {"name": "Tale", "on": "perhaps"}, "`on` must be true or false"),
    ("switch_book", {"name": "Tale", "on": False}, "has no books"),
    ("show_book", {"name": "Tale"}, "has no books"),
    ("remove_book", {"name": "Tale"}, "has no books"),
    ("update_long_term_memory", {"name": "披萨"}, "nothing to change"),
    ("update_long_term_memory", {"name": "披萨", "trigger": "("}, "cannot work and was not stored"),
    ("update_long_term_memory", {"name": "披萨", "prompt": " "}, "new prompt is empty"),
    # missing memories
    ("update_long_term_memory", {"name": "寿司", "prompt": "p"}, "use one of its names: `披萨`"),
    ("delete_long_term_memory", {"name": "寿司"}, "No long-term memory is called `寿司`"),
    ("get_memory_context", {"name": "披萨", "conversation_id": "b"}, "it is kept in `default`"),
    (
        "get_memory_context",
        {"name": "披", "conversation_id": "b"},
        "which has no long-term memories",
    ),
    # layers and refs
    ("save_to_memory", {"key": "", "content": "x"}, "`key` is empty"),
    ("save_to_memory", {"key": " ", "content": "x"}, "The key is empty"),
    (
        "save_to_memory",
        {"key": "k" * 201, "content": "x"},
        "201 characters; shorten it to at most 200",
    ),
    ("save_to_memory", {"key": "a\nb", "content": "x"}, "a line break"),
    ("save_to_memory", {"key": "k", "content": "x" * 100_001}, "at most 100,000 characters"),
    ("save_to_global_memory", {"key": "k", "content": " "}, "The content is empty"),
    (
        "save_to_global_memory",
        {"key": "k", "content": "x", "tags": ["t"] * 2 + ["t" * 101]},
        "longest tag is too long",
    ),
    ("retrieve_from_memory", {"query": "x", "limit": 0}, "a number of entries from 1 to 100"),
    ("retrieve_from_memory", {"query": "x", "limit": 101}, "a number of entries from 1 to 100"),
    ("retrieve_from_memory", {"query": " "}, "The query is empty"),
    ("get_memory_entry", {"key": "nothing"}, "list_memory_entries shows all keys"),
    (
        "delete_global_memory_entry",
        {"key": "k", "caller_agent_id": "worker_1"},
        "worker_1 is a worker",
    ),
    (
        "restore_from_memory_archive",
        {"key": "k", "caller_agent_id": "worker_1"},
        "an owner or admin restores entries",
    ),
    ("restore_from_memory_archive", {"key": "k"}, "There is no `k` in the archive"),
    ("list_memory_archive", {"limit": 0}, "a number of entries from 1 to 1,000"),
    # sessions
    ("memory_add", {"messages": []}, "`messages"),
    ("memory_add", {"messages": {}}, "`messages"),
    ("memory_add", {"messages": 7}, "`messages"),
    ("memory_add", {"messages": " "}, "The content is empty"),
    ("memory_add", {"messages": "x" * 100_001}, "at most 100,000"),
    (
        "memory_add",
        {"messages": [{"role": "system", "content": "x"}]},
        "No text to keep is in the messages",
    ),
    ("memory_add", {"messages": "x", "metadata": [1]}, "`metadata` must be an object"),
    ("memory_add", {"messages": "x", "metadata": {"a": "x" * 17_000}}, "The metadata is too long"),
    (
        "memory_add",
        {"messages": "x", "mode": "smart"},
        "must be 'inference' or 'direct', not \"smart\"",
    ),
    (
        "memory_add",
        {"messages": "x", "user_id": "u" * 101},
        "The user_id has 101 characters; use at most 100",
    ),
    ("memory_add", {"messages": "x", "user_id": "a\nb"}, "characters that cannot be seen"),
    (
        "memory_add",
        {"messages": "x", "agent_id": "a\u200bb"},
        "The agent_id holds characters that cannot be seen",
    ),
    ("memory_add", {"messages": "x", "user_id": "*"}, "`*` is not a user"),
    ("memory_add", {"messages": "x", "run_id": "*"}, "`*` as run_id is for reading only"),
    ("memory_search", {"query": ""}, "`query` is empty"),
    ("memory_search", {"query": " "}, "The query is empty"),
    ("memory_search", {"query": "x", "limit": 0}, "a number of memories from 1 to 100"),
    ("memory_search", {"query": "x", "limit": 101}, "a number of memories from 1 to 100"),
    (
        "memory_search",
        {"query": "x", "search_type": "magic"},
        "must be 'vector', 'text' or 'hybrid'",
    ),
    ("memory_get_all", {"offset": -1}, "a number of items to skip"),
    ("memory_update", {"memory_id": 0, "data": "x"}, "a number of a memory from 1 to"),
    ("memory_update", {"memory_id": 2**60, "data": "x"}, "a number of a memory from 1 to"),
    ("memory_update", {"memory_id": 17, "data": "x"}, "Memory 17 is not in this session"),
    ("memory_update", {"memory_id": 1, "data": ""}, "`data` is empty"),
    ("memory_delete", {"memory_id": -1}, "a number of a memory from 1 to"),
    ("memory_delete", {"memory_id": "one"}, "`memory_id`"),
    ("memory_delete", {"memory_id": 17}, "Memory 17 is not in this session"),
    ("memory_delete_all", {}, "`confirm` is missing"),
    (
        "memory_delete_all",
        {"confirm": False},
        "would delete 0 memories; to delete them, give confirm: true",
    ),
    ("memory_get_history", {"limit": 101}, "a number of operations from 1 to 100"),
    (
        "memory_init_session",
        {"metadata": {"a": "x" * 5_000}},
        "The metadata has at most 4,096 characters",
    ),
    ("memoryAdd", {"content": ""}, "`content` is empty"),
    ("memoryAdd", {"content": " "}, "The content is empty"),
    ("memoryAdd", {"content": "x", "importance": 1.5}, "less than or equal to 1, not 1.5"),
    (
        "memoryAdd",
        {"content": "x", "namespace": "medium"},
        "must be 'short-term' or 'long-term', not \"medium\"",
    ),
    ("memoryAdd", {"content": "x", "tags": [str(n) for n in range(51)]}, "at most 50 tags"),
    ("memoryAdd", {"content": "x", "metadata": [1]}, "`metadata` must be an object"),
    ("memoryAdd", {"content": "x", "metadata": {"a": "x" * 17_000}}, "The metadata is too long"),
    ("memorySearch", {"query": ""}, "`query` is empty"),
    ("memorySearch", {"query": "x", "limit": 0}, "a number of references from 1 to 100"),
    ("memorySearch", {"query": "x", "namespace": "medium"}, "must be 'short-term' or 'long-term'"),
    ("memoryDelete", {"id": "abc"}, "There is no reference abc"),
    ("memoryGetContent", {"id": "0" * 16}, "memorySearch finds references by words"),
    (
        "memoryAdd",
        {"content": "x", "metadata": {"a": 2**64}},
        "cannot be stored as JSON (Integer exceeds 64-bit range)",
    ),
    (
        "memoryAdd",
        {"content": "x", "metadata": {"a": [{"b": -(2**70)}]}},
        "cannot be stored as JSON (Integer exceeds 64-bit range)",
    ),
    (
        "memoryAdd",
        {"content": "x", "metadata": {"a": "\ud800"}},
        "cannot be stored as JSON (str is not valid UTF-8",
    ),
    ("memoryGetContent", {"id": "0" * 16, "offset": -1}, "a number of items to skip"),
    ("memoryGetContent", {"id": "0" * 16, "offset": 2**64}, "a number of items to skip"),
    ("recall", {"query": "x", "offset": 2**64}, "a number of items to skip"),
]
