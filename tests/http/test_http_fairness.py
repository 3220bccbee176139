"""One tenant, or nobody at all, does not take the time, the connections or the disk of others."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import orjson
import pytest
from http_server import ERAS, HANDSHAKE, MODERN, TOKEN, Asker, Server, give, said, serving
from starlette.types import Receive, Scope, Send

from memory_server.runtime.homes import open_home
from memory_server.serving.http.middleware import BODY_SECONDS, Middleware

OFTEN = {"http__requests_per_minute": "600000"}


def words(chars: int) -> str:
    rng = Random(1)
    return " ".join(f"{rng.randrange(1 << 24):x}" for _ in range(chars // 6))[:chars]


LONG = {"messages": [{"role": "user", "content": words(99_000)} for _ in range(10)]}
WIDE = {**said("x"), "roleWeights": {f"r{number}": 1.0 for number in range(100_000)}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fair") / "data"


@pytest.fixture(scope="module")
def tokens(folder: Path) -> list[str]:
    return [give(folder, name, "--tenant", name) for name in ("noisy", "calm")]


@pytest.fixture(scope="module")
def server(folder: Path, tokens: list[str]) -> Iterator[Server]:
    with serving(folder, **OFTEN) as server:
        yield server


@pytest.mark.parametrize(
    ("tool", "load"),
    [
        pytest.param("recall_turn", LONG, marks=pytest.mark.full, id="long"),
        pytest.param("add_short_term_memory", WIDE, id="wide"),
    ],
)
def test_heavy_calls_of_one_tenant_leave_time_to_others(
    server: Server, tokens: list[str], tool: str, load: dict[str, Any]
) -> None:
    noisy, calm = tokens
    asker = Asker(server.url, calm)
    asker.done("remember_turn", **said("my cat is Miso"))

    def seconds() -> float:
        began = time.monotonic()
        asker.done("recall_turn", **said("my cat"))
        return time.monotonic() - began

    alone = median(seconds() for _ in range(20))
    stop = threading.Event()

    body = orjson.dumps(load)  # once: making it takes the time of this process

    def flood() -> None:
        asking = Asker(server.url, noisy)
        while not stop.is_set():
            answer = asking.http.post(
                f"/v1/{tool}", content=body, headers={"content-type": "application/json"}
            )
            assert answer.status_code in (200, 413, 429)

    with ThreadPoolExecutor(8) as pool:
        floods = [pool.submit(flood) for _ in range(8)]
        try:
            time.sleep(0.5)
            meanwhile = median(seconds() for _ in range(20))
        finally:
            stop.set()
        for ending in floods:
            ending.result()
    assert meanwhile < max(1.0, 20 * alone)


@pytest.mark.parametrize(
    ("slow", "size", "chars"), [(1, 100_000, 20_000), (20, 100_000, 5), (20, 10_000, 5)]
)
def test_a_slow_body_leaves_room_to_the_other_calls_of_its_tenant(
    server: Server, tokens: list[str], slow: int, size: int, chars: int
) -> None:
    head = (
        f"POST /v1/recall_turn HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {tokens[0]}\r\n"
    )
    connections = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(slow)]
    try:
        for connection in connections:
            connection.sendall(
                f"{head}Content-Type: application/json\r\nContent-Length: {size}\r\n\r\n{{".encode()
            )
        time.sleep(0.5)
        asker = Asker(server.url, tokens[0])
        began = time.monotonic()
        assert asker.call("recall_turn", said("cat " * (chars // 4))).status_code == 200
        assert time.monotonic() - began < BODY_SECONDS / 2
    finally:
        for connection in connections:
            connection.close()


def test_messages_of_a_search_have_the_bound_of_a_memory(server: Server, tokens: list[str]) -> None:
    asker = Asker(server.url, tokens[1])
    for tool, name in (
        ("recall_turn", "messages"),
        ("search_short_term_memories", "recentMessages"),
    ):
        refused = asker.call(
            tool, {name: [*LONG["messages"], {"role": "user", "content": "x" * 20_000}]}
        )
        assert refused.status_code == 400
        assert "send at most 1,000,000" in refused.json()["error"]["message"]


@pytest.mark.parametrize("era", ERAS)
def test_wide_messages_of_the_protocol_are_refused_unread(
    server: Server, tokens: list[str], era: str
) -> None:
    refused = Asker(server.url, tokens[0]).mcp(
        era, "tools/call", {"name": "recall_turn", "arguments": WIDE}
    )
    assert refused.status_code == 413
    assert "10,000 values" in refused.text


def test_tools_without_long_texts_take_no_long_arguments(server: Server, tokens: list[str]) -> None:
    refused = Asker(server.url, tokens[0]).call(
        "delete_short_term_memories", {"pattern": "x" * 100_000}
    )
    assert refused.status_code == 400
    assert "at most 64,000" in refused.json()["error"]["message"]


def test_connections_that_say_nothing_keep_nobody_out(server: Server, tokens: list[str]) -> None:
    asker = Asker(server.url, tokens[1])
    asker.done("recall_turn", **said("my cat"))
    connections = [socket.create_connection(("127.0.0.1", server.port), 5) for _ in range(1_000)]
    try:
        for _ in range(3):
            assert (
                Asker(server.url, tokens[1]).call("recall_turn", said("my cat")).status_code == 200
            )
        assert asker.call("recall_turn", said("my cat")).status_code == 200
    finally:
        for connection in connections:
            connection.close()


def test_what_is_written_counts_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "big", "--tenant", "big")
    with serving(
        folder, "--toolsets=refs,short-term", ready=False, http__tenant_mb="1", **OFTEN
    ) as server:
        asker = Asker(server.url, token)
        answers = [
            asker.call("memoryAdd", {"content": "文" * 190_000, "source": str(n)})
            for n in range(12)
        ]
        assert {answer.status_code for answer in answers} == {200, 507}
        small = [
            asker.call("add_short_term_memory", said(f"{n} " + "word " * 4_000)) for n in range(5)
        ]
        assert small[-1].status_code == 507
        assert asker.call("memoryClearAll").status_code == 200
    assert sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) < 10_000_000


def test_short_requests_that_write_much_count_too(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "big", "--tenant", "big")
    with serving(
        folder, "--toolsets=all,notes", ready=False, http__tenant_mb="2", **OFTEN
    ) as server:
        asker = Asker(server.url, token)
        asker.done("remember_turn", **said(words(60_000)))
        note = asker.done("remember", type="tech", topic="long", content="x" * 90_000)["memory_id"]
        until = time.monotonic() + 60
        while (
            last := asker.call("edit_note", {"memory_id": note, "append": "y"})
        ).status_code == 200:
            assert time.monotonic() < until
        assert last.status_code == 507
        for tool, arguments in (
            ("backup_memories", {}),
            ("restore_memories", {"name": "x"}),
            ("undo_change", {"changeId": "k1"}),
            ("restore_memories_from_archive", {"pattern": "x"}),
        ):
            assert asker.call(tool, arguments).status_code == 507
        assert asker.call("delete_note", {"memory_id": note}).status_code == 200


def test_a_hundred_calls_at_once_are_answered_by_default_and_again_right_after(
    tmp_path: Path,
) -> None:
    """Also a hundred adds and a hundred searches together."""
    with serving(tmp_path / "data", "--toolsets=sessions", http__token=TOKEN) as server:

        def add(number: int) -> int:
            arguments = {"messages": "likes tea", "user_id": f"user{number}", "mode": "direct"}
            return Asker(server.url).call("memory_add", arguments).status_code

        def search(number: int) -> int:
            return (
                Asker(server.url)
                .call("memory_search", {"query": "tea", "user_id": f"user{number}"})
                .status_code
            )

        with ThreadPoolExecutor(100) as pool:
            assert set(pool.map(add, range(100))) == {200}
            assert set(pool.map(search, range(100))) == {200}
            adds = pool.map(add, range(100))
            searches = pool.map(search, range(100))
            assert {*adds, *searches} == {200}


@pytest.mark.parametrize("layers", [False, True], ids=["no layers", "layers"])
def test_callers_do_not_learn_where_the_memories_are(
    tmp_path: Path, layers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where this user has layers, in the home folder and in a project, with files that cannot be read."""
    folder = tmp_path / "data"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if layers:
        for top in (tmp_path / "home", tmp_path):
            memory = top / ".multi-agent-mcp" / "memory"
            memory.mkdir(parents=True)
            (memory / "fine.md").write_text("---\nkey: fine\n---\ntext\n")
            (memory / "broken.md").write_text("---\nkey: [\n---\ntext\n")
    else:
        (tmp_path / "home" / ".multi-agent-mcp" / "memory").mkdir(parents=True)
    tenant = give(folder, "a", "--tenant", "a")
    owner = give(folder, "b")
    with serving(folder, "--toolsets=all,layers", ready=False) as server:
        for token in (tenant, owner):
            asker = Asker(server.url, token)
            asker.done("remember_turn", **said("x"))
            for tool in (
                "health_check",
                "get_global_memory_summary",
                "get_global_memory_archive_summary",
            ):
                assert str(tmp_path) not in asker.call(tool).text
                answer = asker.mcp(MODERN, "tools/call", {"name": tool, "arguments": {}}).text
                assert str(tmp_path) not in answer
                assert str(Path.home()) not in answer


@pytest.fixture(scope="module")
def folder_with_a_secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("secret") / "data"
    with serving(folder, ready=False, http__token=TOKEN) as server:
        Asker(server.url).done("remember_turn", **said("a secret of a conversation"))
    return folder


@pytest.mark.parametrize("toolset", ["notes", "layers", "refs", "sessions"])
def test_a_server_with_one_family_shows_nothing_of_conversations(
    tmp_path: Path, folder_with_a_secret: Path, toolset: str
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(folder_with_a_secret, folder)
    with serving(folder, "--toolsets", toolset, ready=False, http__token=TOKEN) as server:
        asker = Asker(server.url)
        for era in ERAS:
            assert asker.mcp(era, "prompts/list").json()["result"]["prompts"] == []
            assert (
                asker.mcp(era, "resources/templates/list").json()["result"]["resourceTemplates"]
                == []
            )
            listed = asker.mcp(era, "resources/list").json()["result"]["resources"]
            assert all("/knowledge/" in resource["uri"] for resource in listed)
            assert bool(listed) is (toolset == "notes")
            for uri in ("memory://conversation/default/short-term", "memory://stats/overview"):
                assert (
                    "There is no resource"
                    in asker.mcp(era, "resources/read", {"uri": uri}).json()["error"]["message"]
                )
            prompt = asker.mcp(
                era,
                "prompts/get",
                {"name": "recall-context", "arguments": {"current_topic": "secret"}},
            )
            assert "does not offer" in prompt.json()["error"]["message"]
            ref = {"type": "ref/resource", "uri": "memory://conversation/{id}/short-term"}
            typed = {"ref": ref, "argument": {"name": "id", "value": ""}}
            assert (
                asker.mcp(era, "completion/complete", typed).json()["result"]["completion"][
                    "values"
                ]
                == []
            )
        assert (
            "error"
            in asker.mcp(
                HANDSHAKE, "resources/subscribe", {"uri": "memory://stats/overview"}
            ).json()
        )


def new_session(server: Server, token: str, **headers: str) -> dict[str, str]:
    """The header of a new session, whose `initialize` has `headers`."""
    info = {
        "protocolVersion": HANDSHAKE,
        "capabilities": {},
        "clientInfo": {"name": "asker", "version": "1"},
    }
    response = Asker(server.url, token).mcp(HANDSHAKE, "initialize", info, **headers)
    return {"mcp_session_id": response.headers["mcp-session-id"]}


def test_who_is_meant_is_kept_for_each_session(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    a, b = (give(folder, name, "--tenant", name) for name in ("a", "b"))
    with serving(
        folder, "--toolsets=sessions", ready=False, http__tenant_idle_minutes="0.005"
    ) as server:

        def called(token: str, tool: str, headers: dict[str, str], **arguments: Any) -> Any:
            params = {"name": tool, "arguments": arguments}
            return Asker(server.url, token).mcp(HANDSHAKE, "tools/call", params, **headers)

        def user(headers: dict[str, str], token: str = a) -> str:
            session = called(token, "memory_get_stats", headers).json()["result"][
                "structuredContent"
            ]["session"]
            return str(session["user_id"])

        ming = new_session(server, a)
        hong = new_session(server, a)
        called(a, "memory_init_session", ming, user_id="ming")
        called(a, "memory_init_session", hong, user_id="hong")
        assert (user(ming), user(hong), user({})) == ("ming", "hong", "default_user")
        assert (
            "mcp-session-id" not in called(a, "memory_get_stats", {}, user_id="initialize").headers
        )
        ended = {"mcp-session-id": hong["mcp_session_id"]}
        askers = [Asker(server.url, token) for token in (b, a, a)]
        statuses = [asker.http.delete("/mcp", headers=ended).status_code for asker in askers]
        assert statuses == [404, 204, 404], "only its tenant ends a session, and once"
        assert called(a, "memory_get_stats", hong).status_code == 404
        hong = new_session(server, a)
        called(a, "memory_init_session", hong, user_id="hong")
        time.sleep(1)  # the tenant has left memory meanwhile
        assert (user(ming), user(hong)) == ("ming", "hong")
        assert user({**ming, "x_memory_user_id": "header"}) == "header"
        hank = new_session(server, a, x_memory_user_id="hank", x_memory_agent_id="cook")
        called(a, "memory_add", hank, messages="likes trout", mode="direct")
        assert (user(hank), user({**hank, "x_memory_user_id": "ann"}), user(hank)) == (
            "hank",
            "ann",
            "hank",
        )
        search = called(a, "memory_search", hank, query="trout").json()["result"][
            "structuredContent"
        ]
        assert (search["total"], search["session"]["agent_id"]) == (1, "cook")
        assert (
            called(a, "memory_search", {}, query="trout").json()["result"]["structuredContent"][
                "total"
            ]
            == 0
        )
        assert called(b, "memory_get_stats", ming).status_code == 404, "a session of another tenant"
        assert called(a, "memory_get_stats", {"mcp_session_id": "made up"}).status_code == 404
        refused = called(a, "memory_init_session", {}, user_id="ming").json()["result"]
        assert "Connections do not last here" in refused["content"][0]["text"]
        modern = Asker(server.url, a).mcp(
            MODERN, "tools/call", {"name": "memory_get_stats", "arguments": {}}, **ming
        )
        assert modern.json()["result"]["structuredContent"]["session"]["user_id"] == "default_user"
    with serving(folder, ready=False) as server:
        info = {
            "protocolVersion": HANDSHAKE,
            "capabilities": {},
            "clientInfo": {"name": "asker", "version": "1"},
        }
        assert (
            "mcp-session-id" not in Asker(server.url, a).mcp(HANDSHAKE, "initialize", info).headers
        )


@pytest.mark.anyio
async def test_a_call_that_the_end_of_the_process_cuts_off_is_asked_to_come_again() -> None:
    async def for_ever(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(60)

    async def nobody(token: str | None) -> None: ...

    messages: list[Any] = []

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "http", "method": "GET", "path": "/x", "headers": [(b"host", b"localhost")]}
    door = Middleware(for_ever, nobody, {}, public=["/x"], hosts=["localhost"], origins=[])
    call = asyncio.create_task(door(scope, send, send))  # type: ignore[arg-type]
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert messages[0]["status"] == 503
    assert b"ask again" in messages[1]["body"]


def test_a_full_disk_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(tmp_path / "data", lambda: 0)
    home.refuse_without_room()
    monkeypatch.setattr(
        shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(10**9, 10**9 - 4_096, 4_096)
    )  # type: ignore[attr-defined]
    with pytest.raises(OSError, match="No space left"):
        home.refuse_without_room()


@pytest.mark.skipif(sys.platform == "win32", reason="counts files of POSIX")
def test_a_disk_on_which_no_file_can_be_made_is_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = open_home(tmp_path / "data", lambda: 0)
    figures = os.statvfs(tmp_path)

    def counted(total: int, free: int) -> None:
        values = list(figures)
        values[5:8] = total, free, free  # f_files, f_ffree, f_favail
        monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result(values))

    counted(100_000, 3)
    with pytest.raises(OSError, match="No space left"):
        home.refuse_without_room()
    counted(100_000, 5_000)
    home.refuse_without_room()
    counted(0, 0)  # as btrfs says
    home.refuse_without_room()
