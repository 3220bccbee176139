"""The JSON store in tests: opened, written to, looked at from outside."""

from __future__ import annotations

from pathlib import Path

from sample_memories import NOW

from memory_server.conversations.changes import Change
from memory_server.conversations.model import ConversationState
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters


def open_store(data_dir: Path, **parameters: float) -> JsonFileStore:
    return JsonFileStore(
        data_dir, lambda: NOW, StoreParameters(**{"idle_seconds": 3600, **parameters})
    )  # type: ignore[arg-type]


async def commit(store: JsonFileStore, *changes: Change, chat: str = "chat") -> None:
    await store.update(chat, lambda state: (changes, None), by="test")


async def reopened(data_dir: Path, chat: str = "chat") -> ConversationState:
    """What a process that starts now finds."""
    return await open_store(data_dir).read(chat)


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def private(data_dir: Path, name: str, chat: str = "chat") -> Path:
    return data_dir / chat / ".memory-server" / name
