"""Asking a client which folder is open (`roots/list`), in the eras of the protocol in which a server can ask."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import anyio
from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPDeprecationWarning

from memory_server.serving.documents import errors_of_protocol

log = logging.getLogger(__name__)
Move = Callable[[Sequence[str]], Awaitable[None]]
"""Takes the URIs of the roots of the client."""
_ROOTS_SECONDS = 3.0
"""How long a client may take to say which folder is open: it knows, and the user waits."""
Request = ServerRequestContext[Any]
Params = TypeVar("Params")
Answer = TypeVar("Answer")


class Roots:
    """What a client says is open. It is asked once, and again if it says that this changed. `move` is None if it is
    of no use."""

    def __init__(self, move: Move | None) -> None:
        self._move = move
        self._is_asked = False
        self._asking = anyio.Lock()
        if move is not None:
            # The SDK says that the newest era has no roots; they are asked for in the others.
            warnings.filterwarnings("ignore", "The roots capability", MCPDeprecationWarning)

    def before(
        self, handler: Callable[[Request, Params], Awaitable[Answer]]
    ) -> Callable[[Request, Params], Awaitable[Answer]]:
        """Return the handler of a request, which waits until the client was asked. It raises MCPError where `ask`
        raises."""
        if self._move is None:
            return handler

        async def asked(request: Request, params: Params) -> Answer:
            with errors_of_protocol(request):
                await self.ask(request)
            return await handler(request, params)

        return asked

    async def ask(self, request: Request) -> None:
        """Ask the client, if it can be asked and was not; if it does not answer, nothing changes. Raises InvalidInput:
        the file of the project that is open cannot be used."""
        async with self._asking:
            if self._is_asked:
                return
            self._is_asked = (
                True  # before the client answers: meanwhile it may say that this changed
            )
            if self._move is None or not _can_say(request):
                return
            try:
                await self._move(await _listed(request))
            except BaseException:
                self._is_asked = False
                raise

    async def changed(self, _request: Request, _params: object) -> None:
        """Take note that another folder is open: the client is asked again."""
        self._is_asked = False


async def _listed(request: Request) -> Sequence[str]:
    """Return the URIs that the client lists, or nothing if it does not answer."""
    try:
        with anyio.fail_after(_ROOTS_SECONDS):
            listed = await request.session.list_roots()
    except Exception as error:
        log.warning("the client did not say which folder is open: %s", error)
        return ()
    return [str(root.uri) for root in listed.roots]


def _can_say(request: Request) -> bool:
    params = request.session.client_params
    return params is not None and params.capabilities.roots is not None
