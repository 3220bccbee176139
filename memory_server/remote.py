"""The linked server over HTTP: requests with a bound of time, and every failure as one sentence. It verifies
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

from memory_server.kernel.errors import NotReached, RemoteError
from memory_server.kernel.link import TOO_LARGE, Link
from sandbox.locale import _

if TYPE_CHECKING:
    import httpx2

CONNECT_SECONDS = 5.0
MOST_BYTES = 64_000_000
"""Of an answer, unpacked: a small one can hold gigabytes. A server of ours says less."""
WRONG_CLOCK_SECONDS = 600.0
"""A clock that differs by more gives turns times that are wrong among those of other machines."""
_EXPIRED, _NOT_YET, _OTHER_NAMES = 10, 9, (62, 64)
"""What OpenSSL calls the reasons of a refused certificate."""


class Remote:
    """The server of a link. `clock_off`: by how many seconds this machine's clock is ahead of the server's, as of the
    last answer. `reached`: it has answered."""

    def __init__(self, link: Link, token: str) -> None:
        self.link, self._token, self.clock_off, self.reached = link, token, 0.0, False

    @cached_property
    def http(self) -> httpx2.AsyncClient:
        if sys.modules.get("ssl", sys) is None:
            del sys.modules["ssl"]  # a hook leaves it out to be quick, but it is needed here
        import httpx2

        plain = self.link.url.startswith("http://")
        context = None if plain else httpx2.create_ssl_context()
        if context is not None and self.link.ca is not None:
            context.load_verify_locations(self.link.ca)
        return httpx2.AsyncClient(
            base_url=self.link.url,
            headers={"authorization": f"Bearer {self._token}"},
            verify=False if context is None else context,
            timeout=httpx2.Timeout(None, connect=CONNECT_SECONDS),
            follow_redirects=False,
            trust_env=not self.link.is_here,  # a server on this machine must not be asked through a proxy
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
        """The answer to `POST path` with this body, or to `GET path` without one. `twice`: it may be done twice, so it
        is asked again where a connection was cut. Raises RemoteError: it was refused; NotReached."""
        import httpx2

        try:
            async with asyncio.timeout(seconds):
                for last in (not twice, True):
                    try:
                        method = "GET" if body is None else "POST"
                        asked = self.http.build_request(method, path, json=body, headers=dict(headers or {}))
                        answer = await self.whole(await self.http.send(asked, stream=True))
                        break
                    except (httpx2.ReadError, httpx2.WriteError, httpx2.RemoteProtocolError):
                        if last:
                            raise
        except TimeoutError:
            raise NotReached(_("{url} did not answer within {seconds:g} s.", self.link.url, seconds)) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, OSError, UnicodeError) as error:
            raise NotReached(self.reason_of(error)) from None  # the error may hold a header, and so the token
        return self._read(answer)

    async def whole(self, answer: httpx2.Response) -> httpx2.Response:
        """An answer with its body, which is read now. Raises NotReached: it is too large."""
        import httpx2

        body = bytearray()
        try:
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > MOST_BYTES:
                    raise NotReached(_("{url} answers with more than {bytes:,} bytes.", self.link.url, MOST_BYTES))
        finally:
            await answer.aclose()
        packed = ("content-encoding", "content-length", "transfer-encoding")
        kept = [(name, value) for name, value in answer.headers.multi_items() if name not in packed]
        return httpx2.Response(answer.status_code, headers=kept, content=bytes(body))

    def _read(self, answer: httpx2.Response) -> dict[str, Any]:
        trouble = self.trouble_of(answer)
        if trouble is not None and answer.status_code not in TOO_LARGE:
            raise NotReached(trouble)
        self.reached = answer.status_code < 500
        if answer.status_code != 200:
            raise self.refusal_of(answer)
        content = _json(answer)
        if not isinstance(content, dict):
            raise self.not_ours()
        return content

    def not_ours(self) -> NotReached:
        """The error that an answer is not one of a memory server, though it looks well."""
        return NotReached(_("{url} answers with something else than a memory server does.", self.link.url))

    def refusal_of(self, answer: httpx2.Response) -> RemoteError:
        """The error that the server says."""
        said, url, status = _json(answer), self.link.url, answer.status_code
        error = said.get("error") if isinstance(said, dict) else None
        kind, message = (
            (str(error.get(name, "")) for name in ("kind", "message")) if isinstance(error, dict) else ("", "")
        )
        if status >= 500 or status in (429, 408):
            return NotReached(_("{url} cannot answer now: {reason}", url, message or f"status {status}"), status)
        if status == 404 and kind == "path":
            message = _("The server at {url} is of an older version, which cannot do this; update it.", url)
        elif status == 401:
            message = _(
                "{url} does not accept the token in {file}; on the server, `memory-server tokens add NAME` gives one.",
                url,
                self.link.token_file,
            )
        return RemoteError(message or _("{url} refuses this with status {status}.", url, status), status, kind)

    def trouble_of(self, answer: httpx2.Response) -> str | None:
        """Why this is not the answer of a memory server; None: it may be one."""
        if (date := answer.headers.get("date")) is not None:
            with suppress(ValueError, TypeError):
                self.clock_off = time.time() - parsedate_to_datetime(date).timestamp()
        if answer.is_redirect:
            return _(
                "{url} sends on to another address; a sign-in page of this network may stand in between, or the "
                "server has another URL.",
                self.link.url,
            )
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind in ("application/json", "text/event-stream") or answer.status_code == 202:
            return None
        if answer.status_code >= 500:
            return _("{url} cannot answer now: {reason}", self.link.url, f"status {answer.status_code}")
        return _(
            "{url} answers with a page and not as a memory server; a sign-in page of this network may stand in "
            "between.",
            self.link.url,
        )

    def reason_of(self, error: BaseException) -> str:
        """A sentence for why no answer came."""
        cause: BaseException | None = error
        while cause is not None:
            if (code := getattr(cause, "verify_code", None)) is not None:
                return self._refused_certificate(code, str(getattr(cause, "verify_message", "")))
            cause = cause.__cause__ or cause.__context__
        return _("{url} cannot be reached: {reason}.", self.link.url, str(error).rstrip(".") or type(error).__name__)

    def _refused_certificate(self, code: int, said: str) -> str:
        url, now = self.link.url, f"{time.strftime('%Y-%m-%d %H:%M')}"
        if code in (_EXPIRED, _NOT_YET):
            return _("The certificate of {url} is not valid at {now}; renew it, or set this machine's clock.", url, now)
        if code in _OTHER_NAMES:
            return _("The certificate of {url} is for another name ({reason}); use that name.", url, said)
        return _(
            "The certificate of {url} is not from an authority that this machine knows ({reason}); for one of your "
            "own, name its file with --ca or in SSL_CERT_FILE.",
            url,
            said,
        )

    async def aclose(self) -> None:
        if "http" in self.__dict__:
            await self.http.aclose()


def _json(answer: httpx2.Response) -> Any:
    try:
        return answer.json()
    except (ValueError, RecursionError):  # it was cut, or is none
        return None
