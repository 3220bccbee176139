"""A server with lorebooks, as a user has it: the command imports a file, and MCP answers before each turn."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.quality.lore_chats import CHARACTER, USER, Chat
from stdio_process import Client, command

from memory_server.runtime.app import open_memory
from sandbox import Failed, Fired, TriggerSandbox

ALONE = {"MEMORY_SERVER_DAEMON__ENABLED": "false"}
MOST_CHARS = 50_000
"""Characters of a prompt at most."""
IMPORT_SECONDS = 600
_ENTRY_OF_CONTEXT = re.compile(r"(?:entry|条目)\s*(\S+?)[.。]?$")


@dataclass(frozen=True, slots=True)
class Came:
    """What came before a turn: the uids of entries in the order of their texts, in the text `prompt`. `left_out`: uid
    and reason of what fired and did not come. `failed`: kinds of triggers that failed."""

    uids: tuple[str, ...]
    prompt: str
    left_out: tuple[tuple[str, str], ...] = ()
    failed: tuple[str, ...] = ()

    @property
    def without_room(self) -> frozenset[str]:
        """What fired and found no room."""
        return frozenset(uid for uid, reason in self.left_out if reason == "room")


def imported(data_dir: Path, file: Path, *flags: str) -> list[str]:
    """The lines that the command says about a file or folder that it imports."""
    process = subprocess.run(
        command(data_dir, "import", str(file), *flags),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=IMPORT_SECONDS,
        check=False,
    )
    return [line for line in (process.stdout + process.stderr).splitlines() if line.strip()]


def known_flags(*flags: str) -> list[str]:
    """Those of the flags that the import of this version knows."""
    text = subprocess.run(
        [sys.executable, "-P", "-m", "memory_server", "import", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [flag for flag in flags if flag in text]


def imported_book(data_dir: Path, file: Path, conversation: str, *flags: str) -> list[str]:
    """The lines of the report of a lorebook."""
    return imported(data_dir, file, "-c", conversation, "--user", USER, "--char", CHARACTER, *flags)


async def uids_of(data_dir: Path, conversation: str) -> dict[str, str]:
    """The uids of the entries of a book, by the names of the memories that they became."""
    async with open_memory(data_dir) as memory:
        state = await memory.store.read(conversation)
    uids: dict[str, str] = {}
    for stored in state.long_term.values():
        book: Any = getattr(stored, "book", None)
        context = _ENTRY_OF_CONTEXT.search(stored.created_context)
        uids[stored.name] = stored.name
        if book is not None and book.uid:
            uids[stored.name] = str(book.uid)
        elif context:
            uids[stored.name] = context[1]
    return uids


@dataclass(slots=True)
class Server:
    """A server that is asked over MCP."""

    client: Client
    takes: frozenset[str] = field(init=False)
    """The arguments of `recall_turn`."""

    def __post_init__(self) -> None:
        self.client.connect()
        tools = self.client.ask("tools", "tools/list")["result"]["tools"]
        recall = next(tool for tool in tools if tool["name"] == "recall_turn")
        self.takes = frozenset(recall["inputSchema"]["properties"])

    def before_turn(
        self,
        conversation: str,
        chat: Chat,
        length: int,
        uids: dict[str, str],
        max_chars: int | None,
    ) -> Came:
        """What comes after so many messages of a chat. None: as many characters as come by default."""
        messages: list[dict[str, Any]] = []
        for number, line in enumerate(chat.lines[:length]):
            role = "assistant"
            if line.name == chat.user:
                role = "user"
            time_ms = 1_750_000_000_000 + number * 60_000
            messages.append(
                {"role": role, "name": line.name, "content": line.text or " ", "timestamp": time_ms}
            )
        arguments: dict[str, Any] = {
            "conversation_id": conversation,
            "messages": messages,
            "session": chat.name,
        }
        arguments["participants"] = {"user": USER, "char": CHARACTER}
        if max_chars is not None:
            arguments["maxChars"] = max_chars
        if "messageCount" in self.takes:
            arguments["messageCount"] = length
        answer = self.client.call("recall_turn", **arguments)
        long_term = answer["longTerm"]
        rows = long_term["activated"]
        return Came(
            tuple(uids.get(row["name"], row["name"]) for row in rows),
            answer["prompt"],
            tuple(
                (uids.get(row["name"], row["name"]), row["reason"])
                for row in long_term.get("leftOut") or ()
            ),
            tuple(row["kind"] for row in long_term["failed"]),
        )


def letters(text: str) -> str:
    """A text without blanks, signs and marks of layout, by which it is found in a prompt."""
    return re.sub(r"[\W_]+", "", text)


class Expressions:
    """Runs expressions of JavaScript in the sandbox, in a loop of its own. Use it as a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._sandbox = TriggerSandbox(workers=1)
        self._answers: dict[tuple[str, str, str], bool | None] = {}

    def __enter__(self) -> Expressions:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._sandbox.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def matches(self, body: str, flags: str, text: str) -> bool | None:
        """Whether the expression is in the text; None if it does not compile or takes too long."""
        question = body, flags, text
        if question not in self._answers:
            self._answers[question] = asyncio.run_coroutine_threadsafe(
                self._ask(*question), self._loop
            ).result()
        return self._answers[question]

    async def _ask(self, body: str, flags: str, text: str) -> bool | None:
        source = "new RegExp(context.body, context.flags).test(context.text)"
        context = {"body": body, "flags": flags, "text": text}
        (verdict,) = await self._sandbox.evaluate([source], context, now=datetime.now(UTC), seed=0)
        if isinstance(verdict, Failed):
            return None
        return isinstance(verdict, Fired)


def server_command(data_dir: Path) -> Sequence[str]:
    """The command of a server over these memories."""
    return [
        sys.executable,
        "-P",
        "-m",
        "memory_server",
        "--data-dir",
        str(data_dir),
        "--log-level",
        "error",
    ]
