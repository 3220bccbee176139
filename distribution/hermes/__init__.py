"""The memory of memory-server in Hermes, as a MemoryProvider: recalls before a turn, remembers after it. The model may
also recall once more, with words of its own, by the tool `recall`.

Hermes makes a provider for each agent, of its API server for each request, and often forgets to shut it down. So there
is one client for the whole process, in a thread with an event loop of its own.

Whose a memory is: `conversation_of` alone decides it. If Hermes does not say who speaks, nothing is recalled or stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from agent.memory_provider import MemoryProvider

from .memory_client import MemoryClient, other_words

_MAX_CHARS = (
    "Characters of memories in a request at most: entries of lorebooks come whole where they fit. 3,600 cost up to 900 "
    "tokens, in Chinese up to 3,600, and seldom as much · 每次最多几个字：世界书的条目放得下才整条给出。"
    "3600 个汉字最多约 3600 个词元，很少会用满"
)
SETTINGS = {
    "command": ("Command on this machine · 本机的命令", "memory-server"),
    "url": ("Address of a server elsewhere; empty: the command · 服务器地址，留空则用命令", ""),
    "token": ("Token for that server · 服务器的令牌", ""),
    "seconds": ("Seconds to wait at most, up to 7 · 最多等几秒，不超过 7", "2"),
    "max_chars": (_MAX_CHARS, "3600"),
    "flashbacks": ("Memories that come by chance · 偶然想起几条", "0"),
    "recall_tool": (
        "Whether the model has the tool recall: yes or no · 给模型工具 recall：yes 或 no",
        "yes",
    ),
}
"""What each setting means, and its default."""
_NO = ("no", "off", "false", "0")
"""What turns a setting off, as people and programs write it."""
_TOOL = {
    "name": "recall",
    "description": (
        "Recall once more what was said before. Call it when the user touches something that may have been said before "
        "and nothing came; not for small talk. · 用户提到以前可能说过的事、却没有想起来时，再想一次；闲聊时不用。"
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What you look for · 要找什么"},
            "otherWords": {
                "type": "array",
                "items": {"type": "string"},
                "description": (
                    "Other words for it, in the language of the chat: things, people, places, occasions, feelings · "
                    "别的说法，用聊天的语言：事物、人、地方、场合、心情"
                ),
            },
        },
    },
}
_NOTHING = "Nothing came to mind. · 没有想起什么。"
_AWAY = "The memory cannot be asked now. · 现在问不到记忆。"
_FILE, _TOKEN = "memory_server.json", "HERMES_MEMORY_TOKEN"
_LOCAL = ("cli", "tui", "acp", "desktop")
"""Platforms on which the speaker is the owner of this Hermes."""
_SPEAKER = re.compile(r"\[([^\]\n]{1,80})\] (.*)", re.DOTALL)
"""How a chat of several people says who speaks."""
_MOST_SECONDS = 7.0
"""Hermes itself waits 8 s for a recall, and then recalls nothing until it has ended; so ours ends before."""


def conversation_of(session: Mapping[str, Any]) -> str:
    """Return the conversation of what Hermes says of a session (the arguments of `initialize`); empty if its user is
    not known.

    The API server's session ids are not names: two people with the same first question have the same id. It knows whose
    a request is only by its header X-Hermes-Session-Key, the `gateway_session_key`.
    """
    platform, user = session.get("platform") or "cli", session.get("user_id")
    if user and session.get("chat_type") == "dm":
        parts = [platform, "user", user]  # the same in each of the user's threads
    elif session.get("gateway_session_key"):
        parts = [platform, "chat", session["gateway_session_key"]]
    elif platform in _LOCAL:
        parts = [platform, "user", user] if user else ["local"]
    else:
        return ""
    persona = session.get("agent_identity")
    parts += [persona] if persona and persona != "default" else []
    name = "/".join(
        ["hermes", *(str(part).replace("%", "%25").replace("/", "%2F") for part in parts)]
    )
    return name if len(name) <= 256 else f"hermes/{hashlib.sha256(name.encode()).hexdigest()}"


@cache
def _client(
    command: str, url: str, token: str, seconds: str
) -> tuple[MemoryClient, asyncio.AbstractEventLoop]:
    """Return the only client of this process, and the loop in which it runs."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="memory-server", daemon=True).start()
    return MemoryClient(command, url, token, min(float(seconds), _MOST_SECONDS - 0.5)), loop


class MemoryServerProvider(MemoryProvider):
    """`conversation` is empty where nothing is recalled or stored."""

    def __init__(self) -> None:
        self.conversation = ""
        self._session, self._is_group, self._writes, self._user = "", False, False, ""
        self._is_begun, self._asked_last = False, dict[str, str]()
        self._settings = {key: default for key, (_about, default) in SETTINGS.items()}

    @property
    def name(self) -> str:
        return "memory_server"

    def is_available(self) -> bool:
        return True

    def initialize(self, session_id: str, **kwargs: Any) -> None:
        """Begin a session: read the settings and the token, and note whose conversation it is."""
        file = Path(kwargs.get("hermes_home") or "~/.hermes").expanduser() / _FILE
        self._settings |= json.loads(file.read_text("utf-8")) if file.exists() else {}
        self._settings["token"] = os.environ.get(_TOKEN) or self._settings["token"]
        self.conversation, self._session = conversation_of(kwargs), session_id
        self._is_group = kwargs.get("chat_type") not in (None, "dm")
        self._writes = kwargs.get("agent_context", "primary") == "primary"
        self._user = kwargs.get("user_name") or ""
        self._is_begun = True

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        """Return the tool `recall`. Hermes also asks before `initialize`, to learn whose a tool is; then it must be
        there."""
        is_on = str(self._settings["recall_tool"]).strip().lower() not in _NO
        return [_TOOL] if not self._is_begun or (self.conversation and is_on) else []

    def handle_tool_call(self, tool_name: str, args: Mapping[str, Any], **_: Any) -> str:
        """Return the JSON of what the model's call of the recall tool brings, or of a sentence that it brings nothing."""
        words = other_words(args.get("query"), args.get("otherWords"))
        if tool_name != _TOOL["name"] or not self.conversation or not words:
            return json.dumps({"result": _NOTHING}, ensure_ascii=False)
        # Hermes does not search for some messages; then the model's own question replaces what the user did not say.
        query = str(args.get("query") or "").strip()
        message = self._asked_last or {"role": "assistant", "content": query or "…"}
        recalled = self._recalled({**self._search(message), "otherWords": words, "flashbacks": 0})
        result = (recalled["prompt"] or _NOTHING) if "prompt" in recalled else _AWAY
        return json.dumps({"result": result}, ensure_ascii=False)

    def prefetch(self, query: str, *, session_id: str = "") -> str:
        """Return what comes to mind, as a block for the prompt. `session_id` is empty here, so ours is used."""
        self._asked_last = self._said(query) if query.strip() else {}
        if not self.conversation or not query.strip():
            return ""
        return str(self._recalled(self._search(self._asked_last)).get("prompt", ""))

    def _search(self, message: dict[str, str]) -> dict[str, Any]:
        """Return the arguments of a recall for a message."""
        return {
            "messages": [message],
            "conversation_id": self.conversation,
            "session": self._session,
            "maxChars": int(self._settings["max_chars"]),
            "flashbacks": int(self._settings["flashbacks"]),
        }

    def _recalled(self, asked: dict[str, Any]) -> dict[str, Any]:
        memory, loop = self._memory()
        return asyncio.run_coroutine_threadsafe(memory.recall(asked), loop).result(_MOST_SECONDS)

    def sync_turn(
        self,
        user_content: str,
        assistant_content: str,
        *,
        session_id: str = "",
        messages: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Store a turn, and wait for that up to `_MOST_SECONDS`. Do nothing without a conversation, for a sub-agent, or if
        one side said nothing."""
        if not (
            self.conversation
            and self._writes
            and user_content.strip()
            and assistant_content.strip()
        ):
            return
        # Hermes has no id of a turn: its session, its place there and its words name it.
        turn = json.dumps([self._session, len(messages or ()), user_content, assistant_content])

        asked = {
            "messages": [
                self._said(user_content),
                {"role": "assistant", "content": assistant_content},
            ],
            "conversation_id": self.conversation,
            "session": self._session,
            "turn_id": hashlib.sha256(turn.encode("utf-8", "replace")).hexdigest(),
        }

        memory, loop = self._memory()

        async def store() -> None:
            memory.remember(asked)
            await memory.settled(
                _MOST_SECONDS
            )  # on Hermes' own worker: a process that ends has stored its last turn

        asyncio.run_coroutine_threadsafe(store(), loop).result()

    def on_session_switch(self, new_session_id: str, **_: Any) -> None:
        self._session = new_session_id

    def shutdown(self) -> None:
        if self.conversation:
            memory, loop = self._memory()
            asyncio.run_coroutine_threadsafe(memory.close(), loop).result(_MOST_SECONDS)

    def get_config_schema(self) -> list[dict[str, Any]]:
        secret = {"token": {"secret": True, "env_var": _TOKEN}}
        return [
            {"key": key, "description": about, "default": default, **secret.get(key, {})}
            for key, (about, default) in SETTINGS.items()
        ]

    def save_config(self, values: dict[str, Any], hermes_home: str) -> None:
        """Write the known settings among `values` to a file that only this user can read."""
        stored = {key: value for key, value in values.items() if key in SETTINGS}
        file = Path(hermes_home) / _FILE
        aside = file.with_name(f".{_FILE}.next")
        aside.unlink(missing_ok=True)
        descriptor = os.open(
            aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )  # the token may be among them
        with open(descriptor, "w", encoding="utf-8") as written:
            written.write(json.dumps(stored, ensure_ascii=False, indent=2))
        aside.replace(file)

    def _said(self, text: str) -> dict[str, str]:
        """Return a message with the name of its speaker. In a chat of several people the name comes before the text."""
        speaker = _SPEAKER.match(text) if self._is_group else None
        name, text = speaker.groups() if speaker else (self._user, text)
        return {"role": "user", "content": text, **({"name": name} if name else {})}

    def _memory(self) -> tuple[MemoryClient, asyncio.AbstractEventLoop]:
        return _client(*(self._settings[key] for key in ("command", "url", "token", "seconds")))


def register(ctx: Any) -> None:
    ctx.register_memory_provider(MemoryServerProvider())
