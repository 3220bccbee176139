"""The calls of the Python API take what the tools of MCP and HTTP take, so that a companion in Python lacks nothing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest

from memory_server.conversations.book_manager import BookManager
from memory_server.conversations.history import ArchiveManager
from memory_server.conversations.insight import InsightManager, ListRequest
from memory_server.conversations.long_term import LongTermManager
from memory_server.conversations.recall.request import RecallRequest
from memory_server.conversations.short_term import Origin, ShortTermManager
from memory_server.runtime.app import CallerView
from memory_server.tools import KNOWLEDGE, TOOLS, TOOLSETS


class Pair(NamedTuple):
    """The call of a tool. `renamed`: arguments of the tool by their names in Python. `elsewhere`: arguments of the tool
    that Python has in another place, each with that place. `request`: a value that the call takes, with the rest."""

    call: Callable[..., Any]
    renamed: Mapping[str, str] = {}
    elsewhere: Mapping[str, str] = {}
    request: type | None = None


_RECENT = {"recent_messages": "messages"}
_RULES = dict.fromkeys(
    ("order", "group", "cooldown", "once", "sticky", "probability"), "`rules`, a GivenRules"
)
PAIRS = {
    "recall_turn": Pair(
        CallerView.recall_turn, {}, {"also_turns": "`ShortTermManager.search`, for branches"}
    ),
    "remember_turn": Pair(ShortTermManager.add, {"turn_id": "turn"}, {}, Origin),
    "add_short_term_memory": Pair(ShortTermManager.add),
    "search_short_term_memories": Pair(
        ShortTermManager.search, _RECENT, {"max_bytes": "`Memories.lines`"}, RecallRequest
    ),
    "delete_short_term_memories": Pair(ShortTermManager.delete),
    "get_memory_stats": Pair(ShortTermManager.statistics),
    "cleanup_memories": Pair(ShortTermManager.clean_up),
    "add_long_term_memory": Pair(LongTermManager.add, {"recent_messages": "recent"}, _RULES),
    "update_long_term_memory": Pair(LongTermManager.update, {"recent_messages": "recent"}, _RULES),
    "delete_long_term_memory": Pair(LongTermManager.delete),
    "list_long_term_memories": Pair(LongTermManager.memories, {}, {"offset": "it gives all"}),
    "search_long_term_memories": Pair(
        LongTermManager.search, {}, {"offset": "it gives all"}, RecallRequest
    ),
    "get_memory_context": Pair(LongTermManager.get),
    "pin_memory": Pair(ShortTermManager.pin, {"id": "memory_id"}),
    "mute_memory": Pair(ShortTermManager.mute, {"id": "memory_id", "where": "place"}),
    "edit_memory": Pair(
        ShortTermManager.edit,
        {"id": "memory_id"},
        dict.fromkeys(("find", "replace"), "`texts`, the new texts of its messages"),
    ),
    "restore_memories_from_archive": Pair(
        ArchiveManager.bring_back, {"removed_since": "since_ms", "removed_until": "until_ms"}
    ),
    "undo_change": Pair(ArchiveManager.undo, {"change_id": "change"}),
    "get_history": Pair(ArchiveManager.history),
    "explain_recall": Pair(InsightManager.explain, _RECENT, {}, RecallRequest),
    "search_memories": Pair(
        InsightManager.search,
        {"query": "text", "memory_type": "kinds", "order": "descending", "limit": "most"},
        {
            "offset": "it gives the first `most`",
            **dict.fromkeys(
                ("date_from", "date_to", "min_score", "max_score", "tags"),
                "`conditions`, a MemoryFilter",
            ),
        },
        ListRequest,
    ),
    "list_books": Pair(BookManager.listed, {}, {"offset": "it gives all"}),
    "show_book": Pair(BookManager.entries, {}, {"offset": "it gives all"}),
    "switch_book": Pair(BookManager.switch),
    "remove_book": Pair(BookManager.remove),
}
"""The tools of conversations that a program calls, each with its call in Python."""
WITHOUT_A_CALL = {
    "get_frequent_conversation": "`Conversations.most_frequent`, which takes nothing",
    "unpin_memory": "`ShortTermManager.pin` with `pinned=False`",
    "forget": "it asks back in a chat; a program has `delete`",
    "forget_preview": "`clean_up(dry_run=True)`",
    "analyze_memory_patterns": "a table for people; `InsightManager.patterns`",
    "get_metrics": "figures of a server",
    "health_check": "figures of a server",
    **dict.fromkeys(
        ("backup_memories", "list_backups", "restore_memories", "delete_backup"),
        "backups are of the whole home",
    ),
}


def in_python(name: str) -> str:
    """An argument of a tool as Python would call it: `otherWords` is `other_words`."""
    return re.sub("(?<=[a-z])(?=[A-Z])", "_", name).lower()


@pytest.mark.parametrize("name", PAIRS)
def test_the_call_in_python_takes_what_the_tool_takes(name: str) -> None:
    pair = PAIRS[name]
    taken = set(inspect.signature(pair.call).parameters)
    if pair.request is not None:
        taken |= set(inspect.signature(pair.request).parameters)
    arguments = {
        in_python(argument) for argument in inspect.signature(TOOLS[name].function).parameters
    }
    arguments -= {"call", "conversation_id"} | set(pair.elsewhere)
    lacking = {pair.renamed.get(argument, argument) for argument in arguments} - taken
    assert not lacking


def test_each_tool_of_conversations_has_its_call_or_a_reason_to_have_none() -> None:
    of_conversations = {
        tool.name
        for toolset, members in TOOLSETS.items()
        if toolset not in KNOWLEDGE
        for tool in members
    }
    assert of_conversations == PAIRS.keys() | WITHOUT_A_CALL.keys()
