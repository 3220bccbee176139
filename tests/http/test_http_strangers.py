"""Connections on which no request was let in keep no place: the one that waits longest is closed first."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from http_server import TOKEN, Asker, serving

from memory_server.serving.http import http_server


@dataclass(eq=False)
class _Connection:
    """A connection as `_make_room` sees it."""

    name: str
    strangers: dict[Any, None]
    let_in: bool = False
    closed: list[str] = field(default_factory=list)

    def was_let_in(self) -> bool:
        return self.let_in

    def dismiss(self) -> None:
        del self.strangers[self]
        self.closed.append(self.name)


@pytest.mark.parametrize(
    ("let_in", "most", "closed", "stays"),
    [
        ("", 3, "", "abc"),
        ("", 2, "a", "bc"),
        ("", 0, "abc", ""),
        ("a", 2, "", "bc"),
        ("a", 1, "b", "c"),
        ("abc", 0, "", ""),
        ("c", 1, "ab", "c"),
    ],
)
def test_the_longest_stranger_goes_and_who_was_let_in_is_no_stranger(
    let_in: str, most: int, closed: str, stays: str
) -> None:
    strangers: dict[Any, None] = {}
    dismissed = list[str]()
    for name in "abc":
        strangers[_Connection(name, strangers, name in let_in, dismissed)] = None
    http_server._make_room(strangers, most)
    assert "".join(dismissed) == closed
    assert "".join(connection.name for connection in strangers) == stays


@pytest.mark.alone
def test_forms_without_their_end_keep_nobody_out(tmp_path: Path) -> None:
    count = int(http_server.MOST_CONNECTIONS * http_server.MOST_STRANGERS) + 150
    head = b"POST /web/enter HTTP/1.1\r\nhost: localhost\r\norigin: http://localhost\r\ncontent-length: 99\r\n\r\ntoken="
    with (
        serving(tmp_path / "data", http__token=TOKEN, http__web="true") as server,
        ExitStack() as stack,
    ):
        asker = Asker(server.url)
        for _ in range(count):
            connection = stack.enter_context(
                socket.create_connection(("127.0.0.1", server.port), 10)
            )
            connection.sendall(head)
        for _ in range(100):  # until the server has taken all of them in
            if asker.call("get_memory_stats").status_code == 200:
                break
        assert [asker.call("get_memory_stats").status_code for _ in range(5)] == [200] * 5
