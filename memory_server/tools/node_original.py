"""What programs of the Node original send and read: its arguments and its results, for `compat = "node"`.

Such a program reads the text block of a result as JSON and looks at `success`, also after a failed call; refused
arguments are an error there too. The names come from its files src/tools/*.js and src/index.js. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from memory_server.kernel.recalled_block import FOOT, HEADS, harmless
from memory_server.kernel.times import iso
from memory_server.kernel.values import JsonObject, frozen
from memory_server.tools.base.result import when
from memory_server.tools.base.tool import Answer

Fields = Mapping[str, Any]


@frozen
class NodeCall:
    """A call in the names of the original. `uptime_seconds`: since this process began to count."""

    arguments: Fields
    now_ms: int
    uptime_seconds: float


def node_arguments(tool: str, arguments: Fields) -> JsonObject:
    """Return the arguments as the tool here takes them. A `backup_path` is the name that `backup_memories` gave; a
    restore that names it overwrites unless it has `merge`, as in the original."""
    fields = dict(arguments)
    if "backup_path" in fields and tool in ("restore_memories", "delete_backup"):
        fields["name"] = fields.pop("backup_path")
        if tool == "restore_memories":
            is_merge = fields.pop("merge", False)
            fields["mode"] = "merge" if is_merge is True else "overwrite"
    if tool == "health_check":
        fields.pop("detailed", None)  # its checks are always told in detail
    return fields


def node_answer(tool: str, call: NodeCall, structured: Fields) -> Answer:
    """Return a result with the fields of the original beside the fields of this server, and the same as its text."""
    return _answer({**structured, **_FIELDS[tool](call, structured)})


def node_refusal(sentence: str) -> Answer:
    """Return a failed call in the form of the original: under `error` or `message`, which depends on the tool there."""
    return _answer({"success": False, "error": sentence, "message": sentence})


def _answer(fields: dict[str, Any]) -> Answer:
    return Answer(fields, orjson.dumps(fields, option=orjson.OPT_INDENT_2).decode())


def _memories(count: int) -> str:
    return f"{count} {'memory' if count == 1 else 'memories'}"


def _found_short_term(call: NodeCall, fields: Fields) -> Fields:
    """Return the tiers with empty lists for pictures and other attachments, which stay in the file of the conversation."""
    attached: Fields = {"modalities": [], "attachments": []}
    return {
        tier: [{**memory, **attached} for memory in fields[tier]]
        for tier in ("topRelevant", "nextRelevant", "randomFlashback")
    }


def _statistics(call: NodeCall, fields: Fields) -> Fields:
    """Return the statistics. Each figure of an empty conversation is 0 or null."""
    scores = {name: fields.get(name, 0) for name in ("avgScore", "maxScore", "minScore")}
    times = {name: fields.get(name) for name in ("oldestMemory", "newestMemory", "lastCleanup")}
    return {**scores, **times}


def _cleaned_up(call: NodeCall, fields: Fields) -> Fields:
    removed = _memories(fields["removedCount"])
    return {"success": True, "message": f"Cleanup complete: removed {removed}"}


def _most_frequent(call: NodeCall, fields: Fields) -> Fields:
    conversation_id = fields.get("conversation_id")
    message = "No memories found"
    if conversation_id is not None:
        message = f"Most frequent conversation: {conversation_id}"
    return {"conversation_id": conversation_id, "message": message}


def _done(verb: str) -> Callable[[NodeCall, Fields], Fields]:
    """Return a function that makes the result of a change to a long-term memory; `verb` is what was done, such as
    `deleted`."""

    def fields_of(call: NodeCall, fields: Fields) -> Fields:
        name = call.arguments.get("name")
        return {"success": True, "message": f'Memory "{name}" {verb} successfully'}

    return fields_of


def _found_long_term(call: NodeCall, fields: Fields) -> Fields:
    """Return the memories as a text for a prompt, marked so that it is known when a program sends it back."""
    parts: list[str] = []
    for name, tag in (("activated", "activated-memories"), ("random", "random-memories")):
        memories = "\n\n".join(harmless(_formatted_memory(memory)) for memory in fields[name])
        if memories:
            parts.append(f"<{tag}>\n{memories}\n</{tag}>")
    text = "\n\n".join(parts)
    if text:
        text = f"{HEADS['zh']}<long-term-memories>\n{text}\n</long-term-memories>{FOOT}"
    return {"formattedText": text}


def _formatted_memory(memory: Fields) -> str:
    """Return a memory as the Node original writes it for a prompt."""
    lines = [
        f"记忆名称：{memory['name']}",
        f"内容：{memory['prompt']}",
        f"创建于：{when(memory['createdAt'])}",
    ]
    if "updatedAt" in memory:
        lines.append(f"更新于：{when(memory['updatedAt'])}")
    return "\n".join(lines)


def _context(call: NodeCall, fields: Fields) -> Fields:
    """Return the contexts of a memory as the Node original does: each alone or None, and all as one
    text."""
    created = fields["createdContext"] or None
    updated = fields["updatedContext"] or None

    parts: list[str] = []
    if created:
        parts.append(f"创建时上下文：\n{created}")
    if updated:
        parts.append(f"更新时上下文：\n{updated}")

    text = f'记忆 "{fields["name"]}" 没有附带任何上下文信息。'
    if parts:
        text = f'记忆 "{fields["name"]}" 的上下文信息：\n' + "\n\n".join(parts)

    return {
        "success": True,
        "createdContext": created,
        "updatedContext": updated,
        "formattedContext": text,
    }


def _filtered(call: NodeCall, fields: Fields) -> Fields:
    results = []
    for memory in fields["results"]:
        if memory["memory_type"] == "long_term":
            memory = {"score": 0, **memory, "created_at": memory["timestamp"]}
        results.append(memory)
    return {"success": True, "returned": len(results), "results": results}


def _analyzed(call: NodeCall, fields: Fields) -> Fields:
    """Return the patterns of memories as the Node original has them."""
    patterns = {}
    for kind in ("short_term", "long_term"):
        pattern = fields.get(kind)
        if pattern is not None:
            words = [{**word, "count": word["weight"]} for word in pattern["top_keywords"]]
            pattern = {"average_score": 0, "score_distribution": {}, **pattern}
            pattern["top_keywords"] = words
        patterns[kind] = pattern
    return {"success": True, "timestamp": iso(call.now_ms), **patterns}


def _backed_up(call: NodeCall, fields: Fields) -> Fields:
    """Return what was backed up, as the Node original says it."""
    return {
        "success": True,
        "backup_path": fields["name"],
        "total_memories": fields["shortTerm"] + fields["longTerm"],
        "timestamp": iso(call.now_ms),
        **_size_of_backup(fields),
    }


def _size_of_backup(fields: Fields) -> Fields:
    return {
        "short_term_count": fields["shortTerm"],
        "long_term_count": fields["longTerm"],
        "size_kb": f"{fields['bytes'] / 1024:.2f}",
    }


def _restored(call: NodeCall, fields: Fields) -> Fields:
    """Return what a restore brought back, as the Node original says it."""
    rows = fields["conversations"]
    return {
        "success": True,
        "conversation_id": call.arguments.get("conversation_id"),
        "restored_memories": sum(row["added"] + row["replaced"] for row in rows),
        "mode": call.arguments.get("mode", "merge"),
    }


def _listed_backups(call: NodeCall, fields: Fields) -> Fields:
    """Return the list of backups as the Node original has it."""
    backups = []
    for backup in fields["backups"]:
        names = {"file_name": backup["name"], "file_path": backup["name"]}
        backups.append(
            {**backup, **names, "timestamp": backup["createdAt"], **_size_of_backup(backup)}
        )
    return {"success": True, "total": len(backups), "backups": backups}


def _health(call: NodeCall, fields: Fields) -> Fields:
    """Return the state of the server as the Node original says it: healthy, degraded by a warning, or unhealthy."""
    grades = {check["grade"] for check in fields["checks"]}
    status = "healthy"
    if not fields["healthy"]:
        status = "unhealthy"
    elif "warning" in grades:
        status = "degraded"
    return {"status": status, "timestamp": iso(call.now_ms), "uptime": call.uptime_seconds}


def _figures(call: NodeCall, fields: Fields) -> Fields:
    """Return the figures of calls as the Node original does. Without calls the error rate is 0."""
    calls = sum(tool["calls"] for tool in fields["tools"])
    errors = sum(tool["errors"] for tool in fields["tools"])

    # A server that was just started has no calls.
    share = 100 * errors / max(1, calls)
    seconds = int(call.uptime_seconds)

    return {
        "uptime": {"ms": round(call.uptime_seconds * 1000), "seconds": seconds},
        "requests": {
            "total": calls,
            "success": calls - errors,
            "error": errors,
            "errorRate": f"{share:.2f}%",
        },
        "toolStats": {
            tool["name"]: {
                "count": tool["calls"],
                "success": tool["calls"] - tool["errors"],
                "error": tool["errors"],
                "p95Duration": f"{tool['p95Ms']:.2f}",
            }
            for tool in fields["tools"]
        },
    }


_FIELDS: Mapping[str, Callable[[NodeCall, Fields], Fields]] = {
    "add_short_term_memory": lambda _call, _fields: {"message": "Memory added successfully"},
    "search_short_term_memories": _found_short_term,
    "delete_short_term_memories": lambda _call, fields: {
        "success": True,
        "message": f"Deleted {_memories(fields['deletedCount'])}",
    },
    "get_memory_stats": _statistics,
    "cleanup_memories": _cleaned_up,
    "get_frequent_conversation": _most_frequent,
    "add_long_term_memory": _done("added"),
    "update_long_term_memory": _done("updated"),
    "delete_long_term_memory": _done("deleted"),
    "list_long_term_memories": lambda _call, _fields: {},
    "search_long_term_memories": _found_long_term,
    "get_memory_context": _context,
    "search_memories": _filtered,
    "analyze_memory_patterns": _analyzed,
    "backup_memories": _backed_up,
    "restore_memories": _restored,
    "list_backups": _listed_backups,
    "delete_backup": lambda call, _fields: {
        "success": True,
        "deleted_file": call.arguments["name"],
    },
    "health_check": _health,
    "get_metrics": _figures,
}
NODE_TOOLS = frozenset(_FIELDS)
"""The tools of the original that this server has: all but `get_cache_stats`."""
