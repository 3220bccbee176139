"""A month of use under a simulated clock: every day a new process, memories stored, recalled, pinned, deleted and
brought back, edits by hand, and upkeep; every evening nothing is missing by surprise and nothing lingers."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path
from random import Random

import pytest
from sample_memories import DAY, HOUR, NOW
from trigger_table import TableRunner

from memory_server.conversations.changes import (
    Added,
    Forgotten,
    Pinned,
    Restored,
    Unpinned,
    change_id,
)
from memory_server.conversations.conversation import Conversation, Conversations
from memory_server.conversations.history import name_of
from memory_server.conversations.lifecycle import ConversationLifecycle
from memory_server.conversations.recall.parameters import (
    Parameters,
    RecallParameters,
    RetentionParameters,
)
from memory_server.conversations.services import Services
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Message
from memory_server.runtime.upkeep import Maintenance
from memory_server.storage.json_store.snapshots import SHORT_TERM
from memory_server.storage.json_store.store import JsonFileStore
from memory_server.storage.options import StoreParameters
from memory_server.storage.small_files import FolderLedger

pytestmark = pytest.mark.anyio
KEEP_DAYS = 5
"""Days of the archive, so that a month sees it full, and emptied many times."""
PARAMETERS = Parameters(
    # Memories fade within days, not months.
    recall=RecallParameters(decay_per_ms=2e-9 * 10),
    retention=RetentionParameters(max_age_ms=6 * DAY, always_kept=5, most_at_once=4),
)
TOPICS = ("乌龙茶", "pizza", "生日", "deadline", "🎂 party")


class Month:
    """The folder, the clock, and what a careful person remembers of it all."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.rng = Random(seed)
        self.now = NOW
        self.alive: set[str] = set()
        self.gone: dict[str, int] = {}
        """When each memory that is not there any more was removed, in milliseconds since 1970."""
        self.tokens: dict[str, str] = {}
        self.pinned: set[str] = set()
        self.pins = 0
        self.sizes: list[int] = []
        self.version = 0

    async def day(self) -> None:
        """A process starts, is used, and ends; what it did is noted from its history."""
        store = JsonFileStore(
            self.folder,
            lambda: self.now,
            StoreParameters(idle_seconds=3600, archive_days=KEEP_DAYS),
        )
        services = Services(store, TableRunner(), PARAMETERS, lambda: self.now, self.rng)
        conversations = Conversations(services)
        chat = conversations.get("小明")
        for _ in range(self.rng.randrange(4, 9)):
            self.now += self.rng.randrange(2 * HOUR)
            await self._something(chat)
        if self.rng.random() < 0.3:
            await self._edited_by_hand(store)
        engines = [ConversationLifecycle(conversations, services)]
        await Maintenance(lambda: engines, FolderLedger(self.folder), lambda: self.now).run_if_due()
        await self._note(store)
        await store.aclose()
        await self._evening()

    async def _something(self, chat: Conversation) -> None:
        short = chat.short_term
        action = self.rng.randrange(10)
        names = sorted(self.alive)
        if action < 5 or not names:
            token = f"secret-{self.rng.randrange(10**9)}"
            receipt = await short.add([Message("user", f"{self.rng.choice(TOPICS)} {token}")])
            self.alive.add(receipt.memory.id)
            self.tokens[receipt.memory.id] = token
        elif action == 5:
            await short.search([Message("user", self.rng.choice(TOPICS))])
        elif action == 6:
            chosen = self.rng.choice(names)
            if (
                any(memory.id == chosen for memory in await short.memories())
                and len(self.pinned) < 3
            ):
                await short.pin(chosen)
        elif action == 7:
            # Whoever is deleted on purpose goes, pinned or not: it is noted below.
            await short.delete(self.tokens[self.rng.choice(names)])
        elif action == 8 and await chat.archive.entries():
            entries = await chat.archive.entries()
            await chat.archive.bring_back([name_of(self.rng.choice(entries))])
        else:
            await self._something_undone(chat)

    async def _something_undone(self, chat: Conversation) -> None:
        history = await chat.archive.history(limit=3)
        if history:
            chosen_commit = self.rng.choice(history)
            with contextlib.suppress(InvalidInput):
                await chat.archive.undo(change_id(chat.id, chosen_commit.version))

    async def _edited_by_hand(self, store: JsonFileStore) -> None:
        await store.compact("小明")
        path = store.folder("小明") / SHORT_TERM
        records = json.loads(path.read_bytes())
        if records:
            records.pop(self.rng.randrange(len(records)))
            # As an editor on Windows saves it.
            path.write_bytes(
                "\r\n".join(json.dumps(records, indent=2).splitlines()).encode("utf-8-sig")
            )

    async def _note(self, store: JsonFileStore) -> None:
        """What was removed and brought back since yesterday, as the history tells it."""
        # The edit is told before the first look.
        await store.update("小明", lambda state: ((), None), by="test")
        history_since = await store.history("小明", limit=sys.maxsize)
        new_commits = [commit for commit in history_since if commit.version > self.version]
        for commit in reversed(new_commits):
            assert commit.version == self.version + 1
            self.version = commit.version
            for change in commit.changes:
                match change:
                    case Forgotten(memory, reason):
                        assert (
                            reason in ("deleted", "undone", "hand") or memory.id not in self.pinned
                        )
                        self.alive.discard(memory.id)
                        self.pinned.discard(memory.id)
                        self.gone[memory.id] = commit.at_ms
                    case Restored(memory) | Added(memory):
                        self.alive.add(memory.id)
                        self.gone.pop(memory.id, None)
                        if memory.pinned:
                            self.pinned.add(memory.id)
                    case Pinned(id=memory_id):
                        self.pinned.add(memory_id)
                        self.pins += 1
                    case Unpinned(id=memory_id):
                        self.pinned.discard(memory_id)
                    case _:
                        pass

    async def _evening(self) -> None:
        store = JsonFileStore(self.folder, lambda: self.now)
        state = await store.read("小明")
        archived = {name_of(entry) for entry in await store.archive("小明")}
        assert set(state.short_term) == self.alive, "nothing is missing and nothing came unasked"
        assert self.pinned == {stored.id for stored in state.short_term.values() if stored.pinned}
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        text = b"\n".join(path.read_bytes() for path in files if path.suffix != ".zlib").decode()
        for name, at_ms in self.gone.items():
            days = (self.now - at_ms) / DAY
            if days < KEEP_DAYS:
                assert name in archived, "what was removed can come back"
            # Upkeep is due after 20 hours and sees the age from the run before.
            if days > KEEP_DAYS + 3:
                assert name not in archived
                assert self.tokens[name] not in text, (
                    "the text of what was forgotten does not linger"
                )
        assert state.version == self.version
        self.sizes.append(sum(path.stat().st_size for path in files))


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.full) for seed in range(2, 12))]
)
async def test_a_month_loses_nothing_and_keeps_nothing_too_long(tmp_path: Path, seed: int) -> None:
    month = Month(tmp_path, seed)
    for number in range(30):
        month.now = max(month.now + HOUR, NOW + number * DAY)
        await month.day()
    assert len(month.gone) > 30, "a month in which nothing was forgotten shows nothing"
    assert month.pins, "nor one without pins"
    # Files grow with what is held, not with the days: the last week is no larger than the second, twice over.
    assert max(month.sizes[-7:]) < 2 * max(month.sizes[7:14])
