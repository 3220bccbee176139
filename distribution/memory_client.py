"""The client of memory-server for programs that people chat with: standard library only, Python 3.10 or newer.

On the same machine it runs the command `memory-server`, which needs no port and no token; elsewhere it asks by REST
with a token. `recall` never raises and never takes longer than its bound; `remember` returns at once. After a failure
the memory is left alone for a while, and what could not be stored is sent later, in order: a turn has an id, so that it
is stored once however often it is sent.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import logging
import os
import re
import shlex
import textwrap
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

log = logging.getLogger(__name__)
REST_SECONDS = 20.0
"""How long the memory is left alone after a failure."""
BUSY_SECONDS = 1.0
"""The same where it only had too much to do."""
WRITE_SECONDS, PERSON_SECONDS = 10.0, 30.0
"""How long it may take to store a turn, for which no user waits, and to do what a person asked for by a command."""
MOST_BYTES = 16_000_000
"""Of an answer by REST: what is there need not be a memory."""
MOST_WAITING = 1_000
"""Turns that wait at most; then the oldest are given up."""
LATE_MS = 60_000
"""From this age on a turn is sent with the time at which it was said."""
_COMMANDS = {"recall_turn": "recall", "remember_turn": "remember"}
"""Tools with a command of their own, which asks the shared process and starts it."""
_FINAL = ("arguments", "form", "size", "not found")
"""Kinds of refusals that the same call would get again."""
MOST_WORDS, MOST_WORD_CHARS = 40, 60
"""Other words that a recall takes, and characters of each."""
_BETWEEN_WORDS = re.compile(r"[,，、;；\n]")


_SAYS = {"recall_turn": "prompt", "remember_turn": "stored"}
"""What an answer always says: without it, something else has answered, and a turn is not stored."""


def other_words(query: object, words: object) -> list[str]:
    """Return what a model gave to a tool that recalls, as the `otherWords` of a recall: each once, and not too many. Its
    question comes first, in pieces, and is not among the messages, because the user did not say it. Models also write
    a list as one text; what is neither is left out."""
    if isinstance(words, str):
        words = _BETWEEN_WORDS.split(words)
    texts = textwrap.wrap(query, MOST_WORD_CHARS) if isinstance(query, str) else []
    for word in words if isinstance(words, list) else []:
        texts.append(str(word).strip()[:MOST_WORD_CHARS].rstrip())
    return [text for text in dict.fromkeys(texts) if text][:MOST_WORDS]


class MemoryFailed(Exception):
    """The memory did not do what it was asked for; the text is one sentence. `kind` is the kind of a refusal."""

    def __init__(self, sentence: str, kind: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind


class MemoryClient:
    """Asks the memory at `url` with `token`, or without a URL by `command`, which may have flags. A recall may take
    `seconds`."""

    def __init__(
        self,
        command: str = "memory-server",
        url: str = "",
        token: str = "",
        seconds: float = 2.0,
        rest: float = REST_SECONDS,
        warn: Callable[[str], object] = log.warning,
    ) -> None:
        self._command = shlex.split(command, posix=os.name != "nt")
        self._url, self._token, self._seconds, self._rest, self._warn = (
            url.strip(),
            token.strip(),
            seconds,
            rest,
            warn,
        )
        self._resting_until = 0.0
        self._waiting: deque[
            tuple[int, dict[str, Any], Callable[[dict[str, Any]], object] | None]
        ] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def recall(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result of `recall_turn`; empty if the memory is absent, late, or left alone after a failure."""
        if time.monotonic() < self._resting_until:
            return {}
        try:
            return await self.call("recall_turn", arguments, self._seconds)
        except MemoryFailed as error:
            self._failed(error)
            return {}

    def remember(
        self, arguments: Mapping[str, Any], stored: Callable[[dict[str, Any]], object] | None = None
    ) -> None:
        """Store a turn as `remember_turn` does, soon or when the memory answers again; `stored` gets the result. If too
        many turns wait, the oldest is lost, with a warning. Call it where an event loop runs."""
        if len(self._waiting) >= MOST_WAITING:
            self._waiting.popleft()
            self._warn("Too many turns wait for the memory, so the oldest is not stored.")
        self._waiting.append((time.time_ns() // 1_000_000, dict(arguments), stored))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.ensure_future(self._send())

    async def call(
        self, tool: str, arguments: Mapping[str, Any], seconds: float = PERSON_SECONDS
    ) -> dict[str, Any]:
        """Return the result of a tool. Raise MemoryFailed if the memory refuses, fails or does not answer in time."""
        body = json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace")
        ask = self._post if self._url else self._run
        failed: MemoryFailed | None = None

        try:
            answer: dict[str, Any] = json.loads(await asyncio.wait_for(ask(tool, body), seconds))
            refusal = answer.get("error")
            if refusal:
                failed = MemoryFailed(str(refusal["message"]), str(refusal["kind"]))
            # A proxy or another program may answer with JSON of its own.
            elif tool in _SAYS and _SAYS[tool] not in answer:
                failed = MemoryFailed("What answers in the place of the memory is something else.")
        except asyncio.TimeoutError as error:  # noqa: UP041 (before Python 3.11 it is another one)
            raise MemoryFailed(f"The memory did not answer within {seconds:g} s.") from error
        except (
            OSError,
            ValueError,
            LookupError,
            AttributeError,
            TypeError,
            RecursionError,
        ) as error:
            raise MemoryFailed(f"The memory cannot be reached: {error}.") from error

        if failed:
            raise failed
        return answer

    async def settled(self, seconds: float = WRITE_SECONDS) -> None:
        """Wait until all turns are stored, for `seconds` at most, or not at all while the memory is left alone after a
        failure."""
        if self._sending is not None and time.monotonic() >= self._resting_until:
            await asyncio.wait({self._sending}, timeout=seconds)

    async def close(self, seconds: float = 3.0) -> None:
        """Try for so many `seconds` to store the turns that wait, and warn of those that are lost."""
        if self._sending is not None and not self._sending.done():
            self._sending.cancel()
            self._resting_until = 0.0
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._send(), seconds)
        if self._waiting:
            self._warn(
                f"{len(self._waiting)} turns were not stored, because the memory did not answer."
            )

    async def _send(self) -> None:
        """Store the waiting turns, the oldest first, until none waits. A turn that fails is tried again after a rest,
        unless the memory has refused it for good."""
        while self._waiting:
            await asyncio.sleep(max(0.0, self._resting_until - time.monotonic()))
            said_ms, arguments, stored = turn = self._waiting[0]

            # The server takes a turn without a time as said now.
            if time.time_ns() // 1_000_000 - said_ms > LATE_MS:
                for message in arguments["messages"]:
                    message.setdefault("timestamp", said_ms)

            try:
                result = await self.call("remember_turn", arguments, WRITE_SECONDS)
            except MemoryFailed as error:
                self._failed(error)
                if error.kind not in _FINAL:
                    continue
            else:
                if stored is not None:
                    stored(result)

            if self._waiting and self._waiting[0] is turn:  # else it was given up meanwhile
                self._waiting.popleft()

    def _failed(self, error: MemoryFailed) -> None:
        """Warn, and leave the memory alone for a while, unless a later call can do no better."""
        self._warn(str(error))
        if error.kind not in _FINAL:
            self._resting_until = time.monotonic() + (
                BUSY_SECONDS if error.kind == "busy" else self._rest
            )

    async def _run(self, tool: str, body: bytes) -> bytes:
        """Run the command and return what it prints. It is killed when its caller no longer waits. Raise MemoryFailed
        if it prints nothing."""
        words = [_COMMANDS[tool], "--json", "--start"] if tool in _COMMANDS else ["call", tool, "-"]

        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._command, *words, stdin=pipe, stdout=pipe, stderr=pipe
        )

        try:
            output, errors = await process.communicate(body)
        finally:
            if process.returncode is None:
                process.kill()
                # A child of the command may hold its pipes open for longer.
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(process.wait(), 1)

        if not output.strip():
            last_line = errors.decode("utf-8", "replace").strip().rpartition("\n")[2]
            raise MemoryFailed(
                last_line.removeprefix("memory-server: ") or "The memory said nothing."
            )
        return output

    async def _post(self, tool: str, body: bytes) -> bytes:
        """Return the body of the answer to `POST /v1/{tool}`, also of an error: HTTP/1.0, one connection for each call.
        Raise MemoryFailed if the token would go to another machine without encryption."""
        url = urlsplit(self._url)
        secure = url.scheme == "https"

        if not secure and not _is_here(url.hostname or ""):
            raise MemoryFailed(
                f"{self._url} is not encrypted, so others could read the token; use https://."
            )

        port = url.port or (443 if secure else 80)
        reader, writer = await asyncio.open_connection(url.hostname, port, ssl=secure or None)

        try:
            lines = (
                f"POST {url.path.rstrip('/')}/v1/{tool} HTTP/1.0",
                f"Host: {url.netloc}",
                f"Authorization: Bearer {self._token}",
                "Content-Type: application/json",
                f"Content-Length: {len(body)}",
            )
            writer.write("\r\n".join((*lines, "", "")).encode() + body)

            answer = bytearray()
            while part := await reader.read(1 << 16):
                answer += part
                if len(answer) > MOST_BYTES:
                    raise ValueError(f"it answers with more than {MOST_BYTES:,} bytes")
            return bytes(answer).split(b"\r\n\r\n", 1)[1]
        finally:
            writer.close()


def _is_here(host: str) -> bool:
    """Return whether this is a name of this machine, which plain HTTP does not leave."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
