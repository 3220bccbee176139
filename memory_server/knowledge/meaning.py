"""Vectors of texts, by which memories are found by meaning: kept where they are known, made by a model where they are
not. Nothing waits for them longer than it says."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from memory_server.core.errors import ModelsFailed, StorageError, TextRefused
from memory_server.knowledge.entry import Scope
from memory_server.knowledge.ports import Asked, Embeddings, EntryStore

Wanted = tuple[Scope, str]
AT_ONCE, BYTES_AT_ONCE, CALL_SECONDS = 32, 32_000, 30.0
"""Texts in one request and their UTF-8, which a small model on a processor can do in this time."""
MISSING_AT_ONCE, MISSING_SECONDS = 10_000, 600.0
"""What one run of the clean-up makes at most, and how long it takes."""
NO_EMBEDDINGS = "searching by meaning needs llm.embeddings, and a server that may write"


@dataclass(eq=False)
class Meaning:
    """The vectors in `store`. `embeddings` None: no model makes any."""

    store: EntryStore
    embeddings: Embeddings | None = None

    async def vectors(
        self, scope: Scope, texts: Sequence[str], seconds: float, spent: Callable[[Asked[Any]], None]
    ) -> dict[str, bytes]:
        """The vectors of texts, without those that the model does not take; `spent` hears of each call.

        Raises:
            ModelsFailed: there is no model, or it did not answer in time; what came before is kept.
        """
        if self.embeddings is None:
            raise ModelsFailed(NO_EMBEDDINGS)
        known = await self.store.vectors(scope, texts)
        made, _ = await self._make(
            [(scope, each) for each in dict.fromkeys(texts) if each not in known], seconds, spent
        )
        return {text: each for text, each in (known | {text: made[_, text] for _, text in made}).items() if each}

    async def make_missing(self) -> tuple[int, int, str]:
        """Make the vectors that memories lack: of how many texts, how many are left, and why."""
        if self.embeddings is None or not (wanted := await self.store.without_vector(MISSING_AT_ONCE)):
            return 0, 0, ""
        why = ""
        try:
            made, refused = await self._make(wanted, MISSING_SECONDS, lambda _: None)
            if made:  # else the fault may be in the request, and not in these texts
                await self.store.keep_vectors(dict.fromkeys(refused, b""))
        except ModelsFailed as failure:
            why = str(failure)
        left = len(await self.store.without_vector(MISSING_AT_ONCE))
        return len(wanted) - left, left, why or ("the model does not take these texts" if left else "")

    async def _make(
        self, wanted: Sequence[Wanted], seconds: float, spent: Callable[[Asked[Any]], None]
    ) -> tuple[dict[Wanted, bytes], list[Wanted]]:
        """The vectors of texts, which are kept, and the texts that the model does not take. Raises as `vectors`."""
        assert self.embeddings is not None
        made, refused, parts = dict[Wanted, bytes](), list[Wanted](), list(_parts(wanted))
        until = time.monotonic() + seconds
        while parts:
            part, left = parts.pop(0), until - time.monotonic()
            if left <= 0:
                raise ModelsFailed(f"the vectors did not come within {seconds:g} seconds")
            try:
                done = await self.embeddings.vectors([text for _, text in part], min(left, CALL_SECONDS))
            except TextRefused:
                half = len(part) // 2
                if half:
                    parts[:0] = part[:half], part[half:]
                else:
                    refused += part
                continue
            spent(done)
            new = dict(zip(part, done.value, strict=True))
            made |= new
            with suppress(StorageError):  # they can be made again, so nobody waits for a writer
                await self.store.keep_vectors(new)
        return made, refused


def _parts(wanted: Sequence[Wanted]) -> Iterator[list[Wanted]]:
    part, size = list[Wanted](), 0
    for each in wanted:
        length = len(each[1].encode())
        if part and (len(part) == AT_ONCE or size + length > BYTES_AT_ONCE):
            yield part
            part, size = [], 0
        part.append(each)
        size += length
    if part:
        yield part
