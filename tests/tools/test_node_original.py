"""Calls and answers in the names of the Node original; `tests/e2e/test_node_programs.py` runs programs written for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_server.tools.node_original import NodeCall, node_answer, node_arguments

CALL = NodeCall({}, 1_782_043_200_000, 5.0)


@pytest.mark.parametrize(
    ("tool", "given", "here"),
    [
        ("restore_memories", {"backup_path": "b"}, {"name": "b", "mode": "overwrite"}),
        (
            "restore_memories",
            {"backup_path": "b", "merge": False},
            {"name": "b", "mode": "overwrite"},
        ),
        ("restore_memories", {"backup_path": "b", "merge": True}, {"name": "b", "mode": "merge"}),
        ("restore_memories", {"name": "b"}, {"name": "b"}),
        ("delete_backup", {"backup_path": "b"}, {"name": "b"}),
        ("delete_backup", {"name": "b"}, {"name": "b"}),
        ("backup_memories", {"backup_path": "b"}, {"backup_path": "b"}),
        ("health_check", {"detailed": True}, {}),
        ("list_backups", {"detailed": True}, {"detailed": True}),
    ],
)
def test_arguments_of_the_original_are_those_of_the_tool_here(
    tool: str, given: dict[str, Any], here: dict[str, Any]
) -> None:
    before = dict(given)
    assert node_arguments(tool, given) == here
    assert given == before


def test_patterns_have_the_counts_and_the_scores_of_the_original() -> None:
    long_term = {"total": 2, "top_keywords": [{"word": "cat", "weight": 3.5}]}
    short_term = long_term | {"average_score": 7.0}
    fields = {"short_term": short_term, "long_term": long_term}
    answer = node_answer("analyze_memory_patterns", CALL, fields)
    assert json.loads(answer.text) == answer.structured
    patterns = answer.structured
    assert patterns["success"] is True
    assert patterns["long_term"] == {
        "total": 2,
        "top_keywords": [{"word": "cat", "weight": 3.5, "count": 3.5}],
        "average_score": 0,
        "score_distribution": {},
    }
    assert patterns["short_term"]["average_score"] == 7.0
    one_kind = node_answer("analyze_memory_patterns", CALL, {"long_term": long_term}).structured
    assert one_kind["short_term"] is None
    assert one_kind["long_term"] == patterns["long_term"]
