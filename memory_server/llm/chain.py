"""Providers in order: each is tried once, within a hard bound of time, and what it took is noted.

Nothing here retries or sleeps: after a provider that fails the next one is asked, and the first is passed over for a
while.
"""

from __future__ import annotations

import asyncio
import ipaddress
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING, Any, Generic, TypeVar
from urllib.parse import urlsplit

from languages import _
from memory_server.kernel.errors import ModelsFailed, StorageError, TextRefused
from memory_server.kernel.text import shown
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.ports import ModelCall, ModelLedger, ModelResponse
from memory_server.llm.wire import (
    HttpRequest,
    ParsedReply,
    Provider,
    chat_reply,
    chat_request,
    embedding_reply,
    embedding_request,
)

if TYPE_CHECKING:
    from ssl import SSLContext

S = TypeVar("S")
T = TypeVar("T")
MOST_BYTES = 1024 * 1024
"""Bytes of an answer at most: facts of a conversation are a few kilobytes."""
MOST_VECTOR_BYTES = 16 * 1024 * 1024
"""Bytes of an answer with vectors at most: a vector of 3,072 numbers is written in 70 kilobytes."""
FAILURES = 3
"""Failures in a row after which a provider is passed over."""
REST_SECONDS = 60.0
"""How long it is then passed over."""
LONGEST_REST = 3_600.0
"""The longest `Retry-After`, in seconds, that is believed."""
OF_THE_TEXT = (400, 413, 422)
"""Status of a text that a provider does not take; it may take another one."""
DAY_MS = 86_400_000


class ProviderError(Exception):
    """An answer that is an error. `rest_seconds` is how long the provider asks to be left alone. `received` means that
    it got the texts, and a second request would hardly get another answer."""

    def __init__(
        self, message: str, status: int = 0, rest_seconds: float = 0.0, *, received: bool = False
    ) -> None:
        super().__init__(message)
        self.status = status
        self.rest_seconds = rest_seconds
        self.received = received or status in OF_THE_TEXT


@frozen
class Question(Generic[S, T]):
    """A question to a provider, which must answer within `seconds`.

    `forms` make the request with the key; if a form gets status 400, the next form is tried. `read` returns the reply
    in an answer, with its tokens, and `use` makes of the reply the value that the caller wants; both raise ValueError
    for an answer that cannot be used. `purpose` is noted in the ledger.
    """

    purpose: str
    seconds: float
    forms: Sequence[Callable[[str], HttpRequest]]
    read: Callable[[HttpRequest, bytes], ParsedReply[S]]
    use: Callable[[S], T]
    most_bytes: int = MOST_BYTES


@frozen
class _Answer:
    """The body of an answer, and the request that got it."""

    request: HttpRequest
    content: bytes


@dataclass(eq=False)
class ProviderClient:
    """A provider, which is passed over for a while after failures. Each call has its row in the `ledger`; the tokens
    of all processes in 24 hours are at most `tokens_per_day` (0: no bound). `environment` holds the keys."""

    provider: Provider
    ledger: ModelLedger
    clock: Callable[[], int]
    environment: Mapping[str, str]
    tokens_per_day: int = 200_000
    failures: int = 0
    rests_until: float = 0.0

    async def call(self, question: Question[S, T]) -> ModelResponse[T]:
        """Ask the provider, and return its answer. After failures it rests for a while, unless only a text was refused.

        Raises:
            ProviderError: it gave no answer that can be used, rests, or the tokens are used up.
        """
        name = self.provider.name
        if self.rests_until > time.monotonic():
            raise ProviderError(_("{name} is passed over after failures", name))
        if await self._tokens_are_used_up():
            raise ProviderError(
                _(
                    "the {tokens_per_day:,} tokens of llm.tokens_per_day are used up",
                    self.tokens_per_day,
                )
            )

        try:
            response = await self._try(question)
        except ProviderError as refusal:
            # A text that is refused says nothing about the provider, which takes other texts.
            if refusal.status not in OF_THE_TEXT:
                self._rest(refusal.rest_seconds)
            message = _("{about}: {what}", name, refusal)
            raise ProviderError(message, refusal.status, received=refusal.received) from refusal

        self.failures = 0
        return response

    async def _tokens_are_used_up(self) -> bool:
        if self.tokens_per_day == 0:
            return False
        now_ms = self.clock()
        used_tokens = await self.ledger.tokens(now_ms - DAY_MS, now_ms)
        return used_tokens >= self.tokens_per_day

    def _rest(self, asked_seconds: float) -> None:
        """Count a failure, and pass the provider over for as long as it asks, or after several failures."""
        self.failures += 1
        rest_seconds = asked_seconds
        if self.failures >= FAILURES:
            rest_seconds = max(rest_seconds, REST_SECONDS)
        self.rests_until = max(self.rests_until, time.monotonic() + rest_seconds)

    def _key(self) -> str:
        """Return the key, empty if the provider needs none. Raises ProviderError if its variable is not set."""
        variable = self.provider.key_env
        if not variable:
            return ""
        key = self.environment.get(variable, "")
        if not key:
            raise ProviderError(_("the variable {key_env} is not set", variable))
        return key

    async def _try(self, question: Question[S, T]) -> ModelResponse[T]:
        """Ask the provider once, note the call and its tokens, and return the answer. Raises
        ProviderError if the key is not set, the time is over, or the answer cannot be used;
        `received` tells whether the provider got the question."""
        key = self._key()
        began = time.perf_counter()
        input_tokens = 0
        output_tokens = 0
        outcome = "cancelled"

        try:
            async with asyncio.timeout(question.seconds):
                answer = await _post_in_accepted_form(question.forms, key, question.most_bytes)

            parsed_reply = question.read(answer.request, answer.content)
            input_tokens = parsed_reply.input_tokens
            output_tokens = parsed_reply.output_tokens
            value = question.use(parsed_reply.value)
            outcome = "answered"

        except ProviderError as refusal:
            outcome = shown(str(refusal), 60)
            raise
        except TimeoutError as error:
            outcome = "timeout"
            raise ProviderError(
                _("it took more than {seconds:g} seconds", question.seconds), received=True
            ) from error
        except ValueError as error:
            outcome = _("unusable answer")
            raise ProviderError(shown(str(error), 100), received=True) from error
        # A call that fails or is cancelled may have cost tokens too, so it is noted as well.
        finally:
            call = ModelCall(
                at_ms=self.clock(),
                provider=self.provider.kind,
                model=self.provider.model,
                purpose=question.purpose,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                took_ms=(time.perf_counter() - began) * 1000,
                outcome=outcome,
            )
            await self._note(call)

        return ModelResponse(
            value,
            self.provider.name,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
            cost=self.provider.cost(input_tokens, output_tokens),
        )

    async def _note(self, call: ModelCall) -> None:
        """Write a call into the ledger, also if the caller gives up. A ledger that cannot be written is passed
        over."""
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
        """Return the same models with at least so much time, each of them."""
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
        """Return the first usable answer of the providers, asked in order, each once; `read` raises
        ValueError for an answer that cannot be used. Raises ModelsFailed, with the reason of each,
        if none gives one within `seconds` and `total_seconds`."""
        reasons: list[str] = []
        received = False

        try:
            async with asyncio.timeout(min(seconds, self.total_seconds)):
                for client in self.lines:
                    provider = client.provider
                    form = partial(chat_request, provider, system=system, data=data, schema=schema)
                    question = Question(
                        purpose=purpose,
                        seconds=self.seconds,
                        # A server that does not know the structured form gets the question in words.
                        forms=[form, partial(form, structured=False)],
                        read=partial(chat_reply, provider),
                        use=read,
                    )

                    try:
                        return await client.call(question)
                    except ProviderError as refusal:
                        reasons.append(str(refusal))
                        received = received or refusal.received
        except TimeoutError:
            received = True
            reasons.append(
                _(
                    "no answer came within the {total_seconds:g} seconds of llm.total_seconds",
                    self.total_seconds,
                )
            )

        failure = ModelsFailed("; ".join(dict.fromkeys(reasons)))
        failure.received = received
        raise failure


@dataclass(eq=False)
class Embedder:
    """`ports.Embeddings` over HTTP."""

    client: ProviderClient

    @property
    def model(self) -> str:
        return self.client.provider.model

    async def vectors(self, texts: Sequence[str], seconds: float) -> ModelResponse[list[bytes]]:
        """Return the vectors of texts. Raises TextRefused if the provider does not take one of
        them, ModelsFailed if it gives no usable answer within `seconds`."""
        question = Question(
            purpose="embed",
            seconds=seconds,
            forms=[partial(embedding_request, self.client.provider, texts=texts)],
            read=embedding_reply,
            use=list[bytes],
            most_bytes=MOST_VECTOR_BYTES,
        )
        try:
            return await self.client.call(question)
        except ProviderError as refusal:
            if refusal.status in OF_THE_TEXT:
                raise TextRefused(str(refusal)) from refusal
            raise ModelsFailed(str(refusal)) from refusal


async def _post_in_accepted_form(
    forms: Sequence[Callable[[str], HttpRequest]], key: str, most_bytes: int
) -> _Answer:
    """Return the answer to the request in the first form that the provider accepts: if a form gets status 400, the next
    form is tried. Raise ProviderError as `_post`."""
    *first_forms, last_form = forms
    for form in first_forms:
        request = form(key)
        try:
            return _Answer(request, await _post(request, most_bytes))
        except ProviderError as refusal:
            if refusal.status != 400:
                raise
    request = last_form(key)
    return _Answer(request, await _post(request, most_bytes))


async def _post(request: HttpRequest, most_bytes: int) -> bytes:
    """Post a request and return the body of an answer with status 200. Raise ProviderError for another status, for an
    answer that is too long, or without a connection."""
    if sys.modules.get("ssl", sys) is None:
        del sys.modules["ssl"]  # a hook leaves it out to be quick, but it is needed here
    import httpx2

    is_here = _is_here(urlsplit(request.url).hostname or "")
    # Without TLS on this machine nothing is verified, and a hook need not read the certificates.
    needs_no_tls = is_here and request.url.startswith("http://")

    try:
        async with (
            httpx2.AsyncClient(
                verify=not needs_no_tls and _certificates(),
                timeout=None,
                follow_redirects=False,
                # It reads HTTP_PROXY: a server on this machine must not be asked through another one.
                trust_env=not is_here,
            ) as client,
            client.stream(
                "POST", request.url, headers=request.headers, json=request.body
            ) as response,
        ):
            status = response.status_code

            if status != 200:
                rest_seconds = 0.0
                if status in (429, 503):
                    rest_seconds = _rest_seconds(response.headers.get("retry-after", ""))
                raise ProviderError(_("status {status}", status), status, rest_seconds)

            content = bytearray()
            async for part in response.aiter_bytes():
                content += part
                if len(content) > most_bytes:
                    raise ProviderError(_("its answer is longer than {bytes:,} bytes", most_bytes))

            return bytes(content)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        # Without the text of the error, which may hold a header, and so a key.
        raise ProviderError(_("it cannot be reached ({name})", type(error).__name__)) from None


@cache
def _certificates() -> SSLContext:
    """Return the certificates of this machine. They are read once: it takes 25 ms."""
    import httpx2

    return httpx2.create_ssl_context()


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _rest_seconds(retry_after: str) -> float:
    """Return the seconds of a header `Retry-After`; a date counts as the usual rest."""
    if not retry_after:
        return 0.0
    if not retry_after.isdecimal():
        return REST_SECONDS
    return min(float(retry_after), LONGEST_REST)
