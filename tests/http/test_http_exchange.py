"""`POST /v1/import` and `/v1/export`: files come and go over HTTP, by the rules of the commands."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from http_server import TOKEN, Asker, give, said, serving

CHAT = "user: The spare key is under the fern.\nassistant: I will remember the fern.\n"
"""A chat of one exchange."""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("home") / "data", http__token=TOKEN) as server:
        yield server.url


def refusal(asker: Asker, path: str, arguments: dict[str, Any]) -> tuple[int, str]:
    answer = asker.call(path, arguments)
    return answer.status_code, answer.json()["error"]["message"]


def test_what_is_imported_comes_to_mind_and_is_exported_again(url: str) -> None:
    asker = Asker(url)
    chat = {"content": CHAT, "format": "chat", "conversation_id": "home"}
    planned = asker.done("import", **chat, dry_run=True)
    assert [(place["place"], place["added"]) for place in planned["places"]] == [("home", 1)]
    assert asker.call("export", {"conversation_id": "home"}).status_code == 400, "it was a dry run"

    done = asker.done("import", **chat)
    assert done["formats"] == ["chat"]
    assert (done["usable"], done["leftOut"]) == (1, 0)
    again = asker.done("import", **chat)
    assert again["places"][0]["added"] == 0
    assert again["places"][0]["unchanged"] == 1

    exported = asker.call("export", {"conversation_id": "home"})
    assert exported.headers["content-type"] == "application/json"
    assert "under the fern" in exported.text
    other = asker.done("import", content=exported.text)
    assert other["places"][0]["unchanged"] == 1
    page = asker.call("export", {"format": "markdown"})
    assert page.headers["content-type"].startswith("text/markdown")
    assert "under the fern" in page.text


def test_a_file_that_is_not_text_is_given_in_base64(url: str) -> None:
    asker = Asker(url)
    asker.done("import", content=CHAT, format="chat", conversation_id="packed")
    exported = asker.call("export", {"conversation_id": "packed"})
    packed = base64.b64encode(gzip.compress(exported.content)).decode()
    done = asker.done("import", base64=packed, dry_run=True)
    assert done["formats"] == ["native"]
    assert done["places"][0]["unchanged"] == 1


@pytest.mark.parametrize(
    ("path", "arguments", "reason"),
    [
        ("import", {}, "Give the file as `content`"),
        ("import", {"content": CHAT, "base64": "eA=="}, "Give the file as `content`"),
        ("import", {"content": CHAT, "format": "novel"}, "no format novel"),
        ("import", {"content": CHAT, "source": "/etc/passwd"}, "Extra inputs are not permitted"),
        ("import", {"content": CHAT, "dry_run": "yes"}, "valid boolean"),
        ("import", {"base64": "===", "dry_run": True}, "base64"),
        ("export", {"format": "node"}, "'native'"),
        ("export", {"conversation_id": "nobody was here"}, "There is nothing to export"),
    ],
)
def test_a_wrong_request_is_refused_in_a_sentence(
    url: str, path: str, arguments: dict[str, Any], reason: str
) -> None:
    status, message = refusal(Asker(url), path, arguments)
    assert status == 400
    assert reason in message
    assert "/data" not in message, "a path of the server"


def test_each_token_has_its_own_and_one_that_reads_imports_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tokens = {
        "a": give(folder, "a", "--tenant", "a"),
        "b": give(folder, "b", "--tenant", "b"),
        "reads": give(folder, "reads", "--tenant", "a", "--read-only"),
    }
    with serving(folder, ready=False) as server:
        askers = {name: Asker(server.url, token) for name, token in tokens.items()}
        chat = {"content": CHAT, "format": "chat"}
        assert askers["a"].done("import", **chat)["usable"] == 1
        assert "under the fern" in askers["reads"].call("export").text
        assert refusal(askers["b"], "export", {})[0] == 400
        status, message = refusal(askers["reads"], "import", chat)
        assert (status, "only reads" in message) == (403, True)
        assert askers["reads"].done("import", **chat, dry_run=True)["usable"] == 1
        assert Asker(server.url, None).call("export").status_code == 401


def test_a_tenant_without_room_imports_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "a", "--tenant", "a")
    with serving(
        folder, ready=False, http__tenant_mb="0.02", http__tenant_idle_minutes="0.005"
    ) as server:
        asker = Asker(server.url, token)
        for number in range(5):
            asker.call("add_short_term_memory", said(f"{number} " + "word " * 2_000))
        asker.call("add_short_term_memory", said("more"))
        assert refusal(asker, "import", {"content": CHAT, "format": "chat"})[0] == 507


def test_a_server_that_only_reads_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    with serving(tmp_path / "data", "--read-only", http__token=TOKEN) as server:
        status, message = refusal(Asker(server.url), "import", {"content": CHAT})
    assert (status, "only reads" in message) == (403, True)
