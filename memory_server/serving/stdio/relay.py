"""A window on a linked machine: the messages of its client go to the server over HTTP and back, in both eras, as they
are. Nothing here knows a tool. The SDK's own client transport carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Protocol

import anyio
import httpx2
import mcp_types as types
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import ClientMessageMetadata, SessionMessage

from memory_server.kernel.errors import NotReached
from memory_server.kernel.values import dataclass

_VERSION = "io.modelcontextprotocol/protocolVersion"
_UNAVAILABLE = -32000
"""Code of the answer to a request that did not reach the server: a code that the protocol leaves to programs."""


class LinkedServer(Protocol):
    """The server to which the messages go (process/remote.py), and the sentences for what it does not answer."""

    @property
    def http(self) -> httpx2.AsyncClient: ...

    async def whole(self, response: httpx2.Response) -> httpx2.Response: ...

    def trouble_of(self, response: httpx2.Response) -> str | None: ...

    def refusal_of(self, response: httpx2.Response) -> Exception: ...

    def reason_of(self, error: BaseException) -> str: ...

    def not_ours(self) -> Exception: ...


@dataclass(slots=True)
class Relay:
    """Replaces the SDK's server in `runner.session`; `headers` are the headers of the window. `version` is the
    version of the protocol that the handshake agreed on."""

    remote: LinkedServer
    headers: Mapping[str, str]
    version: str | None = None

    def create_initialization_options(self) -> None:
        """Do nothing: the server has its own."""

    async def run(self, incoming: Any, outgoing: Any, _options: object) -> None:
        """Carry messages to the server and its answers back, until `incoming` ends. Answers that
        are still to come are then dropped."""
        http = self.remote.http
        client = httpx2.AsyncClient(
            base_url=http.base_url,
            headers=[*http.headers.items(), *self.headers.items()],
            transport=_Sentences(self.remote),
            timeout=http.timeout,
        )
        async with (
            client,
            streamable_http_client("/mcp", http_client=client, max_sse_event_size=None) as (
                answers,
                requests,
            ),
            anyio.create_task_group() as group,
        ):
            group.start_soon(self._carry_back, answers, outgoing)
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    metadata = ClientMessageMetadata(headers=self._repeated(item.message))
                    await requests.send(SessionMessage(item.message, metadata))
            # The window has closed: answers that are still to come have no reader.
            group.cancel_scope.cancel()

    async def _carry_back(self, answers: Any, outgoing: Any) -> None:
        """Give the messages of the server to the window, and note the version that it answers `initialize` with."""
        async for item in answers:
            if not isinstance(item, SessionMessage):
                continue
            message = item.message
            if isinstance(message, types.JSONRPCResponse) and "protocolVersion" in message.result:
                self.version = str(message.result["protocolVersion"])
            await outgoing.send(item)

    def _repeated(self, message: Any) -> dict[str, str]:
        """Return the headers that repeat what a message says, as the protocol wants it over HTTP."""
        method = getattr(message, "method", "")
        if method == "initialize":
            return {}
        params = getattr(message, "params", None) or {}
        version = (params.get("_meta") or {}).get(_VERSION)
        if version is None:  # the message is of the handshake era
            if not self.version:
                return {}
            return {MCP_PROTOCOL_VERSION_HEADER: self.version}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        name_field = NAME_BEARING_METHODS.get(method, "")
        name = params.get(name_field)
        if name is not None:
            headers[MCP_NAME_HEADER] = encode_header_value(str(name))
        return headers


@dataclass(slots=True)
class _Sentences(httpx2.AsyncBaseTransport):
    """Asks the server; what it did not answer becomes an error of the protocol with a sentence, which the client of
    the window shows."""

    remote: LinkedServer

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the server, and return its answer as it is, or its stream. If the
        server is not reached, refuses, or is not a memory server, return an error with a sentence
        (503)."""
        try:
            answer = await self.remote.http.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            return _refusal(self.remote.reason_of(error))

        is_stream = answer.headers.get("content-type", "").startswith("text/event-stream")
        if is_stream and answer.is_success:
            return httpx2.Response(answer.status_code, headers=answer.headers, stream=answer.stream)

        try:
            answer = await self.remote.whole(answer)
        except NotReached as error:
            return _refusal(str(error))
        except (httpx2.HTTPError, OSError) as error:
            return _refusal(self.remote.reason_of(error))

        trouble = self.remote.trouble_of(answer)
        if trouble is not None:
            return _refusal(trouble)
        if b'"jsonrpc"' in answer.content:
            return answer
        if answer.status_code >= 400:
            return _refusal(str(self.remote.refusal_of(answer)))
        if _needs_answer(request):  # the client would wait for ever
            return _refusal(str(self.remote.not_ours()))

        return answer


def _needs_answer(request: httpx2.Request) -> bool:
    """Tell whether this is a request of the protocol, which needs an answer; a notification and an answer need none."""
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "method" in message and "id" in message


def _refusal(sentence: str) -> httpx2.Response:
    error = {"code": _UNAVAILABLE, "message": sentence}
    return httpx2.Response(503, json={"jsonrpc": "2.0", "id": None, "error": error})
