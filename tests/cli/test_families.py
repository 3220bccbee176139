"""`list`, `search`, `show`, `history`, `where` and `backup` look at all families, and say what else is stored."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.cli.parser import main

ITEMS: dict[str, tuple[str, dict[str, Any]]] = {
    "memories": (
        "add_short_term_memory",
        {
            "messages": [{"role": "user", "content": "the mango tree of Ines"}],
            "conversation_id": "garden",
        },
    ),
    "triggers": (
        "add_long_term_memory",
        {
            "name": "harvest",
            "prompt": "ask about the mango",
            "trigger": "true",
            "createdContext": "she said so",
        },
    ),
    "notes": ("remember", {"type": "tech", "topic": "deploy", "content": "mango deploys with fly"}),
    "sessions": (
        "memory_add",
        {"messages": "likes mango tea", "user_id": "ann", "agent_id": "a", "mode": "direct"},
    ),
    "layers": ("save_to_memory", {"key": "pool", "content": "mango pool of twenty"}),
    "refs": ("memoryAdd", {"content": "build log of mango"}),
}
"""One item of each family, that holds the word mango."""


@pytest.fixture
def cli(cli: CommandLine, elsewhere: None) -> CommandLine:
    """The command, in a project of its own."""
    return cli


@pytest.fixture(scope="module")
def items_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder and a project that hold the items."""
    folder = tmp_path_factory.mktemp("items")
    (folder / "work" / ".git").mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder / "home"))
        patch.setenv("MEMORY_SERVER_DATA_DIR", str(folder / "data"))
        patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
        patch.chdir(folder / "work")
        for second, (tool, arguments) in enumerate(ITEMS.values()):
            now = f"2026-06-20T08:00:{second:02}Z"
            assert main(["call", tool, json.dumps(arguments), "--now", now]) == 0
    return folder


@pytest.fixture
def filled(cli: CommandLine, items_folder: Path, tmp_path: Path) -> CommandLine:
    """`run`, on folders that hold the items."""
    for name in ("data", "work"):
        shutil.copytree(items_folder / name, tmp_path / name, dirs_exist_ok=True)
    return cli


def lines(cli: CommandLine, *arguments: str) -> list[dict[str, Any]]:
    status, out, err = cli(*arguments, "--json")
    assert status == 0, err
    return [json.loads(line) for line in out.splitlines()]


def test_nobody_says_that_nothing_is_stored_while_something_is(cli: CommandLine) -> None:
    for tool, arguments in ITEMS.values():
        assert cli("call", tool, json.dumps(arguments)).status == 0
        for command in (["list"], ["search", "zebra"], ["history"]):
            status, out, err = cli(*command)
            assert status == 0
            assert "othing is stored" not in out + err
            assert "No conversations" not in out


def test_a_list_without_conversations_shows_what_else_is_stored(cli: CommandLine) -> None:
    cli("call", *call_words("notes"))
    _, out, err = cli("list")
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["family", "entries"],
        ["notes", "1"],
    ]
    assert "--family" in err


def call_words(family: str) -> tuple[str, str]:
    tool, arguments = ITEMS[family]
    return tool, json.dumps(arguments)


@pytest.mark.parametrize("family", ITEMS)
def test_a_family_is_listed_found_and_shown(filled: CommandLine, family: str) -> None:
    [item] = lines(filled, "list", "--family", family)
    assert (item["family"], "mango" in item["text"]) == (family, True)
    assert item["id"] in filled("list", "--family", family).out
    [hit] = lines(filled, "search", "mango", "--family", family)
    assert (hit["family"], hit["place"], hit["id"]) == (family, item["place"], item["id"])
    assert lines(filled, "search", "zebra", "--family", family) == []
    [entry] = lines(filled, "show", item["id"], "--family", family)
    assert (entry["family"], entry["place"]) == (family, item["place"])
    assert "mango" in filled("show", item["id"]).out


def test_a_search_finds_in_all_families_and_a_conversation_only_its_own(
    filled: CommandLine,
) -> None:
    assert {hit["family"] for hit in lines(filled, "search", "mango")} == set(ITEMS)
    assert {hit["family"] for hit in lines(filled, "search", "mango", "-c", "garden")} == {
        "memories"
    }
    _, out, _ = filled("search", "mango")
    assert "2 memories found, 2 shown." in out
    assert "4 entries found, 4 shown." in out
    assert lines(filled, "search", "mango", "--since", "2027-01-01") == []
    newest_first = [hit["at"] for hit in lines(filled, "search", "mango")[2:]]
    assert newest_first == sorted(newest_first, reverse=True)


def test_entries_hold_one_of_the_other_words_where_nothing_else_is_asked(
    filled: CommandLine,
) -> None:
    entries = set(ITEMS) - {"memories", "triggers"}
    assert {
        hit["family"] for hit in lines(filled, "search", "--other-words", "zebra, mango")
    } >= entries
    assert lines(filled, "search", "--other-words", "zebra, quince") == []
    assert {
        hit["family"] for hit in lines(filled, "search", "mango", "--other-words", "zebra")
    } == set(ITEMS)


@pytest.mark.parametrize(
    ("condition", "entries_too"),
    [
        (["--since", "2026-01-01"], True),
        (["--until", "2027-01-01"], True),
        (["--sort", "timestamp", "--reverse"], True),
        (["--limit", "20", "--offset", "0", "--scope", "all"], True),
        (["--min-score", "0"], False),
        (["--max-score", "10"], False),
        (["--kind", "both"], False),
        (["--tag", "fruit"], False),
    ],
)
def test_a_condition_that_only_memories_can_meet_leaves_entries_out(
    filled: CommandLine, condition: list[str], *, entries_too: bool
) -> None:
    families = {hit["family"] for hit in lines(filled, "search", "mango", *condition)}
    assert ({"notes", "sessions", "layers", "refs"} <= families) is entries_too
    assert families.isdisjoint({"notes", "sessions", "layers", "refs"}) is not entries_too


def test_a_list_is_newest_first_and_as_long_as_it_is_told(filled: CommandLine) -> None:
    assert [row["place"] for row in lines(filled, "list", "--limit", "2")] == ["default", "garden"]
    _, out, err = filled("list", "--limit", "1")
    assert "garden" not in out
    assert err.startswith("1 more: a larger --limit shows them")
    status, _, err = filled("list", "--limit", "0")
    assert (status, err) == (2, "memory-server: --limit must be at least 1.\n")
    status, _, err = filled("list", "--family", "notes", "-c", "garden")
    assert (status, err) == (
        2,
        "memory-server: notes do not belong to a conversation; leave -c out.\n",
    )


def test_the_history_of_a_family_and_its_hint_on_standard_error(filled: CommandLine) -> None:
    assert [change["place"] for change in lines(filled, "history", "--family", "notes")] == [
        "notes"
    ]
    assert {change["place"] for change in lines(filled, "history", "--family", "triggers")} == {
        "default",
        "garden",
    }
    [note] = lines(filled, "history", "--family", "notes")
    assert [step["text"] for step in note["steps"]] == ["deploy"], "how it begins"
    [change] = lines(filled, "history", "--limit", "1")
    assert set(change) == {"change", "place", "at", "by", "steps"}
    _, out, err = filled("history", "--limit", "1")
    assert (out.count("\n"), err.startswith("More: ")) == (1, True)
    assert "in a repository, git does" in filled("history", "--family", "layers").err


def test_where_names_every_family_with_its_place(filled: CommandLine, tmp_path: Path) -> None:
    [answer] = lines(filled, "where")
    assert set(answer["knowledge"]) == {
        "notes",
        "sessions/ann",
        "refs/short-term",
        "layers/project",
    }
    assert set(answer["conversations"]) == {"default", "garden"}
    assert str(tmp_path) in filled("where").out


def test_a_backup_says_what_is_not_in_it(filled: CommandLine) -> None:
    status, out, err = filled("backup", "one")
    assert (status, "3 notes and other entries" in out) == (0, True)
    assert err.startswith("Not included: the layers, which are separate files in ")


def test_a_pause_is_listed(filled: CommandLine) -> None:
    filled("pause", "--for", "2h")
    assert filled("list").out.startswith("paused until")


def test_where_only_tenants_hold_something_each_command_says_so(cli: CommandLine) -> None:
    cli("remember", "hello", "-c", "tea", "--tenant", "alice")
    for command in (["list"], ["search", "hello"], ["history"]):
        status, out, _ = cli(*command)
        assert (status, "holds only tenants (alice)" in out) == (0, True)
    status, _, err = cli("backup")
    assert status == 2
    assert (
        "Only tenants have memories here (alice); `memory-server backup --all-tenants` backs up all of them."
        in err
    )
    assert "alice; --tenant NAME examines one" in cli("doctor").out
    status, _, err = cli("doctor", "--reindex")
    assert (status, "Only tenants have conversations here (alice); use --tenant NAME" in err) == (
        2,
        True,
    )
    assert "tea changed" in cli("doctor", "--reindex", "--tenant", "alice").out
    assert json.loads(cli("where", "--json").out)["tenants"] == ["alice"]
    for command in (["list"], ["backup"], ["doctor"]):
        status, _, err = cli(*command, "--tenant", "alcie")
        assert (status, err) == (
            2,
            "memory-server: There is no tenant alcie; the tenants are: alice.\n",
        )


def test_a_reindex_names_the_tenants_that_it_leaves_out(cli: CommandLine) -> None:
    cli("remember", "hello", "-c", "tea")
    assert cli("doctor", "--reindex").err == ""
    cli("remember", "hello", "--tenant", "alice")
    assert "Not included: the tenants alice;" in cli("doctor", "--reindex").err
    assert cli("doctor", "--reindex", "-c", "tea").err == ""


def test_words_are_shown_whole_and_without_the_day_of_another_language(cli: CommandLine) -> None:
    cli(
        "call",
        "add_short_term_memory",
        json.dumps({"messages": [{"role": "user", "content": "Databases of Ines"}]}),
    )
    [row] = lines(cli, "list", "-c", "default")
    shown = cli("show", row["id"]).out
    assert "Databases" in shown.split("keywords")[1].splitlines()[0]
    assert "月" not in shown
    [memory] = lines(cli, "show", row["id"])
    assert {"Databases", "Ines"} <= set(memory["keywords"])


def test_a_text_without_a_word_that_says_something_is_found_as_it_was_typed(
    cli: CommandLine,
) -> None:
    memory = {"messages": [{"role": "user", "content": "你来啦，我等了很久"}]}
    cli("call", "add_short_term_memory", json.dumps(memory))
    assert "1 memory found" in cli("search", "你来啦").out
    assert "0 memories found" in cli("search", "你来吧").out


def test_tokens_are_listed_in_columns_and_taking_one_back_is_said(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_TIMEZONE", "Asia/Shanghai")
    assert (
        cli("tokens", "list").out
        == "There are no tokens yet; `memory-server tokens add NAME` makes one.\n"
    )
    cli("tokens", "add", "phone", "--tenant", "alice")
    cli("tokens", "add", "a-long-name-of-a-laptop", "--days", "2")
    head, *rows = cli("tokens", "list").out.splitlines()
    assert head.split() == ["name", "tenant", "rights", "created", "ends", "time", "zone"]
    assert {row.index("read") for row in rows} == {head.index("rights")}
    assert (
        cli("tokens", "remove", "phone").out == "The token phone was revoked and no longer works.\n"
    )


def test_only_the_last_token_of_a_tenant_says_that_its_memories_stay(cli: CommandLine) -> None:
    cli("tokens", "add", "own")
    for name in ("phone", "laptop"):
        cli("tokens", "add", name, "--tenant", "alice")
    assert cli("tokens", "remove", "phone").err == ""
    assert "alice has no token now. Its memories stay;" in cli("tokens", "remove", "laptop").err
    assert cli("tokens", "remove", "own").err == ""
