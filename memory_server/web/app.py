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

from languages import N_, Sentence, speaking
from memory_server.kernel.errors import MemoryNotFound, MemoryServerError
from memory_server.kernel.failures import failure_sentence, failure_text, request_id
from memory_server.web import actions, details, knowledge, pages, playground
from memory_server.web.access import Gate, Guard
from memory_server.web.speech import language_of
from memory_server.web.view import FOLDER, Site, View, render, viewed

log = logging.getLogger(__name__)
Show = Callable[[View], Awaitable[Response]]

_REFUSED = N_(
    {
        "host": "This server does not have that name. Open the page at 127.0.0.1.",
        "origin": "You can change something only from the page itself. Open the page and try again there.",
        "size": "The form is too large; send less text at a time.",
        "time": "The form took too long to arrive; send it again.",
        "gone": "The form did not arrive completely; send it again.",
        "link": "This link was already used, or is older than ten minutes. Run `memory-server web` again to get a new one.",
        "cookie": "To open this page, run `memory-server web` and open the link that it prints.",
        "path": "This page does not exist.",
    }
)

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
    "/book": details.book,
    "/notes": knowledge.listed,
    "/layers": knowledge.listed,
    "/facts": knowledge.listed,
    "/refs": knowledge.listed,
    "/entry": knowledge.entry,
    "/health": details.health,
    "/version": pages.version,
}


def page_app(
    site_of: Callable[[Scope], Site], gate: Gate, hosts: Collection[str] | None
) -> ASGIApp:
    """Make the page for readers whom `gate` lets in; `site_of` gives what a request may see. `hosts`: the names that
    are answered, or None if the server has checked the name, and a token is asked for."""

    refusal = partial(_refusal, gate.front)

    def showing(show: Show) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler of a request that shows a page."""

        async def shown(request: Request) -> Response:
            """Answer with the page, or with a refusal: 404, 422, or 500 for a failure, which is
            logged."""
            try:
                async with viewed(site_of(request.scope), request) as view:
                    try:
                        return await show(view)
                    except MemoryServerError as error:
                        # The reader is known, so the refusal can be a page in their language with a way back.
                        status = 404 if isinstance(error, MemoryNotFound) else 422
                        return await view.page(
                            "refused.html", status, said=error.args[0], back="./"
                        )
            except MemoryServerError as error:
                return refusal(request, 422, error.sentence)
            except Exception as error:
                failed = request_id()
                log.exception("a page failed, request %s: %s", failed, failure_text(error))
                sentence = Sentence(
                    "The page failed inside the server; its log says why, under {request}.", failed
                )
                return refusal(request, 500, failure_sentence(error, sentence))

        return shown

    async def refuse(request: Request, status: int, reason: str) -> Response:
        return refusal(
            request, status, Sentence(_REFUSED[reason]), token=hosts is None and status == 401
        )

    async def missing(request: Request, error: Exception) -> Response:
        status = error.status_code if isinstance(error, HTTPException) else 404
        return refusal(request, status, Sentence(_REFUSED["path"]))

    async def static(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in ("style.css", "page.js"):
            return refusal(request, 404, Sentence(_REFUSED["path"]))
        return FileResponse(FOLDER / "static" / name)

    routes = [
        *(Route(path, showing(show), methods=["GET"]) for path, show in PAGES.items()),
        *(
            Route(f"/do/{name}", showing(act), methods=["POST"])
            for name, act in actions.ACTIONS.items()
        ),
        Route("/trigger", showing(playground.trigger), methods=["POST"]),
        Route("/static/{name}", static, methods=["GET"]),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: missing})
    app.router.redirect_slashes = False
    return Guard(app, gate, refuse, hosts)


def _refusal(
    front: str, request: Request, status: int, reason: Sentence, *, token: bool = False
) -> HTMLResponse:
    """Make the page that a stranger sees. Its links begin with `front`, because it may be shown at any path."""
    language = language_of(
        request.headers.get("accept-language", ""), request.query_params.get("lang")
    )
    with speaking(language):
        values = {"said": str(reason), "status": status, "token": token, "front": front}
    return HTMLResponse(render(language, "stranger.html", values), status)
