"""The pairs of characters that a file holds: never others than those of the memories, and none of an erased text."""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sample_memories import MINUTE, NOW, memory, state_of

import memory_server.conversations.recall.indexed_selection  # noqa: F401 - searches make indexes
from memory_server.cli.parser import main
from memory_server.config import Settings
from memory_server.conversations.changes import Change, Forgotten, Reinforced, apply
from memory_server.conversations.model import ConversationState, ShortTermMemory
from memory_server.conversations.recall import index as index_module
from memory_server.conversations.recall.index import Index, index_of
from memory_server.conversations.recall.stored_grams import usable_run
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.messages import Message
from memory_server.runtime.app import App, open_memory
from nlp import Enrichment, QueryWeights

PAIRS = KeywordOptions(emphasis=QueryWeights(pairs=1.0))
GRAMS = ["煤球", "球喜", "晒太", "下雨", "雨天", "猫", "狗狗"]
TEXTS = st.text("煤球喜欢晒太阳下雨天猫狗 a\ud83d", max_size=12)


def memories_of(texts: list[str]) -> list[ShortTermMemory]:
    """Memories with these texts, the oldest first."""
    memories = []
    for number, text in enumerate(texts):
        bare = memory(f"m{number:03}", age=(len(texts) - number) * MINUTE)
        words = tuple(word for word in ("煤球", "狗狗") if word in text)
        weights = (1.0,) * len(words)
        memories.append(
            replace(bare, messages=(Message("user", text),), words=words, weights=weights)
        )
    return memories


def file_of(memories: list[ShortTermMemory], wording: KeywordOptions = PAIRS) -> bytes:
    state = state_of(*memories)
    content = index_of(state, wording).grams_to_store(state)
    assert content is not None
    return content()


def grams_of(index: Index) -> list[tuple[list[int], list[float]]]:
    """The rows and weights of each of `GRAMS`."""
    found = []
    for gram in GRAMS:
        occurrences = index.occurrences([], [gram])
        found.append((occurrences.rows.tolist(), occurrences.weights.tolist()))
    return found


@pytest.fixture
def any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a few memories are worth a file."""
    monkeypatch.setattr(index_module, "LEAST_STORED", 1)


@pytest.mark.usefixtures("any_number")
@given(st.lists(TEXTS, min_size=1, max_size=6), st.lists(TEXTS, max_size=6))
def test_an_index_with_a_file_is_that_of_the_memories(before: list[str], after: list[str]) -> None:
    content = file_of(memories_of(before))
    now = memories_of(after)
    assert grams_of(Index(now, PAIRS, content)) == grams_of(Index(now, PAIRS))


@pytest.mark.usefixtures("any_number")
def test_the_file_serves_the_same_memories_and_those_that_came_after_them() -> None:
    texts = ["煤球喜欢晒太阳", "下雨天"]
    content = file_of(memories_of(texts))
    later = memories_of([*texts, "狗狗喜欢下雨"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index_module, "_run_of", _run_of_one(index_module._run_of))
        index = Index(later, PAIRS, content)
    assert grams_of(index) == grams_of(Index(later, PAIRS))


def _run_of_one(run_of: Callable[..., object]) -> Callable[..., object]:
    """Fail if the pairs of more than the last memory are found."""

    def checked(texts: list[object], first_row: int) -> object:
        assert (len(texts), first_row) == (1, 2)
        return run_of(texts, first_row)

    return checked


@pytest.mark.usefixtures("any_number")
def test_a_file_of_other_memories_or_options_or_a_damaged_one_is_not_used() -> None:
    memories = memories_of(["煤球喜欢晒太阳", "下雨天"])
    content = file_of(memories)
    others = {
        "text": [replace(memories[0], messages=(Message("user", "煤球讨厌晒太阳"),)), memories[1]],
        "role": [
            replace(memories[0], messages=(Message("system", "煤球喜欢晒太阳"),)),
            memories[1],
        ],
        "words": [replace(memories[0], words=("晒太",), weights=(1.0,)), memories[1]],
        "weights of roles": [replace(memories[0], role_weights={"user": 3.0}), memories[1]],
        "gone": memories[1:],
        "order": [replace(memories[0], time_ms=NOW), memories[1]],
    }
    for what, now in others.items():
        assert grams_of(Index(now, PAIRS, content)) == grams_of(Index(now, PAIRS)), what
        assert usable_run(content, sorted_by_time(now), PAIRS) is None, what

    forms = replace(PAIRS, enrichment=Enrichment(normal_forms=True))
    assert usable_run(content, memories, forms) is None
    assert usable_run(content, memories, PAIRS) is not None
    for end in range(0, len(content), 7):
        assert usable_run(content[:end], memories, PAIRS) is None
        damaged = content[:end] + bytes([content[end] ^ 1]) + content[end + 1 :]
        run = usable_run(damaged, memories, PAIRS)
        assert run is None or run.row_count == len(memories)
        assert grams_of(Index(memories, PAIRS, damaged)) == grams_of(Index(memories, PAIRS))


def sorted_by_time(memories: list[ShortTermMemory]) -> list[ShortTermMemory]:
    return sorted(memories, key=lambda found: (found.time_ms, found.id))


@pytest.mark.usefixtures("any_number")
def test_what_was_removed_since_is_not_stored() -> None:
    memories = memories_of(["煤球喜欢晒太阳", "下雨天"])
    state = state_of(*memories)
    index = index_of(state, PAIRS)
    apply(state, [Reinforced("m000", 0.0, 5.0)])
    assert index.grams_to_store(state) is not None
    assert Index(memories, PAIRS).grams_to_store(state) is None
    apply(state, [Forgotten(memories[0], "deleted")])
    assert index.grams_to_store(state) is None


# --- in a home -------------------------------------------------------------------------------------------------------

COUNT = 1_100
SECRET = "骆驼祥子"
KEY = struct.pack("<I", ord("骆") << 16 | ord("驼"))
"""A pair of characters of the secret, as the file has it."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A home with a conversation of many memories, one of which has the secret."""
    records = []
    for number in range(COUNT):
        text = f"第{number}天我们去看了{SECRET if number == 7 else '电影'}"
        records.append(
            {
                "id": f"m{number:04}",
                "timestamp": f"2026-01-{1 + number % 28:02}T00:{number % 60:02}:00.000Z",
                "text": f"user: {text}",
                "keywords": [{"word": "天", "weight": 9.0}],
                "score": 0,
                "conversation_id": "chat",
                "messages": [{"role": "user", "content": text}],
            }
        )
    folder = tmp_path / "data" / "chat"
    folder.mkdir(parents=True)
    (folder / "short-term-memory.json").write_text(json.dumps(records, ensure_ascii=False))
    return folder.parent


async def searched(app: App, text: str) -> list[str]:
    """The texts that come for this message."""
    found = await app.conversation("chat").short_term.search([Message("user", text)])
    return [recalled.memory.text for recalled in found.recall.top]


def opened(app: App) -> Any:
    """The conversation as the store has it open."""
    return app.store._open["chat"]  # type: ignore[attr-defined]


async def end_of_writing(app: App) -> None:
    """Do now what was planned for later, and wait for it."""
    opened(app)._storing._run()
    await asyncio.gather(*app.store._open.running)  # type: ignore[attr-defined]


async def home_with_file(data: Path) -> list[str]:
    async with open_memory(data) as app:
        texts = await searched(app, f"谁读过{SECRET}？")
        await end_of_writing(app)
    return texts


def file_in(data: Path) -> Path:
    return data / "chat" / ".memory-server" / "grams.bin"


def test_the_next_process_uses_the_file(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = asyncio.run(home_with_file(data))
    assert any(SECRET in text for text in texts)
    assert KEY in file_in(data).read_bytes()

    def fail(*_: object) -> None:
        raise AssertionError("pairs were found again")

    monkeypatch.setattr(index_module, "_run_of", fail)

    async def again() -> list[str]:
        async with open_memory(data) as app:
            return await searched(app, f"谁读过{SECRET}？")

    assert asyncio.run(again()) == texts


def test_what_is_erased_is_not_in_the_file(data: Path) -> None:
    asyncio.run(home_with_file(data))
    assert main(["--data-dir", str(data), "forget", SECRET, "--for-good", "--yes"]) == 0
    assert not file_in(data).exists()
    for path in data.rglob("*"):
        assert path.is_dir() or KEY not in path.read_bytes()

    async def again() -> list[str]:
        async with open_memory(data) as app:
            texts = await searched(app, f"谁读过{SECRET}？")
            await end_of_writing(app)
        return texts

    assert not any(SECRET in text for text in asyncio.run(again()))
    assert KEY not in file_in(data).read_bytes()


def test_a_process_that_does_not_know_of_the_erasing_yet_writes_nothing(data: Path) -> None:
    async def erased_meanwhile() -> None:
        async with open_memory(data) as app, open_memory(data) as other:
            await searched(app, f"谁读过{SECRET}？")

            def decide(state: ConversationState) -> tuple[list[Change], None]:
                return [Forgotten(state.short_term["m0007"], "deleted")], None

            await other.store.update("chat", decide, by="test")
            await other.store.compact("chat", erased=lambda _change: True)
            await end_of_writing(app)
            assert not file_in(data).exists()

            await searched(app, "我们看了什么？")
            await end_of_writing(app)
            assert KEY not in file_in(data).read_bytes()

    asyncio.run(erased_meanwhile())


def test_a_memory_removed_while_the_file_is_made_is_not_written(data: Path) -> None:
    async def removed_meanwhile() -> None:
        async with open_memory(data) as app:
            await searched(app, f"谁读过{SECRET}？")
            conversation = opened(app)
            blocking = conversation._in_thread

            async def remove_first(call: Callable[[], object]) -> object:
                conversation._in_thread = blocking
                content = await blocking(call)

                def decide(state: ConversationState) -> tuple[list[Change], None]:
                    return [Forgotten(state.short_term["m0007"], "deleted")], None

                await app.store.update("chat", decide, by="test")
                return content

            conversation._in_thread = remove_first
            await end_of_writing(app)
            assert not file_in(data).exists()

    asyncio.run(removed_meanwhile())


def test_a_read_only_server_writes_no_file(data: Path) -> None:
    asyncio.run(home_with_file(data))
    file_in(data).unlink()

    async def read() -> None:
        async with open_memory(data, settings=Settings(read_only=True)) as app:
            await searched(app, f"谁读过{SECRET}？")
            assert opened(app)._storing is None

    asyncio.run(read())
