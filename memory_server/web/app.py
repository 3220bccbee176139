"""The routes of the page, and what a reader sees when something cannot be done."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection
from functools import partial

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Scope

from memory_server.kernel.errors import MemoryNotFound, MemoryServerError
from memory_server.kernel.failures import failure_text, request_id
from memory_server.web import actions, details, knowledge, pages, playground
from memory_server.web.access import Gate, Guard
from memory_server.web.speech import language_of
from memory_server.web.view import FOLDER, Site, View, render, viewed
from sandbox.locale import _

log = logging.getLogger(__name__)
Show = Callable[[View], Awaitable[Response]]

_REFUSED = {
    "host": _("This server does not have that name. Open the page by 127.0.0.1."),
    "origin": _("Changes are made only from the page itself. Open it and try again there."),
    "size": _("The form is too large; send less text at a time."),
    "time": _("The form took too long to arrive; send it again."),
    "gone": _("The form ended before its end; send it again."),
    "link": _("This link was used already, or is older than ten minutes. Run `memory-server web` again for a new one."),
    "cookie": _("This page opens with the link that `memory-server web` prints. Run it, and open that link."),
    "path": _("There is no such page."),
}

PAGES: dict[str, Show] = {
    "/": pages.home,
    "/subjects": pages.all_subjects,
    "/subject": pages.subject,
    "/find": pages.find,
    "/recalls": pages.recalls,
    "/memory": details.memory,
    "/history": details.history,
    "/ask": details.ask,
    "/triggers": playground.triggers,
    "/trigger": playground.trigger,
    "/notes": knowledge.listed,
    "/layers": knowledge.listed,
    "/facts": knowledge.listed,
    "/refs": knowledge.listed,
    "/entry": knowledge.entry,
    "/health": details.health,
    "/version": pages.version,
}


def page_app(site_of: Callable[[Scope], Site], gate: Gate, hosts: Collection[str] | None) -> ASGIApp:
    """The page for those whom `gate` lets in; `site_of` gives what a request may see. `hosts`: the names that are
    answered; None: somebody has looked, and a token is asked for."""

    refusal = partial(_refusal, gate.front)

    def showing(show: Show) -> Callable[[Request], Awaitable[Response]]:
        async def shown(request: Request) -> Response:
            try:
                async with viewed(site_of(request.scope), request) as view:
                    try:
                        return await show(view)
                    except MemoryServerError as error:
                        status = 404 if isinstance(error, MemoryNotFound) else 422
                        return await view.page("refused.html", status, said=error.args[0], back="./")
            except MemoryServerError as error:
                return refusal(request, 422, error.args[0])
            except Exception as error:
                failed = request_id()
                log.exception("a page failed, request %s: %s", failed, failure_text(error))
                return refusal(
                    request, 500, _("The page failed inside the server; its log says why, under {request}.", failed)
                )

        return shown

    async def refuse(request: Request, status: int, reason: str) -> Response:
        return refusal(request, status, _REFUSED[reason], token=hosts is None and status == 401)

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return refusal(request, status, _REFUSED["path"])

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ("style.css", "page.js"):
            return refusal(request, 404, _REFUSED["path"])
        return FileResponse(FOLDER / "static" / name)

    routes = [
        *(Route(path, showing(show), methods=["GET"]) for path, show in PAGES.items()),
        *(Route(f"/do/{name}", showing(act), methods=["POST"]) for name, act in actions.ACTIONS.items()),
        Route("/trigger", showing(playground.trigger), methods=["POST"]),
        Route("/static/{name}", static, methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: missing})
    app.router.redirect_slashes = False
    return Guard(app, gate, refuse, hosts)


def _refusal(front: str, request: Request, status: int, said: str, *, token: bool = False) -> HTMLResponse:
    """What a stranger sees. Its links begin with `front`, because it may be shown at any path."""
    language = language_of(request.headers.get("accept-language", ""), request.query_params.get("lang"))
    return HTMLResponse(
        render(language, "stranger.html", {"said": said, "status": status, "token": token, "front": front}), status
    )
