"""A few values that were made lately. Everything that the page remembers between two requests has such a bound, because
readers choose the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


def _let_go(_value: object) -> None:
    """Nothing is done with a value that is dropped."""


class Recent(Generic[K, V]):
    """At most `most` values by their keys. Beyond that, the value that was put in first is given to `drop`."""

    def __init__(self, most: int, drop: Callable[[V], object] = _let_go) -> None:
        self._most = most
        self._drop = drop
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        self._values.pop(key, None)
        self._values[key] = value
        while len(self._values) > self._most:
            self._drop(self._values.pop(next(iter(self._values))))

    def __iter__(self) -> Iterator[V]:
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)
