"""Vectors of texts, by which memories are found by meaning: read from the store, or made by a model. Every caller sets
how long it waits."""

from __future__ import annotations

import asyncio
import sys
import time
from array import array
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from operator import mul
from typing import Any, NamedTuple

from languages import N_, _
from memory_server.kernel.errors import ModelsFailed, StorageError, TextRefused
from memory_server.kernel.items import Scope
from memory_server.kernel.values import dataclass
from memory_server.knowledge.ports import Embeddings, EntryStore, ModelResponse

ScopedText = tuple[Scope, str]
AT_ONCE = 32
"""The most texts in one request."""
BYTES_AT_ONCE = 32_000
"""The most UTF-8 of the texts in one request."""
CALL_SECONDS = 30.0
"""The timeout of a request: a small model on a processor can do as many texts in this time."""
MISSING_AT_ONCE = 10_000
"""The most vectors that a run of the clean-up makes."""
MISSING_SECONDS = 600.0
"""The longest time that a run of the clean-up takes for vectors."""
LATER_AT_ONCE = 8
"""The texts in a request for vectors that are made when there is time: few, so that a query does not wait long behind
it."""
MOST_WAITING = 1_000
"""The most texts whose vectors are made when there is time. The clean-up makes the vectors of further texts."""
MODEL_SHARE = 0.8
"""The share of the time of a search for its vectors that the model has."""
MOST_CACHED_BYTES = 128 * 1024 * 1024
"""The most bytes of vectors of conversations in memory: 85,000 of 384 numbers."""
WORTH_NUMPY = 1_000
"""The number of vectors that are compared without numpy, where it is not loaded: this takes 30 ms, and loading it
100."""
SPARED_MS = 60_000
"""The clean-up spares vectors that are younger, because their memories may be younger than what it has read."""
NO_VECTORS = N_("no memory has a vector yet; `memory-server knowledge cleanup` makes them")
NO_EMBEDDINGS = N_("searching by meaning needs llm.embeddings, and a server that may write")


class MadeVectors(NamedTuple):
    """What a run for vectors did: of how many texts it made them, how many texts remain, and why."""

    texts: int
    remaining: int
    reason: str


Spent = Callable[[ModelResponse[Any]], None]
"""Hears of each call of a model."""


@dataclass(eq=False)
class TextVectors:
    """The vectors in `store`. `embeddings` None: no model makes any."""

    store: EntryStore
    embeddings: Embeddings | None = None

    def __post_init__(self) -> None:
        self._cache: dict[Scope, dict[str, bytes]] = {}
        self._waiting: dict[ScopedText, None] = {}
        self._refused: set[ScopedText] = set()
        self._making: asyncio.Task[None] | None = None

    async def vectors(
        self, scope: Scope, texts: Sequence[str], seconds: float, spent: Spent
    ) -> dict[str, bytes]:
        """Return the vectors of texts; the ones that are not stored are made and stored. Texts that the model does not
        take are left out. `spent` receives each call.

        Raises:
            ModelsFailed: no model is configured, or it did not answer in time. Vectors that came before are kept.
        """
        if self.embeddings is None:
            raise ModelsFailed(NO_EMBEDDINGS)
        vectors = dict(await self.store.vectors(scope, texts))
        lacking = [(scope, text) for text in dict.fromkeys(texts) if text not in vectors]
        new_vectors, _refused = await self._make(lacking, seconds, spent)
        for (_scope, text), vector in new_vectors.items():
            vectors[text] = vector
        return {text: vector for text, vector in vectors.items() if vector}

    async def make_missing(self) -> MadeVectors:
        """Make the vectors that memories of users lack."""
        return await self._make_lacking(lambda: self.store.without_vector(MISSING_AT_ONCE))

    async def _make_lacking(
        self, lacking: Callable[[], Awaitable[list[ScopedText]]]
    ) -> MadeVectors:
        """Make the vectors of at most `MISSING_AT_ONCE` of the texts that `lacking` returns. Return
        how many were made, how many still lack one, and why. Raises StorageError if the store
        cannot be read or written."""
        if self.embeddings is None:
            return MadeVectors(0, 0, "")
        texts = (await lacking())[:MISSING_AT_ONCE]

        if not texts:
            return MadeVectors(0, 0, "")
        reason = ""

        try:
            vectors, refused = await self._make(texts, MISSING_SECONDS, lambda _: None)
            # Without any vector, the fault may be in the request and not in these texts.
            if vectors:
                await self.store.keep_vectors(dict.fromkeys(refused, b""))
        except ModelsFailed as failure:
            reason = str(failure)

        remaining = len((await lacking())[:MISSING_AT_ONCE])
        if remaining and not reason:
            reason = _("the model does not take these texts")
        return MadeVectors(len(texts) - remaining, remaining, reason)

    async def cosines(
        self, scope: Scope, text: str, among: Mapping[Scope, Collection[str]], seconds: float
    ) -> dict[Scope, dict[str, float]]:
        """Return the cosines of texts of other scopes, or of this scope, to `text` of `scope`. Texts without a vector
        get one later. If no text has a vector, nothing is sent to the model.

        Raises:
            ModelsFailed: the vectors did not come within `seconds`, or no text has a vector.
        """
        deadline = time.monotonic() + seconds * MODEL_SHARE
        try:
            async with asyncio.timeout(seconds):
                vectors = {}
                for other_scope, texts in among.items():
                    vectors[other_scope] = await self._cached(other_scope, texts)

                cosines: dict[Scope, dict[str, float]] = {}
                if any(_size(vectors_of_scope) for vectors_of_scope in vectors.values()):
                    # The model has less time than the whole: so its failures are counted, and it is left alone.
                    model_seconds = max(0.0, deadline - time.monotonic())
                    own_vectors = await self.vectors(
                        scope, [text], seconds=model_seconds, spent=lambda _: None
                    )
                    query_vector = own_vectors.get(text)
                    if query_vector is None:
                        raise ModelsFailed("the model does not take this text")
                    cosines = await asyncio.to_thread(_cosines, query_vector, vectors)
        except TimeoutError:
            raise ModelsFailed(
                "the vectors did not come within {seconds:g} seconds", seconds
            ) from None

        # These texts can be found by meaning only after their vectors were made.
        for other_scope, texts in among.items():
            lacking = [
                lacking_text for lacking_text in texts if lacking_text not in vectors[other_scope]
            ]
            self.later(other_scope, lacking[-AT_ONCE:])

        if not any(cosines.values()):
            # Another process may have made the vectors again.
            self._cache.clear()
            raise ModelsFailed(NO_VECTORS)
        return cosines

    async def _cached(self, scope: Scope, texts: Collection[str]) -> dict[str, bytes]:
        """Return the stored vectors of these texts, and keep them for the next search; other scopes are dropped when
        they take too much room. An empty vector means that the model does not take the text."""
        cached = self._cache.pop(scope, {})
        stored = await self.store.vectors(scope, [text for text in texts if text not in cached])
        vectors: dict[str, bytes] = {}
        for text in texts:
            vector = cached.get(text, stored.get(text))
            if vector is not None:
                vectors[text] = vector
        self._cache[scope] = vectors

        while len(self._cache) > 1 and sum(map(_size, self._cache.values())) > MOST_CACHED_BYTES:
            oldest_scope = next(iter(self._cache))
            del self._cache[oldest_scope]
        return vectors

    def later(self, scope: Scope, texts: Iterable[str]) -> None:
        """Make the vectors of these texts when there is time. No call waits for them; if no model makes them, the
        clean-up does."""
        if self.embeddings is None:
            return
        lacking = [(scope, text) for text in texts if (scope, text) not in self._refused]
        room = MOST_WAITING - len(self._waiting)
        self._waiting |= dict.fromkeys(lacking[:room])
        if self._waiting and (self._making is None or self._making.done()):
            self._making = asyncio.get_running_loop().create_task(self._make_waiting())

    async def _make_waiting(self) -> None:
        """Make the vectors of the texts that wait, a part at a time. After a failure the others are given up; texts
        that the model refuses are not asked about again."""
        with suppress(ModelsFailed, StorageError):
            while self._waiting:
                part = list(self._waiting)[:LATER_AT_ONCE]
                _vectors, refused = await self._make(part, CALL_SECONDS, lambda _: None)
                self._refused.update(refused)
                for scoped_text in part:
                    self._waiting.pop(scoped_text, None)
        self._waiting.clear()

    async def tidy(self, live: Sequence[ScopedText], now_ms: int) -> MadeVectors:
        """Forget the vectors of memories of conversations that are no longer `live`, make vectors that live memories
        lack, and return how many were made and are missing."""
        await self.store.forget_vectors(live, now_ms - SPARED_MS)

        async def lacking() -> list[ScopedText]:
            texts_by_scope: dict[Scope, list[str]] = {}
            for scope, text in dict.fromkeys(live):
                texts_by_scope.setdefault(scope, []).append(text)
            without_vector: list[ScopedText] = []
            for scope, texts in texts_by_scope.items():
                vectors = await self.store.vectors(scope, texts)
                without_vector += [(scope, text) for text in texts if text not in vectors]
            return without_vector

        return await self._make_lacking(lacking)

    async def aclose(self) -> None:
        """End what is going on; idempotent."""
        if self._making is not None:
            self._making.cancel()
            await asyncio.gather(self._making, return_exceptions=True)

    async def _make(
        self, texts: Sequence[ScopedText], seconds: float, spent: Spent
    ) -> tuple[dict[ScopedText, bytes], list[ScopedText]]:
        """Make and store the vectors of texts. Return them with the texts that the model does not take. Raise as
        `vectors`."""
        assert self.embeddings is not None
        vectors: dict[ScopedText, bytes] = {}
        refused: list[ScopedText] = []
        parts = list(_parts(texts))
        deadline = time.monotonic() + seconds

        while parts:
            part = parts.pop(0)
            seconds_left = deadline - time.monotonic()
            if seconds_left <= 0:
                raise ModelsFailed("the vectors did not come within {seconds:g} seconds", seconds)

            try:
                response = await self.embeddings.vectors(
                    [text for _, text in part], min(seconds_left, CALL_SECONDS)
                )
            except TextRefused:
                half = len(part) // 2
                # The model refuses a whole request for one text: halves tell which text it is.
                if half:
                    parts[:0] = [part[:half], part[half:]]
                else:
                    refused += part
                continue

            spent(response)
            new_vectors = dict(zip(part, response.value, strict=True))
            vectors |= new_vectors
            # The clean-up can make these vectors again, so no call waits for another writer.
            with suppress(StorageError):
                await self.store.keep_vectors(new_vectors)
        return vectors, refused


def _parts(texts: Sequence[ScopedText]) -> Iterator[list[ScopedText]]:
    """Yield the texts in parts that are small enough for a request."""
    part: list[ScopedText] = []
    size = 0
    for scoped_text in texts:
        _scope, text = scoped_text
        length = len(text.encode())
        if part and (len(part) == AT_ONCE or size + length > BYTES_AT_ONCE):
            yield part
            part = []
            size = 0
        part.append(scoped_text)
        size += length
    if part:
        yield part


def _size(vectors: Mapping[str, bytes]) -> int:
    return sum(map(len, vectors.values()))


def _cosines(
    vector: bytes, vectors: Mapping[Scope, Mapping[str, bytes]]
) -> dict[Scope, dict[str, float]]:
    """Return the cosines to `vector` of the vectors that are as long, by scope and text; others are
    left out."""
    comparable = {
        scope: _of_length(len(vector), vectors_of_scope)
        for scope, vectors_of_scope in vectors.items()
    }
    compare = _cosines_by_numpy
    if "numpy" not in sys.modules and sum(map(len, comparable.values())) < WORTH_NUMPY:
        compare = _cosines_in_python
    return {
        scope: compare(vector, vectors_of_scope) for scope, vectors_of_scope in comparable.items()
    }


def _of_length(length: int, vectors: Mapping[str, bytes]) -> dict[str, bytes]:
    return {text: vector for text, vector in vectors.items() if len(vector) == length}


def _cosines_in_python(vector: bytes, vectors: Mapping[str, bytes]) -> dict[str, float]:
    numbers = array("f", vector)
    return {
        text: sum(map(mul, numbers, array("f", stored_vector)))
        for text, stored_vector in vectors.items()
    }


def _cosines_by_numpy(vector: bytes, vectors: Mapping[str, bytes]) -> dict[str, float]:
    import numpy as np

    numbers = np.frombuffer(vector, np.float32)
    matrix = np.frombuffer(b"".join(vectors.values()), np.float32).reshape(-1, len(numbers))
    cosines: list[float] = (matrix @ numbers).tolist()
    return dict(zip(vectors, cosines, strict=True))
