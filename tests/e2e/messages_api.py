"""A stand-in for the Messages API on the loopback interface: it makes the calls of a script, then gives one answer to
all, and what was asked is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, Mapping[str, Any]]
"""A tool and its arguments."""
Step = Call | list[Call]
"""A call, or several that are made together."""


def _results(body: Any) -> int:
    """How many results of tools a request has."""
    results = 0
    for message in body.get("messages", ()):
        for block in message["content"]:
            results += isinstance(block, dict) and block.get("type") == "tool_result"
    return results


def _blocks(body: Any, steps: Sequence[Step], answer: str) -> list[dict[str, Any]]:
    """The blocks of the answer: the calls of the next step of the script, if the tools are offered, else the text."""
    answered_calls = _results(body)
    offered_tools = {tool.get("name") for tool in body.get("tools") or ()}
    made_calls = 0
    for step in steps:
        calls = step if isinstance(step, list) else [step]
        if made_calls == answered_calls and all(name in offered_tools for name, _ in calls):
            return [
                {
                    "type": "tool_use",
                    "id": f"toolu_{made_calls + number}",
                    "name": name,
                    "input": dict(arguments),
                }
                for number, (name, arguments) in enumerate(calls)
            ]
        made_calls += len(calls)
    return [{"type": "text", "text": answer}]


def _events(blocks: list[dict[str, Any]], model: str, number: int) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
    }
    message["usage"] = usage
    reason = "end_turn" if blocks[0]["type"] == "text" else "tool_use"
    events: list[dict[str, Any]] = [
        {
            "type": "message_start",
            "message": message | {"stop_reason": None, "stop_sequence": None},
        }
    ]
    for index, block in enumerate(blocks):
        if block["type"] == "text":
            start: dict[str, Any] = {"text": ""}
            delta = {"type": "text_delta", "text": block["text"]}
        else:
            start = {"input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events += [
            {"type": "content_block_start", "index": index, "content_block": block | start},
            {"type": "content_block_delta", "index": index, "delta": delta},
            {"type": "content_block_stop", "index": index},
        ]
    stop = {"stop_reason": reason, "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


@contextmanager
def messages_api(
    answer: str, *steps: Step, subagent: Sequence[Step] = ()
) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of the requests as they come. The model makes the calls of `steps`, one after the
    other, and then gives the `answer`. A subagent, whose task says SUBAGENT, takes the steps of `subagent`."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self._answer(b"", "text/plain")

        do_GET = do_HEAD

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0)).decode()
            # As readable text: what is looked for stands in there.
            requests.append(json.dumps(json.loads(body), ensure_ascii=False) if body else "")
            request = json.loads(body or "{}")
            first_words = json.dumps(request.get("messages", [])[:1])
            script = subagent if "SUBAGENT" in first_words else steps
            blocks = _blocks(request, script, answer)
            events = _events(blocks, "model", len(requests))
            if request.get("stream"):
                text = "".join(
                    f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events
                )
                self._answer(text.encode(), "text/event-stream")
            else:
                message = events[0]["message"] | {"content": blocks, **events[-2]["delta"]}
                self._answer(json.dumps(message).encode(), "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
