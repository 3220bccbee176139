"""The body of a request over HTTP, received within a bound of bytes and of seconds. It knows ASGI, which is plain
values, and no library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Literal, TypeAlias

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]


class BodyRefused(Exception):
    """A body that was not received: it is too large, or came too slowly, or its sender is gone."""

    def __init__(self, reason: Literal["size", "time", "gone"]) -> None:
        super().__init__(reason)
        self.reason: Literal["size", "time", "gone"] = reason


async def whole_body(receive: Receive, length: str, most_bytes: int, seconds: float) -> bytes:
    """Return all of the body. `length` is the header Content-Length, empty if it is missing. Raise
    BodyRefused as soon as there are too many bytes, so no more than `most_bytes` and one message
    are in memory, and if the sender leaves or needs more than `seconds`."""
    if length.isascii() and length.isdecimal() and int(length) > most_bytes:
        raise BodyRefused("size")

    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise BodyRefused("gone")

                body += message.get("body", b"")
                if len(body) > most_bytes:
                    raise BodyRefused("size")

                # A sender may declare fewer bytes than it sends, so the body itself is counted too.
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        raise BodyRefused("time") from None


def replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that first gives a body which was already received, and then what `receive` gives."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
