"""The client that the adapters use: it never makes a host wait, and no turn is lost while the memory is away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hosts.adapters import client_module
from http_server import TOKEN, Asker, serving
from shared_process import ON_LINUX, is_gone

pytestmark = pytest.mark.anyio
MemoryClient = client_module.MemoryClient
MemoryFailed = client_module.MemoryFailed
PATIENCE = 60.0

SCRIPT = """
import json, os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
given = json.load(sys.stdin)
with (folder / "calls").open("a") as calls:
    calls.write(sys.argv[2] + "\\n")
mode = (folder / "mode").read_text()
if mode == "hangs":
    (folder / "pid").write_text(str(os.getpid()))
    time.sleep(600)
if mode == "fails":
    sys.exit("memory-server: the disk is full")
if given.get("turn_id") == "refused":
    print(json.dumps({"error": {"kind": "arguments", "message": "No."}}))
    sys.exit(2)
if mode == "odd":
    print("{}")
    sys.exit()
with (folder / "stored").open("a") as stored:
    stored.write(json.dumps(given) + "\\n")
print(json.dumps({"prompt": "block", "stored": True, "changeId": given.get("turn_id")}))
"""


class Fake:
    """A command that stores what it is given, hangs or fails."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "fake.py").write_text(SCRIPT)
        self.command = f"{sys.executable} -I -S {folder / 'fake.py'} {folder}"
        self.warned: list[str] = []
        self.does("works")

    def does(self, mode: str) -> None:
        (self.folder / "mode").write_text(mode)

    def client(self, **more: Any) -> Any:
        return MemoryClient(self.command, warn=self.warned.append, **{"seconds": PATIENCE, **more})

    def lines(self, name: str) -> list[str]:
        path = self.folder / name
        if not path.exists():
            return []
        return path.read_text().splitlines()

    def turns(self) -> list[str]:
        return [json.loads(line)["turn_id"] for line in self.lines("stored")]


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


def turn(number: int | str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": f"第{number}句"}], "turn_id": str(number)}


def test_what_a_model_gives_as_other_words_is_what_the_server_takes() -> None:
    words = client_module.other_words
    assert words("the cat's medicine", ["vet", " vet ", "", None, 7]) == [
        "the cat's medicine",
        "vet",
        "None",
        "7",
    ]
    assert words(None, "猫，狗、 鸟;鱼\n虾,") == ["猫", "狗", "鸟", "鱼", "虾"]
    assert words({}, 5) == words("", None) == []
    long = words("药" * 130, ["x" * 90, *map(str, range(90))])
    assert (len(long), max(map(len, long)), long[:3]) == (40, 60, ["药" * 60, "药" * 10, "x" * 60])


async def test_a_recall_gives_the_result_and_starts_the_shared_process(fake: Fake) -> None:
    assert (await fake.client().recall(turn(1)))["prompt"] == "block"
    assert fake.lines("calls") == ["recall"]


async def test_a_command_that_does_not_exist_is_said_once_and_left_alone() -> None:
    warned: list[str] = []
    client = MemoryClient("no-such-command-here", warn=warned.append)
    assert [await client.recall(turn(1)), await client.recall(turn(2))] == [{}, {}]
    assert len(warned) == 1


async def test_a_command_that_hangs_is_killed_and_left_alone(fake: Fake) -> None:
    fake.does("hangs")
    client = fake.client(seconds=1.0)
    began = time.monotonic()
    assert await client.recall(turn(1)) == {}
    assert time.monotonic() - began < PATIENCE / 2
    if pids := fake.lines("pid"):
        await _until(lambda: is_gone(int(pids[0])))
    assert await client.recall(turn(2)) == {}
    assert len(fake.lines("calls")) == 1
    assert fake.warned == ["The memory did not answer within 1 s."]


async def test_turns_that_could_not_be_stored_are_sent_later_in_order(fake: Fake) -> None:
    fake.does("fails")
    client = fake.client(rest=0.05)
    changes = list[dict[str, Any]]()
    for number in range(6):
        client.remember(turn(number), changes.append)
    await _until(lambda: len(fake.lines("calls")) > 1)
    assert fake.turns() == []
    fake.does("works")
    await _until(lambda: len(fake.turns()) == 6)
    await client.settled()
    assert fake.turns() == [str(number) for number in range(6)]
    assert [change["changeId"] for change in changes] == fake.turns()
    assert set(fake.warned) == {"the disk is full"}


async def test_a_turn_that_is_refused_does_not_hold_up_the_next_one(fake: Fake) -> None:
    client = fake.client()
    client.remember(turn("refused"))
    client.remember(turn(2))
    await client.settled()
    assert (fake.turns(), fake.warned) == (["2"], ["No."])
    assert (await client.recall(turn(3)))["prompt"] == "block"  # a refusal is not a failure


async def test_an_answer_that_does_not_say_so_stores_no_turn(fake: Fake) -> None:
    fake.does("odd")
    client = fake.client(rest=0.0)
    client.remember(turn(1))
    await _until(lambda: len(fake.lines("calls")) > 1)  # it is sent again
    assert "something else" in fake.warned[0]
    fake.does("works")
    await client.settled(PATIENCE)
    assert fake.turns() == ["1"]
    fake.does("odd")
    assert await client.recall(turn(2)) == {}


@pytest.mark.parametrize(
    "url",
    ["http://memory.example", "http://192.0.2.1:8460", "http://10.0.0.1", "ftp://127.0.0.2.x"],
)
async def test_a_token_is_sent_by_tls_or_to_this_machine_only(url: str, outside: list[str]) -> None:
    with pytest.raises(MemoryFailed, match="not encrypted"):
        await MemoryClient(url=url, token=TOKEN).call("recall_turn", turn(1))
    assert outside == []


async def test_only_so_many_turns_wait(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module, "MOST_WAITING", 3)
    client = fake.client()
    for number in range(5):
        client.remember(turn(number))
    await client.settled()
    assert fake.turns() == ["2", "3", "4"]
    assert len(fake.warned) == 2


async def test_a_late_turn_has_the_time_at_which_it_was_said(
    fake: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = fake.client()
    now_ms = time.time() * 1000
    client.remember(turn(1))
    await client.settled()
    monkeypatch.setattr(client_module, "LATE_MS", -1)
    client.remember(turn(2))
    await client.settled()
    soon_turn, late_turn = (json.loads(line)["messages"][0] for line in fake.lines("stored"))
    assert "timestamp" not in soon_turn
    assert abs(late_turn["timestamp"] - now_ms) < PATIENCE * 1000


async def test_at_the_end_what_waits_is_sent_for_a_last_time(fake: Fake) -> None:
    fake.does("fails")
    client = fake.client()
    client.remember(turn(1))
    await _until(lambda: fake.warned)
    fake.does("works")
    await client.close(PATIENCE)
    assert fake.turns() == ["1"]
    fake.does("fails")
    client.remember(turn(2))
    await client.close(0.01)
    assert fake.warned[-1] == "1 turns were not stored, because the memory did not answer."


async def test_what_a_person_asks_for_is_answered_or_refused_in_one_sentence(fake: Fake) -> None:
    fake.does("fails")
    with pytest.raises(MemoryFailed, match=r"^the disk is full$"):
        await fake.client().call("forget", {})
    assert fake.lines("calls") == ["call"]


OK = b"HTTP/1.1 200 OK\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 502 Bad\r\n\r\n<html>",
        b"junk",
        OK + b"[1]",
        OK + b"[" * 100_000,
        OK + b'{"error": "x"}',
        OK + b'{"error": {"message": "x"}}',
        OK + b'{"error": [[]]}',
        OK + b'"' + b" " * 200_000 + b'"',
    ],
)
async def test_what_is_no_memory_is_left_alone(
    answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_module, "MOST_BYTES", 150_000)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    warned: list[str] = []
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        assert await MemoryClient(url=url, token="t", warn=warned.append).recall(turn(1)) == {}
    assert len(warned) == 1


@pytest.mark.skipif(not ON_LINUX, reason="stops processes")
async def test_turns_are_stored_once_and_in_order_after_a_rest_server_hung(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that is stopped takes connections and answers none, and goes on later with what it was sent."""
    offered = ("--toolsets", "turn,insight,archive")
    with serving(tmp_path / "memory", *offered, http__token=TOKEN) as server:
        warned: list[str] = []
        client = MemoryClient(
            url=server.url, token=TOKEN, seconds=PATIENCE, rest=0.2, warn=warned.append
        )
        question = {"messages": [{"role": "user", "content": "第3句是什么"}]}
        assert (await client.recall(question))["prompt"] == ""
        server.process.send_signal(signal.SIGSTOP)
        client._seconds = 0.5
        began = time.monotonic()
        assert await client.recall(question) == {}
        assert time.monotonic() - began < PATIENCE / 2
        monkeypatch.setattr(client_module, "WRITE_SECONDS", 0.25)
        for number in range(5):
            client.remember({**turn(number), "session": "chat"})
        await _until(lambda: len(warned) > 3)
        monkeypatch.undo()
        os.kill(server.process.pid, signal.SIGCONT)
        await _until(lambda: not client._waiting)
        memories = Asker(server.url).done("search_memories", sort_by="timestamp", order="asc")
        assert [memory["text"] for memory in memories["results"]] == [
            f"user: 第{number}句" for number in range(5)
        ]
        client._seconds = PATIENCE
        client._resting_until = 0.0
        assert "prompt" in await client.recall(question)


async def test_rest_says_why_it_refuses(tmp_path: Path) -> None:
    with serving(tmp_path / "memory", ready=False, http__token=TOKEN) as server:
        with pytest.raises(MemoryFailed, match="token"):
            await MemoryClient(url=server.url, token="wrong").call("recall_turn", turn(1))
        with pytest.raises(MemoryFailed) as refused:
            await MemoryClient(url=f"{server.url}/", token=TOKEN).call(
                "recall_turn", {"messages": [5]}
            )
        assert refused.value.kind == "arguments"


async def _until(true: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, "it does not become true"
        await asyncio.sleep(0.02)
