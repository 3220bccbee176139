"""The tools, and commands of linked machines, as plain HTTP for programs that do not speak MCP.

`POST /v1/{tool}` takes the arguments of a tool as JSON and answers with its structured result; an OpenAPI document
describes them. `GET /v1/me` says whose a token is. `POST /v1/commands/{name}` is a command or hook of a linked machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.strict_json import repeated_name
from memory_server.kernel.text import shown, visible
from memory_server.serving.http.principals import CONVERSATION, SESSION, WRITE, caller_of
from memory_server.serving.http.refusals import HttpError, refused_for
from memory_server.serving.http.tenants import Tenants
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Tool, ToolFailed, call
from memory_server.version import __version__

OPENAPI, ME, COMMANDS = "/v1/openapi.json", "/v1/me", "/v1/commands"
_JSON = "application/json"
_ERROR = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"kind": {"type": "string"}, "message": {"type": "string"}},
            "required": ["kind", "message"],
        }
    },
    "required": ["error"],
}

_WHO = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "null"], "description": "That of the token"},
        "tenant": {"type": ["string", "null"], "description": "null: the data folder itself"},
        "scopes": {"type": "array", "items": {"enum": ["operator", "read", "write"]}},
        "version": {"type": "string"},
        "paused": {"type": ["string", "null"], "description": "Until when nothing is stored"},
        "read_only": {"type": "boolean", "description": "Nothing is stored, with any token"},
    },
    "required": ["name", "tenant", "scopes", "version", "paused", "read_only"],
}


def routes(tools: Mapping[str, Tool], tenants: Tenants, max_bytes: int, *, read_only: bool = False) -> list[Route]:
    """The routes of `tools`. `max_bytes`: the limit for the JSON of a result. `read_only`: a tool that is not among
    them may be one that changes something."""
    document: bytes | None = None

    async def openapi(request: Request) -> Response:
        nonlocal document
        document = document or orjson.dumps(openapi_document(tools))
        return Response(document, media_type=_JSON)

    return [
        Route(OPENAPI, openapi, methods=["GET"]),
        Route(ME, _Me(tenants, read_only), methods=["GET"]),
        Route(f"{COMMANDS}/{{name}}", _Commands(tenants), methods=["POST"]),
        Route("/v1/{tool}", _Called(tools, tenants, max_bytes, read_only), methods=["POST"]),
    ]


@dataclass(frozen=True, slots=True)
class _Me:
    """`GET /v1/me`: whom the token lets in, where, and which version answers."""

    tenants: Tenants
    read_only: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = caller_of(scope)
        async with self.tenants.used(caller) as tenant:
            services = tenant.call(caller).memories.services
            pause = services.paused()
        who = {
            "name": caller.name,
            "tenant": caller.tenant,
            "scopes": sorted(caller.scopes),
            "version": __version__,
            "paused": None if pause is None else pause.text(services.zone),
            "read_only": self.read_only,
        }
        await Response(orjson.dumps(who), media_type=_JSON)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Called:
    """`POST /v1/{tool}`. An ASGI app, because Starlette wraps a function twice to catch what the middleware catches."""

    tools: Mapping[str, Tool]
    tenants: Tenants
    max_bytes: int
    read_only: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, caller = Request(scope, receive), caller_of(scope)
        name = request.path_params["tool"]
        tool = self.tools.get(name)
        if tool is None and self.read_only and name in TOOLS and not TOOLS[name].only_reads:
            raise HttpError(403, "scope", f"This server only reads, and {name} changes something.")
        if tool is None and name in TOOLS:
            refusal = (
                f"This server does not offer {name}: its operator can start it with `--tools {name}`. GET {OPENAPI}"
            )
            raise HttpError(404, "not found", f"{refusal} describes the tools that it offers.")
        if tool is None:
            raise HttpError(404, "not found", f"There is no such tool; GET {OPENAPI} describes those that are offered.")
        if not tool.only_reads and WRITE not in caller.scopes:
            raise HttpError(403, "scope", f"This token only reads, and {name} changes something.")
        arguments = _arguments(request, await request.body())
        async with self.tenants.used(caller) as tenant:
            try:
                answered = await call(tool, tenant.call(caller), arguments, max_bytes=self.max_bytes)
            except ToolFailed as failure:
                raise refused_for(failure, str(failure)) from failure
        await Response(orjson.dumps(answered.structured), media_type=_JSON)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Commands:
    """`POST /v1/commands/{name}`, for `memory-server` on a linked machine; docs/how-to/two-machines.md lists what it
    sends."""

    tenants: Tenants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, caller = Request(scope, receive), caller_of(scope)
        given = _arguments(request, await request.body())
        async with self.tenants.used(caller) as tenant:
            try:
                said = await tenant.run(caller, request.path_params["name"], given)
            except (MemoryServerError, ValidationError) as error:
                about = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
                raise refused_for(error, tenant.call(caller).memories.for_callers(about)) from error
        await Response(orjson.dumps(said), media_type=_JSON)(scope, receive, send)


def _arguments(request: Request, body: bytes) -> dict[str, Any]:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise HttpError(415, "form", f"Send the arguments as JSON, with `Content-Type: {_JSON}`.")
    try:
        given = orjson.loads(body)
        repeated = repeated_name(body)
    except ValueError as error:
        raise HttpError(400, "arguments", f"The body is not JSON: {error}.") from error
    if repeated is not None:
        raise HttpError(
            400, "arguments", f"The body has `{visible(shown(repeated))}` twice in one object; send it once."
        )
    if not isinstance(given, dict):
        raise HttpError(400, "arguments", "The body must be a JSON object with the arguments of the tool.")
    return given


def openapi_document(tools: Mapping[str, Tool]) -> dict[str, Any]:
    """The tools as OpenAPI 3.1."""
    refused = {
        "description": "Refused, or failed: one sentence says why; see Retry-After",
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    usual = {CONVERSATION: "Conversation of calls that name none", SESSION: "Session; usually the name of the token"}
    headers = [
        {
            "name": name,
            "in": "header",
            "description": f"{about}, percent-encoded UTF-8",
            "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.~%-]{1,256}$"},
        }
        for name, about in usual.items()
    ]
    return {
        "openapi": "3.1.0",
        "info": {"title": "memory-server", "version": __version__},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "paths": {
            ME: {
                "get": {
                    "operationId": "me",
                    "summary": "Whom the token lets in, and which version answers",
                    "responses": {
                        "200": {"description": "The result", "content": {_JSON: {"schema": _WHO}}},
                        "default": refused,
                    },
                }
            }
        }
        | {
            f"/v1/{name}": {
                "post": {
                    "operationId": name,
                    "summary": tool.title,
                    "description": tool.description,
                    "parameters": headers,
                    "requestBody": {"required": True, "content": {_JSON: {"schema": tool.input_schema()}}},
                    "responses": {
                        "200": {
                            "description": "The result",
                            "content": {_JSON: {"schema": tool.output_schema()}},
                        },
                        "default": refused,
                    },
                }
            }
            for name, tool in tools.items()
        },
    }
