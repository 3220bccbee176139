"""The page at /web/ of `serve --http`: whoever types a token sees the memories of that token, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2 as httpx
import pytest
from http_server import Server, give, serving
from web_page import SAME, Parsed


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Server, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("web") / "data"
    tokens: dict[str, str] = {}
    for name, tenant, scopes in (
        ("alice", "alice", []),
        ("bob", "bob", []),
        ("carol", "alice", ["--read-only"]),
    ):
        tokens[name] = give(folder, name, "--tenant", tenant, *scopes)
    with serving(folder, http__web="true") as server:
        yield server, tokens


@contextmanager
def entered(server: Server, token: str) -> Iterator[httpx.Client]:
    """A client that was let in; its paths are below its own page."""
    with httpx.Client(base_url=server.url, timeout=30) as client:
        answer = client.post("/web/enter", data={"token": token}, headers=SAME)
        assert answer.status_code == 303, answer.text
        client.base_url = f"{server.url}{answer.headers['location']}"
        yield client


def test_a_token_shows_its_own_memories_and_no_others(
    server: tuple[Server, dict[str, str]],
) -> None:
    started, tokens = server
    for name in ("alice", "bob"):
        turn = {
            "messages": [{"role": "user", "content": f"The cat of {name} is called {name}puss."}]
        }
        headers = {"authorization": f"Bearer {tokens[name]}"}
        httpx.post(f"{started.url}/v1/remember_turn", json=turn, headers=headers).raise_for_status()
    for name, stranger in (("alice", "bob"), ("bob", "alice"), ("carol", "bob")):
        with entered(started, tokens[name]) as client:
            owner = {"carol": "alice"}.get(name, name)
            for path in ("", "subject", "history?all=1", "find?q=cat"):
                text = client.get(path, headers={"accept-language": "en"}).text
                assert f"{stranger}puss" not in text
            assert f"{owner}puss" in client.get("subject").text


def test_a_wrong_token_and_no_token_open_nothing(server: tuple[Server, dict[str, str]]) -> None:
    started, _tokens = server
    with httpx.Client(base_url=started.url) as client:
        answer = client.get("/web/", headers={"accept-language": "en"})
        assert answer.status_code == 401
        assert "Whose memories?" in Parsed(answer.text).text
        assert client.post("/web/enter", data={"token": "x" * 40}, headers=SAME).status_code == 401
        assert client.post("/web/enter", data={"token": "x" * 40}).status_code == 403
        assert client.get("/web/subject").status_code == 401
        assert client.get("/web/", headers={"host": "evil.example"}).status_code == 421


def test_the_page_is_below_an_address_that_only_its_reader_knows(
    server: tuple[Server, dict[str, str]],
) -> None:
    started, tokens = server
    with entered(started, tokens["alice"]) as alice, entered(started, tokens["bob"]) as bob:
        [cookie] = alice.cookies.jar
        path = alice.base_url.path
        assert cookie.path == path, "cookies know no ports, so the path is what others cannot guess"
        assert len(path) > len("/web//") + 40
        assert path != bob.base_url.path, "another reader is a stranger too"
        assert cookie.value not in path
        headers = {"cookie": f"{cookie.name}={cookie.value}"}
        for other_path in ("/web/", "/web/subject", "/web/x/", bob.base_url.path, path.rstrip("/")):
            answer = httpx.get(f"{started.url}{other_path}", headers=headers)
            assert answer.status_code == 401, other_path
            assert path not in answer.text
        assert httpx.get(f"{started.url}{path}").status_code == 401, "without the cookie"
        assert alice.get("").status_code == 200
        assert alice.get("static/style.css").status_code == 200


@pytest.mark.parametrize(
    "path", ["/web/", "/web/memory?id=1", "/web/of-yesterday/", "/web/of-yesterday/a/b"]
)
def test_the_form_for_a_token_works_wherever_it_is_shown(
    server: tuple[Server, dict[str, str]], path: str
) -> None:
    started, tokens = server
    with httpx.Client(base_url=started.url, timeout=30) as client:
        document = Parsed(client.get(path).text)
        [form] = document.named("form")
        [style] = [link["href"] for link in document.named("link") if link["rel"] == "stylesheet"]
        assert client.get(httpx.URL(f"{started.url}{path}").join(style)).status_code == 200
        door = httpx.URL(f"{started.url}{path}").join(form["action"])
        entered = client.post(door, data={"token": tokens["alice"]}, headers=SAME)
        assert entered.status_code == 303
        assert client.get(entered.headers["location"]).status_code == 200


def test_a_token_that_only_reads_changes_nothing(server: tuple[Server, dict[str, str]]) -> None:
    started, tokens = server
    with entered(started, tokens["carol"]) as client:
        assert not list(Parsed(client.get("health").text).named("button"))
        assert client.post("do/backup", data={"back": ""}, headers=SAME).status_code == 422


def test_without_the_setting_there_is_no_page(tmp_path: Path) -> None:
    with serving(tmp_path / "data", http__open="true") as started:
        assert httpx.get(f"{started.url}/web/").status_code == 404
