"""Providers in order: each one is tried once, within a hard bound of time, and what it took is noted.

Nothing here retries or sleeps: who fails is followed by the next one, and is passed over for a while.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from memory_server.kernel.errors import ModelsFailed, StorageError, TextRefused
from memory_server.kernel.text import shown
from memory_server.knowledge.ports import ModelCall, ModelLedger, ModelResponse
from memory_server.llm.wire import (
    HttpRequest,
    ParsedReply,
    Provider,
    embedding_reply,
    embedding_request,
    reply,
    request,
)
from sandbox.locale import _

if TYPE_CHECKING:
    from ssl import SSLContext

S = TypeVar("S")
T = TypeVar("T")
MOST_BYTES, MOST_VECTOR_BYTES = 1024 * 1024, 16 * 1024 * 1024
"""Of an answer: facts of a conversation are a few kilobytes; a vector of 3,072 numbers is written in 70."""
FAILURES, REST_SECONDS, LONGEST_REST = 3, 60.0, 3_600.0
"""After so many failures in a row a provider is passed over; a `Retry-After` is believed up to an hour."""
OF_THE_TEXT = (400, 413, 422)
"""Status of a text that a provider does not take; it may take another one."""
DAY_MS = 86_400_000


class ProviderError(Exception):
    """An answer that is an error. `rest`: seconds for which the provider asks to be left alone. `received`: it got the
    texts, and a second request would hardly get another answer."""

    def __init__(self, said: str, status: int = 0, rest: float = 0.0, *, received: bool = False) -> None:
        super().__init__(said)
        self.status, self.rest, self.received = status, rest, received or status in OF_THE_TEXT


@dataclass(eq=False)
class ProviderClient:
    """One provider, which is passed over for a while after failures. Each call has its row in the `ledger`; the tokens
    of all processes in 24 hours are at most `tokens_per_day` (0: no bound). `environment` holds the keys."""

    provider: Provider
    ledger: ModelLedger
    clock: Callable[[], int]
    environment: Mapping[str, str]
    tokens_per_day: int = 200_000
    failures: int = 0
    rests_until: float = 0.0

    async def call(
        self,
        purpose: str,
        seconds: float,
        forms: Sequence[Callable[[str], HttpRequest]],
        read: Callable[[HttpRequest, bytes], ParsedReply[S]],
        use: Callable[[S], T],
        most_bytes: int = MOST_BYTES,
    ) -> ModelResponse[T]:
        """What the provider answers within `seconds`: `read` gives it with its tokens, and `use` makes of it what is
        wanted; both raise ValueError for an answer that cannot be used. `forms` make the request with the key; where
        one gets status 400, the next is tried.

        Raises:
            ProviderError: it did not answer so, rests, or the tokens are used up.
        """
        name = self.provider.name
        if self.rests_until > time.monotonic():
            raise ProviderError(_("{name} is passed over after failures", name))
        now_ms, most = self.clock(), self.tokens_per_day
        if most and await self.ledger.tokens(now_ms - DAY_MS, now_ms) >= most:
            raise ProviderError(
                _("the {tokens_per_day:,} tokens of llm.tokens_per_day are used up", self.tokens_per_day)
            )
        try:
            asked = await self._try(purpose, seconds, forms, read, use, most_bytes)
        except ProviderError as refusal:
            if refusal.status not in OF_THE_TEXT:
                self.failures += 1
                tired = REST_SECONDS if self.failures >= FAILURES else 0.0
                self.rests_until = max(self.rests_until, time.monotonic() + max(tired, refusal.rest))
            said = _("{about}: {what}", name, refusal)
            raise ProviderError(said, refusal.status, received=refusal.received) from refusal
        self.failures = 0
        return asked

    async def _try(
        self,
        purpose: str,
        seconds: float,
        forms: Sequence[Callable[[str], HttpRequest]],
        read: Callable[[HttpRequest, bytes], ParsedReply[S]],
        use: Callable[[S], T],
        most_bytes: int,
    ) -> ModelResponse[T]:
        provider = self.provider
        key = self.environment.get(provider.key_env, "") if provider.key_env else ""
        if provider.key_env and not key:
            raise ProviderError(_("the variable {key_env} is not set", provider.key_env))
        began, tokens, outcome = time.perf_counter(), (0, 0), "cancelled"
        try:
            async with asyncio.timeout(seconds):
                for number, form in enumerate(forms):
                    sent = form(key)
                    try:
                        content = await _post(sent, most_bytes)
                        break
                    except ProviderError as refusal:
                        if refusal.status != 400 or number == len(forms) - 1:
                            raise
            said = read(sent, content)
            tokens = said.input_tokens, said.output_tokens
            value, outcome = use(said.value), "answered"
        except ProviderError as refusal:
            outcome = shown(str(refusal), 60)
            raise
        except TimeoutError as error:
            outcome = "timeout"
            raise ProviderError(_("it took more than {seconds:g} seconds", seconds), received=True) from error
        except ValueError as error:
            outcome = _("unusable answer")
            raise ProviderError(shown(str(error), 100), received=True) from error
        finally:
            took_ms = (time.perf_counter() - began) * 1000
            await self._note(ModelCall(self.clock(), provider.kind, provider.model, purpose, *tokens, took_ms, outcome))
        cost = (tokens[0] * provider.input_price + tokens[1] * provider.output_price) / 1_000_000
        return ModelResponse(value, provider.name, *tokens, cost)

    async def _note(self, call: ModelCall) -> None:
        try:  # in a task of its own: it is counted also where the caller gives up
            await asyncio.shield(asyncio.ensure_future(self.ledger.note_call(call)))
        except StorageError:
            return  # the answer is worth more than its row


@dataclass(eq=False)
class FallbackChain:
    """`ports.Models` over HTTP. `seconds` are for one provider, `total_seconds` for all."""

    lines: Sequence[ProviderClient]
    seconds: float = 8.0
    total_seconds: float = 20.0

    def patient(self, seconds: float) -> FallbackChain:
        """The same models with at least so much time, each of them."""
        total = max(self.total_seconds, seconds * len(self.lines))
        return FallbackChain(self.lines, max(self.seconds, seconds), total)

    async def ask(
        self,
        purpose: str,
        system: str,
        data: str,
        schema: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
        seconds: float = inf,
    ) -> ModelResponse[T]:
        reasons: list[str] = []
        received = False
        try:
            async with asyncio.timeout(min(seconds, self.total_seconds)):
                for line in self.lines:
                    given = line.provider
                    form = partial(request, given, system=system, data=data, schema=schema)
                    forms = form, partial(form, structured=False)
                    try:
                        return await line.call(purpose, self.seconds, forms, partial(reply, given), read)
                    except ProviderError as refusal:
                        reasons.append(str(refusal))
                        received = received or refusal.received
        except TimeoutError:
            received = True
            reasons.append(
                _("no answer came within the {total_seconds:g} seconds of llm.total_seconds", self.total_seconds)
            )
        failure = ModelsFailed("; ".join(dict.fromkeys(reasons)))
        failure.received = received
        raise failure


@dataclass(eq=False)
class Embedder:
    """`ports.Embeddings` over HTTP."""

    line: ProviderClient

    @property
    def model(self) -> str:
        return self.line.provider.model

    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        form = partial(embedding_request, self.line.provider, texts=texts)
        try:
            return await self.line.call("embed", seconds, [form], embedding_reply, list, MOST_VECTOR_BYTES)
        except ProviderError as refusal:
            raise (TextRefused if refusal.status in OF_THE_TEXT else ModelsFailed)(str(refusal)) from refusal


async def _post(sent: HttpRequest, most_bytes: int) -> bytes:
    """The body of an answer with status 200. Raises ProviderError: another status, too long, or no connection."""
    if sys.modules.get("ssl", sys) is None:
        del sys.modules["ssl"]  # a hook leaves it out to be quick, but it is needed here
    import httpx2

    # `trust_env` reads HTTP_PROXY: a server on this machine must not be asked through another one.
    here = _is_here(urlsplit(sent.url).hostname or "")
    try:
        async with (
            httpx2.AsyncClient(
                # Without TLS on this machine nothing is verified, and a hook need not read the certificates.
                verify=not (here and sent.url.startswith("http://")) and _certificates(),
                timeout=None,
                follow_redirects=False,
                trust_env=not here,
            ) as client,
            client.stream("POST", sent.url, headers=sent.headers, json=sent.body) as answer,
        ):
            if answer.status_code != 200:
                rest = _seconds(answer.headers.get("retry-after", "")) if answer.status_code in (429, 503) else 0.0
                raise ProviderError(_("status {status}", answer.status_code), answer.status_code, rest)
            content = bytearray()
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > most_bytes:
                    raise ProviderError(_("its answer is longer than {bytes:,} bytes", most_bytes))
            return bytes(content)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        # Without the text of the error, which may hold a header, and so a key.
        raise ProviderError(_("it cannot be reached ({name})", type(error).__name__)) from None


@cache
def _certificates() -> SSLContext:
    """Read once: it takes 25 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _seconds(text: str) -> float:
    """Of a `Retry-After`; a date counts as the usual rest."""
    return min(float(text), LONGEST_REST) if text.isdecimal() else REST_SECONDS if text else 0.0
