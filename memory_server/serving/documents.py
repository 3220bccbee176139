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

from languages import Sentence
from memory_server.kernel.errors import InvalidInput, MemoryServerError, ResourceNotFound
from memory_server.kernel.failures import failure_sentence, failure_text, request_id
from memory_server.kernel.text import shown
from memory_server.kernel.values import JsonObject
from memory_server.knowledge.notes.pages import HEADINGS, Kind
from memory_server.memories.memories import Call
from memory_server.serving import prompts, resources
from memory_server.tools import keeps_conversations
from memory_server.tools.base.tool import MOST_SAID_CHARS

log = logging.getLogger(__name__)

HANDSHAKE_RESOURCE_NOT_FOUND = -32002
"""The error code of MCP revisions up to 2025-11-25; later ones use the code of invalid parameters."""
MOST_COMPLETIONS = 100
"""Values of a completion at most, by the specification."""

_BASE = "memory://knowledge/"
OVERVIEW = f"{_BASE}overview"
PAGES: dict[str, Kind] = {f"{_BASE}notes/{kind}": kind for kind in HEADINGS}


def _notes() -> Iterator[types.Resource]:
    """Yield the page of each type of notes, and the figures about all entries."""
    for uri, kind in PAGES.items():
        title = f"Notes: {HEADINGS[kind]}"
        yield types.Resource(
            uri=uri, name=f"notes-{kind}", title=title, mime_type=resources.MARKDOWN
        )
    yield types.Resource(
        uri=OVERVIEW,
        name="knowledge-overview",
        title="How many entries there are",
        mime_type=resources.JSON,
    )


NOTES = {resource.uri: resource for resource in _notes()}
"""The resources about notes by their URI; they are resources where their toolset is offered."""

Request = ServerRequestContext[Any]
Resolve = Callable[[Request], Call]
"""Gives the call, and so the memories, of a request."""
Page = types.PaginatedRequestParams | None


class Documents:
    """The handlers of `resources/…`, `prompts/…` and `completion/complete`. Resources and prompts are offered if they
    belong to `tools`, the tools of the model."""

    def __init__(self, resolve: Resolve, tools: Collection[str]) -> None:
        self._resolve = resolve
        self._tools = tools
        self.of_conversations = keeps_conversations(tools)
        self._notes = NOTES if "recall" in tools else {}

    async def list_resources(self, request: Request, params: Page) -> types.ListResourcesResult:
        """Answer `resources/list`: the resources of conversations, if they are offered, and the pages of notes."""
        listed: list[types.Resource] = []
        if self.of_conversations:
            listed += [
                types.Resource(uri=row.uri, **_description(row))
                for row in resources.RESOURCES.values()
            ]
        listed += self._notes.values()
        return types.ListResourcesResult(resources=listed)

    async def list_templates(
        self, request: Request, params: Page
    ) -> types.ListResourceTemplatesResult:
        """Answer `resources/templates/list`: those of conversations, or none if they are not offered."""
        listed: list[types.ResourceTemplate] = []
        if self.of_conversations:
            listed = [
                types.ResourceTemplate(uri_template=row.uri_template, **_description(row))
                for row in resources.TEMPLATES
            ]
        return types.ListResourceTemplatesResult(resource_templates=listed)

    async def read(
        self, request: Request, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        """Answer `resources/read`: a page of notes or a resource of conversations. Raises MCPError if the URI names
        neither."""
        uri = str(params.uri)
        with errors_of_protocol(request):
            if uri in self._notes:
                mime_type = self._notes[uri].mime_type
                text = await _note_text(self._resolve(request), uri)
            elif self.of_conversations:
                mime_type, text = await resources.read(self._resolve(request).conversations, uri)
            else:
                raise ResourceNotFound(
                    f"There is no resource {shown(uri)}; resources/list names all.", shown(uri)
                )
        contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(self, request: Request, params: Page) -> types.ListPromptsResult:
        rows = prompts.prompts_with(self._tools).values()
        return types.ListPromptsResult(prompts=[_listed_prompt(row) for row in rows])

    async def get_prompt(
        self, request: Request, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        """Write a prompt with its arguments. Raises MCPError if it does not exist, its arguments
        are wrong, or a model with the offered tools cannot follow it."""
        with errors_of_protocol(request):
            if params.name in prompts.PROMPTS:
                self._check_offered(params.name)
            text = await prompts.write(self._resolve(request), params.name, params.arguments or {})
        content = types.TextContent(type="text", text=text)
        message = types.PromptMessage(role="user", content=content)
        return types.GetPromptResult(
            description=prompts.PROMPTS[params.name].description, messages=[message]
        )

    def _check_offered(self, prompt: str) -> None:
        """Raise InvalidInput if a model with these tools cannot follow the prompt."""
        if prompt in prompts.prompts_with(self._tools):
            return
        if self.of_conversations:
            needed = f"the tool {prompts.KEEPING}"
        else:
            needed = "a toolset of conversations"
        raise InvalidInput(f"{prompt} needs {needed}, which this server does not offer.")

    async def complete(
        self, request: Request, params: types.CompleteRequestParams
    ) -> types.CompleteResult:
        """Answer `completion/complete`: ids of conversations, for every argument that takes one."""
        ids: list[str] = []
        if self.of_conversations and params.argument.name in ("id", "conversation_id"):
            with errors_of_protocol(request):
                ids = await resources.complete_id(
                    self._resolve(request).conversations, params.argument.value
                )
        completion = types.Completion(
            values=ids[:MOST_COMPLETIONS], total=len(ids), has_more=len(ids) > MOST_COMPLETIONS
        )
        return types.CompleteResult(completion=completion)


@contextmanager
def errors_of_protocol(request: Request) -> Iterator[None]:
    """Raise MCPError, with the code of the client's revision, in place of every error of the block."""
    try:
        yield
    except ResourceNotFound as error:
        code = HANDSHAKE_RESOURCE_NOT_FOUND
        if request.protocol_version in MODERN_PROTOCOL_VERSIONS:
            code = types.INVALID_PARAMS
        raise MCPError(code, str(error), {"uri": error.uri}) from error
    except InvalidInput as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except MemoryServerError as error:
        raise MCPError(types.INTERNAL_ERROR, shown(str(error), MOST_SAID_CHARS)) from error
    except Exception as error:
        # The client gets an id and not the error, which may hold a path or a memory.
        failed_request = request_id()
        log.exception(
            "a resource or prompt failed, request %s: %s", failed_request, failure_text(error)
        )
        usual_sentence = Sentence(
            "The request failed inside the server; its log says why, under {request}.",
            failed_request,
        )
        raise MCPError(
            types.INTERNAL_ERROR, str(failure_sentence(error, usual_sentence))
        ) from error


def _description(row: resources.Document) -> JsonObject:
    return {
        "name": row.name,
        "title": row.title,
        "description": row.description,
        "mime_type": row.mime_type,
    }


def _listed_prompt(row: prompts.Prompt) -> types.Prompt:
    """Write a row of the table as `prompts/list` gives it."""
    arguments = [types.PromptArgument(**argument._asdict()) for argument in row.arguments]
    return types.Prompt(
        name=row.name, title=row.title, description=row.description, arguments=arguments
    )


async def _note_text(call: Call, uri: str) -> str:
    """Return the text of a document of `NOTES`; reading counts nothing."""
    knowledge = call.memories.knowledge
    if uri in PAGES:
        pages = await knowledge.notes.pages(project=call.project)
        return pages[PAGES[uri]]
    overview = await knowledge.overview()
    return resources.as_json({scope: asdict(figures) for scope, figures in overview.items()})
