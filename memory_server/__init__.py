"""A memory server for chat companions: decaying short-term and triggered long-term memories over MCP.

In the same process, without MCP:

    async with memory_server.open_memory("memories") as memory:
        chat = memory.conversation("小明")
        await chat.short_term.add([Message("user", "我喜欢吃披萨")])
        found = await chat.short_term.search([Message("user", "晚上吃披萨吗？")])
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` would take a tenth of the time of a hook
if TYPE_CHECKING:
    from memory_server.config import Settings
    from memory_server.config.reader_language import language
    from memory_server.conversations.model import ShortTermMemory
    from memory_server.conversations.recall.request import RecallRequest
    from memory_server.conversations.short_term import Origin
    from memory_server.kernel.errors import (
        InvalidInput,
        MemoryNotFound,
        MemoryServerError,
        StorageError,
        TriggerRejected,
    )
    from memory_server.kernel.messages import Message, Session
    from memory_server.lore import GivenRules, LongTermMemory
    from memory_server.runtime.app import App, open_memory

__all__ = [
    "App",
    "GivenRules",
    "InvalidInput",
    "LongTermMemory",
    "MemoryNotFound",
    "MemoryServerError",
    "Message",
    "Origin",
    "RecallRequest",
    "Session",
    "Settings",
    "ShortTermMemory",
    "StorageError",
    "TriggerRejected",
    "language",
    "open_memory",
]

_MODULES = dict.fromkeys(("App", "open_memory"), "runtime.app")
_MODULES |= {"Settings": "config", "language": "config.reader_language"}
_MODULES["GivenRules"] = "lore"
_MODULES["Origin"] = "conversations.short_term"
_MODULES["RecallRequest"] = "conversations.recall.request"
_MODULES |= dict.fromkeys(("LongTermMemory", "ShortTermMemory"), "conversations.model")
_MODULES |= dict.fromkeys(("Message", "Session"), "kernel.messages")


def __getattr__(name: str) -> object:
    # `memory-server --help` and the hooks must not wait for what they do not need.
    if name == "__version__":
        from memory_server.version import __version__

        return __version__
    if name not in __all__:
        raise AttributeError(f"module 'memory_server' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"memory_server.{_MODULES.get(name, 'kernel.errors')}"), name)
