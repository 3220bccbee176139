"""JWTs of an identity provider: only those that are meant for this server count, and each names its tenant."""

from __future__ import annotations

import asyncio
import json
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from http_server import MODERN, Asker, Server, said, serving
from starlette.applications import Starlette
from starlette.testclient import TestClient

from memory_server.config.settings import HttpSettings, JwtSettings
from memory_server.serving.http import jwt_tokens
from memory_server.serving.http.middleware import Enter
from memory_server.serving.http.refusals import HttpError

ISSUER = "https://id.example.com"
PUBLIC = "https://memory.example.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
PEM = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    usual = {
        "iss": ISSUER,
        "aud": f"{PUBLIC}/mcp",
        "sub": "ming",
        "exp": now + 600,
        "scope": "read write",
    }
    return {name: value for name, value in {**usual, **changed}.items() if value is not None}


def signed(
    payload: dict[str, Any], key: Any = KEY, algorithm: str = "RS256", kid: str | None = "one"
) -> str:
    return jwt.encode(payload, key, algorithm, headers={"kid": kid} if kid else None)


def with_secret(payload: dict[str, Any], secret: bytes) -> str:
    """HS256 with the public key as the secret; PyJWT itself refuses to make one."""
    import base64
    import hmac

    def part(data: bytes) -> bytes:
        return base64.urlsafe_b64encode(data).rstrip(b"=")

    text = part(b'{"alg":"HS256","kid":"one"}') + b"." + part(json.dumps(payload).encode())
    return (text + b"." + part(hmac.digest(secret, text, "sha256"))).decode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("jwt")
    keys = [
        {
            **json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key())),
            "kid": "one",
            "alg": "RS256",
        },
        {
            **json.loads(jwt.algorithms.ECAlgorithm.to_jwk(CURVE.public_key())),
            "kid": "two",
            "alg": "ES256",
        },
    ]
    (folder / "jwks.json").write_text(json.dumps({"keys": keys}))
    with serving(
        folder / "data",
        http__public_url=PUBLIC,
        http__jwt__issuer=ISSUER,
        http__jwt__jwks=str(folder / "jwks.json"),
        http__jwt__write_scope="write",
        ready=False,
    ) as server:
        yield server


GOOD: tuple[Callable[[], str], ...] = (
    lambda: signed(claims()),
    lambda: signed(claims(aud=[PUBLIC, "https://other.example.com"])),
    lambda: signed(claims(), CURVE, "ES256", "two"),
    lambda: signed(claims(aud=f"{PUBLIC}/")),
    lambda: signed(claims(aud=f"{PUBLIC}/mcp/")),
)
"""Made when they are used: a long run of tests takes longer than they count."""


@pytest.mark.parametrize("make_token", GOOD)
def test_a_token_for_this_server_counts(server: Server, make_token: Callable[[], str]) -> None:
    token = make_token()
    asker = Asker(server.url, token)
    assert asker.call("get_memory_stats").status_code == 200
    assert asker.mcp(MODERN, "tools/list").status_code == 200


NOW = int(time.time())
BAD = {
    "nothing": "-",
    "not a token": "a.b.c",
    "no signature": jwt.encode(claims(), None, "none"),
    "secret of the public key": with_secret(claims(), PEM),
    "another key": signed(claims(), OTHER),
    "unknown key": signed(claims(), OTHER, kid="three"),
    "no key id, two keys": signed(claims(), kid=None),
    "another audience": signed(claims(aud="https://other.example.com")),
    "no audience": signed(claims(aud=None)),
    "another issuer": signed(claims(iss="https://evil.example.com")),
    "expired": signed(claims(exp=NOW - 60)),
    "never expires": signed(claims(exp=None)),
    "not yet": signed(claims(nbf=NOW + 600)),
    "no tenant": signed(claims(sub=None)),
    "empty tenant": signed(claims(sub="")),
    "long tenant": signed(claims(sub="a" * 300)),
    "tenant with a line break": signed(claims(sub="a\nb")),
    "tenant of another normal form": signed(claims(sub=unicodedata.normalize("NFD", "é"))),
}


@pytest.mark.parametrize("case", BAD)
def test_other_tokens_do_not_count(server: Server, case: str) -> None:
    response = Asker(server.url, BAD[case]).call("get_memory_stats")
    assert response.status_code == 401
    challenge = f'resource_metadata="{PUBLIC}/.well-known/oauth-protected-resource/mcp"'
    assert challenge in response.headers["www-authenticate"]


def test_tenants_are_apart_and_a_scope_is_needed_to_write(server: Server) -> None:
    ming, hong = (Asker(server.url, signed(claims(sub=name))) for name in ("小明", "小红"))
    ming.done("remember_turn", **said("mango"))
    assert (ming.done("get_memory_stats")["total"], hong.done("get_memory_stats")["total"]) == (
        1,
        0,
    )
    reader = Asker(server.url, signed(claims(sub="小明", scope="read")))
    assert reader.call("remember_turn", said("x")).status_code == 403
    assert reader.done("get_memory_stats")["total"] == 1


@pytest.mark.parametrize("scope", [[{"a": 1}], [["read"]], [1, None], {"read": 1}, 5])
def test_scopes_that_are_not_texts_give_nothing(server: Server, scope: object) -> None:
    asker = Asker(server.url, signed(claims(scope=scope)))
    assert asker.call("get_memory_stats").status_code == 200, (
        "this server wants no scope for reading"
    )
    assert asker.call("remember_turn", said("x")).status_code == 403


def test_clients_find_the_identity_provider(server: Server) -> None:
    anybody = Asker(server.url, None)
    metadata = anybody.http.get("/.well-known/oauth-protected-resource/mcp").json()
    assert metadata["resource"] == f"{PUBLIC}/mcp"
    assert metadata["authorization_servers"] == [ISSUER]


@pytest.mark.parametrize(
    "issuer",
    ["https://id.example.com", "https://ID.example.com:443/a/", "https://id.example.com/?a=B"],
)
@pytest.mark.parametrize(
    "public",
    ["https://memory.example.com", "https://Memory.example.com:443/base", "http://münchen.example"],
)
def test_the_urls_of_the_settings_are_published_to_the_letter(issuer: str, public: str) -> None:
    settings = HttpSettings(
        public_url=public, jwt=JwtSettings(issuer=issuer, jwks="/keys", tenant_claim="sub")
    )
    _enter, [route], challenge = jwt_tokens.entrance(settings)
    origin, slash, path = public.partition("://")[2].partition("/")
    asker = TestClient(Starlette(routes=[route]))
    metadata = asker.get(f"/.well-known/oauth-protected-resource{slash}{path}/mcp").json()
    assert metadata["resource"] == f"{public}/mcp"
    assert metadata["authorization_servers"] == [issuer]
    assert f"://{origin}/.well-known/oauth-protected-resource{slash}{path}/mcp" in challenge


@pytest.mark.parametrize("path", ["/mcp/", "/v1/recall_turn/"])
def test_a_slash_that_a_client_adds_to_a_path_is_named(server: Server, path: str) -> None:
    asker = Asker(server.url, signed(claims()))
    answer = asker.http.post(path, json={})
    assert answer.status_code == 404
    assert "leave out the `/` at its end" in answer.json()["error"]["message"]


def test_the_public_name_is_a_name_of_this_server(server: Server) -> None:
    anybody = Asker(server.url, None)
    assert anybody.http.get("/healthz", headers={"host": "memory.example.com"}).status_code == 200


def test_metrics_are_for_nobody_without_a_scope_for_them(server: Server) -> None:
    asker = Asker(server.url, signed(claims(scope="read write operator")))
    assert asker.http.get("/metrics").status_code == 403


def test_without_the_keys_callers_are_asked_to_wait(tmp_path: Path) -> None:
    settings = {"http__public_url": PUBLIC, "http__jwt__issuer": ISSUER}
    with serving(
        tmp_path / "data", ready=False, **settings, http__jwt__jwks="http://127.0.0.1:9/jwks"
    ) as server:
        response = Asker(server.url, signed(claims())).call("get_memory_stats")
    assert response.status_code == 503
    assert response.headers["retry-after"] == "10"


class Provider:
    """An identity provider on loopback: `keys` are its keys, and `asked` counts who wants them. `hangs`: it takes
    connections and says nothing. `drips`: its answer has no end."""

    def __init__(self, *, hangs: bool = False, drips: bool = False, status: int = 200) -> None:
        self.keys: list[dict[str, Any]] = [as_jwk(KEY, "one")]
        self.asked = 0
        self.hangs = hangs
        self.over = threading.Event()
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.asked += 1
                if provider.hangs:
                    provider.over.wait()
                data = json.dumps({"keys": provider.keys}).encode()
                self.send_response(status)
                self.send_header("location", "/elsewhere")
                if drips:
                    self.end_headers()
                    while not provider.over.wait(0.05):
                        self.wfile.write(b" ")
                    return
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None: ...

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(
            target=self.http.serve_forever, kwargs={"poll_interval": 0.01}
        )

    def __enter__(self) -> Provider:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.http.shutdown()
        self.http.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http.server_port}/jwks"

    def settings(self) -> dict[str, str]:
        return {
            "http__public_url": PUBLIC,
            "http__jwt__issuer": ISSUER,
            "http__jwt__jwks": self.url,
        }


def as_jwk(key: rsa.RSAPrivateKey, kid: str) -> dict[str, Any]:
    return {
        **json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())),
        "kid": kid,
        "alg": "RS256",
    }


def shorten_fetches(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(jwt_tokens, "FETCH_SECONDS", seconds)
    monkeypatch.setattr(jwt_tokens, "AGAIN_SECONDS", seconds)


def entrance_of(provider: Provider) -> Enter:
    """The entrance of a server whose keys this provider has."""
    settings = {"public_url": PUBLIC, "jwt": {"issuer": ISSUER, "jwks": provider.url}}
    return jwt_tokens.entrance(HttpSettings.model_validate(settings))[0]


def test_a_new_key_is_looked_up_once_and_old_ones_outlive_the_provider(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The entrance of a server, which looks for keys more often than one in a process."""
    shorten_fetches(monkeypatch, 1.0)

    async def ask(provider: Provider) -> None:
        enter = entrance_of(provider)
        known_key = signed(claims())
        new_key = signed(claims(), OTHER, kid="two")
        assert await enter(known_key) is not None
        began = time.monotonic()
        provider.keys.append(as_jwk(OTHER, "two"))
        while await enter(new_key) is None:
            assert time.monotonic() - began < 15
            await asyncio.sleep(0.02)
        assert provider.asked == 2, "a key that is not known is not looked up at once again"
        found_at = time.monotonic()
        for number in range(20):
            assert await enter(signed(claims(), OTHER, kid=f"made up {number}")) is None
        assert provider.asked <= 2 + (time.monotonic() - found_at) / jwt_tokens.AGAIN_SECONDS
        provider.__exit__()
        assert await enter(known_key) is not None, "known keys count while the provider is away"

    with Provider() as provider:
        asyncio.run(ask(provider))


@pytest.mark.full
def test_a_new_key_of_the_provider_is_looked_up_once_and_old_ones_outlive_it(
    tmp_path: Path,
) -> None:
    with Provider() as provider, serving(tmp_path / "data", **provider.settings()) as server:
        known_key = Asker(server.url, signed(claims()))
        new_key = Asker(server.url, signed(claims(), OTHER, kid="two"))
        assert known_key.call("get_memory_stats").status_code == 200
        provider.keys.append(as_jwk(OTHER, "two"))
        began = time.monotonic()
        while (status := new_key.call("get_memory_stats").status_code) == 401:
            assert time.monotonic() - began < 15
            time.sleep(0.5)
        assert status == 200
        assert provider.asked == 2, "a key that is not known is looked up at most every ten seconds"
        for number in range(20):
            made_up = Asker(server.url, signed(claims(), OTHER, kid=f"made up {number}"))
            assert made_up.call("get_memory_stats").status_code == 401
        assert provider.asked == 2
        provider.__exit__()
        assert known_key.call("get_memory_stats").status_code == 200, (
            "keys that are known count while the provider is away"
        )


def test_all_calls_wait_for_one_look_at_a_provider_that_hangs_and_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shorten_fetches(monkeypatch, 1.0)

    async def ask(provider: Provider) -> None:
        enter = entrance_of(provider)
        began = time.monotonic()
        calls = asyncio.gather(*(enter(signed(claims())) for _ in range(8)), return_exceptions=True)
        await asyncio.sleep(0.05)
        assert not calls.done(), "nothing else waits while they do"
        refusals = await calls
        assert {refusal.status for refusal in refusals} == {503}  # type: ignore[union-attr]
        assert time.monotonic() - began < 8
        assert provider.asked == 1

    with Provider(hangs=True) as provider:
        asyncio.run(ask(provider))


@pytest.mark.full
def test_a_provider_that_hangs_keeps_nobody_waiting_for_long(tmp_path: Path) -> None:
    with (
        Provider(hangs=True) as provider,
        serving(tmp_path / "data", **provider.settings()) as server,
    ):
        began = time.monotonic()
        with ThreadPoolExecutor(8) as threads:
            calls = [
                threads.submit(Asker(server.url, signed(claims())).call, "get_memory_stats")
                for _ in range(8)
            ]
            assert Asker(server.url, None).http.get("/healthz").status_code == 200
            assert {call.result().status_code for call in calls} == {503}
        assert time.monotonic() - began < 10
        assert provider.asked == 1


def test_all_wait_for_one_look_and_nobody_for_a_key_that_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def ask(provider: Provider) -> None:
        keys = jwt_tokens._Keys(provider.url)
        assert await keys.find("one") is not None
        shorten_fetches(monkeypatch, 1.5)
        provider.hangs = True
        keys._good_until = 0.0
        keys._next_look = 0.0
        assert all(await asyncio.gather(*(keys.find("one") for _ in range(3))))
        assert keys._looking is not None, "nobody waits for a look"
        assert (
            await asyncio.gather(*(keys.find(f"made up {number}") for number in range(8)))
            == [None] * 8
        )
        assert provider.asked == 2, "all wait for one look"
        assert await keys.find("made up later") is None
        assert provider.asked == 2, "the time between looks begins at the end of a look"

    with Provider() as provider:
        asyncio.run(ask(provider))


def test_a_provider_that_drips_has_one_thread_which_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shorten_fetches(monkeypatch, 0.2)
    started: list[threading.Thread] = []
    start = threading.Thread.start

    def noted_start(thread: threading.Thread) -> None:
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", noted_start)

    async def ask(provider: Provider) -> None:
        keys = jwt_tokens._Keys(provider.url)
        threads_before = threading.active_count() - provider.asked
        for _ in range(3):
            with pytest.raises(HttpError):
                await keys.find("one")
            assert (
                threading.active_count() - threads_before - 1 <= 1 + provider.asked
            )  # the provider has one for each call
            key_threads = [thread for thread in started if thread.name == "keys of tokens"]
            assert key_threads
            assert all(thread.daemon for thread in key_threads), "a process can end meanwhile"
            await asyncio.sleep(0.25)
        deadline = time.monotonic() + 60
        while any(thread.name == "keys of tokens" for thread in threading.enumerate()):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)

    with Provider(drips=True) as provider:
        asyncio.run(ask(provider))
    assert "The keys of tokens are not available: TimeoutError" in caplog.messages


@pytest.mark.full
def test_a_server_ends_while_its_provider_drips(tmp_path: Path) -> None:
    with (
        Provider(drips=True) as provider,
        serving(tmp_path / "data", **provider.settings()) as server,
    ):
        with ThreadPoolExecutor(1) as thread:
            call = thread.submit(Asker(server.url, signed(claims())).call, "get_memory_stats")
            while not provider.asked:
                time.sleep(0.02)
            began = time.monotonic()
            server.process.terminate()
            call.exception()
        server.process.wait(30)
        assert time.monotonic() - began < 20


UNUSABLE = {
    "deep": b"[" * 100_000,
    "not an object": b"[]",
    "not keys": b'{"keys": [1]}',
    "not JSON": b"keys",
}


@pytest.mark.parametrize("case", UNUSABLE)
def test_keys_that_are_not_usable_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    (tmp_path / "jwks").write_bytes(UNUSABLE[case])
    with pytest.raises(HttpError):
        asyncio.run(jwt_tokens._Keys(str(tmp_path / "jwks")).find("one"))
    assert caplog.messages[0].startswith("The keys of tokens are not available: ")


@pytest.mark.parametrize(
    ("status", "keys", "reason"), [(302, 1, "302"), (200, 5_000, "longer than 1,048,576 bytes")]
)
def test_an_answer_that_is_elsewhere_or_too_long_is_not_taken(
    caplog: pytest.LogCaptureFixture, status: int, keys: int, reason: str
) -> None:
    with Provider(status=status) as provider:
        provider.keys *= keys
        with pytest.raises(HttpError):
            asyncio.run(jwt_tokens._Keys(provider.url).find("one"))
    assert (provider.asked, reason in caplog.text) == (1, True)


def test_a_provider_on_this_machine_is_asked_without_a_proxy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    with Provider() as provider:
        assert asyncio.run(jwt_tokens._Keys(provider.url).find("one")) is not None


def test_a_file_of_tokens_and_jwts_are_two_ways(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("")
    settings = {"http__public_url": PUBLIC, "http__jwt__issuer": ISSUER, "http__jwt__jwks": "x"}
    with (
        pytest.raises(AssertionError, match="keep only one"),
        serving(tmp_path / "data", **settings, http__tokens=str(tmp_path / "tokens")),
    ):
        pass
