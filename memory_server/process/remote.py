"""The linked server over HTTP: requests with a timeout, and every failure as one sentence. It verifies
certificates and follows no redirect; the token is in no message and no log."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from languages import Sentence, _
from memory_server.kernel.errors import NotReached, RemoteError
from memory_server.kernel.link import TOO_LARGE, Link

if TYPE_CHECKING:
    import ssl

    import httpx2

CONNECT_SECONDS = 5.0
MOST_BYTES = 64_000_000
"""Bytes of an unpacked response, at most: a small one can hold gigabytes. A memory server sends less."""
WRONG_CLOCK_SECONDS = 600.0
"""If a clock differs by more, its turns get times that are wrong among the turns of other machines."""
_NOT_YET_VALID = 9
_EXPIRED = 10
_HOST_NAME_MISMATCH = 62
_IP_ADDRESS_MISMATCH = 64
"""The codes of OpenSSL for the reasons of a refused certificate."""


class Remote:
    """The server of a link. `clock_off`: by how many seconds this machine's clock was ahead of the server's at the last
    answer. `reached`: it has answered."""

    def __init__(self, link: Link, token: str) -> None:
        self.link = link
        self._token = token
        self.clock_off = 0.0
        self.reached = False

    @property
    def url(self) -> str:
        return self.link.url

    @cached_property
    def http(self) -> httpx2.AsyncClient:
        """Return the client of the server, which is made at its first use. It checks certificates,
        follows no redirect, and uses no proxy for this machine."""
        if sys.modules.get("ssl", sys) is None:
            # A hook leaves the module out to be quick, but it is needed here.
            del sys.modules["ssl"]
        import httpx2

        verify: ssl.SSLContext | bool = False
        is_encrypted = not self.link.url.startswith("http://")
        if is_encrypted:
            verify = httpx2.create_ssl_context()
            if self.link.ca is not None:
                verify.load_verify_locations(self.link.ca)

        return httpx2.AsyncClient(
            base_url=self.link.url,
            headers={"authorization": f"Bearer {self._token}"},
            verify=verify,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            follow_redirects=False,
            # A server on this machine must not be asked through a proxy.
            trust_env=not self.link.is_here,
        )

    async def ask(
        self,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        seconds: float,
        twice: bool = True,
    ) -> dict[str, Any]:
        """Return the answer to `POST path` with this body, or to `GET path` without a body. With `twice` the request
        may be done twice, so it is retried once if a connection was cut. Raise RemoteError if it was refused, and
        NotReached if no answer of a memory server comes within `seconds`."""
        import httpx2

        try:
            async with asyncio.timeout(seconds):
                response = None
                try:
                    response = await self._exchange(path, body, headers)
                except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                    if not twice:
                        raise
                if response is None:
                    response = await self._exchange(path, body, headers)
        except TimeoutError:
            raise NotReached(
                Sentence("{url} did not answer within {seconds:g} s.", self.link.url, seconds)
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            # The error may hold a header, and so the token, so it is not chained.
            raise NotReached(self.reason_of(error)) from None

        return self._content_of(response)

    async def _exchange(
        self, path: str, body: Any, headers: Mapping[str, str] | None
    ) -> httpx2.Response:
        """Send one request and read its response."""
        method = "POST"
        if body is None:
            method = "GET"
        request = self.http.build_request(method, path, json=body, headers=dict(headers or {}))
        response = await self.http.send(request, stream=True)
        return await self.whole(response)

    async def whole(self, response: httpx2.Response) -> httpx2.Response:
        """Read the body of a response and return the response with it. Raise NotReached if it is too large."""
        import httpx2

        body = bytearray()
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise NotReached(
                        Sentence(
                            "{url} answers with more than {bytes:,} bytes.",
                            self.link.url,
                            MOST_BYTES,
                        )
                    )
        finally:
            await response.aclose()

        # The body is unpacked now, so headers about its packing are wrong.
        transport_headers = ("content-encoding", "content-length", "transfer-encoding")
        all_headers = response.headers.multi_items()
        headers = [(name, value) for name, value in all_headers if name not in transport_headers]

        return httpx2.Response(response.status_code, headers=headers, content=bytes(body))

    def _content_of(self, response: httpx2.Response) -> dict[str, Any]:
        """Return the content of a response, and note in `reached` whether the server works. Raise RemoteError if it
        refuses, and NotReached if it is not from a memory server."""
        trouble = self.trouble_of(response)
        if trouble is not None and response.status_code not in TOO_LARGE:
            raise NotReached(trouble)
        self.reached = response.status_code < 500
        if response.status_code != 200:
            raise self.refusal_of(response)
        content = _json(response)
        if not isinstance(content, dict):
            raise self.not_ours()
        return content

    def not_ours(self) -> NotReached:
        """Return the error for an answer that looks well but is not from a memory server."""
        return NotReached(Sentence("{url} does not answer as a memory server does.", self.link.url))

    def refusal_of(self, response: httpx2.Response) -> RemoteError:
        """Return the error that a response reports: NotReached if the request may succeed later,
        otherwise RemoteError."""
        content = _json(response)
        url = self.link.url
        status = response.status_code
        kind = ""
        message = ""

        if isinstance(content, dict):
            error = content.get("error")
            if isinstance(error, dict):
                kind = str(error.get("kind", ""))
                message = str(error.get("message", ""))

        # These refusals pass with time, so the request may be repeated later.
        if status >= 500 or status in (429, 408):
            return NotReached(
                Sentence("{url} cannot answer now: {reason}", url, message or f"status {status}"),
                status,
            )

        if status == 404 and kind == "path":
            message = _(
                "The server at {url} is of an older version, which cannot do this; update it.", url
            )
        elif status == 401:
            message = _(
                "{url} does not accept the token in {file}; on the server, `memory-server tokens add NAME` makes one.",
                url,
                self.link.token_file,
            )

        if not message:
            message = _("{url} refuses this with status {status}.", url, status)
        return RemoteError(message, status, kind)

    def trouble_of(self, response: httpx2.Response) -> str | None:
        """Return why a response is not from a memory server, or None if it may be. Note in `clock_off` by how many
        seconds the clock here is ahead."""
        # The clock is read from any answer, because a wrong one explains a refused certificate too.
        date = response.headers.get("date")
        if date is not None:
            with suppress(ValueError, TypeError):
                self.clock_off = time.time() - parsedate_to_datetime(date).timestamp()

        if response.is_redirect:
            return _(
                "{url} redirects to another address; a sign-in page of this network may stand in between, or the "
                "server has another URL.",
                self.link.url,
            )

        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type in ("application/json", "text/event-stream") or response.status_code == 202:
            return None

        if response.status_code >= 500:
            return _(
                "{url} cannot answer now: {reason}", self.link.url, f"status {response.status_code}"
            )
        return _(
            "{url} answers with a web page and not as a memory server does; a sign-in page of this network "
            "may stand in between.",
            self.link.url,
        )

    def reason_of(self, error: BaseException) -> str:
        """Return a sentence for why no answer came."""
        cause: BaseException | None = error
        while cause is not None:
            code = getattr(cause, "verify_code", None)
            if code is not None:
                return self._refused_certificate(code, str(getattr(cause, "verify_message", "")))
            cause = cause.__cause__ or cause.__context__
        reason = str(error).rstrip(".") or type(error).__name__
        return _("{url} cannot be reached: {reason}.", self.link.url, reason)

    def _refused_certificate(self, code: int, reason: str) -> str:
        """Return a sentence for why the certificate of the server was refused. `code` and `reason` come from OpenSSL."""
        url = self.link.url

        if code in (_EXPIRED, _NOT_YET_VALID):
            now = time.strftime("%Y-%m-%d %H:%M")
            return _(
                "The certificate of {url} is not valid at {now}; renew it, or set this machine's clock.",
                url,
                now,
            )

        if code in (_HOST_NAME_MISMATCH, _IP_ADDRESS_MISMATCH):
            return _(
                "The certificate of {url} is for another name ({reason}); use that name.",
                url,
                reason,
            )

        return _(
            "The certificate of {url} is not from an authority that this machine trusts ({reason}); for a "
            "certificate of your own, name its file with --ca or in SSL_CERT_FILE.",
            url,
            reason,
        )

    async def aclose(self) -> None:
        """Close the connections; idempotent."""
        if "http" in self.__dict__:
            await self.http.aclose()


def _json(response: httpx2.Response) -> Any:
    """Return the JSON of a response, or None if it is not JSON."""
    try:
        return response.json()
    except (ValueError, RecursionError):
        # The response was cut, or is not JSON.
        return None
