"""The tools, and commands of linked machines, as plain HTTP for programs that do not speak MCP.

`POST /v1/{tool}` takes the arguments of a tool as JSON and answers with its structured result; an OpenAPI document
describes them. `POST /v1/import` and `/v1/export` exchange files. `GET /v1/me` says whose a token is. `POST
/v1/commands/{name}` is a command or hook of a linked machine.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Mapping
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
from memory_server.kernel.values import dataclass
from memory_server.serving.http.exchange import (
    NOT_OFFERED,
    Exchange,
    documented,
    export_content,
    import_content,
    in_fields,
)
from memory_server.serving.http.principals import (
    CONVERSATION,
    SESSION,
    TIMEZONE,
    WRITE,
    Principal,
    caller_of,
)
from memory_server.serving.http.refusals import HttpError, refused_for
from memory_server.serving.http.tenants import Tenant, Tenants
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import Tool, ToolFailed, call
from memory_server.version import __version__

OPENAPI = "/v1/openapi.json"
ME = "/v1/me"
COMMANDS = "/v1/commands"
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


def routes(
    tools: Mapping[str, Tool],
    tenants: Tenants,
    max_bytes: int,
    *,
    read_only: bool = False,
    exchanges: bool = True,
) -> list[Route]:
    """Make the routes of `tools`. `max_bytes`: the limit for the JSON of a result. `read_only`: a tool that is not
    among them may change something. `exchanges`: files are imported and exported."""
    document: bytes | None = None

    async def openapi(request: Request) -> Response:
        nonlocal document
        document = document or orjson.dumps(openapi_document(tools, exchanges=exchanges))
        return Response(document, media_type=_JSON)

    import_route = _Exchange(tenants, import_content, read_only, exchanges)
    export_route = _Exchange(tenants, export_content, read_only, exchanges)
    return [
        Route(OPENAPI, openapi, methods=["GET"]),
        Route(ME, _Me(tenants, read_only), methods=["GET"]),
        Route(f"{COMMANDS}/{{name}}", _Commands(tenants), methods=["POST"]),
        Route("/v1/import", import_route, methods=["POST"]),
        Route("/v1/export", export_route, methods=["POST"]),
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
        request = Request(scope, receive)
        caller = caller_of(scope)
        name = request.path_params["tool"]
        tool = self.tools.get(name)
        if tool is None:
            raise self._not_offered(name)
        if not tool.only_reads and WRITE not in caller.scopes:
            raise HttpError(403, "scope", f"This token only reads, and {name} changes something.")
        arguments = _arguments(request, await request.body())
        async with self.tenants.used(caller) as tenant:
            try:
                answered = await call(
                    tool, tenant.call(caller), arguments, max_bytes=self.max_bytes
                )
            except ToolFailed as failure:
                raise refused_for(failure, str(failure)) from failure
        await Response(orjson.dumps(answered.structured), media_type=_JSON)(scope, receive, send)

    def _not_offered(self, name: str) -> HttpError:
        """Return the refusal of a call of a tool that is not offered, or does not exist."""
        if name not in TOOLS:
            near = difflib.get_close_matches(name, self.tools, n=1)
            hint = f" did you mean `{near[0]}`?" if near else ""
            sentence = (
                f"There is no such tool;{hint} GET {OPENAPI} describes those that are offered."
            )
            return HttpError(404, "not found", sentence)
        if self.read_only and not TOOLS[name].only_reads:
            return HttpError(403, "scope", f"This server only reads, and {name} changes something.")
        sentence = (
            f"This server does not offer {name}: its operator can start it with `--tools {name}`. "
            f"GET {OPENAPI} describes the tools that it offers."
        )
        return HttpError(404, "not found", sentence)


@dataclass(frozen=True, slots=True)
class _Commands:
    """`POST /v1/commands/{name}`, for `memory-server` on a linked machine; docs/how-to/two-machines.md lists what it
    sends."""

    tenants: Tenants

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        caller = caller_of(scope)
        arguments = _arguments(request, await request.body())
        async with self.tenants.used(caller) as tenant:
            try:
                result = await tenant.run(caller, request.path_params["name"], arguments)
            except (MemoryServerError, ValidationError) as error:
                raise _refusal_of(error, tenant, caller) from error
        await Response(orjson.dumps(result), media_type=_JSON)(scope, receive, send)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """`POST /v1/import` and `POST /v1/export`."""

    tenants: Tenants
    work: Callable[[Exchange, Mapping[str, Any]], Awaitable[Response]]
    read_only: bool
    is_offered: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_offered:
            raise HttpError(404, "not found", NOT_OFFERED)
        request = Request(scope, receive)
        caller = caller_of(scope)
        arguments = _arguments(request, await request.body())
        may_write = WRITE in caller.scopes and not self.read_only
        async with self.tenants.used(caller) as tenant:
            try:
                async with tenant.view(caller) as view:
                    exchange = Exchange(view, tenant.admit_content, may_write, caller.usual)
                    response = await self.work(exchange, arguments)
            except (MemoryServerError, ValidationError) as error:
                raise _refusal_of(error, tenant, caller, in_fields) from error
        await response(scope, receive, send)


def _refusal_of(
    error: MemoryServerError | ValidationError,
    tenant: Tenant,
    caller: Principal,
    worded: Callable[[str], str] = str,
) -> HttpError:
    """Return the refusal for an error, without what is not said to callers. `worded` says it for them."""
    sentence = str(error)
    if isinstance(error, ValidationError):
        sentence = error.errors()[0]["msg"]
    return refused_for(error, worded(tenant.call(caller).memories.for_callers(sentence)))


def _arguments(request: Request, body: bytes) -> dict[str, Any]:
    """Parse the arguments in a body. Raises HttpError: it is not a JSON object, or has a name twice."""
    content_type = request.headers.get("content-type", "").partition(";")[0]
    if content_type.strip().lower() != _JSON:
        raise HttpError(415, "form", f"Send the arguments as JSON, with `Content-Type: {_JSON}`.")
    try:
        arguments = orjson.loads(body)
        repeated = repeated_name(body)
    except ValueError as error:
        raise HttpError(400, "arguments", f"The body is not JSON: {error}.") from error
    if repeated is not None:
        sentence = f"The body has `{visible(shown(repeated))}` twice in one object; send it once."
        raise HttpError(400, "arguments", sentence)
    if not isinstance(arguments, dict):
        raise HttpError(
            400, "arguments", "The body must be a JSON object with the arguments of the tool."
        )
    return arguments


def openapi_document(tools: Mapping[str, Tool], *, exchanges: bool = True) -> dict[str, Any]:
    """Describe the tools as OpenAPI 3.1."""
    refused = {
        "description": "Refused, or failed: one sentence says why; see Retry-After",
        "content": {_JSON: {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
    name_form = {"type": "string", "pattern": "^[A-Za-z0-9_.~%-]{1,256}$"}
    zone_form = {
        "type": "string",
        "pattern": "^[A-Za-z0-9_+/-]{1,64}$",
        "examples": ["Asia/Shanghai"],
    }
    headers = [
        _header(
            CONVERSATION, "Conversation of calls that name none, percent-encoded UTF-8", name_form
        ),
        _header(
            SESSION, "Session; usually the name of the token, percent-encoded UTF-8", name_form
        ),
        _header(TIMEZONE, "Where the reader lives", zone_form),
    ]
    paths: dict[str, Any] = {
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
    for name, tool in tools.items():
        paths[f"/v1/{name}"] = {
            "post": {
                "operationId": name,
                "summary": tool.title.english,
                "description": tool.description,
                "parameters": headers,
                "requestBody": {
                    "required": True,
                    "content": {_JSON: {"schema": tool.input_schema()}},
                },
                "responses": {
                    "200": {
                        "description": "The result",
                        "content": {_JSON: {"schema": tool.output_schema()}},
                    },
                    "default": refused,
                },
            }
        }

    if exchanges:
        paths |= documented(refused, headers)

    return {
        "openapi": "3.1.0",
        "info": {"title": "memory-server", "version": __version__},
        "security": [{"token": []}],
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Error": _ERROR},
        },
        "paths": paths,
    }


def _header(name: str, description: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a header as OpenAPI does."""
    return {"name": name, "in": "header", "description": description, "schema": schema}
