"""Providers on a bad day: an answer, or a failure with its reasons, always within the bound of time."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from llm.fake_provider import Act, completion, failure, provider

from memory_server.kernel.errors import ModelsFailed
from memory_server.knowledge.ports import ModelCall, ModelResponse
from memory_server.llm.chain import FallbackChain, ProviderClient
from memory_server.llm.wire import Provider
from memory_server.storage.entries.sqlite_store import SqliteStore

pytestmark = pytest.mark.anyio
KEY = "sk-very-secret-0123456789"
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}


def now_ms() -> int:
    return int(time.time() * 1000)


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(tmp_path / "k.sqlite3", now_ms)
    yield store
    await store.aclose()


def read(answer: Mapping[str, Any]) -> str:
    if not isinstance(answer.get("text"), str):
        raise ValueError("its answer has no text")
    return str(answer["text"])


def chain(ledger: SqliteStore, *urls: str, kind: Any = "openai", **options: Any) -> FallbackChain:
    providers = [
        Provider(kind, f"m{number}", url, "KEY", 2.0, 10.0) for number, url in enumerate(urls)
    ]
    tokens = options.pop("tokens_per_day", 200_000)
    return FallbackChain(
        [ProviderClient(model, ledger, now_ms, {"KEY": KEY}, tokens) for model in providers],
        **options,
    )


def contents(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


async def ask(models: FallbackChain) -> ModelResponse[str]:
    return await models.ask("test", "be brief", "{}", SCHEMA, read)


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_each_kind_asks_in_its_form(ledger: SqliteStore, kind: Any) -> None:
    async with provider(lambda _: completion({"text": "好"}, kind=kind)) as fake:
        done = await ask(chain(ledger, fake.url, kind=kind))
    assert (done.value, done.input_tokens, done.output_tokens) == ("好", 100, 20)
    assert done.cost == pytest.approx((100 * 2 + 20 * 10) / 1e6)
    [body] = fake.bodies
    [headers] = fake.headers
    assert "temperature" not in body
    if kind == "openai":
        assert (fake.paths, headers["authorization"]) == (["/v1/chat/completions"], f"Bearer {KEY}")
        assert body["response_format"]["json_schema"]["schema"] == SCHEMA
        assert "max_tokens" not in body
    else:
        assert (fake.paths, headers["x-api-key"]) == (["/v1/messages"], KEY)
        assert body["tool_choice"] == {"type": "tool", "name": "answer"}
    assert await ledger.tokens(0, now_ms()) == 120


HTML = (200, {"content-type": "text/html"}, b"<html>Bad gateway</html>")
FAULTS: dict[str, tuple[Act, str]] = {
    "500": (lambda _: failure(500), "status 500"),
    "401": (lambda _: failure(401), "status 401"),
    "429": (lambda _: failure(429, retry_after="1"), "status 429"),
    "429 for an hour": (lambda _: failure(429, retry_after="3600"), "status 429"),
    "redirect": (lambda _: failure(302, location="http://192.0.2.1/"), "status 302"),
    "hang": (lambda _: "hang", "more than 0.3 seconds"),
    "trickle": (lambda _: "trickle", "more than 0.3 seconds"),
    "HTML": (lambda _: HTML, "not in the form of its kind"),
    "2 MB": (lambda _: (200, {}, b" " * 2_000_000), "longer than 1,048,576 bytes"),
    "no JSON": (
        lambda _: completion("Certainly! Here are the facts."),
        "not in the form of its kind",
    ),
    "wrong JSON": (lambda _: completion({"facts": 7}), "its answer has no text"),
    "JSON of another": (lambda _: (200, {}, b"[1]"), "not in the form of its kind"),
    "deep": (lambda _: (200, {}, b"[" * 500_000), "not in the form of its kind"),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_who_fails_is_followed_by_the_next_one(ledger: SqliteStore, fault: str) -> None:
    act, reason = FAULTS[fault]
    seconds = seconds_alone = 20.0  # a busy machine answers late, and is not silent
    if fault in ("hang", "trickle"):
        seconds, seconds_alone = 1.0, 0.3
    async with provider(act) as bad, provider(lambda _: completion({"text": "ok"})) as good:
        with pytest.raises(ModelsFailed) as alone:
            await ask(chain(ledger, bad.url, seconds=seconds_alone))
        done = await ask(chain(ledger, bad.url, good.url, seconds=seconds))
        assert (done.value, done.provider) == ("ok", "openai/m1")
    assert reason in str(alone.value)
    assert KEY not in str(alone.value)
    assert len(bad.bodies) == 2, "one try each"


async def test_the_bound_of_all_providers_holds(ledger: SqliteStore) -> None:
    async with provider(lambda _: "hang") as bad:
        began = time.monotonic()
        with pytest.raises(ModelsFailed, match=r"within the 0\.7 seconds of llm\.total_seconds"):
            await ask(chain(ledger, bad.url, bad.url, bad.url, seconds=20, total_seconds=0.7))
        assert time.monotonic() - began < 20


async def test_a_server_without_structured_answers_is_asked_in_words(ledger: SqliteStore) -> None:
    def act(body: dict[str, Any]) -> Any:
        if "response_format" in body:
            return failure(400)
        return completion('Sure: {"text": "ok"} I hope it helps.')

    async with provider(act) as fake:
        assert (await ask(chain(ledger, fake.url))).value == "ok"
    assert len(fake.bodies) == 2


async def test_who_fails_three_times_or_asks_for_it_is_passed_over(ledger: SqliteStore) -> None:
    async with (
        provider(lambda _: failure(500)) as bad,
        provider(lambda _: failure(429, retry_after="30")) as busy,
    ):
        models = chain(ledger, bad.url, busy.url)
        for _ in range(5):
            with pytest.raises(ModelsFailed) as refused:
                await ask(models)
    assert (len(bad.bodies), len(busy.bodies)) == (3, 1)
    assert "openai/m0 is passed over after failures" in str(refused.value)


async def test_an_answer_that_was_cut_off_is_not_used(ledger: SqliteStore) -> None:
    for kind, end in (
        ("openai", {"finish_reason": "length"}),
        ("anthropic", {"stop_reason": "max_tokens"}),
    ):
        status, headers, content = completion({"text": "half a"}, kind=kind)
        body = json.loads(content)
        ended = body["choices"][0] if kind == "openai" else body
        ended.update(end)
        answer = status, headers, json.dumps(body).encode()
        async with provider(lambda _, answer=answer: answer) as fake:
            with pytest.raises(ModelsFailed, match="its answer was cut off"):
                await ask(chain(ledger, fake.url, kind=kind))


async def test_a_rest_is_not_shortened_by_a_later_failure(ledger: SqliteStore) -> None:
    answers = [failure(429, retry_after="3600"), failure(500)]
    async with provider(lambda _: answers.pop(0)) as fake:
        models = chain(ledger, fake.url)
        await asyncio.gather(ask(models), ask(models), return_exceptions=True)
        with pytest.raises(ModelsFailed, match="passed over"):
            await ask(models)


async def test_tokens_of_the_future_do_not_count(ledger: SqliteStore) -> None:
    await ledger.note_call(
        ModelCall(now_ms() + 365 * 86_400_000, "openai", "m", "test", 500, 0, 1.0, "answered")
    )
    async with provider(lambda _: completion({"text": "ok"})) as fake:
        assert (await ask(chain(ledger, fake.url, tokens_per_day=200))).value == "ok"


async def test_the_tokens_of_all_processes_count(ledger: SqliteStore, tmp_path: Path) -> None:
    ledger_of_another = SqliteStore(tmp_path / "k.sqlite3", now_ms)
    async with provider(lambda _: completion({"text": "ok"}, (60, 40))) as fake:
        for store in (ledger, ledger_of_another):
            await ask(chain(store, fake.url, tokens_per_day=200))
        with pytest.raises(
            ModelsFailed, match=r"the 200 tokens of llm\.tokens_per_day are used up"
        ):
            await ask(chain(ledger, fake.url, tokens_per_day=200))
        assert len(fake.bodies) == 2
        await ask(chain(ledger, fake.url, tokens_per_day=0))
    await ledger_of_another.aclose()


async def test_an_answer_without_usage_is_counted_by_its_length(ledger: SqliteStore) -> None:
    content = json.dumps({"choices": [{"message": {"content": '{"text": "ok"}'}}]}).encode()
    async with provider(lambda _: (200, {}, content)) as fake:
        done = await ask(chain(ledger, fake.url))
    assert done.input_tokens > 20
    assert done.output_tokens > 10


async def test_a_proxy_does_not_touch_loopback_and_no_key_is_kept(
    ledger: SqliteStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    caplog.set_level("DEBUG")
    async with provider(lambda _: completion({"text": "ok"})) as fake:
        assert (await ask(chain(ledger, fake.url))).value == "ok"
    unreachable = chain(ledger, fake.url)
    with pytest.raises(ModelsFailed, match=r"it cannot be reached \(ConnectError\)"):
        await ask(unreachable)
    assert KEY not in caplog.text
    assert all(KEY.encode() not in content for content in contents(tmp_path))


@pytest.mark.parametrize(
    ("key", "reason"), [("", "the variable KEY is not set"), ("a\nb", "cannot be reached")]
)
async def test_a_key_that_cannot_be_sent(ledger: SqliteStore, key: str, reason: str) -> None:
    async with provider(lambda _: completion({"text": "ok"})) as fake:
        models = FallbackChain(
            [ProviderClient(Provider("openai", "m", fake.url, "KEY"), ledger, now_ms, {"KEY": key})]
        )
        with pytest.raises(ModelsFailed, match=reason) as refused:
            await ask(models)
    assert "a\nb" not in str(refused.value)
    assert fake.bodies == []
