"""`serve`: MCP over standard input and output, or with `--http` over HTTP."""

from __future__ import annotations

import ctypes
import secrets
import sys
from argparse import Namespace
from contextlib import suppress

from memory_server.app import App, offered_tools, usual_offer
from memory_server.cli.project_file import in_folder
from memory_server.cli.terminal import complain
from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import Session
from sandbox.locale import _

_M_ARENA_MAX = -8
"""The number of this option in malloc.h of glibc."""


_MOST_FILES = 10_240
"""Open files at most; a window takes four. macOS allows no more."""


async def serve(settings: Settings, flags: Namespace) -> None:
    """Serve until the client closes its end. Raises InvalidInput if there is no input or output, a toolset is unknown,
    or the folder's file cannot be used."""
    if (listen := getattr(flags, "http", None)) is not None:
        from memory_server.cli.serve_http import serve_http

        offered_tools(settings)
        use_one_arena()
        await serve_http(settings, listen or settings.http.listen)
        return
    if sys.stdin is None or sys.stdout is None:
        raise InvalidInput(
            "There is no standard input or output to serve on; let a client such as Claude start the server."
        )
    if sys.stdin.isatty():
        complain(
            _(
                "serving MCP here; a client such as Claude or Cursor starts it by itself. "
                "Ctrl-D ends it; --help says more."
            )
        )
    if not usual_offer(settings):
        # Wrong tool names are refused here, in one sentence, and not at a client's first call; the default needs no
        # check.
        offered_tools(settings)
    use_one_arena()
    # Each window of a client starts its own server. What is in a model's context is not known here.
    app = App(in_folder(settings), session=Session(secrets.token_hex(8)))
    await app.serve_stdio()


def use_one_arena() -> None:
    """Let all threads share one arena of glibc's malloc; call it before threads start. By default each thread that
    works with files gets its own and keeps what it frees: 20 MiB after 20,000 calls. Other systems have no such
    arenas."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):
        libc.mallopt(_M_ARENA_MAX, 1)


def use_more_files() -> int:
    """Let this process open more files, if the system allows it; gives how many. Linux begins with 1,024, macOS with
    256."""
    try:
        import resource
    except ModuleNotFoundError:
        return _MOST_FILES  # Windows counts connections and files apart
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return _MOST_FILES
    most = max(soft, _MOST_FILES if hard == resource.RLIM_INFINITY else min(hard, _MOST_FILES))
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return soft
