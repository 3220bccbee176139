"""Two nodes over HTTP on one database: what one stores the other has, and one may die."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from http_server import TOKEN, Asker, serving
from postgres import database_of_its_own
from round_robin import use


@pytest.mark.parametrize(
    ("users", "seconds"), [(3, 1.0), pytest.param(32, 20.0, marks=pytest.mark.full)]
)
def test_every_user_goes_on_when_a_node_is_killed_and_nothing_is_lost(
    users: int, seconds: float, tmp_path: Path
) -> None:
    with database_of_its_own() as url, ExitStack() as stack:
        settings = {
            "http__token": TOKEN,
            "store": url,
            "http__requests_per_minute": "1000000",
            "http__concurrent": "64",
        }
        nodes = [stack.enter_context(serving(tmp_path / name, **settings)) for name in "ab"]
        messages = [{"role": "user", "content": "The apple tree blooms"}]
        Asker(nodes[0].url).done(
            "add_short_term_memory", messages=messages, conversation_id="shared"
        )
        assert Asker(nodes[1].url).done("get_memory_stats", conversation_id="shared")["total"] == 1
        recalls, number_told, lost = use(nodes, seconds, users, killed=nodes[1])
        assert (lost, len(recalls)) == (0, number_told)
        assert number_told >= users
