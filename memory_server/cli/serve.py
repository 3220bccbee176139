"""Serve MCP over standard input and output, or with `--http` over HTTP (`serve`)."""

from __future__ import annotations

import os
import secrets
import sys
from argparse import Namespace

from languages import ENGLISH, speaking
from memory_server.config import Settings
from memory_server.config.project_file import in_folder
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Session
from memory_server.kernel.streams import complain
from memory_server.process import linked_server
from memory_server.process.limits import use_one_arena
from memory_server.process.workspace import settings_of_roots, workspace_of
from memory_server.runtime.app import App, offered_tools, usual_offer


async def serve(settings: Settings, flags: Namespace) -> None:
    """Serve over HTTP until a signal, or on standard input and output until the client closes its end; there a linked
    machine passes the client's calls on to its server. Raises InvalidInput if standard input or output is missing, a
    linked machine shall serve over HTTP, a toolset is unknown, or the folder's file cannot be used."""
    link = linked_server.link_of(settings)
    if (listen := getattr(flags, "http", None)) is not None:
        if link is not None:
            raise InvalidInput(
                "This machine uses the memory of {url}; run `memory-server unlink` to serve one of its own.",
                link.url,
            )
        from memory_server.cli.parser import parsed
        from memory_server.process.http_service import serve_http

        offered_tools(settings)

        use_one_arena()
        await serve_http(settings, listen or settings.http.listen, parsed)
        return

    if sys.stdin is None or sys.stdout is None:
        raise InvalidInput(
            "There is no standard input or output to serve on; let a client such as Claude start the server."
        )

    if sys.stdin.isatty():
        complain(
            "serving MCP here; a client such as Claude or Cursor starts it by itself. "
            "Ctrl-D ends it; --help says more."
        )

    workspace = workspace_of(os.environ)
    folder = workspace.folder
    if link is not None:
        # Models read what the server says, so it speaks English.
        with speaking(ENGLISH):
            window_settings = in_folder(settings, folder)
            await linked_server.window(link, window_settings, Session(secrets.token_hex(8)), folder)
        return

    if not usual_offer(settings):
        # Wrong tool names are refused here, in one sentence, and not at a client's first call; the default needs no
        # check.
        offered_tools(settings)
    use_one_arena()
    # Each window of a client starts its own server. What is in a model's context is not known here.
    app = App(
        in_folder(settings, folder),
        session=Session(secrets.token_hex(8)),
        folder=folder if workspace.variable else None,
    )
    with speaking(ENGLISH):
        await app.serve_stdio(None if workspace.is_certain else settings_of_roots(settings))
