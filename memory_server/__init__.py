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
    from memory_server.app import App, open_memory
    from memory_server.config import Settings
    from memory_server.core.errors import InvalidInput, MemoryNotFound, MemoryServerError, StorageError, TriggerRejected
    from memory_server.core.model import LongTermMemory, Message, Session, ShortTermMemory

__all__ = [
    "App",
    "InvalidInput",
    "LongTermMemory",
    "MemoryNotFound",
    "MemoryServerError",
    "Message",
    "Session",
    "Settings",
    "ShortTermMemory",
    "StorageError",
    "TriggerRejected",
    "open_memory",
]

_MODULES = {
    "memory_server.app": ("App", "open_memory"),
    "memory_server.config": ("Settings",),
    "memory_server.core.errors": tuple(
        name for name in __all__ if name.endswith(("Error", "Input", "Found", "Rejected"))
    ),
    "memory_server.core.model": ("LongTermMemory", "Message", "Session", "ShortTermMemory"),
    "memory_server.version": ("__version__",),
}


def __getattr__(name: str) -> object:
    # The entrance of the command imports this package, and a user waits for it at every prompt.
    for module, names in _MODULES.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(module), name)
    raise AttributeError(f"module 'memory_server' has no attribute {name!r}")
