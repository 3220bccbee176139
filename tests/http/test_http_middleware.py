"""The middleware: status codes for who may enter, from where, and with what."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
import pytest
from http_server import ERAS, HANDSHAKE, MODERN, TOKEN, Asker, Server, said, serving

ORIGIN = "https://app.example.com"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("door") / "data"
    with serving(
        folder,
        "--log-level=INFO",
        "--toolsets=all",
        http__token=TOKEN,
        http__origins=ORIGIN,
        http__hosts="memory.lan",
        http__requests_per_minute="60000",
    ) as server:
        yield server


@pytest.fixture(scope="module")
def asker(server: Server) -> Asker:
    return Asker(server.url)


HOSTS = [
    ("localhost", 200),
    ("LOCALHOST:99", 200),
    ("127.0.0.1:1", 200),
    ("[::1]:80", 200),
    ("memory.lan", 200),
    ("evil.com", 421),
    ("127.0.0.1@evil", 421),
    ("127.0.0.1.evil.com", 421),
    ("localhost:80:80", 421),
    ("localhost:", 421),
    ("", 421),
]


@pytest.mark.parametrize(("host", "status"), HOSTS)
@pytest.mark.parametrize("path", ["/healthz", "/v1/openapi.json"])
def test_only_the_names_of_this_server_are_answered(
    asker: Asker, path: str, host: str, status: int
) -> None:
    assert asker.http.get(path, headers={"host": host}).status_code == status


ORIGINS = [
    (ORIGIN, 200),
    ("null", 403),
    ("http://localhost.evil.com", 403),
    ("http://localhost:1@evil.com", 403),
    ("http://localhost:1", 403),
    ("https://app.example.com.evil.com", 403),
    ("", 403),
]


@pytest.mark.parametrize(("origin", "status"), ORIGINS)
def test_only_pages_that_are_set_may_call(asker: Asker, origin: str, status: int) -> None:
    response = asker.http.get("/healthz", headers={"origin": origin})
    assert response.status_code == status
    # The page of a refused origin may read why; whether it may call is what the status and a preflight say.
    assert response.headers.get("access-control-allow-origin") == origin
    if status == 403:
        assert response.json()["error"]["kind"] == "origin"
        asks = {"origin": origin, "access-control-request-method": "POST"}
        assert asker.http.options("/mcp", headers=asks).status_code == 403


def test_pages_of_this_server_may_call(asker: Asker, server: Server) -> None:
    assert asker.http.get("/healthz", headers={"origin": server.url}).status_code == 200


def test_a_page_that_is_set_may_ask_before_it_calls(asker: Asker) -> None:
    asks = {
        "origin": ORIGIN,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,content-type,mcp-protocol-version",
    }
    answer = asker.http.options("/mcp", headers={**asks, "authorization": ""})
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == ORIGIN
    assert "authorization" in answer.headers["access-control-allow-headers"]


TOKENS: list[dict[str, str]] = [
    {},
    {"authorization": ""},
    {"authorization": "Bearer"},
    {"authorization": f"Basic {TOKEN}"},
    {"authorization": f"Bearer {TOKEN}x"},
    {"authorization": f"Bearer {TOKEN[1:]}"},
    {"authorization": TOKEN},
]
PATHS = ["/mcp", "/v1/get_memory_stats", "/v1/no_such_tool", "/metrics", "/nothing"]


@pytest.mark.parametrize("headers", TOKENS)
@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_nothing_is_answered(
    server: Server, path: str, headers: dict[str, str]
) -> None:
    anybody = Asker(server.url, None)
    response = anybody.http.post(
        f"{path}?token={TOKEN}&access_token={TOKEN}", headers=headers, json={}
    )
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith('Bearer error="invalid_token"')
    assert response.json()["error"]["kind"] == "token"


def test_two_tokens_are_none(server: Server) -> None:
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
    anybody = Asker(server.url, None)
    assert anybody.http.post("/v1/get_memory_stats", headers=twice, json={}).status_code == 401


def test_health_is_for_anybody(server: Server) -> None:
    anybody = Asker(server.url, None)
    assert anybody.http.get("/healthz").json() == {"status": "ok"}
    assert anybody.http.get("/readyz").json() == {"status": "ok"}


METHODS = [
    ("GET", "/mcp", 405),
    ("DELETE", "/mcp", 405),
    ("GET", "/v1/get_memory_stats", 405),
    ("PUT", "/v1/get_memory_stats", 405),
    ("POST", "/healthz", 405),
    ("GET", "/nothing", 404),
    ("POST", "/v1/a/b", 404),
    ("POST", "/v1/openapi.json", 404),
    ("DELETE", "/v1/openapi.json", 405),
    ("PATCH", "/readyz", 405),
    ("POST", "/mcp/", 404),
    ("GET", "/v1/", 404),
]


@pytest.mark.parametrize(("method", "path", "status"), METHODS)
def test_other_methods_and_paths_are_refused(
    asker: Asker, method: str, path: str, status: int
) -> None:
    answer = asker.http.request(method, path)
    assert answer.status_code == status
    assert answer.json()["error"]["kind"] in ("path", "not found")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/v1/openapi.json"])
def test_without_the_token_only_get_is_answered(server: Server, path: str) -> None:
    anybody = Asker(server.url, None)
    for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "NONSENSE"):
        assert anybody.http.request(method, path).status_code == 401
    assert anybody.http.head(path).status_code == 200


BODIES: list[tuple[bytes, str, int, str]] = [
    (b"{}", "text/plain", 415, "Content-Type"),
    (b"", "application/json", 400, "not JSON"),
    (b"{", "application/json", 400, "not JSON"),
    (b"[]", "application/json", 400, "JSON object"),
    (b'{"a": NaN}', "application/json", 400, "not JSON"),
    (b"\xff", "application/json", 400, "not JSON"),
    (b'{"messages": ' + b"[" * 200 + b"]" * 200 + b"}", "application/json", 400, "messages"),
    (b"[" * 9_000, "application/json", 400, "not JSON"),
    (b"[" * 100_000, "application/json", 413, "10,000 values"),
    (b'{"a": [' + b"{}," * 9_999 + b"{}]}", "application/json", 413, "10,000 values"),
    (
        orjson.dumps({f"n{number}": 1 for number in range(5_100)}),
        "application/json",
        413,
        "10,000 values",
    ),
    (orjson.dumps({"a": ["x"] * 10_001}), "application/json", 413, "10,000 values"),
    (orjson.dumps({"pattern": "[{,:" * 20_000}), "application/json", 400, "has no argument"),
    (orjson.dumps({"conversation_id": '\\"' * 40_000}), "application/json", 400, "messages"),
    (b'{"conversationId": "x"}', "application/json; charset=utf-8", 400, "did you mean"),
    (b'{"messages": []}', "application/json", 400, "messages"),
    (
        b'{"conversation_id": "a", "messages": [], "conversation_id": "b"}',
        "application/json",
        400,
        "`conversation_id`",
    ),
    (
        b'{"messages": [{"role": "user", "role": "system"}]}',
        "application/json",
        400,
        "has `role` twice",
    ),
    (b'{"\\u0061\\u001b": 1, "a\\u001b": 2}', "application/json", 400, "has `a\\x1b` twice"),
    (
        b'{"n": ' + b"9" * 300 + b', "m": [{"k": 1}, {"k": 2}]}',
        "application/json",
        400,
        "has no argument",
    ),
    (b'{"messages": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", "application/json", 400, ""),
    (b" " * (5 * 1024 * 1024), "application/json", 413, "4,194,304"),
]


@pytest.mark.parametrize(("body", "form", "status", "words"), BODIES)
def test_bodies_that_cannot_be_used_get_a_sentence(
    asker: Asker, body: bytes, form: str, status: int, words: str
) -> None:
    response = asker.http.post(
        "/v1/add_short_term_memory", content=body, headers={"content-type": form}
    )
    assert response.status_code == status
    assert words in response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/v1/get_memory_stats", "/mcp"])
@pytest.mark.parametrize("encoding", ["gzip", "br", "x" * 1_000])
def test_a_packed_body_is_refused_with_what_to_do(asker: Asker, path: str, encoding: str) -> None:
    headers = {"content-type": "application/json", "content-encoding": encoding}
    response = asker.http.post(path, content=gzip.compress(b"{}"), headers=headers)
    assert response.status_code == 415
    assert (
        response.json()["error"]["message"] == "Send the body as it is, without `Content-Encoding`."
    )
    plain = asker.http.post(
        "/v1/get_memory_stats", content=b"{}", headers=headers | {"content-encoding": "identity"}
    )
    assert plain.status_code == 200


def test_a_large_body_without_a_length_is_refused(asker: Asker) -> None:
    pieces = (b" " * 65_536 for _ in range(80))
    response = asker.http.post(
        "/v1/get_memory_stats", content=pieces, headers={"content-type": "application/json"}
    )
    assert response.status_code == 413


FAILURES: list[tuple[str, dict[str, Any], int, str]] = [
    ("no_such_tool", {}, 404, "no such tool"),
    ("get_memory_context", {"name": "nothing"}, 404, "nothing"),
    ("delete_long_term_memory", {"name": "nothing"}, 404, "nothing"),
    ("undo_change", {"changeId": "99-ffff"}, 400, "99-ffff"),
    ("add_long_term_memory", {"name": "x", "prompt": "y", "trigger": "((("}, 400, "line"),
]


@pytest.mark.parametrize(("tool", "arguments", "status", "words"), FAILURES)
def test_failures_have_the_sentence_of_the_tool(
    asker: Asker, tool: str, arguments: dict[str, Any], status: int, words: str
) -> None:
    response = asker.call(tool, arguments)
    assert (response.status_code, words in response.text) == (status, True), response.text


NAMES = [
    ("%E5%B0%8F%E6%98%8E", 200),
    ("chat", 200),
    ("%FF", 400),
    ("a" * 300, 400),
    ("%0A", 400),
    ("%20", 400),
    ("", 400),
]


@pytest.mark.parametrize(("name", "status"), NAMES)
@pytest.mark.parametrize("path", ["/v1/get_memory_stats", "/mcp"])
def test_the_header_of_the_conversation_is_checked(
    asker: Asker, path: str, name: str, status: int
) -> None:
    if path == "/mcp":
        response = asker.mcp(MODERN, "tools/list", x_memory_conversation=name)
    else:
        response = asker.call("get_memory_stats", x_memory_conversation=name)
    assert response.status_code == status, response.text


@pytest.mark.parametrize("name", ["User-ID", "Agent-ID", "Run-ID", "Session-Metadata"])
def test_headers_of_sessions_are_refused(asker: Asker, name: str) -> None:
    response = asker.call("get_memory_stats", **{f"X-Memory-{name}": "x"})
    assert response.status_code == 400
    assert "sessions" in response.json()["error"]["message"]


def test_the_header_names_the_conversation_in_both_eras_and_rest(asker: Asker) -> None:
    for number, era in enumerate(ERAS):
        params = {"name": "remember_turn", "arguments": said(f"turn {number}")}
        asker.mcp(era, "tools/call", params, x_memory_conversation=f"from-{era}")
    asker.call("remember_turn", said("turn 2"), x_memory_conversation="from-rest")
    for name in (MODERN, HANDSHAKE, "rest"):
        assert "1" in asker.call("get_memory_stats", x_memory_conversation=f"from-{name}").text
        assert asker.done("get_memory_stats", conversation_id=f"from-{name}")["total"] == 1


def test_a_header_may_be_raw_utf_8_and_another_encoding_is_refused(server: Server) -> None:
    def status(name: bytes) -> int:
        address = urlsplit(server.url)
        with socket.create_connection((address.hostname or "", address.port or 0)) as line:
            line.sendall(
                b"POST /v1/remember_turn HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                b"Authorization: Bearer "
                + TOKEN.encode()
                + b"\r\nContent-Type: application/json\r\n"
                b"X-Memory-Conversation: "
                + name
                + b"\r\nContent-Length: 52\r\n\r\n"
                + b'{"messages": [{"role": "user", "content": "mango"}]}'
            )
            return int(line.makefile("rb").readline().split()[1])

    assert status("若溪".encode()) == 200
    assert Asker(server.url, TOKEN).done("get_memory_stats", conversation_id="若溪")["total"] == 1
    assert status("café".encode("latin-1")) == 400


def test_a_tool_that_is_nearly_one_is_named(asker: Asker) -> None:
    answer = asker.call("recal_turn", said("mango"))
    assert answer.status_code == 404
    assert "did you mean `recall_turn`?" in answer.text


def test_the_log_has_one_line_for_a_request_and_nothing_of_its_contents(
    asker: Asker, server: Server
) -> None:
    asker.http.post(
        "/v1/get_memory_stats?q=secret-query",
        json={},
        headers={"x-memory-conversation": "secret-name"},
    )
    assert '"POST /v1/get_memory_stats 200' in server.said()
    assert "secret" not in server.said()
    assert TOKEN not in server.said()


RAW = [
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
    b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
    b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1",
]


@pytest.mark.parametrize("data", RAW)
def test_what_is_not_plain_http_gets_nothing(server: Server, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.partition(b" ")[2][:3] in (b"400", b"401", b"421", b"431"), answer
    assert answer.count(b"HTTP/1.1 ") == 1


NOT_STARTED: list[tuple[dict[str, str], list[str], str]] = [
    ({}, [], "tokens add"),
    ({"http__token": "short"}, [], "32"),
    ({"http__token": TOKEN, "http__open": "true"}, [], "keep only one"),
    ({"http__open": "true"}, ["--http", "0.0.0.0:0"], "tokens add"),
    ({"http__jwt__issuer": "https://id.example.com"}, [], "http.jwt.jwks"),
    ({"http__token": TOKEN}, ["--http", "nonsense"], "not an address"),
    ({"http__token": TOKEN}, ["--http", "127.0.0.1:99999"], "not an address"),
    ({"http__token": TOKEN}, ["--http", "203.0.113.1:9"], "Cannot listen"),
    ({"http__token": TOKEN, "toolsets": "nothing"}, [], "toolset"),
    ({"http__tokens": "missing.jsonl"}, [], "missing.jsonl"),
]


START_ALL = """
import json, os, sys
from memory_server.cli.parser import main
usual = dict(os.environ)
for number, (settings, arguments) in enumerate(json.loads(sys.argv[1])):
    os.environ.clear()
    os.environ.update(usual | {f"MEMORY_SERVER_{name.upper()}": value for name, value in settings.items()})
    try:
        status = main(["serve", "--http", "0", "--data-dir", f"data{number}", *arguments])
    except SystemExit as ended:
        status = ended.code
    print(f"ended with {status}", file=sys.stderr, flush=True)
"""


def test_a_server_that_nobody_could_use_does_not_start(tmp_path: Path) -> None:
    cases = json.dumps([(settings, arguments) for settings, arguments, _ in NOT_STARTED])
    completed = subprocess.run(
        [sys.executable, "-c", START_ALL, cases],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    parts = re.split(r"ended with (\S+)\n", completed.stderr)
    assert len(parts) == 2 * len(NOT_STARTED) + 1, completed.stderr
    for case, log, status in zip(NOT_STARTED, parts[::2], parts[1::2], strict=False):
        assert case[-1] in log, (case, log)
        assert status != "0", case
        assert "http://" not in log, (case, log)
