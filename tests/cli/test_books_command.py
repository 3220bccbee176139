"""`memory-server books`, `recall --messages`, rules of `add-trigger`, and what `recall` says of what had no room."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine

from memory_server.cli.parser import main
from memory_server.lore.firing_texts import rule_texts
from memory_server.lore.memory import FiringRules
from memory_server.operations import lore_import

VENN = {
    "name": "Venn",
    "entries": {
        "0": {
            "uid": 0,
            "comment": "Harbour",
            "constant": True,
            "content": "The harbour lies below the wall.",
            "order": 200,
        },
        "1": {
            "uid": 1,
            "comment": "Rain",
            "key": ["weather"],
            "content": "It rains.",
            "group": "weather",
        },
        "2": {
            "uid": 2,
            "comment": "Sun",
            "key": ["weather"],
            "content": "The sun is out.",
            "group": "weather",
        },
        "3": {
            "uid": 3,
            "comment": "Ghost",
            "key": ["lamp"],
            "content": "A ghost tends it.",
            "cooldown": 2,
            "order": 90,
        },
    },
}
LONG = "The houses of this street lean over the water, and nobody counts them. "
AT = ("--now", "2026-06-25T08:00:00Z", "--timezone", "UTC")


def book(name: str, *entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "entries": {str(number): {"uid": number, **entry} for number, entry in enumerate(entries)},
    }


def _use_folder(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let commands read and write below a folder only."""
    patch.setenv("MEMORY_SERVER_DATA_DIR", str(folder / "data"))
    patch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    patch.setenv("HOME", str(folder))
    patch.setenv("COLUMNS", "200")
    patch.chdir(folder)


@pytest.fixture
def cli(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    _use_folder(tmp_path, monkeypatch)
    return cli.with_flags(*AT)


@pytest.fixture(scope="module")
def books_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the book Venn in the conversation `tale`, the book Law in `default`, and their files."""
    folder = tmp_path_factory.mktemp("books")
    law = book(
        "Law", {"comment": "Lamps", "constant": True, "content": "No lamp may burn after midnight."}
    )
    (folder / "venn.json").write_text(json.dumps(VENN), "utf-8")
    (folder / "law.json").write_text(json.dumps(law), "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        _use_folder(folder, patch)
        assert main([*AT, "-c", "tale", "import", "venn.json"]) == 0
        assert main([*AT, "import", "law.json"]) == 0
    return folder


@pytest.fixture
def venn(cli: CommandLine, books_folder: Path, tmp_path: Path) -> CommandLine:
    """The commands on a copy of the folder with the books Venn and Law."""
    shutil.copytree(books_folder, tmp_path, dirs_exist_ok=True)
    return cli


def rows(cli: CommandLine, *arguments: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in cli.text("books", *arguments, "--json").splitlines()]


def test_books_are_listed_with_their_figures(venn: CommandLine) -> None:
    headings, law, tale = venn.text("books").splitlines()
    assert headings.split() == [
        "book",
        "conversation",
        "entries",
        "constants",
        "length",
        "state",
        "changed",
        "from",
    ]
    assert law.split() == [
        "Law",
        "default",
        "1",
        "1",
        "(32)",
        "32",
        "on",
        "2026-06-25",
        "08:00",
        "law.json",
    ]
    assert tale.split() == [
        "Venn",
        "tale",
        "4",
        "1",
        "(32)",
        "73",
        "on",
        "2026-06-25",
        "08:00",
        "venn.json",
    ]
    assert venn.text("books", "list") == venn.text("books")
    assert [row["name"] for row in rows(venn)] == ["Law", "Venn"]
    [row] = rows(venn, "-c", "tale")
    assert (row["name"], row["entries"], row["constants"], row["constantChars"], row["on"]) == (
        "Venn",
        4,
        1,
        32,
        True,
    )


def test_no_books_are_said_to_be_none(cli: CommandLine) -> None:
    assert cli.text("books") == "No lorebooks; `memory-server import FILE` brings one in.\n"
    assert "no lorebooks here" in cli.text("books", "show", "Venn", status=1)


def test_the_entries_of_a_book_are_shown_in_order_with_their_rules(venn: CommandLine) -> None:
    first, _headings, *entries = venn.text("books", "show", "venn").splitlines()
    assert first.startswith(
        "Venn in tale: 4 entries, 73 characters, 1 of them constant (32 characters), on, from venn.json"
    )
    assert [re.split(r"  +", line) for line in entries] == [
        ["200", "32", "constant", "-", "Harbour"],
        ["100", "9", "-", "group weather", "Rain"],
        ["100", "15", "-", "group weather", "Sun"],
        ["90", "17", "-", "comes again 2 messages later at the earliest", "Ghost"],
    ]
    assert [entry["name"] for entry in rows(venn, "show", "Venn", "--limit", "2")] == [
        "Harbour",
        "Rain",
    ]
    assert "3 entries more; --limit N shows more of them." in venn.text(
        "books", "show", "Venn", "--limit", "1"
    )


STAYING_RULES = [
    (FiringRules(sticky=3), "stays for 3 messages in all"),
    (FiringRules(cooldown=4), "comes again 4 messages later at the earliest"),
    (FiringRules(sticky=3, cooldown=2), "stays for 3 messages in all, then not for 2 messages"),
]


@pytest.mark.parametrize(("rules", "words"), STAYING_RULES)
def test_rules_that_count_messages_are_said_as_they_work(rules: FiringRules, words: str) -> None:
    """The message at which the memory came counts for `sticky`, and the one at which it comes again for `cooldown`."""
    assert ", ".join(rule_texts(rules)) == words


def test_a_book_is_switched_off_and_on_and_each_is_one_change(venn: CommandLine) -> None:
    off = venn.text("books", "off", "VENN")
    assert off.startswith("Venn is off: 4 entries. Change 2-")
    assert [row["on"] for row in rows(venn, "-c", "tale")] == [False]
    assert "Harbour" not in venn.text("-c", "tale", "recall", "the weather at the lamp")
    assert venn.text("books", "off", "Venn") == "Venn is off already.\n"
    assert venn.text("books", "on", "Venn").startswith("Venn is on: 4 entries. Change 3-")
    assert "Harbour" in venn.text("-c", "tale", "recall", "the weather at the lamp")


def test_the_history_says_in_one_step_that_a_book_was_switched(venn: CommandLine) -> None:
    venn.text("books", "off", "Venn")
    venn.text("books", "on", "Venn")
    lines = venn.text("-c", "tale", "history").splitlines()
    switched = [line.partition("switch_book: ")[2] for line in lines if "switch_book" in line]
    assert sorted(switched) == ["switched off Venn - 4 entries", "switched on Venn - 4 entries"]


def test_a_recall_to_which_nothing_came_names_the_books_that_are_off(venn: CommandLine) -> None:
    venn.text("books", "off", "Venn")
    venn.text("books", "off", "Law")
    venn.text("-c", "tale", "recall", "the weather at the lamp")
    recall = json.loads(venn.text("recalls", "--json"))["id"]
    assert venn.text("explain", "--recall", recall).splitlines()[-2:] == [
        "The lorebook Venn is switched off now.",
        "The lorebook Law is switched off now.",
    ]
    venn.text("books", "on", "Venn")
    assert "Venn" not in venn.text("explain", "--recall", recall)


def test_a_removed_book_comes_back_by_one_undo(venn: CommandLine) -> None:
    before = rows(venn, "show", "Venn")
    removed = venn.text("books", "remove", "Venn")
    change = removed.rpartition("Change ")[2].rstrip(".\n")
    assert removed.startswith("Venn is removed: 4 entries in the archive.")
    assert [row["name"] for row in rows(venn)] == ["Law"]
    venn.text("undo", change, "--yes")
    assert rows(venn, "show", "Venn") == before


def test_an_import_of_a_book_says_how_it_is_taken_back(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "venn.json").write_text(json.dumps(VENN), "utf-8")
    out = cli.text("import", "venn.json")
    change = re.search(
        "note  Venn: stored; `memory-server undo (1-[0-9a-f]{4})` takes it back", out
    )
    assert change, out
    cli.text("undo", change[1], "--yes")
    assert rows(cli) == []


@pytest.mark.parametrize("dry_run", [(), ("--dry-run",)])
def test_an_import_says_that_a_search_leaves_triggers_out(
    venn: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dry_run: tuple[str, ...]
) -> None:
    more = book("More", {"comment": "Tide", "key": ["tide"], "content": "The tide is low."})
    (tmp_path / "more.json").write_text(json.dumps(more), "utf-8")
    # Venn has four entries, the shared conversation has one of Law, and this book has one.
    for most, is_said in ((5, True), (6, False)):
        monkeypatch.setattr(lore_import, "most_triggers", lambda most=most: most)
        said = venn("-c", "tale", "import", "more.json", "--dry-run").err
        assert ("has 6 triggers with the shared ones and runs 5" in said) is is_said
    monkeypatch.setattr(lore_import, "most_triggers", lambda: 5)
    said = venn("-c", "tale", "import", "more.json", *dry_run).err
    assert "A search in tale has 6 triggers" in said


def test_a_dry_run_of_an_update_removes_nothing_in_words_either(
    venn: CommandLine, tmp_path: Path
) -> None:
    shorter = {**VENN, "entries": {"0": VENN["entries"]["0"]}}  # type: ignore[index]
    (tmp_path / "venn.json").write_text(json.dumps(shorter), "utf-8")
    out = venn.text("-c", "tale", "import", "venn.json", "--dry-run")
    assert "note  would be removed, because the book no longer has it: 3 (Rain, Sun, Ghost)" in out
    assert "undo" not in out


REFUSED = [
    (["books", "show", "Vein"], 1, "No book is called `Vein`; there are Law, Venn."),
    (["books", "off"], 2, "`books off` needs the name of a book; `books list` shows them."),
    (["books", "list", "Venn"], 2, "`books list` takes no name"),
    (["-c", "tale", "books", "off", "Law"], 1, "No book is called `Law`; there are Venn."),
    (["--read-only", "books", "off", "Venn"], 2, "read_only"),
    (["recall", "lamp", "--messages", "-1"], 2, "is not a whole number from 0 to 1,000,000"),
]


@pytest.mark.parametrize(("arguments", "status", "sentence"), REFUSED)
def test_what_cannot_be_done_gets_a_sentence(
    venn: CommandLine, arguments: list[str], status: int, sentence: str
) -> None:
    assert sentence in venn.text(*arguments, status=status)
    assert [row["on"] for row in rows(venn)] == [True, True]


def test_a_book_in_two_conversations_is_named_with_the_conversation(venn: CommandLine) -> None:
    venn.text("-c", "other", "import", "venn.json")
    assert "Several books are called `Venn`: other (" in venn.text("books", "off", "Venn", status=1)
    venn.text("-c", "other", "books", "off", "Venn")
    assert {row["conversation_id"]: row["on"] for row in rows(venn) if row["name"] == "Venn"} == {
        "other": False,
        "tale": True,
    }


def test_the_number_of_messages_counts_for_cooldowns(venn: CommandLine) -> None:
    ghost_appears = [
        "Ghost"
        in venn.text(
            "-c", "tale", "recall", "the lamp", "--session", "a", "--messages", str(messages)
        )
        for messages in (2, 3, 4, 5)
    ]
    assert ghost_appears == [True, False, True, False]


def test_what_had_no_room_is_said_beside_the_block(cli: CommandLine, tmp_path: Path) -> None:
    streets = [
        {"comment": f"Street {number}", "constant": True, "content": f"{number}: {LONG}"}
        for number in range(9)
    ]
    (tmp_path / "town.json").write_text(json.dumps(book("Town", *streets)), "utf-8")
    cli.text("import", "town.json")
    out, err = cli("recall", "hello", "--chars", "600")[1:]
    fitting_count = out.count("[Street")
    assert 0 < fitting_count < 6
    sentence = (
        f"{9 - fitting_count} memories were left out, because no room was left "
        f"(Street {fitting_count}, Street {fitting_count + 1}, Street {fitting_count + 2}, …); {{}} gives more."
    )
    assert err == f"memory-server: {sentence.format('`--chars`')}\n"
    assert cli("recall", "hello").err == ""
    arguments = {"messages": [{"role": "user", "content": "hello"}], "maxChars": 600}
    tool_text = cli.text("call", "--text", "recall_turn", json.dumps(arguments))
    assert tool_text.splitlines()[-1] == sentence.format("`maxChars`")
    assert f"{9 - fitting_count} left out" in cli.text("recalls")
    # Each command begins at the same `--now`, so the times do not tell which recall was the first.
    recorded = [json.loads(line) for line in cli.text("recalls", "--json").splitlines()]
    [short, _same_by_the_tool] = [recall for recall in recorded if recall.get("leftOut")]
    receipt = cli.text("explain", "--recall", short["id"])
    assert re.search(r"^  Street 8: no room left \([0-9]+ characters\)$", receipt, re.MULTILINE)


def test_a_trigger_of_a_file_has_the_typed_rules_and_keeps_them(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "hello.js").write_text("true", "utf-8")
    cli.text(
        "add-trigger",
        "hello.js",
        "--prompt",
        "Say hi.",
        "--order",
        "5",
        "--group",
        "greet, day",
        "--cooldown",
        "2",
        "--once",
    )
    context = json.loads(cli.text("call", "get_memory_context", '{"name": "hello"}'))
    assert context["rules"] == {"order": 5, "group": ["greet", "day"], "cooldown": 2, "once": True}
    cli.text("add-trigger", "hello.js", "--prompt", "Say hello.", "--order", "7")
    context = json.loads(cli.text("call", "get_memory_context", '{"name": "hello"}'))
    assert context["rules"] == {"order": 7, "group": ["greet", "day"], "cooldown": 2, "once": True}
    assert (
        context["rulesInWords"]
        == "order 7, group greet, day, comes again 2 messages later at the earliest, once in a chat"
    )
