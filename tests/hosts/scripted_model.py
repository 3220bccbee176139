"""A model on loopback with the API of OpenAI's chat completions, whose answers are a script."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

BLOCK = "<recalled-memories>"


def text_of(message: dict[str, Any]) -> str:
    """A message of a request as one text."""
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part.get("text", "") for part in content)


class ToolCall(NamedTuple):
    """What a model answers in place of a text."""

    name: str
    arguments: dict[str, Any]


Answer = Callable[[dict[str, Any]], str | ToolCall]


def results_of(request: dict[str, Any]) -> list[str]:
    """What tools gave since the last message of a user."""
    results: list[str] = []
    for message in request["messages"]:
        if message["role"] == "user":
            results.clear()
        elif message["role"] == "tool":
            results.append(text_of(message))
    return results


def tools_of(request: dict[str, Any]) -> dict[str, Any]:
    """The tools that the model is offered, by name."""
    return {tool["function"]["name"]: tool["function"] for tool in request.get("tools") or ()}


class Model:
    """`requests` are the bodies of all requests, the last one last."""

    def __init__(self, port: int, answer: Answer) -> None:
        self.port = port
        self.answer = answer
        self.requests: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def last(self, words: str) -> dict[str, Any]:
        """The last request whose last message of a user has these words: one with memories, if there is one, because
        a host may also ask for a title."""
        matching = [request for request in reversed(self.requests) if words in user_text(request)]
        return next((request for request in matching if BLOCK in user_text(request)), matching[0])

    def block(self, words: str) -> str:
        """The memories that came with that message; empty if none did."""
        _before, mark, block = user_text(self.last(words)).partition(BLOCK)
        return mark + block

    def blocks(self, words: str) -> int:
        """How many blocks the whole request had."""
        return sum(text_of(message).count(BLOCK) for message in self.last(words)["messages"])


def user_text(request: dict[str, Any]) -> str:
    return text_of([message for message in request["messages"] if message["role"] == "user"][-1])


Parts = tuple[tuple[dict[str, Any], str | None], ...]


def _forms(answer: str | ToolCall) -> tuple[dict[str, Any], Parts]:
    """An answer as one message, and in parts with the reason why it ended."""
    if isinstance(answer, str):
        beginning = {"role": "assistant", "content": answer[:2]}
        parts: Parts = ((beginning, None), ({"content": answer[2:]}, None), ({}, "stop"))
        return {"role": "assistant", "content": answer}, parts
    arguments = json.dumps(answer.arguments, ensure_ascii=False)
    call = {
        "id": "call_1",
        "type": "function",
        "function": {"name": answer.name, "arguments": arguments},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return message, ((message | {"tool_calls": [call | {"index": 0}]}, None), ({}, "tool_calls"))


@contextmanager
def scripted_model(answer: Answer = lambda request: "好的。") -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(
                json.dumps(
                    {"object": "list", "data": [{"id": "scripted", "object": "model"}]}
                ).encode()
            )

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if not self.path.endswith(
                "/chat/completions"
            ):  # hosts try which program serves the model
                self.send_error(404)
                return
            answer_now = model.answer(body)
            model.requests.append(body)
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            about = {"id": "x", "created": 1, "model": "scripted", "usage": usage}
            message, parts = _forms(answer_now)
            if not body.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": parts[-1][1]}
                self._send(
                    json.dumps({**about, "object": "chat.completion", "choices": [choice]}).encode()
                )
                return
            lines = [
                {
                    **about,
                    "object": "chat.completion.chunk",
                    "choices": [{"index": 0, "delta": d, "finish_reason": end}],
                }
                for d, end in parts
            ]
            text = "".join(f"data: {json.dumps(line)}\n\n" for line in lines) + "data: [DONE]\n\n"
            self._send(text.encode(), "text/event-stream")

        def _send(self, body: bytes, kind: str = "application/json") -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model = Model(server.server_port, answer)
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    ).start()
    try:
        yield model
    finally:
        server.shutdown()
        server.server_close()
