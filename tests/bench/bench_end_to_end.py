"""Figures of the whole server over stdio, as ratios to something run beside it. `make bench` runs this.

    python tests/bench/bench_end_to_end.py [--memories 10000] [--runs 200]

Prints each figure's median with what it is compared to; fails never: whoever reads it judges.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_server.conversations import codec
from memory_server.conversations.model import ShortTermMemory
from memory_server.kernel import json_text
from memory_server.kernel.messages import Message, context_text
from memory_server.storage.json_store.snapshots import SHORT_TERM
from nlp.lexicon.idf import idf_table

DAY_MS = 86_400_000
NOW_MS = 1_781_928_000_000
KEYWORDS = 23
"""Keywords of a memory: the mean of real companion chats (22.6)."""
VOCABULARY = 31_000
"""Distinct words of 10,000 such memories."""

EMPTY_SERVER = """
from mcp.server.mcpserver import MCPServer
server = MCPServer("empty")
@server.tool()
def echo(text: str) -> str:
    return text
server.run("stdio")
"""


class LineClient:
    """A client made of lines: adds less than 0.05 ms to what it measures."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0
        about = {"name": "bench", "version": "1"}
        self.ask(
            "initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": about}
        )
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self.number += 1
        self.send({"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", {"name": tool, "arguments": arguments})[
            "result"
        ]
        assert not result.get("isError"), result
        return result

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(20)
        assert self.process.stdout is not None
        self.process.stdout.close()


def memory_server(data_dir: Path) -> tuple[str, ...]:
    return (sys.executable, "-P", "-m", "memory_server", "--data-dir", str(data_dir), "serve")


@contextmanager
def connected(*command: str) -> Iterator[LineClient]:
    client = LineClient(*command)
    try:
        yield client
    finally:
        client.close()


def milliseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def line(
    label: str, ours: list[float], other_name: str = "", theirs: list[float] | None = None
) -> None:
    """Median and 95th percentile of our figures, and the ratio to what ran beside them."""
    ordered = sorted(ours)
    text = f"{label:<52} p50 {statistics.median(ours):8.2f} ms   p95 {ordered[int(len(ordered) * 0.95)]:8.2f} ms"
    if theirs:
        ratio = statistics.median(ours) / statistics.median(theirs)
        text += f"   = {ratio:.2f} x {other_name} ({statistics.median(theirs):.2f} ms)"
    print(text, flush=True)


def cold_start(runs: int) -> None:
    ours: list[float] = []
    theirs: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(runs):
            for figures, command in (
                (theirs, (sys.executable, "-c", EMPTY_SERVER)),
                (ours, memory_server(Path(folder))),
            ):
                clients: list[LineClient] = []
                figures.append(
                    milliseconds(lambda c=command, started=clients: started.append(LineClient(*c)))
                )  # type: ignore[misc]
                clients[0].close()
    line("start to the answer of initialize", ours, "an empty MCPServer", theirs)


def words(rng: random.Random) -> list[str]:
    """A vocabulary of real two-character words, so that a query of some of them meets its memories."""
    vocabulary = [
        word for word in idf_table() if len(word) == 2 and word.isalpha() and not word.isascii()
    ]
    return rng.sample(vocabulary, VOCABULARY)


def write_memories(data_dir: Path, count: int, vocabulary: list[str], rng: random.Random) -> None:
    """A conversation of `count` memories, in the form of the Node original, which every version opens."""
    memories: list[dict[str, Any]] = []
    common = [min(int(rng.expovariate(1 / 3000)), VOCABULARY - 1) for _ in range(count * KEYWORDS)]
    for number in range(count):
        chosen = dict.fromkeys(
            vocabulary[i] for i in common[number * KEYWORDS : (number + 1) * KEYWORDS]
        )
        message = Message("user", " ".join(chosen), NOW_MS - rng.randrange(300 * DAY_MS))
        assert message.time_ms is not None
        weights = sorted((rng.uniform(1, 60) for _ in chosen), reverse=True)
        memory = ShortTermMemory(
            f"{number:016x}",
            message.time_ms,
            context_text([message]),
            tuple(chosen),
            tuple(weights),
            0.0,
            "bench",
            (message,),
        )
        memories.append(codec.short_term_json(memory))
    folder = data_dir / "bench"
    folder.mkdir(parents=True)
    (folder / SHORT_TERM).write_bytes(json_text.dump_array(memories))


def short_term(count: int, runs: int) -> None:
    rng = random.Random(1)
    vocabulary = words(rng)
    # Common words of that vocabulary: each is a keyword of some hundred of 10,000 memories.
    query = [{"role": "user", "content": " ".join(rng.sample(vocabulary[:2_000], 25))}]
    numbers = itertools.count()

    def added() -> list[dict[str, object]]:
        # Different ones: equal messages would be stored once.
        content = (
            f"今天和朋友去西湖边跑步 {next(numbers)} 圈，晚上一起吃了面，聊到下个月的旅行，很开心。"
        )
        return [{"role": "user", "content": content, "timestamp": NOW_MS - DAY_MS}]

    with tempfile.TemporaryDirectory() as name:
        large = Path(name) / "large"
        small = Path(name) / "small"
        write_memories(large, count, vocabulary, rng)
        write_memories(small, 100, vocabulary, rng)
        with (
            connected(*memory_server(large)) as at_large,
            connected(*memory_server(small)) as at_small,
        ):
            figures: dict[str, list[float]] = {
                "search": [],
                "search 100": [],
                "add": [],
                "add 100": [],
            }
            common = {"conversation_id": "bench"}
            for client in (at_large, at_small):
                result = client.call("search_short_term_memories", recentMessages=query, **common)[
                    "structuredContent"
                ]
                assert len(result["topRelevant"]) == 2, "the query meets memories"
            for _ in range(runs):
                for client, suffix in ((at_large, ""), (at_small, " 100")):
                    figures["search" + suffix].append(
                        milliseconds(
                            lambda c=client: c.call(
                                "search_short_term_memories", recentMessages=query, **common
                            )
                        )  # type: ignore[misc]
                    )
                    figures["add" + suffix].append(
                        milliseconds(
                            lambda c=client: c.call(
                                "add_short_term_memory", messages=added(), **common
                            )
                        )  # type: ignore[misc]
                    )
            line(
                f"search_short_term_memories at {count:,} memories",
                figures["search"],
                "at 100",
                figures["search 100"],
            )
            line(
                f"add_short_term_memory at {count:,} memories",
                figures["add"],
                "at 100",
                figures["add 100"],
            )


def triggers(count: int, runs: int) -> None:
    rng = random.Random(2)
    keys = ["咖啡", "生日", "weekend", "跑步", "mother", "电影", "猫", "旅行"]
    messages = [
        {"role": rng.choice(["user", "assistant"]), "content": "晚上我们去看电影吧，听说不错。" * 3}
        for _ in range(20)
    ]
    with tempfile.TemporaryDirectory() as name:
        stored = [
            {
                "name": f"memory {number}",
                "prompt": "what to keep in mind",
                "trigger": f"match_keys(context.messages, {rng.sample(keys, 3)!r}, 'any') > {number % 3}"
                f" || new Date().getMonth() === {number % 12}",
                "createdAt": "2026-06-20T04:00:00.000Z",
                "createdContext": "",
            }
            for number in range(count)
        ]
        folder = Path(name) / "bench"
        folder.mkdir()
        (folder / "long-term-memory.json").write_bytes(json_text.dump_array(stored))
        with (
            connected(*memory_server(Path(name))) as client,
            connected(sys.executable, "-c", EMPTY_SERVER) as empty,
        ):
            arguments = {"messages": messages, "conversation_id": "bench"}
            for _ in range(3):
                result = client.call("search_long_term_memories", **arguments)["structuredContent"]
            assert result["failed"] == []
            ours = [
                milliseconds(lambda: client.call("search_long_term_memories", **arguments))
                for _ in range(runs)
            ]
            theirs = [
                milliseconds(lambda: empty.call("echo", text=json.dumps(messages)))
                for _ in range(runs)
            ]
    line(f"search_long_term_memories with {count} triggers", ours, "an empty tool", theirs)


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--memories", type=int, default=10_000)
    flags.add_argument("--runs", type=int, default=200)
    flags.add_argument("--starts", type=int, default=15)
    chosen = flags.parse_args()
    cold_start(chosen.starts)
    short_term(chosen.memories, chosen.runs)
    triggers(200, chosen.runs)


if __name__ == "__main__":
    main()
