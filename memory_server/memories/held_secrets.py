"""Find secrets in what is stored already: older memories and backups, from before secrets were removed on arrival."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from languages import _, counted
from memory_server.kernel.erasure import Erasure, pieces_of
from memory_server.kernel.items import Item, ItemFilter
from memory_server.kernel.secrets import without_secrets
from memory_server.kernel.text import Finding
from memory_server.kernel.values import frozen
from memory_server.memories.forgetting import erasure_of
from memory_server.memories.memories import Memories


@frozen
class HeldSecrets:
    """The `items` whose texts hold secrets, and the texts with secrets in each of the `backups`."""

    items: Sequence[Item]
    backups: dict[str, set[str]]

    @property
    def finding(self) -> Finding:
        """The finding of `doctor`."""
        if not self.items and not self.backups:
            return Finding("ok", _("secrets"), _("no memory and no backup holds a known kind"))
        return Finding(
            "warning",
            _("secrets"),
            _(
                "{memories} and {backups} hold keys or passwords; `memory-server secrets erase --dry-run` shows them",
                counted(len(self.items), "memory"),
                counted(len(self.backups), "backup"),
            ),
        )

    async def erasure(self, memories: Memories) -> Erasure:
        """Return what erasing all of them means."""
        erasure = await erasure_of(memories.engines, self.items)
        texts = set(erasure.texts).union(*self.backups.values())
        pieces = set(erasure.pieces)
        for text in texts:
            pieces.update(pieces_of(text))
        return replace(erasure, texts=tuple(sorted(texts)), pieces=tuple(sorted(pieces)))


async def held_secrets(memories: Memories) -> HeldSecrets:
    """Look for secrets in all memories and entries, archived ones too, and in the conversations of all backups. Pairs
    of a name and a value do not count, because a companion may have stored them on purpose."""
    items: list[Item] = []
    for engine in memories.engines:
        items += await engine.find(ItemFilter(archived=None))

    held_items = await asyncio.to_thread(lambda: list(filter(_holds_secret, items)))

    backups: dict[str, set[str]] = {}
    for backup in await memories.backups.listed():
        if backup.problem:
            continue

        texts = await memories.backups.texts(backup.name)
        held_texts = await asyncio.to_thread(_with_secret, texts)
        if held_texts:
            backups[backup.name] = held_texts
    return HeldSecrets(held_items, backups)


def _holds_secret(item: Item) -> bool:
    return bool(_with_secret((item.text, item.title, *item.also, *item.said, *item.other_words)))


def _with_secret(texts: Iterable[str]) -> set[str]:
    """Return the texts that hold a secret."""
    return {text for text in texts if without_secrets(text).found}
