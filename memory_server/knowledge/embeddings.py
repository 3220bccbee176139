"""Vectors of texts, by which memories are found by meaning: kept where they are known, made by a model where they are
not. Nothing waits for them longer than it says."""

from __future__ import annotations

import asyncio
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from operator import mul
from typing import Any

from memory_server.kernel.errors import ModelsFailed, StorageError, TextRefused
from memory_server.kernel.scopes import Scope
from memory_server.knowledge.ports import Asked, Embeddings, EntryStore

Wanted = tuple[Scope, str]
AT_ONCE, BYTES_AT_ONCE, CALL_SECONDS = 32, 32_000, 30.0
"""Texts in one request and their UTF-8, which a small model on a processor can do in this time."""
MISSING_AT_ONCE, MISSING_SECONDS = 10_000, 600.0
"""What one run of the clean-up makes at most, and how long it takes."""
LATER_AT_ONCE, MOST_WAITING = 8, 1_000
"""Texts whose vectors are made when there is time: in one request, so that a query does not wait long behind it, and
altogether. The clean-up makes those of more."""
MODEL_SHARE = 0.8
"""Of the time that a search has for its vectors."""
MOST_KEPT_BYTES = 128 * 1024 * 1024
"""Of vectors of conversations in memory: 85,000 of 384 numbers."""
WORTH_NUMPY = 1_000
"""Vectors that are compared without numpy, where it is not loaded: this takes 30 ms, and loading it 100."""
SPARED_MS = 60_000
"""The clean-up spares vectors that are younger, because their memories may be younger than what it has read."""
NO_VECTORS = "no memory has a vector yet; `memory-server knowledge cleanup` makes them"
NO_EMBEDDINGS = "searching by meaning needs llm.embeddings, and a server that may write"


@dataclass(eq=False)
class Meaning:
    """The vectors in `store`. `embeddings` None: no model makes any."""

    store: EntryStore
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self._kept: dict[Scope, dict[str, bytes]] = {}
        self._waiting: dict[Wanted, None] = {}
        self._refused: set[Wanted] = set()
        self._making: asyncio.Task[None] | None = None

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
        """Make the vectors that memories of users lack: of how many texts, how many are left, and why."""
        return await self._make_lacking(lambda: self.store.without_vector(MISSING_AT_ONCE))

    async def _make_lacking(self, lacking: Callable[[], Awaitable[list[Wanted]]]) -> tuple[int, int, str]:
        if self.embeddings is None or not (wanted := (await lacking())[:MISSING_AT_ONCE]):
            return 0, 0, ""
        why = ""
        try:
            made, refused = await self._make(wanted, MISSING_SECONDS, lambda _: None)
            if made:  # else the fault may be in the request, and not in these texts
                await self.store.keep_vectors(dict.fromkeys(refused, b""))
        except ModelsFailed as failure:
            why = str(failure)
        left = len((await lacking())[:MISSING_AT_ONCE])
        return len(wanted) - left, left, why or ("the model does not take these texts" if left else "")

    async def cosines(
        self, scope: Scope, text: str, among: Mapping[Scope, Collection[str]], seconds: float
    ) -> dict[Scope, dict[str, float]]:
        """How near texts of other scopes, or of this one, are to `text` of `scope`: the cosines of those that have a
        vector. The others get theirs later. Nothing is sent if none has one.

        Raises:
            ModelsFailed: it could not be had within `seconds`.
        """
        until = time.monotonic() + seconds * MODEL_SHARE
        try:
            async with asyncio.timeout(seconds):
                known = {each: await self._known(each, texts) for each, texts in among.items()}
                found = dict[Scope, dict[str, float]]()
                if any(_size(vectors) for vectors in known.values()):
                    # The model has less time than the whole: so its failures are counted, and it is left alone.
                    left = max(0.0, until - time.monotonic())
                    vector = (await self.vectors(scope, [text], left, lambda _: None)).get(text)
                    if vector is None:
                        raise ModelsFailed("the model does not take this text")
                    found = await asyncio.to_thread(_cosines, vector, known)
        except TimeoutError:
            raise ModelsFailed(f"the vectors did not come within {seconds:g} seconds") from None
        for each, texts in among.items():
            self.later(each, [text for text in texts if text not in known[each]][-AT_ONCE:])
        if not any(found.values()):
            self._kept.clear()  # another process may have made them anew
            raise ModelsFailed(NO_VECTORS)
        return found

    async def _known(self, scope: Scope, texts: Collection[str]) -> dict[str, bytes]:
        """The vectors that are known of these texts; an empty one: the model does not take the text."""
        before = self._kept.pop(scope, {})
        new = await self.store.vectors(scope, [text for text in texts if text not in before])
        known = {text: each for text in texts if (each := before.get(text, new.get(text))) is not None}
        self._kept[scope] = known
        while len(self._kept) > 1 and sum(map(_size, self._kept.values())) > MOST_KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return known

    def later(self, scope: Scope, texts: Iterable[str]) -> None:
        """Make the vectors of these texts when there is time. Nobody waits for them, and where they cannot be had, the
        clean-up makes them."""
        if self.embeddings is None:
            return
        wanted = [(scope, text) for text in texts if (scope, text) not in self._refused]
        self._waiting |= dict.fromkeys(wanted[: MOST_WAITING - len(self._waiting)])
        if self._waiting and (self._making is None or self._making.done()):
            self._making = asyncio.get_running_loop().create_task(self._make_waiting())

    async def _make_waiting(self) -> None:
        with suppress(ModelsFailed, StorageError):
            while part := list(self._waiting)[:LATER_AT_ONCE]:
                _, refused = await self._make(part, CALL_SECONDS, lambda _: None)
                self._refused |= {*refused}
                for each in part:
                    self._waiting.pop(each, None)
        self._waiting.clear()

    async def tidy(self, live: Sequence[Wanted], now_ms: int) -> tuple[int, int, str]:
        """Forget the vectors of memories of conversations that are not `live` any more, and make those that live ones
        lack: of how many texts, how many are left, and why."""
        await self.store.forget_vectors(live, now_ms - SPARED_MS)

        async def lacking() -> list[Wanted]:
            texts: dict[Scope, list[str]] = {}
            for scope, text in dict.fromkeys(live):
                texts.setdefault(scope, []).append(text)
            known = {scope: await self.store.vectors(scope, some) for scope, some in texts.items()}
            return [(scope, text) for scope, some in texts.items() for text in some if text not in known[scope]]

        return await self._make_lacking(lacking)

    async def aclose(self) -> None:
        """End what is going on; idempotent."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

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


def _size(vectors: Mapping[str, bytes]) -> int:
    return sum(map(len, vectors.values()))


def _cosines(vector: bytes, known: Mapping[Scope, Mapping[str, bytes]]) -> dict[Scope, dict[str, float]]:
    """The cosines of the vectors that are as long as `vector`."""
    fitting = {
        scope: {text: each for text, each in vectors.items() if len(each) == len(vector)}
        for scope, vectors in known.items()
    }
    if "numpy" not in sys.modules and sum(map(len, fitting.values())) < WORTH_NUMPY:
        sought = array("f", vector)
        return {
            scope: {text: sum(map(mul, sought, array("f", each))) for text, each in vectors.items()}
            for scope, vectors in fitting.items()
        }
    import numpy as np

    wanted = np.frombuffer(vector, np.float32)
    matrices = (
        np.frombuffer(b"".join(each.values()), np.float32).reshape(-1, len(wanted)) for each in fitting.values()
    )
    products = ((matrix @ wanted).tolist() for matrix in matrices)
    return {scope: dict(zip(fitting[scope], each, strict=True)) for scope, each in zip(fitting, products, strict=True)}
