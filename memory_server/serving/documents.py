"""Resources, prompts and completions on the wire: the tables of `resources.py` and `prompts.py` as MCP handlers."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from memory_server.core.errors import InvalidInput, MemoryServerError, ResourceNotFound
from memory_server.managers.context import Context
from memory_server.serving import prompts, resources

HANDSHAKE_RESOURCE_NOT_FOUND = -32002
"""The code of the revisions up to 2025-11-25; later ones use that of invalid parameters."""
MOST_COMPLETIONS = 100
"""Values of one completion, by the specification."""

Request = ServerRequestContext[Any]
Resolve = Callable[[Request], Context]
"""Whose memories a request is about."""


class Documents:
    """The handlers. `tools`: what the model is offered, None for the usual tools."""

    def __init__(self, resolve: Resolve, tools: Callable[[], Container[str] | None] = lambda: None) -> None:
        self._resolve = resolve
        self._tools = tools

    async def list_resources(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        """`resources/list`."""
        return types.ListResourcesResult(
            resources=[
                types.Resource(
                    uri=row.uri, name=row.name, title=row.title, description=row.description, mime_type=row.mime_type
                )
                for row in resources.RESOURCES.values()
            ]
        )

    async def list_templates(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        """`resources/templates/list`."""
        return types.ListResourceTemplatesResult(
            resource_templates=[
                types.ResourceTemplate(
                    uri_template=row.uri_template,
                    name=row.name,
                    title=row.title,
                    description=row.description,
                    mime_type=resources.JSON,
                )
                for row in resources.TEMPLATES
            ]
        )

    async def read(self, request: Request, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        """`resources/read`."""
        try:
            document = await resources.read(self._resolve(request).conversations, str(params.uri))
        except ResourceNotFound as error:
            modern = request.protocol_version in MODERN_PROTOCOL_VERSIONS
            code = types.INVALID_PARAMS if modern else HANDSHAKE_RESOURCE_NOT_FOUND
            raise MCPError(code, str(error), {"uri": error.uri}) from error
        except MemoryServerError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        contents = types.TextResourceContents(uri=document.uri, mime_type=document.mime_type, text=document.text)
        return types.ReadResourceResult(contents=[contents])

    async def list_prompts(
        self, request: Request, params: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        """`prompts/list`."""
        return types.ListPromptsResult(
            prompts=[
                types.Prompt(
                    name=row.name,
                    title=row.title,
                    description=row.description,
                    arguments=[
                        types.PromptArgument(name=each.name, description=each.description, required=each.required)
                        for each in row.arguments
                    ],
                )
                for row in prompts.prompts_with(self._tools()).values()
            ]
        )

    async def get_prompt(self, request: Request, params: types.GetPromptRequestParams) -> types.GetPromptResult:
        """`prompts/get`."""
        try:
            if params.name in prompts.PROMPTS and params.name not in prompts.prompts_with(self._tools()):
                raise InvalidInput(f"{params.name} needs the tool {prompts.KEEPING}, which this server does not offer.")
            text = await prompts.write(self._resolve(request), params.name, params.arguments or {})
        except InvalidInput as error:
            raise MCPError(types.INVALID_PARAMS, str(error)) from error
        except MemoryServerError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        message = types.PromptMessage(role="user", content=types.TextContent(type="text", text=text))
        return types.GetPromptResult(description=prompts.PROMPTS[params.name].description, messages=[message])

    async def complete(self, request: Request, params: types.CompleteRequestParams) -> types.CompleteResult:
        """`completion/complete`: ids of conversations, wherever one is asked for."""
        if params.argument.name not in ("id", "conversation_id"):
            return types.CompleteResult(completion=types.Completion(values=[], total=0, has_more=False))
        try:
            found = await resources.complete_id(self._resolve(request).conversations, params.argument.value)
        except MemoryServerError as error:
            raise MCPError(types.INTERNAL_ERROR, str(error)) from error
        more = len(found) > MOST_COMPLETIONS
        return types.CompleteResult(
            completion=types.Completion(values=found[:MOST_COMPLETIONS], total=len(found), has_more=more)
        )

    async def revision(self, request: Request, uri: str) -> Hashable:
        """Differs whenever the document at `uri` does.

        Raises:
            ResourceNotFound: there can be none.
            StorageError: the conversation cannot be read.
        """
        resources.check(uri)
        conversations = self._resolve(request).conversations
        conversation_id = resources.conversation_of(uri)
        if conversation_id is not None:
            return await conversations.version(conversation_id)
        ids = tuple(await conversations.ids())
        if uri.startswith(resources.CONVERSATIONS):
            return tuple([await conversations.version(name) for name in ids])
        return ids
