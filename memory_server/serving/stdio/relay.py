"""A window on a linked machine: the messages of its client go to the server over HTTP and back, in both eras, as they
are. Nothing here knows a tool. The SDK's own client transport carries them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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
from memory_server.remote import Remote

_VERSION = "io.modelcontextprotocol/protocolVersion"
_UNAVAILABLE = -32000
"""Code of the answer to a request that did not reach the server: one that the protocol leaves to programs."""


@dataclass(slots=True)
class Relay:
    """Takes the place of the SDK's server in `runner.session`; `headers` are those of the window. `version`: what the
    handshake agreed on."""

    remote: Remote
    headers: Mapping[str, str]
    version: str | None = None

    def create_initialization_options(self) -> None:
        """The server has its own."""

    async def run(self, incoming: Any, outgoing: Any, _options: object) -> None:
        """Carry messages until `incoming` ends."""
        http, transport = self.remote.http, _Sentences(self.remote)
        headers = [*http.headers.items(), *self.headers.items()]
        async with (
            httpx2.AsyncClient(
                base_url=http.base_url, headers=headers, transport=transport, timeout=http.timeout
            ) as carried,
            streamable_http_client("/mcp", http_client=carried, max_sse_event_size=None) as (answers, asked),
            anyio.create_task_group() as group,
        ):

            async def back() -> None:
                async for item in answers:
                    if isinstance(item, SessionMessage):
                        message = item.message
                        if isinstance(message, types.JSONRPCResponse) and "protocolVersion" in message.result:
                            self.version = str(message.result["protocolVersion"])
                        await outgoing.send(item)

            group.start_soon(back)
            async for item in incoming:
                if isinstance(item, SessionMessage):
                    about = ClientMessageMetadata(headers=self._repeated(item.message))
                    await asked.send(SessionMessage(item.message, about))
            group.cancel_scope.cancel()

    def _repeated(self, message: Any) -> dict[str, str]:
        """What HTTP repeats of a message."""
        params, method = getattr(message, "params", None) or {}, getattr(message, "method", "")
        version = (params.get("_meta") or {}).get(_VERSION)
        if method == "initialize" or version is None:
            return {MCP_PROTOCOL_VERSION_HEADER: self.version} if self.version and method != "initialize" else {}
        headers = {MCP_PROTOCOL_VERSION_HEADER: version, MCP_METHOD_HEADER: method}
        if (name := params.get(NAME_BEARING_METHODS.get(method, ""))) is not None:
            headers[MCP_NAME_HEADER] = encode_header_value(str(name))
        return headers


@dataclass(slots=True)
class _Sentences(httpx2.AsyncBaseTransport):
    """Asks the server; what it did not answer becomes an error of the protocol with a sentence, which the client of
    the window shows."""

    remote: Remote

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            answer = await self.remote.http.send(request, stream=True)
        except (httpx2.HTTPError, OSError) as error:
            return _refusal(self.remote.reason_of(error))
        if answer.headers.get("content-type", "").startswith("text/event-stream") and answer.is_success:
            return httpx2.Response(answer.status_code, headers=answer.headers, stream=answer.stream)
        try:
            answer = await self.remote.whole(answer)
        except (NotReached, httpx2.HTTPError, OSError) as error:
            return _refusal(str(error) if isinstance(error, NotReached) else self.remote.reason_of(error))
        if (said := self.remote.trouble_of(answer)) is not None:
            return _refusal(said)
        if b'"jsonrpc"' in answer.content or (answer.status_code < 400 and not _is_asked(request)):
            return answer
        if answer.status_code < 400:  # the client would wait for ever
            return _refusal(str(self.remote.not_ours()))
        return _refusal(str(self.remote.refusal_of(answer)))


def _is_asked(request: httpx2.Request) -> bool:
    """Whether this is a request of the protocol, which needs an answer; a notification and an answer need none."""
    try:
        message = json.loads(request.content)
    except (ValueError, httpx2.RequestNotRead):
        return False
    return isinstance(message, dict) and "method" in message and "id" in message


def _refusal(said: str) -> httpx2.Response:
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": _UNAVAILABLE, "message": said}}
    return httpx2.Response(503, json=error)
