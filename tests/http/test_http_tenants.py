"""Tenants: nothing of one reaches another, tokens count and are taken back, limits hold for each alone."""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cli_program import in_process
from http_server import (
    ERAS,
    MODERN,
    PATIENCE,
    Asker,
    Server,
    give,
    listening,
    said,
    serving,
    take_back,
)
from shared_process import until

from memory_server.kernel import files as folders
from memory_server.kernel.errors import InvalidInput, LockTimeout
from memory_server.storage import token_file
from memory_server.storage.token_file import TokenFile
from memory_server.tools import TOOLS

MARK = "zanzibar"
"""A word that only the memories of A have."""
NAMES = ("zanzibar-chat", "zanzibar-trigger")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tenants") / "data"


@pytest.fixture(scope="module")
def tokens(folder: Path) -> dict[str, str]:
    tokens = {name: give(folder, name, "--tenant", name) for name in ("A", "B")}
    tokens["reads A"] = give(folder, "reads A", "--tenant", "A", "--read-only")
    tokens["operator"] = give(folder, "operator", "--operator")
    return tokens


@pytest.fixture(scope="module")
def server(folder: Path, tokens: dict[str, str]) -> Iterator[Server]:
    with serving(
        folder,
        "--toolsets=all,notes,layers,refs",
        http__requests_per_minute="6000000",
        storage__idle_seconds="0.3",
        upkeep__enabled="false",  # it would write some ten seconds after the start of a tenant
    ) as server:
        yield server


@pytest.fixture(scope="module")
def askers(server: Server, tokens: dict[str, str]) -> dict[str, Asker]:
    return {name: Asker(server.url, token) for name, token in tokens.items()}


@pytest.fixture(scope="module")
def ids_of_a(askers: dict[str, Asker]) -> dict[str, Any]:
    """The ids of what A has of every kind."""
    a = askers["A"]
    short = a.done("add_short_term_memory", **said(f"{MARK} is where the cat {MARK}a lives"))
    a.done("add_short_term_memory", **said(f"{MARK} again"), conversation_id=NAMES[0])
    a.done("add_long_term_memory", name=NAMES[1], prompt=MARK, trigger="return true;")
    a.done("remember", type="domain", topic=MARK, content=f"{MARK} is an island")
    a.done("save_to_global_memory", key=MARK, content=f"{MARK} for all projects")
    a.done("save_to_memory", key=MARK, content=f"{MARK} for this project")
    ref = a.done("memoryAdd", content=f"{MARK} " * 50)
    a.done("backup_memories", name=MARK)
    note = a.done("recall", query=MARK)
    forgotten = a.done("add_short_term_memory", **said(f"{MARK} gone"))
    a.done("delete_short_term_memories", pattern="gone")
    return {
        "short": short["id"],
        "change": forgotten["changeId"],
        "ref": ref["referenceId"],
        "note": note,
        "gone": forgotten["id"],
    }


def arguments_by_tool(ids_of_a: dict[str, Any], rng: Random) -> dict[str, dict[str, Any]]:
    """For every tool what could bring something of A, with the ids and names of A."""
    chat = rng.choice([{}, {"conversation_id": NAMES[0]}])
    question = {"recentMessages": [{"role": "user", "content": "where does the cat live?"}]}
    words: dict[str, dict[str, Any]] = {
        "add_short_term_memory": {**said("a dog")},
        "search_short_term_memories": {**question, "scope": "all"},
        "delete_short_term_memories": {"pattern": "/z.nzi/", **chat},
        "add_long_term_memory": {
            "name": f"mine{rng.random()}",
            "prompt": "x",
            "trigger": "return false;",
        },
        "update_long_term_memory": {"name": NAMES[1], "prompt": "x"},
        "delete_long_term_memory": {"name": NAMES[1]},
        "get_memory_context": {"name": NAMES[1]},
        "search_long_term_memories": {"messages": question["recentMessages"]},
        "pin_memory": {"id": ids_of_a["short"]},
        "unpin_memory": {"id": ids_of_a["short"][:6]},
        "mute_memory": {"id": ids_of_a["short"], "where": "everywhere"},
        "edit_memory": {"id": ids_of_a["short"], "find": "cat", "replace": "dog"},
        "restore_memories_from_archive": {"ids": [ids_of_a["gone"]]},
        "undo_change": {"changeId": ids_of_a["change"]},
        "backup_memories": {"name": f"b{rng.random()}"},
        "restore_memories": {"name": MARK},
        "delete_backup": {"name": MARK},
        "explain_recall": {**question, "memory_id": ids_of_a["short"], "scope": "all"},
        "search_memories": {"query": "cat", "scope": "all", "archived": rng.random() < 0.5},
        "recall_turn": {"messages": question["recentMessages"]},
        "remember_turn": said("a bird"),
        "remember": {"type": "domain", "topic": "mine", "content": "a fact of B"},
        "recall": {"query": "island"},
        "save_to_memory": {"key": f"k{rng.random()}", "content": "of B"},
        "save_to_global_memory": {"key": f"k{rng.random()}", "content": "of B"},
        "memoryAdd": {"content": "of B"},
        "memorySearch": {"query": "cat", "includeContent": True},
        "memoryDelete": {"id": ids_of_a["ref"]},
        "memoryGetContent": {"id": ids_of_a["ref"]},
    }
    for name, tool in TOOLS.items():
        fields = tool.arguments.model_fields
        call_arguments = words.setdefault(name, {})
        if name not in words or not call_arguments:
            if "query" in fields:
                call_arguments["query"] = "island cat"
            if "key" in fields:
                call_arguments["key"] = MARK
            if "conversation_id" in fields:
                call_arguments |= chat
    return words


def without_echo(text: str, sent: str) -> str:
    """`text` without what the caller itself had sent."""
    for word in (MARK, *NAMES):
        if word in sent:
            text = text.replace(word, "")
    return text


def leaks(ids_of_a: dict[str, Any], text: str, sent: str) -> bool:
    ids = [ids_of_a["short"], ids_of_a["ref"], ids_of_a["gone"]]
    return MARK in without_echo(text, sent) or any(
        memory_id in text for memory_id in ids if memory_id[:6] not in sent
    )


def all_requests(
    asker: Asker, ids_of_a: dict[str, Any], rng: Random
) -> Iterator[tuple[str, Callable[[], str]]]:
    """What can be asked, over REST and in both eras: what is sent, and the call."""
    arguments_of = arguments_by_tool(ids_of_a, rng)
    for name in TOOLS:
        sent = json.dumps(arguments_of[name])
        yield sent, lambda name=name: asker.call(name, arguments_of[name]).text
        for era in ERAS:
            yield (
                sent,
                lambda name=name, era=era: (
                    asker.mcp(
                        era, "tools/call", {"name": name, "arguments": arguments_of[name]}
                    ).text
                ),
            )
    uris = [
        f"memory://conversation/{NAMES[0]}/short-term",
        "memory://conversation/default/long-term",
    ]
    for era in ERAS:
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            yield "", lambda era=era, method=method: asker.mcp(era, method).text
        listed = asker.mcp(era, "resources/list").json()["result"]["resources"]
        templates = asker.mcp(era, "resources/templates/list").json()["result"]["resourceTemplates"]
        for template in templates:
            uris += [
                template["uriTemplate"].replace("{id}", conversation)
                for conversation in ("default", NAMES[0])
            ]
        for uri in {*uris, *(resource["uri"] for resource in listed)}:
            yield uri, lambda era=era, uri=uri: asker.mcp(era, "resources/read", {"uri": uri}).text
        for prompt in asker.mcp(era, "prompts/list").json()["result"]["prompts"]:
            prompt_arguments = {
                argument["name"]: "default" for argument in prompt.get("arguments", ())
            }
            get = {"name": prompt["name"], "arguments": prompt_arguments}
            yield "", lambda era=era, get=get: asker.mcp(era, "prompts/get", get).text
        for template in templates:
            completion = {"ref": {"type": "ref/resource", "uri": template["uriTemplate"]}}
            completion["argument"] = {"name": "id", "value": ""}
            yield (
                "",
                lambda era=era, completion=completion: (
                    asker.mcp(era, "completion/complete", completion).text
                ),
            )


def test_a_has_what_b_must_not_see(askers: dict[str, Asker], ids_of_a: dict[str, Any]) -> None:
    requests = all_requests(askers["reads A"], ids_of_a, Random(1))
    answers_with_mark = sum(MARK in without_echo(call(), sent) for sent, call in requests)
    assert answers_with_mark > 30, "the property below would see nothing if A had nothing"


@pytest.mark.parametrize("requests", [200, pytest.param(10_000, marks=pytest.mark.full)])
def test_nothing_of_one_tenant_is_in_any_answer_to_another(
    askers: dict[str, Asker], ids_of_a: dict[str, Any], requests: int
) -> None:
    rng = Random(7)
    answers = 0
    while answers < requests:
        for sent, call in all_requests(askers["B"], ids_of_a, rng):
            text = call()
            assert not leaks(ids_of_a, text, sent), (sent, text)
            answers += 1
    assert askers["A"].done("get_memory_context", name=NAMES[1])["trigger"] == "return true;"


@pytest.mark.parametrize("requests", [80, pytest.param(250, marks=pytest.mark.full)])
def test_nothing_leaks_between_requests_that_alternate(
    askers: dict[str, Asker],
    ids_of_a: dict[str, Any],
    server: Server,
    tokens: dict[str, str],
    requests: int,
) -> None:
    def ask(name: str) -> list[str]:
        asker = Asker(server.url, tokens[name])
        answers = []
        for number in range(requests):
            if number % 2:
                answers.append(asker.call("search_memories", {"query": "cat dog", "limit": 3}).text)
            else:
                era = ERAS[number % 4 // 2]
                answers.append(
                    json.dumps(asker.tool(era, "search_memories", query="cat dog", limit=3))
                )
        return answers

    with ThreadPoolExecutor(4) as threads:
        for name, texts in zip("ABAB", threads.map(ask, "ABAB"), strict=True):
            assert all((MARK in text) == (name == "A") for text in texts)


@pytest.mark.parametrize("names", ["AB", pytest.param("ABBA", marks=pytest.mark.full)])
def test_streams_of_two_tenants_that_listen_get_only_what_is_their_own(
    tmp_path: Path, names: str
) -> None:
    folder = tmp_path / "data"
    uris = [f"memory://conversation/{name}/short-term" for name in ("heard", "unheard")]
    tokens = {name: give(folder, name, "--tenant", name) for name in "AB"}

    def updates(stream: socket.socket, seconds: float) -> bytes:
        """What comes until nothing comes for so long."""
        stream.settimeout(seconds)
        data_so_far = b""
        with suppress(TimeoutError):
            while data := stream.recv(65_536):
                data_so_far += data
        return data_so_far

    def next_update(stream: socket.socket) -> bytes:
        """What comes until an update is there."""
        stream.settimeout(PATIENCE)
        deadline = time.monotonic() + PATIENCE
        data_so_far = b""
        while b"resources/updated" not in data_so_far or not data_so_far.endswith(b"\r\n\r\n"):
            assert time.monotonic() < deadline, data_so_far
            data = stream.recv(65_536)
            assert data, data_so_far
            data_so_far += data
        return data_so_far

    with (
        serving(
            folder,
            ready=False,
            http__requests_per_minute="6000000",
            upkeep__enabled="false",
        ) as server,
        listening(server, tokens["A"], *uris) as of_a,
        listening(server, tokens["B"], *uris) as of_b,
    ):
        streams = {"A": of_a, "B": of_b}
        askers = {name: Asker(server.url, token) for name, token in tokens.items()}
        heard = {"A": b"", "B": b""}
        for turn, name in enumerate(names):
            arguments = {**said(f"{name} hears {turn}"), "conversation_id": "heard"}
            if turn % 2:
                askers[name].done("add_short_term_memory", **arguments)
            else:
                askers[name].tool(MODERN, "add_short_term_memory", **arguments)
            heard[name] += next_update(streams[name])
            other_name = "B" if name == "A" else "A"
            silent = updates(streams[other_name], 0.1)
            assert b"updated" not in silent, (name, silent)
        # The server looks for changes once a second: now it has looked after the last turn too.
        for name in "AB":
            heard[name] += updates(streams[name], 2 if name == "A" else 0.1)
            assert (
                heard[name].count(b"resources/updated")
                == heard[name].count(b"conversation/heard/short-term")
                == names.count(name)
            ), heard


def files_of(folder: Path) -> dict[str, bytes]:
    """All files, but the memory that SQLite shares between its readers, which holds no data."""
    files = (
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("-shm")
    )
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_a_token_that_only_reads_changes_no_byte(
    askers: dict[str, Asker], ids_of_a: dict[str, Any], folder: Path
) -> None:
    tenants_folder = folder / ".memory-server" / "tenants"
    before: dict[str, bytes] = {}
    now = files_of(tenants_folder)
    while now != before:  # the files of the last writes are brought up to date soon after them
        time.sleep(1.5)
        before = now
        now = files_of(tenants_folder)
    for _, call in all_requests(askers["reads A"], ids_of_a, Random(3)):
        call()
    after = files_of(tenants_folder)
    assert [name for name in after if after[name] != before.get(name)] == []
    assert after.keys() == before.keys()
    refused = askers["reads A"].call("remember_turn", said("no"))
    assert refused.status_code == 403
    assert "remember_turn" not in askers["reads A"].mcp(MODERN, "tools/list").text


def test_the_tenant_of_a_token_is_a_folder_of_its_own(
    askers: dict[str, Asker], folder: Path
) -> None:
    askers["B"].done("add_short_term_memory", **said("only B"), conversation_id="of-b")
    status, listed, _ = in_process("list", "--data-dir", str(folder), "--tenant", "B")
    assert (status, "of-b" in listed, NAMES[0] in listed) == (0, True, False)
    status, of_all, _ = in_process("list", "--data-dir", str(folder))
    assert (status, "of-b" in of_all) == (0, False)


def test_metrics_are_for_operators_and_name_no_tenant(
    askers: dict[str, Asker], ids_of_a: dict[str, Any]
) -> None:
    assert askers["A"].http.get("/metrics").status_code == 403
    text = askers["operator"].http.get("/metrics").text
    assert 'memory_server_call_seconds_count{tool="add_short_term_memory"}' in text
    assert MARK not in text


def test_metrics_have_the_figures_that_the_docs_promise_summed_over_the_tenants(
    askers: dict[str, Asker], ids_of_a: dict[str, Any]
) -> None:
    def figures() -> dict[str, float]:
        lines = askers["operator"].http.get("/metrics").text.splitlines()
        numbers = (line.rpartition(" ") for line in lines if line.startswith("memory_server_"))
        return {name.removeprefix("memory_server_"): float(number) for name, _, number in numbers}

    before = figures()
    for name in ("A", "B"):
        askers[name].done("add_short_term_memory", **said("tea"), conversation_id="tea")
    after = figures()
    commits = 'storage{name="commits"}'
    assert after[commits] >= before[commits] + 2
    assert after['storage{name="open_conversations"}'] >= 2
    page = (Path(__file__).parents[2] / "docs/reference/figures.md").read_text(encoding="utf-8")
    promised = re.findall(r"`(storage|triggers|workers)\.(\w+)`", page)
    assert len(promised) == 7
    more = [
        ("storage", "lock_timeouts"),
        ("triggers", "fired"),
        ("triggers", "quiet"),
        ("triggers", "timeout"),
    ]
    assert not [
        name for family, name in [*promised, *more] if f'{family}{{name="{name}"}}' not in after
    ]


def test_a_tool_that_is_not_offered_is_told_from_one_that_does_not_exist(
    askers: dict[str, Asker],
) -> None:
    response = askers["A"].call("memory_add", {})
    assert response.status_code == 404
    message = response.json()["error"]["message"]
    assert (
        "This server does not offer memory_add: its operator can start it with `--tools memory_add`."
        in message
    )
    assert "There is no such tool" in askers["A"].call("memory_adds", {}).json()["error"]["message"]


@pytest.mark.alone
def test_a_token_counts_until_it_is_taken_back(server: Server, folder: Path) -> None:
    asker = Asker(server.url, give(folder, "guest", "--tenant", "guest"))
    until(lambda: asker.call("recall_turn", said("x")).status_code == 200)
    take_back(folder, "guest")
    began = time.monotonic()
    while asker.call("recall_turn", said("x")).status_code != 401:
        assert time.monotonic() - began < 10
    assert "guest" not in (folder / ".memory-server" / "tokens.jsonl").read_text("utf-8")


def test_an_expired_token_and_a_broken_line_let_nobody_in(
    server: Server, folder: Path, askers: dict[str, Asker]
) -> None:
    file = folder / ".memory-server" / "tokens.jsonl"
    old = Asker(server.url, give(folder, "old", "--days", "0.0000001"))
    valid_lines = file.read_bytes()
    newer = Asker(server.url, give(folder, "newer", "--tenant", "newer"))
    newer_line = file.read_bytes().removeprefix(valid_lines)
    try:
        file.write_bytes(valid_lines + b"{broken\n" + newer_line)
        until(lambda: answers(newer))  # the server has read the broken line, too
        assert not answers(old)
        assert answers(askers["B"])
        file.chmod(0o666)
        until(lambda: not answers(askers["B"]))
        file.unlink()
        time.sleep(0.6)  # a server that lets somebody in again would do it now
        assert not answers(askers["B"])
    finally:
        file.write_bytes(valid_lines)
        file.chmod(0o600)
    until(lambda: answers(askers["B"]))


def answers(asker: Asker) -> bool:
    """Whether the server lets this client in; it looks at the tokens twice a second."""
    status = asker.call("get_memory_stats").status_code
    assert status in (200, 401)
    return status == 200


def test_tokens_are_kept_as_hashes_in_a_file_of_the_owner(
    folder: Path, tokens: dict[str, str]
) -> None:
    file = folder / ".memory-server" / "tokens.jsonl"
    assert file.stat().st_mode & 0o777 == 0o600
    assert all(len(token) == 47 and token.startswith("mst_") for token in tokens.values())
    assert not any(token[4:] in file.read_text("utf-8") for token in tokens.values())


@pytest.mark.skipif(os.name == "nt", reason="there are no such rights")
def test_a_file_of_tokens_that_others_can_replace_lets_nobody_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    etc = tmp_path / "etc"
    etc.mkdir(mode=0o700)
    file = TokenFile(etc / "tokens.jsonl")
    token = file.add("a", None, [], None)
    assert file.find(token) is not None
    for mode, enters in ((0o777, False), (0o1777, True), (0o770, False), (0o755, True)):
        etc.chmod(mode)
        file._looked = float("-inf")
        assert (file.find(token) is not None) == enters, oct(mode)
    if (me := os.geteuid()) == 0:
        os.chown(file.path, 65534, -1)
    monkeypatch.setattr(os, "geteuid", lambda: me + 1)
    with pytest.raises(InvalidInput, match="belongs to another user"):
        file.tokens()


@pytest.mark.skipif(os.name == "nt", reason="there are no such rights")
def test_a_token_that_would_not_count_is_not_given(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    file = TokenFile(tmp_path / "tokens.jsonl")
    with pytest.raises(InvalidInput, match="Others may replace"):
        file.add("a", None, [], None)
    assert not file.path.exists()


DAYS = {"nan": "nan", "inf": "inf", "1e12": "1e+12", "-1": "-1", "0": "0"}
MISTAKES = [
    (["add"], "Name the token"),
    (["add", "x"], "There is a token"),
    (["remove", "nobody"], "There is no token"),
    (["add", "y", "--tenant", ""], "tenant is empty"),
    (["add", "y", "--tenant", "a" * 300], "300 characters"),
    *(
        (["add", "y", f"--days={days}"], f"cannot last {shown} days")
        for days, shown in DAYS.items()
    ),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES)
def test_mistakes_with_tokens_get_a_sentence(
    tmp_path: Path, arguments: list[str], words: str
) -> None:
    where = ["--data-dir", str(tmp_path)]
    give(tmp_path, "x")
    status, _, err = in_process("tokens", *arguments, *where)
    assert (status, words in err) == (2, True), err
    assert "x " in in_process("tokens", "list", *where).out


def test_changes_at_once_all_count(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens")
    with ThreadPoolExecutor(4) as threads:
        for number in range(20):
            for name in ("a", "b", "stays"):
                file.add(f"{name}{number}", None, ["read"], None)
            changes = [threads.submit(file.remove, f"{name}{number}") for name in "ab"]
            changes += [
                threads.submit(file.add, f"{name}{number}", None, ["read"], None)
                for name in ("new", "other")
            ]
            for change in changes:
                change.result()
    expected = {f"{name}{number}" for number in range(20) for name in ("stays", "new", "other")}
    assert {token.name for token in file.tokens()} == expected


def test_lines_that_are_not_usable_stay_and_others_count(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens")
    token = file.add("x", None, ["read"], None)
    broken = b"[" * 100_000 + b'\r\n{"name": "by hand"}\n\xff\n\n'
    file.path.write_bytes(file.path.read_bytes() + broken)
    file.add("y", None, ["read"], None)
    assert file.find(token) is not None
    file.remove("x")
    file.remove("y")
    assert file.path.read_bytes() == broken


def test_a_file_that_another_process_changes_for_long_gets_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_file, "WAIT_SECONDS", 0.1)
    file = TokenFile(tmp_path / "tokens")
    file.add("x", None, ["read"], None)
    lock = folders.try_lock(tmp_path / "tokens.lock")
    assert lock is not None
    with pytest.raises(LockTimeout, match="for too long"):
        file.remove("x")
    lock.release()
    file.remove("x")


@pytest.mark.parametrize("value", [5, True, [], ["a"], {}, "\ud800", "", "admin"], ids=repr)
@pytest.mark.parametrize(
    "field", ["name", "tenant", "sha256", "scopes", "created", "expires", "timezone"]
)
def test_a_token_with_a_wrong_value_does_not_shut_out_the_others(
    tmp_path: Path, field: str, value: object
) -> None:
    file = TokenFile(tmp_path / "tokens")
    phone = file.add("phone", None, ["read"], None)
    file.add("broken", None, ["read"], None)
    good, broken = map(json.loads, file.path.read_text().splitlines())
    file.path.write_text(f"{json.dumps(broken | {field: value})}\n{json.dumps(good)}\n")

    found = TokenFile(file.path).find(phone)
    assert found is not None
    assert found.name == "phone"
    tokens = TokenFile(file.path).tokens()
    assert tokens[-1].name == "phone"
    for token in tokens:
        assert isinstance(token.name, str)
        assert set(token.scopes) <= {"a", "read"}


def test_a_token_is_taken_back_without_room_for_a_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = TokenFile(tmp_path / "tokens")
    stolen, phone = (file.add(name, None, ["read"], None) for name in ("stolen", "phone"))

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(folders, "replace_file", full)
    file.remove("stolen")
    assert "stolen" not in file.path.read_text()
    assert [token.name for token in TokenFile(file.path).tokens()] == ["phone"]
    monkeypatch.undo()
    reopened = TokenFile(file.path)
    assert reopened.find(stolen) is None
    assert reopened.find(phone) is not None
    reopened.add("new", None, ["read"], None)
    reopened.remove("phone")
    assert [token.name for token in reopened.tokens()] == ["new"]


def test_a_tenant_that_takes_too_much_room_adds_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    token = give(folder, "big", "--tenant", "big")
    with serving(
        folder, ready=False, http__tenant_mb="0.02", http__tenant_idle_minutes="0.005"
    ) as server:
        asker = Asker(server.url, token)
        for number in range(5):
            asker.call("add_short_term_memory", said(f"{number} " + "word " * 2_000))
        until(lambda: asker.call("add_short_term_memory", said("more")).status_code == 507)
        refused = asker.call("add_short_term_memory", said("more"))
        assert refused.json()["error"]["kind"] == "quota"
        assert asker.call("delete_short_term_memories", {"pattern": "word"}).status_code == 200


def test_a_flooding_tenant_is_refused_and_others_are_not(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    flood = give(folder, "flood", "--tenant", "flood")
    calm = give(folder, "calm", "--tenant", "calm")
    with serving(
        folder, ready=False, http__requests_per_minute="3"
    ) as server:  # the second would wait for 20 seconds
        asker = Asker(server.url, flood)
        answers = [asker.call("get_memory_stats") for _ in range(4)]
        refused = [answer for answer in answers if answer.status_code == 429]
        assert refused
        assert all(int(answer.headers["retry-after"]) >= 1 for answer in refused)
        assert Asker(server.url, calm).call("get_memory_stats").status_code == 200


def test_idle_tenants_leave_memory_and_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    tokens = {name: give(folder, name, "--tenant", name) for name in "abcde"}
    with serving(folder, http__open_tenants="2", http__tenant_idle_minutes="0.005") as server:
        for earlier_turns in range(3):
            for name, token in tokens.items():
                asker = Asker(server.url, token)
                asker.done("remember_turn", **said(f"{name} {earlier_turns}"))
                assert asker.done("get_memory_stats")["total"] == earlier_turns + 1
        assert server.end() == 0
    assert os.listdir(folder / ".memory-server" / "tenants")
