"""Providers in order: each one is tried once, within a hard bound of time, and what it took is noted.

Nothing here retries or sleeps: who fails is followed by the next one, and is passed over for a while.
"""

from __future__ import annotations

import asyncio
import ipaddress
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlsplit

from memory_server.core.errors import ModelsFailed, StorageError
from memory_server.core.phrases import shown
from memory_server.knowledge.ports import Asked, ModelCall, ModelLedger
from memory_server.llm.wire import Provider, Sent, reply, request

T = TypeVar("T")
MOST_BYTES = 1024 * 1024
"""Of an answer: facts of a conversation are a few kilobytes."""
FAILURES, REST_SECONDS, LONGEST_REST = 3, 60.0, 3_600.0
"""After so many failures in a row a provider is passed over; a `Retry-After` is believed up to an hour."""
DAY_MS = 86_400_000


class _Refused(Exception):
    """An answer that is an error. `rest`: seconds for which the provider asks to be left alone."""

    def __init__(self, said: str, status: int = 0, rest: float = 0.0) -> None:
        super().__init__(said)
        self.status, self.rest = status, rest


@dataclass
class _Health:
    failures: int = 0
    rests_until: float = 0.0


@dataclass(eq=False)
class Chain:
    """`ports.Models` over HTTP. `environment` holds the keys; `seconds` are for one provider, `total_seconds` for all.
    `tokens_per_day` are those of all processes on this `ledger`; 0: no bound."""

    providers: Sequence[Provider]
    ledger: ModelLedger
    clock: Callable[[], int]
    environment: Mapping[str, str]
    seconds: float = 8.0
    total_seconds: float = 20.0
    tokens_per_day: int = 200_000
    _health: dict[int, _Health] = field(default_factory=dict)

    async def ask(
        self, purpose: str, system: str, data: str, schema: Mapping[str, Any], read: Callable[[dict[str, Any]], T]
    ) -> Asked[T]:
        """What the first provider that works answers, as `read` makes it, which raises ValueError for an answer that
        cannot be used.

        Raises:
            ModelsFailed: none did; the reason of each.
        """
        reasons: list[str] = []
        try:
            async with asyncio.timeout(self.total_seconds):
                for number, provider in enumerate(self.providers):
                    health = self._health.setdefault(number, _Health())
                    if health.rests_until > time.monotonic():
                        reasons.append(f"{provider.name} is passed over after failures")
                        continue
                    if self.tokens_per_day and await self.ledger.tokens(self.clock() - DAY_MS) >= self.tokens_per_day:
                        reasons.append(f"the {self.tokens_per_day:,} tokens of llm.tokens_per_day are used up")
                        break
                    try:
                        asked = await self._try(provider, purpose, system, data, schema, read)
                    except _Refused as refusal:
                        health.failures += 1
                        tired = REST_SECONDS if health.failures >= FAILURES else 0.0
                        health.rests_until = time.monotonic() + max(tired, refusal.rest)
                        reasons.append(f"{provider.name}: {refusal}")
                        continue
                    health.failures = 0
                    return asked
        except TimeoutError:
            reasons.append(f"no answer came within the {self.total_seconds:g} seconds of llm.total_seconds")
        raise ModelsFailed("; ".join(reasons))

    async def _try(
        self,
        provider: Provider,
        purpose: str,
        system: str,
        data: str,
        schema: Mapping[str, Any],
        read: Callable[[dict[str, Any]], T],
    ) -> Asked[T]:
        """One provider, and its row in the ledger. Raises _Refused: it did not answer so that it can be used."""
        key = self.environment.get(provider.key_env, "") if provider.key_env else ""
        if provider.key_env and not key:
            raise _Refused(f"the variable {provider.key_env} is not set")
        began, tokens, outcome = time.perf_counter(), (0, 0), "cancelled"
        try:
            async with asyncio.timeout(self.seconds):
                sent = request(provider, key, system, data, schema)
                try:
                    content = await _post(sent)
                except _Refused as refusal:
                    if refusal.status != 400:
                        raise
                    sent = request(provider, key, system, data, schema, structured=False)
                    content = await _post(sent)
            answer = reply(provider, sent, content)
            tokens = answer.input_tokens, answer.output_tokens
            value, outcome = read(answer.value), "answered"
        except _Refused as refusal:
            outcome = shown(str(refusal), 60)
            raise
        except TimeoutError as error:
            outcome = "timeout"
            raise _Refused(f"it took more than {self.seconds:g} seconds") from error
        except ValueError as error:
            outcome = "unusable answer"
            raise _Refused(shown(str(error), 100)) from error
        finally:
            took_ms = (time.perf_counter() - began) * 1000
            call = ModelCall(self.clock(), provider.kind, provider.model, purpose, *tokens, took_ms, outcome)
            await self._note(call)
        cost = (tokens[0] * provider.input_price + tokens[1] * provider.output_price) / 1_000_000
        return Asked(value, provider.name, *tokens, cost)

    async def _note(self, call: ModelCall) -> None:
        try:  # in a task of its own: it is counted also where the caller gives up
            await asyncio.shield(asyncio.ensure_future(self.ledger.note_call(call)))
        except StorageError:
            return  # the answer is worth more than its row


async def _post(sent: Sent) -> bytes:
    """The body of an answer with status 200. Raises _Refused: another status, too long, or no connection."""
    import httpx2

    # `trust_env` reads HTTP_PROXY: a server on this machine must not be asked through another one.
    host = urlsplit(sent.url).hostname or ""
    try:
        async with (
            httpx2.AsyncClient(timeout=None, follow_redirects=False, trust_env=not _is_here(host)) as client,
            client.stream("POST", sent.url, headers=sent.headers, json=sent.body) as answer,
        ):
            if answer.status_code != 200:
                rest = _seconds(answer.headers.get("retry-after", "")) if answer.status_code in (429, 503) else 0.0
                raise _Refused(f"status {answer.status_code}", answer.status_code, rest)
            content = bytearray()
            async for part in answer.aiter_bytes():
                content += part
                if len(content) > MOST_BYTES:
                    raise _Refused(f"its answer is longer than {MOST_BYTES:,} bytes")
            return bytes(content)
    except (httpx2.HTTPError, httpx2.InvalidURL, UnicodeError) as error:
        # Without the text of the error, which may hold a header, and so a key.
        raise _Refused(f"it cannot be reached ({type(error).__name__})") from None


def _is_here(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _seconds(text: str) -> float:
    """Of a `Retry-After`; a date counts as the usual rest."""
    return min(float(text), LONGEST_REST) if text.isdecimal() else REST_SECONDS if text else 0.0
