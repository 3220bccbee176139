"""A chat program that speaks OneBot v11 to a bot, as the side that connects (reverse WebSocket)."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from itertools import count
from typing import Any

SELF = 90_000
PATIENCE = 60.0


class OneBot:
    """`said` is everything that the bot said, each with its chat: a user's id, or a group's. One task reads."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._numbers = count(int(time.time()))
        self.said: list[tuple[int, str]] = []
        self._changed = asyncio.Event()
        self._task = asyncio.create_task(self._read())

    @classmethod
    async def connect(cls, port: int) -> OneBot:
        reader, writer = await _opened(port)
        lines = (
            "GET /ws HTTP/1.1",
            f"Host: 127.0.0.1:{port}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}",
            "Sec-WebSocket-Version: 13",
            f"X-Self-ID: {SELF}",
            "X-Client-Role: Universal",
        )
        writer.write("\r\n".join((*lines, "", "")).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
        assert b" 101 " in head, head
        client = cls(reader, writer)
        client._send(
            {"post_type": "meta_event", "meta_event_type": "lifecycle", "sub_type": "connect"}
        )
        return client

    async def close(self) -> None:
        self._task.cancel()
        self._writer.close()

    def tell(
        self,
        text: str,
        user: int,
        name: str,
        group: int = 0,
        at: bool = True,
        number: int | None = None,
    ) -> None:
        """Say something to the bot, or in a group (`at`: to the bot there)."""
        parts: list[dict[str, Any]] = [{"type": "text", "data": {"text": text}}]
        if group and at:
            parts.insert(0, {"type": "at", "data": {"qq": str(SELF)}})
        sender = {"user_id": user, "nickname": name, "card": "", "role": "member"}
        event: dict[str, Any] = {
            "post_type": "message",
            "message_type": "private",
            "sub_type": "friend",
            "message_id": next(self._numbers) if number is None else number,
            "user_id": user,
            "message": parts,
            "raw_message": text,
            "font": 0,
            "sender": sender,
        }
        if group:
            sender["card"] = name
            event |= {"message_type": "group", "sub_type": "normal", "group_id": group}
        self._send(event)

    async def ask(
        self, text: str, user: int, name: str, group: int = 0, **more: Any
    ) -> tuple[str, float]:
        """Say it and wait for what the bot says to it, and the seconds that took."""
        count_before = len(self._of(group or user))
        began = time.perf_counter()
        self.tell(text, user, name, group, **more)
        await self.until(lambda: len(self._of(group or user)) > count_before, text)
        return self._of(group or user)[count_before], time.perf_counter() - began

    async def until(self, true: Any, text: str = "") -> None:
        end = time.monotonic() + PATIENCE
        while not true():
            self._changed.clear()
            seconds_left = end - time.monotonic()
            assert seconds_left > 0, f"the bot said nothing to: {text}"
            try:
                await asyncio.wait_for(self._changed.wait(), min(seconds_left, 1))
            except TimeoutError:
                continue

    def _of(self, chat: int) -> list[str]:
        return [text for where, text in self.said if where == chat]

    def _send(self, event: dict[str, Any]) -> None:
        text = json.dumps({"time": int(time.time()), "self_id": SELF, **event}).encode()
        length = len(text)
        size = bytes([0x80 | length]) if length < 126 else b"\xfe" + length.to_bytes(2, "big")
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[index % 4] for index, byte in enumerate(text))
        self._writer.write(b"\x81" + size + mask + masked)

    async def _read(self) -> None:
        while True:
            opcode_byte, size = await self._reader.readexactly(2)
            length = size & 0x7F
            if length > 125:
                length_bytes = 2 if length == 126 else 8
                length = int.from_bytes(await self._reader.readexactly(length_bytes), "big")
            body = await self._reader.readexactly(length)
            if opcode_byte & 0x0F == 1:
                self._answer(json.loads(body))

    def _answer(self, action: dict[str, Any]) -> None:
        if "action" not in action:
            return
        params = action.get("params", {})
        user = int(params.get("user_id") or SELF)
        if action["action"].startswith("send_"):
            parts = params["message"]
            if isinstance(parts, str):
                text = parts
            else:
                text = "".join(part["data"].get("text", "") for part in parts)
            self.said.append((int(params.get("group_id") or user), text))
            self._changed.set()
        data = {
            "message_id": next(self._numbers),
            "user_id": user,
            "nickname": str(user),
            "card": "",
            "role": "member",
        }
        reply = {"status": "ok", "retcode": 0, "data": data, "echo": action.get("echo")}
        self._send(reply)


async def _opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection to the bot, which listens a moment after it has said that it started."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            assert time.monotonic() < end, "the bot does not listen"
            await asyncio.sleep(0.05)
