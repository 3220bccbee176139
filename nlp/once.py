"""A value that is made once, at first use, also when several threads ask for it.

``functools.cache`` lets two racing threads both compute a result; a dictionary read twice would take twice the
memory and the time. Does not know about words.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Calling it returns ``make()``'s value; only the first call runs ``make``, the others wait for it. If ``make``
    raises, the caller gets the error and the next call tries again."""

    __slots__ = ("_lock", "_make", "_values")

    def __init__(self, make: Callable[[], T]) -> None:
        self._make: Final = make
        self._lock: Final = threading.Lock()
        # Empty until made. A tuple, so that None can be a value and the fast path is one atomic read.
        self._values: tuple[T, ...] = ()

    def __call__(self) -> T:
        """Return the value. The first call makes it, while other threads wait for it; if that fails, the next call
        tries again."""
        values = self._values
        if not values:
            with self._lock:
                values = self._values
                if not values:
                    values = self._values = (self._make(),)
        return values[0]

    @property
    def is_made(self) -> bool:
        """Whether a call gives the value at once."""
        return bool(self._values)
