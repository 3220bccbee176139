"""Resources, prompts and completions over MCP: handlers for the tables of `resources.py` and `prompts.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memory_server.kernel.errors import InvalidInput, MemoryServerError, ResourceNotFound
from memory_server.kernel.failures import failure_text, request_id
from memory_server.kernel.text import shown
from memory_server.knowledge.notes.pages import HEADINGS, Kind
from memory_server.memories.memories import Call
from memory_server.serving import prompts, resources
from memory_server.tools import keeps_conversations
from memory_server.tools.base.tool import MOST_SAID_CHARS

log = logging.getLogger(__name__)

HANDSHAKE_RESOURCE_NOT_FOUND = -32002
"""The error code of MCP revisions up to 2025-11-25; later ones use the code of invalid parameters."""
MOST_COMPLETIONS = 100
"""Values of one completion at most, by the specification."""

_BASE = "memory://knowledge/"
OVERVIEW = f"{_BASE}overview"
PAGES: dict[str, Kind] = {f"{_BASE}notes/{kind}": kind for kind in HEADINGS}
NOTES: tuple[tuple[str, str, str, str], ...] = (
    *((uri, f"notes-{kind}", f"Notes: {HEADINGS[kind]}", resources.MARKDOWN) for uri, kind in PAGES.items()),
    (OVERVIEW, "knowledge-overview", "How many entries there are", resources.JSON),
)
"""Notes as resources, where their toolset is offered: URI, name, title and form of each type's page, and of how much
there is."""

Request = ServerRequestContext[Any]
Resolve = Callable[[Request], Call]
"""Gives the call, and so the memories, of a request."""
Page = types.PaginatedRequestParams | None


class Documents:
    """The handlers of `resources/…`, `prompts/…` and `completion/complete`. `tools`: those of the model; what belongs
    to none of them is not there."""

    def __init__(self, resolve: Resolve, tools: Collection[str]) -> None:
        self._resolve = resolve
        self._tools = tools
        self.of_conversations = keeps_conversations(tools)
        self._notes = NOTES if "recall" in tools else ()

    async def list_resources(self, request: Request, params: Page) -> types.ListResourcesResult:
        rows = resources.RESOURCES.values() if self.of_conversations else ()
        listed = [types.Resource(uri=row.uri, **_said(row)) for row in rows]
        listed += [
            types.Resource(uri=uri, name=name, title=title, mime_type=form) for uri, name, title, form in self._notes
        ]
        return types.ListResourcesResult(resources=listed)

    async def list_templates(self, request: Request, params: Page) -> types.ListResourceTemplatesResult:
        rows = resources.TEMPLATES if self.of_conversations else ()
        listed = [types.ResourceTemplate(uri_template=row.uri_template, **_said(row)) for row in rows]
        return types.ListResourceTemplatesResult(resource_templates=listed)

    async def read(self, request: Request, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        uri = str(params.uri)
        form: str | None = next((row[3] for row in self._notes if row[0] == uri), None)
        with _translated(request):
            if form is not None:
                text = await _of_notes(self._resolve(request), uri)
            elif not self.of_conversations:
                raise ResourceNotFound(f"There is no resource {shown(uri)}; resources/list names all.", shown(uri))
            else:
                form, text = await resources.read(self._resolve(request).conversations, uri)
        contents = types.TextResourceContents(uri=uri, mime_type=form, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(self, request: Request, params: Page) -> types.ListPromptsResult:
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=row.name,
                    title=row.title,
                    description=row.description,
                    arguments=[types.PromptArgument(**each._asdict()) for each in row.arguments],
                )
                for row in prompts.prompts_with(self._tools).values()
            ]
        )

    async def get_prompt(self, request: Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        with _translated(request):
            if params.name in prompts.PROMPTS and params.name not in prompts.prompts_with(self._tools):
                needed = f"the tool {prompts.KEEPING}" if self.of_conversations else "a toolset of conversations"
                raise InvalidInput(f"{params.name} needs {needed}, which this server does not offer.")
            text = await prompts.write(self._resolve(request), params.name, params.arguments or {})
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompts.PROMPTS[params.name].description, messages=[message])

    async def complete(self, request: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
        """`completion/complete`: ids of conversations, for every argument that takes one."""
        found: list[str] = []
        if self.of_conversations and params.argument.name in ("id", "conversation_id"):
            with _translated(request):
                found = await resources.complete_id(self._resolve(request).conversations, params.argument.value)
        page, more = found[:MOST_COMPLETIONS], len(found) > MOST_COMPLETIONS
        return types.CompleteResult(completion=types.Completion(values=page, total=len(found), has_more=more))


@contextmanager
def _translated(request: Request) -> Iterator[None]:
    """Our errors become errors of the protocol."""
    try:
        yield
    except ResourceNotFound as error:
        modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
        code = types.INVALID_PARAMS if modern else HANDSHAKE_RESOURCE_NOT_FOUND
        raise MCPError(code, str(error), {"uri": error.uri}) from error
    except InvalidInput as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except MemoryServerError as error:
        raise MCPError(types.INTERNAL_ERROR, shown(str(error), MOST_SAID_CHARS)) from error
    except Exception as error:
        failed = request_id()
        log.exception("a resource or prompt failed, request %s: %s", failed, failure_text(error))
        said = f"The request failed inside the server; its log says why, under {failed}."
        raise MCPError(types.INTERNAL_ERROR, said) from error


def _said(row: resources.Document) -> dict[str, Any]:
    return {"name": row.name, "title": row.title, "description": row.description, "mime_type": row.mime_type}


async def _of_notes(call: Call, uri: str) -> str:
    """The text of one of `NOTES`; reading counts nothing."""
    knowledge = call.memories.knowledge
    if uri in PAGES:
        return (await knowledge.notes.pages(project=call.project))[PAGES[uri]]
    return resources.as_json({scope: asdict(figures) for scope, figures in (await knowledge.overview()).items()})
