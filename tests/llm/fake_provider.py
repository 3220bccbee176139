"""A provider of models on loopback that answers as a test says, also as providers do on a bad day."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

Answer = tuple[int, dict[str, str], bytes]
Act = Callable[[dict[str, Any]], Answer | str]
SLOW = ("hang", "trickle")


def completion(value: Any, tokens: tuple[int, int] = (100, 20), kind: str = "openai") -> Answer:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if kind == "anthropic":
        body: dict[str, Any] = {
            "content": [{"type": "tool_use", "name": "answer", "input": value}],
            "usage": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
        }
    else:
        body = {
            "choices": [{"message": {"content": text}}],
            "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
        }
    return 200, {"content-type": "application/json"}, json.dumps(body).encode()


def failure(status: int, **headers: str) -> Answer:
    return (
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        b'{"error": {"message": "no"}}',
    )


class Fake:
    """What was asked (`bodies`, `headers`, `paths`), and what is answered (`act`)."""

    def __init__(self, act: Act) -> None:
        self.act = act
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {}
            for line in filter(None, head[1:]):
                name, _, value = line.partition(": ")
                headers[name.lower()] = value
            body = json.loads(await reader.readexactly(int(headers.get("content-length", "0"))))
            self.paths.append(head[0].split(" ")[1])
            self.headers.append(headers)
            self.bodies.append(body)
            answer = self.act(body)
            if isinstance(answer, str):
                await self._slowly(answer, writer)
                return
            status, more, content = answer
            lines = [f"HTTP/1.1 {status} X", f"content-length: {len(content)}", "connection: close"]
            lines += [f"{name}: {value}" for name, value in more.items()]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + content)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _slowly(self, how: str, writer: asyncio.StreamWriter) -> None:
        if how == "trickle":
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
        for _ in range(600):
            if how == "trickle":
                writer.write(b" ")
                await writer.drain()
            await asyncio.sleep(0.05)


@asynccontextmanager
async def provider(act: Act) -> AsyncIterator[Fake]:
    fake = Fake(act)
    tasks: set[asyncio.Task[None]] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await fake.serve(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield fake
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


SAME = {
    "花生": "nut",
    "坚果": "nut",
    "peanuts": "nut",
    "狗": "dog",
    "宠物": "dog",
    "cat": "dog",
    "住": "home",
    "地址": "home",
}
"""Words that mean the same to the fake model."""
CONCEPTS = sorted(set(SAME.values()))


def meaning(text: str) -> list[float]:
    """A vector: the concepts of a text, and a little of its own."""
    concepts = {concept for word, concept in SAME.items() if word in text}
    own = [0.0] * 8
    own[sum(text.encode()) % 8] = 0.3
    return [float(concept in concepts) for concept in CONCEPTS] + own


def embedded(body: dict[str, Any]) -> Answer:
    """What `/embeddings` answers, last one first: the order is in `index`."""
    rows = [
        {"index": number, "embedding": meaning(text)} for number, text in enumerate(body["input"])
    ]
    answer_body = {
        "data": rows[::-1],
        "usage": {"prompt_tokens": 7 * len(rows), "total_tokens": 7 * len(rows)},
    }
    return 200, {"content-type": "application/json"}, json.dumps(answer_body).encode()
