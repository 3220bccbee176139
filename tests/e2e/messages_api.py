"""A stand-in for the Messages API on the loopback interface: one answer to all, and what was asked is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def _events(text: str, model: str) -> list[dict[str, Any]]:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [], "usage": usage}
    return [
        {"type": "message_start", "message": message | {"stop_reason": None, "stop_sequence": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]


@contextmanager
def messages_api(answer: str) -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of the requests as they come."""
    asked: list[str] = []

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
            asked.append(json.dumps(json.loads(body), ensure_ascii=False) if body else "")
            events = _events(answer, "model")
            if json.loads(body or "{}").get("stream"):
                text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
                self._answer(text.encode(), "text/event-stream")
            else:
                whole = events[0]["message"] | {
                    "content": [{"type": "text", "text": answer}],
                    "stop_reason": "end_turn",
                }
                self._answer(json.dumps(whole).encode(), "application/json")

        def _answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
