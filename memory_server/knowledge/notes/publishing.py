"""Pages of notes that are kept current: made again a while after notes were changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import field

from memory_server.kernel.errors import InvalidInput, StorageError
from memory_server.kernel.values import dataclass
from memory_server.knowledge.notes.pages import Kind

log = logging.getLogger(__name__)
_PAGES_SECONDS = 2.0
"""The time that pages wait for the next change after one."""


@dataclass(eq=False)
class PagePublisher:
    """Writes the pages of `make_pages` with `publish`."""

    make_pages: Callable[[], Awaitable[Mapping[Kind, str]]]
    publish: Callable[[Mapping[Kind, str]], None]
    _waiting: asyncio.Task[None] | None = field(default=None, init=False)

    def changed(self) -> None:
        """Make the pages of the changed notes in a while."""
        if self._waiting is None:
            self._waiting = asyncio.create_task(self._write_later())

    async def aclose(self) -> None:
        """Bring the pages up to date that are still to be made; idempotent."""
        if self._waiting is None:
            return
        self._waiting.cancel()
        with suppress(asyncio.CancelledError):
            await self._waiting
        self._waiting = None
        await self._write()

    async def _write_later(self) -> None:
        await asyncio.sleep(_PAGES_SECONDS)
        self._waiting = None
        await self._write()

    async def _write(self) -> None:
        try:
            await asyncio.to_thread(self.publish, await self.make_pages())
        except (InvalidInput, StorageError) as error:
            log.warning("the pages of notes are not current: %s", error)
