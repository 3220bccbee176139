"""The tools, and commands of linked machines, as plain HTTP for programs that do not speak MCP.

`POST /v1/{tool}` takes the arguments of a tool as JSON and answers with its structured result; an OpenAPI document
describes them. `POST /v1/import` and `/v1/export` exchange files. `GET /v1/me` says whose a token is. `POST
/v1/commands/{name}` is a command or hook of a linked machine.
"""

from __future__ import annotations

import difflib
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from typing import Any

import orjson
from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.json_text import repeated_name
from memory_server.kernel.text import shown, visible
from memory_server.kernel.values import JsonObject, dataclass
from memory_server.serving.http.exchange import (
    NOT_OFFERED,
    OPERATIONS,
    Exchange,
    Operation,
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
    api = _Api(tools, tenants, max_bytes, read_only, exchanges)
    return [
        Route(OPENAPI, api.describe, methods=["GET"]),
        Route(ME, api.tell_who, methods=["GET"]),
        Route(f"{COMMANDS}/{{name}}", api.run_command, methods=["POST"]),
        Route("/v1/import", partial(api.exchange, import_content), methods=["POST"]),
        Route("/v1/export", partial(api.exchange, export_content), methods=["POST"]),
        Route("/v1/{tool}", api.call_tool, methods=["POST"]),
    ]


ExchangeWork = Callable[[Exchange, JsonObject], Awaitable[Response]]


@dataclass(frozen=True)
class _Api:
    """What the paths answer."""

    tools: Mapping[str, Tool]
    tenants: Tenants
    max_bytes: int
    read_only: bool
    exchanges: bool

    @cached_property
    def _document(self) -> bytes:
        return orjson.dumps(openapi_document(self.tools, exchanges=self.exchanges))

    async def describe(self, request: Request) -> Response:
        return Response(self._document, media_type=_JSON)

    async def tell_who(self, request: Request) -> Response:
        """Answer `/v1/me`: name, tenant and scopes of the caller, the version, and whether memory
        is paused or read-only. Raises HttpError if too many tenants are busy."""
        caller = caller_of(request.scope)
        async with self.tenants.used(caller) as tenant:
            services = tenant.call(caller).memories.services
            pause = services.paused()
        return _json(
            {
                "name": caller.name,
                "tenant": caller.tenant,
                "scopes": sorted(caller.scopes),
                "version": __version__,
                "paused": None if pause is None else pause.text(services.zone),
                "read_only": self.read_only,
            }
        )

    async def call_tool(self, request: Request) -> Response:
        """Call the tool in the path with the arguments in the body, and answer with its structured
        result. Raises HttpError: the tool is not offered, the token may only read, the arguments
        are wrong, or the call failed."""
        caller = caller_of(request.scope)
        name = request.path_params["tool"]
        tool = self.tools.get(name)
        if tool is None:
            raise self._not_offered(name)
        if not tool.only_reads and WRITE not in caller.scopes:
            raise HttpError(403, "scope", f"This token only reads, and {name} changes something.")

        arguments = await _arguments(request)
        async with self.tenants.used(caller) as tenant:
            try:
                answered = await call(
                    tool, tenant.call(caller), arguments, max_bytes=self.max_bytes
                )
            except ToolFailed as failure:
                raise refused_for(failure) from failure
        return _json(answered.structured)

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

    async def run_command(self, request: Request) -> Response:
        """Run a command of `memory-server` on a linked machine; docs/how-to/two-machines.md lists what it sends."""
        caller = caller_of(request.scope)
        arguments = await _arguments(request)
        async with self.tenants.used(caller) as tenant:
            with _refusals(tenant, caller):
                return _json(
                    await tenant.opened.run(request.path_params["name"], arguments, caller)
                )

    async def exchange(self, work: ExchangeWork, request: Request) -> Response:
        """Import or export a file. Raises HttpError if this server does not offer it."""
        if not self.exchanges:
            raise HttpError(404, "not found", NOT_OFFERED)

        caller = caller_of(request.scope)
        arguments = await _arguments(request)
        may_write = WRITE in caller.scopes and not self.read_only
        async with self.tenants.used(caller) as tenant:
            with _refusals(tenant, caller, in_fields):
                async with tenant.opened.view(caller) as view:
                    exchange = Exchange(view, tenant.admit_content, may_write, caller.usual)
                    return await work(exchange, arguments)


def _json(content: JsonObject) -> Response:
    return Response(orjson.dumps(content), media_type=_JSON)


@contextmanager
def _refusals(
    tenant: Tenant, caller: Principal, worded: Callable[[str], str] = str
) -> Iterator[None]:
    """Turn an error into its refusal, without what is not said to callers. `worded` says it for them."""
    try:
        yield
    except (MemoryServerError, ValidationError) as error:
        sentence = str(error)
        if isinstance(error, ValidationError):
            sentence = error.errors()[0]["msg"]
        sentence = worded(tenant.call(caller).memories.for_callers(sentence))
        raise refused_for(error, sentence) from error


async def _arguments(request: Request) -> JsonObject:
    """Parse the arguments in a body. Raises HttpError: it is not a JSON object, or has a name twice."""
    content_type = request.headers.get("content-type", "").partition(";")[0]
    if content_type.strip().lower() != _JSON:
        raise HttpError(415, "form", f"Send the arguments as JSON, with `Content-Type: {_JSON}`.")
    body = await request.body()
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


def openapi_document(tools: Mapping[str, Tool], *, exchanges: bool) -> JsonObject:
    """Describe the tools as OpenAPI 3.1."""
    refused = {
        "description": "Refused, or failed: one sentence says why; see Retry-After",
        "content": _content({"$ref": "#/components/schemas/Error"}),
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
    operations: dict[str, Operation] = {
        name: Operation(
            tool.title.english,
            {"description": "The result", "content": _content(tool.output_schema())},
            tool.input_schema(),
            tool.description,
        )
        for name, tool in tools.items()
    }
    if exchanges:
        operations |= OPERATIONS

    who = {"description": "The result", "content": _content(_WHO)}
    paths: dict[str, Any] = {
        ME: {
            "get": {
                "operationId": "me",
                "summary": "Whom the token lets in, and which version answers",
                "responses": {"200": who, "default": refused},
            }
        }
    }
    for name, operation in operations.items():
        described = {"description": operation.description} if operation.description else {}
        paths[f"/v1/{name}"] = {
            "post": {
                "operationId": name,
                "summary": operation.summary,
                **described,
                "parameters": headers,
                "requestBody": {"required": True, "content": _content(operation.body)},
                "responses": {"200": operation.answer, "default": refused},
            }
        }

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


def _content(schema: JsonObject) -> JsonObject:
    """Describe a body of JSON as OpenAPI does."""
    return {_JSON: {"schema": schema}}


def _header(name: str, description: str, schema: JsonObject) -> JsonObject:
    """Describe a header as OpenAPI does."""
    return {"name": name, "in": "header", "description": description, "schema": schema}
