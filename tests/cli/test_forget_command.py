"""`memory-server forget` from end to end, and that a turn which asks for it is not stored."""

from __future__ import annotations

import asyncio
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from cli_program import CommandLine
from hook_transcripts import assistant, event, transcript, user

from memory_server import open_memory
from memory_server.kernel.errors import StorageUnwritable
from memory_server.knowledge.lifecycle import KnowledgeLifecycle
from memory_server.tools import TOOLS
from memory_server.tools.base.tool import call

FORGET = {
    "type": "tool_use",
    "id": "t1",
    "name": "mcp__memory__forget",
    "input": {"words": "Halloran"},
}
YEAR = {"name": "2024", "prompt": "A good one", "trigger": "1 > 2"}
THEIRS = {"type": "tool_use", "id": "t1", "name": "mcp__notes__forgetful", "input": {}}


@pytest.fixture
def cli(cli: CommandLine, elsewhere: None) -> CommandLine:
    """The command in Shanghai, in a project of its own."""
    return cli.with_flags("--now", "2026-06-25T08:00:00Z", "--timezone", "Asia/Shanghai")


@pytest.fixture
def stored(cli: CommandLine) -> None:
    cli.text("remember", "My dentist is Dr. Halloran on Elm Street.")
    cli.text("remember", "The cat is called Miso.")


@pytest.mark.usefixtures("stored")
def test_what_holds_the_words_is_shown_and_forgotten_and_one_undo_brings_it_back(
    cli: CommandLine,
) -> None:
    out = cli.text("forget", "halloran", "--yes")
    assert "My dentist is Dr. Halloran" in out
    assert "Miso" not in out
    assert "Forgot 1 memory. Until 2026-09-23" in out
    assert cli.text("search", "Halloran").startswith("0 memories found")
    [change] = re.findall(r"undo ([0-9a-f]{8})", out)
    assert cli.text("undo", change).startswith(f"Undid {change}")
    assert "Elm Street" in cli.text("search", "Halloran")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("forget", "Halloran"), "this is not a terminal; add --yes"),
        (("forget", "broccoli", "--yes"), "No memory or entry contains these words"),
        (("forget", "Halloran", "Miso", "--yes"), "No memory or entry contains these words"),
        (("forget", "--yes"), "Give words of the text to forget"),
        (("forget", "Halloran", "--yes", "-c", "nowhere"), "There is no conversation nowhere"),
        (
            ("forget", "Halloran", "--yes", "--family", "notes"),
            "No memory or other entry that you chose contains",
        ),
        (
            ("forget", "Halloran", "--yes", "--since", "2026-06-26"),
            "No memory or other entry that you chose contains",
        ),
        (("forget", "\u200b", "--yes"), "Give words of the text to forget"),
        (("forget", "Halloran", "--yes", "--until", "yesterday"), "is not a time"),
        (("--read-only", "forget", "Halloran", "--yes"), "read_only"),
    ],
)
def test_what_cannot_be_forgotten_is_said_and_nothing_changes(
    cli: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in cli.text(*arguments, status=2)
    assert "Elm Street" in cli.text("search", "Halloran")


@pytest.mark.usefixtures("stored")
def test_a_dry_run_changes_nothing(cli: CommandLine) -> None:
    assert "Would forget 1 memory." in cli.text("forget", "Halloran", "--dry-run")
    assert "Elm Street" in cli.text("search", "Halloran")


def end_turn(cli: CommandLine, tmp_path: Path, *entries: dict[str, Any], **fields: Any) -> None:
    path = tmp_path / "session.jsonl"
    path.write_bytes(transcript(*entries))
    cli.text("hook", stdin=event("Stop", transcript_path=str(path), **fields))


@pytest.mark.usefixtures("stored")
def test_a_turn_in_which_forget_was_called_keeps_no_text_and_a_new_session_is_not_shown_what_it_was(
    cli: CommandLine, tmp_path: Path
) -> None:
    begun = event("SessionStart", source="startup", session_id="s2", cwd=str(Path.cwd()))
    assert "Halloran" in cli.text("hook", stdin=begun)
    cli.text(
        "hook",
        stdin=event("UserPromptSubmit", prompt="Forget my dentist Dr. Halloran", prompt_id="p1"),
    )
    assert "Forget my dentist" in cli.text("recalls", "--json")
    cli.text("hook", stdin=event("UserPromptSubmit", prompt="Which cat is it?", prompt_id="p0"))
    cli.text("examine")
    [questions] = tmp_path.glob("data/.memory-server/questions/*.jsonl")
    assert "Forget my dentist" in questions.read_text()
    called = json.loads(
        cli.text("call", "forget", json.dumps({"words": "dentist Halloran", "confirm": True}))
    )
    assert called["forgotten"]
    entries = (
        user("Forget my dentist Dr. Halloran", "p1"),
        assistant(FORGET),
        assistant("Halloran is forgotten."),
    )
    end_turn(cli, tmp_path, *entries, prompt_id="p1")
    assert cli.text("search", "Halloran").startswith("0 memories found")
    assert "Forget my dentist" not in cli.text("recalls", "--json")
    assert "Forget my dentist" not in questions.read_text()
    assert "Which cat is it?" in questions.read_text()
    block = cli.text("hook", stdin={**begun, "session_id": "s3"})
    assert "Miso" in block
    assert "Halloran" not in block


def test_another_tool_or_an_earlier_turn_keeps_no_text_back(
    cli: CommandLine, tmp_path: Path
) -> None:
    earlier_turn = user("Forget it", "p1"), assistant(FORGET), assistant("Done.")
    later_turn = user("I have a bicycle", "p2"), assistant(THEIRS), assistant("A bicycle, nice.")
    end_turn(cli, tmp_path, *earlier_turn, *later_turn, prompt_id="p2")
    assert "bicycle" in cli.text("list")
    assert "Forget it" not in cli.text("list")


def test_remember_turn_stores_no_turn_that_calls_forget(cli: CommandLine) -> None:
    request = {"role": "user", "content": "Forget my dentist"}
    answers = (
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}, FORGET]},
        {
            "role": "assistant",
            "content": "Done.",
            "tool_calls": [{"id": "1", "function": {"name": "forget"}}],
        },
    )
    for answer in answers:
        outcome = json.loads(
            cli.text("call", "remember_turn", json.dumps({"messages": [request, answer]}))
        )
        assert not outcome["stored"]
    theirs = {"role": "assistant", "content": [{"type": "text", "text": "Done."}, THEIRS]}
    assert json.loads(
        cli.text("call", "remember_turn", json.dumps({"messages": [request, theirs]}))
    )["stored"]


@pytest.mark.usefixtures("stored")
def test_the_tool_first_says_what_would_go_and_asks_for_either_words_or_ids(
    cli: CommandLine,
) -> None:
    preview = json.loads(cli.text("call", "forget", '{"words": "Halloran"}'))
    assert (preview["found"], preview["forgotten"]) == (1, False)
    for wrong in ("{}", '{"words": " "}', '{"words": "a", "ids": ["b"]}'):
        assert "either words that it holds, or ids" in cli.text("call", "forget", wrong, status=1)
    ids = json.dumps({"ids": [preview["items"][0]["id"]], "confirm": True})
    answer = json.loads(cli.text("call", "forget", ids))
    assert answer["forgotten"]
    assert json.loads(
        cli.text("call", "undo_change", json.dumps({"changeId": answer["changeId"]}))
    )["changes"]
    assert "Elm Street" in cli.text("search", "Halloran")
    assert (
        json.loads(cli.text("call", "forget", '{"words": "broccoli", "confirm": true}'))["found"]
        == 0
    )


@pytest.mark.usefixtures("stored")
def test_erasing_names_the_places_and_the_backups_and_says_that_nothing_is_found(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.text("backup", "before")
    before = cli.text("search", "Halloran")
    preview = cli.text("forget", "Halloran", "--for-good", "--dry-run")
    for part in (
        "history",
        "free pages",
        "cannot be undone",
        "transcripts of clients",
        "(--in-backups): before",
        "Would",
    ):
        assert part in preview
    assert "this is not a terminal" in cli.text("forget", "Halloran", "--for-good", status=2)
    assert cli.text("search", "Halloran") == before
    out = cli.text("forget", "Halloran", "--for-good", "--in-backups", "--yes")
    assert "Erased 1 memory." in out
    assert "found in 0 places" in out
    assert cli.text("search", "Halloran").startswith("0 memories found")
    assert "erased" in cli.text("history")
    assert "0 errors" in cli.text("doctor")
    assert "--in-backups works only with --for-good" in cli.text(
        "forget", "Miso", "--in-backups", "--yes", status=2
    )


@pytest.mark.usefixtures("stored")
def test_what_stays_in_backups_is_named_and_does_not_come_back(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.text("backup", "before")
    cli.text("export", str(tmp_path / "all.jsonl"))
    out = cli.text("forget", "Halloran", "--for-good", "--yes")
    assert "found in 1 place." in out
    assert "before.backup.gz" in out
    cli.text("backup", "restore", "before", status=1)
    assert cli.text("search", "Halloran").startswith("0 memories found")
    cli.text("import", str(tmp_path / "all.jsonl"))
    assert cli.text("search", "Halloran").startswith("0 memories found")
    assert "Remembered" in cli.text("remember", "My dentist is Dr. Halloran on Elm Street."), (
        "said again, so it is meant"
    )
    assert "Elm Street" in cli.text("search", "Halloran")


@pytest.mark.usefixtures("stored")
def test_what_an_erasing_left_in_backups_can_be_erased_there_later(cli: CommandLine) -> None:
    cli.text(
        "call",
        "remember",
        json.dumps({"type": "tech", "topic": "dentist", "content": "Halloran has the X-rays"}),
    )
    cli.text("backup", "before")
    cli.text("forget", "halloran", "--for-good", "--yes")
    command = "forget", "halloran", "--for-good", "--in-backups"
    assert "Only backups contain these words (before)" in cli.text(
        "forget", "halloran", "--for-good", "--yes", status=2
    )
    assert "Only backups contain these words: before" in cli.text(*command, "--dry-run")
    assert "this is not a terminal" in cli.text(*command, status=2)
    assert "found in 0 places" in cli.text(*command, "--yes")
    assert "No memory or entry contains these words" in cli.text(*command, "--yes", status=2)
    for erased in (Path(os.environ["MEMORY_SERVER_DATA_DIR"]) / ".memory-server").glob("erased.*"):
        erased.unlink()  # so that only the backup decides what a restore brings
    cli.text("backup", "restore", "before")
    assert cli.text("search", "Halloran").startswith("0 memories found")
    assert "Miso" in cli.text("search", "Miso")


def test_a_hook_that_comes_late_brings_nothing_back_and_others_may_say_the_same(
    cli: CommandLine, tmp_path: Path
) -> None:
    entries = user("continue", "p1"), assistant("I planted the tulips in the garden.")
    end_turn(cli, tmp_path, *entries, prompt_id="p1")
    cli.text("forget", "tulips", "--for-good", "--yes")
    end_turn(cli, tmp_path, *entries, prompt_id="p1")
    assert cli.text("search", "tulips").startswith("0 memories found")
    end_turn(
        cli, tmp_path, user("continue", "p2"), assistant("The roses are next."), prompt_id="p2"
    )
    assert "continue" in cli.text("search", "roses")


def test_an_id_names_one_memory_and_a_number_is_a_word(cli: CommandLine) -> None:
    stored = json.loads(cli.text("remember", "Platypus in the garden", "--json"))
    memory_id = stored["id"]
    cli.text("remember", f"Please look at {memory_id} again")
    cli.text("remember", "In 2024 we moved to Bergen")
    cli.text("call", "add_long_term_memory", json.dumps(YEAR))
    by_id = cli.text("forget", memory_id, "--dry-run")
    by_number = cli.text("forget", "2024", "--dry-run")
    assert "Platypus" in by_id
    assert "look at" not in by_id
    assert "Bergen" in by_number


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize("flags", [("--yes",), ("--yes", "--for-good"), ("--yes", "-c", "default")])
def test_blank_words_and_names_of_roles_mean_nothing(
    cli: CommandLine, flags: tuple[str, ...]
) -> None:
    for blank in ("", "  "):
        assert "Give words of the text to forget" in cli.text("forget", blank, *flags, status=2)
    refusal = (
        "No memory or other entry that you chose contains"
        if "-c" in flags
        else "No memory or entry contains these words"
    )
    assert refusal in cli.text("forget", "user", *flags, status=2)
    assert "Miso" in cli.text("list")


@pytest.mark.usefixtures("stored")
def test_words_count_in_what_was_said_and_not_in_names_of_folders(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli.text("remember", "Winter boots")
    cli.text("forget", "boots", "--yes")
    cli.text("remember", "home is where the cat is")
    folder_name = Path.cwd().name
    cli.text("remember", f"A note about {folder_name} and nothing else")
    assert "Erased 1 memory" in cli.text("forget", folder_name, "--for-good", "--yes")
    assert "Winter boots" in cli.text("search", "--archived", "boots"), (
        "though its folder has that name"
    )


def test_of_two_users_with_the_same_fact_only_the_one_that_is_meant_is_erased(
    cli: CommandLine,
) -> None:
    for name in ("alice", "bob"):
        arguments = {
            "user_id": name,
            "messages": [{"role": "user", "content": "Likes green tea very much"}],
        }
        cli.text("call", "memory_add", json.dumps(arguments))
    out = cli.text("forget", "--user", "alice", "--for-good", "--yes")
    assert "Erased 1 memory" in out
    assert "1 memory elsewhere with the same text will not be erased" in out
    assert (
        json.loads(cli.text("call", "memory_search", '{"user_id": "bob", "query": "tea"}'))["total"]
        == 1
    )


def test_a_trigger_is_erased_whose_text_a_memory_that_stays_quotes_too(cli: CommandLine) -> None:
    trigger = {
        "name": "harvest",
        "prompt": "Ask about the mango tree",
        "trigger": "match_keys(context.messages, ['x'])",
    }
    cli.text("call", "add_long_term_memory", json.dumps(trigger))
    cli.text("remember", "-c", "other", "I told it: Ask about the mango tree, please")
    cli.text("backup", "b1")
    assert "Erased 1 memory" in cli.text(
        "forget", "mango", "-c", "default", "--for-good", "--in-backups", "--yes"
    )
    assert "mango" not in cli.text("history", "-c", "default")
    cli.text("backup", "restore", "b1")
    assert "mango" not in cli.text("list", "-c", "default")
    assert "mango" in cli.text("list", "-c", "other")


def test_what_a_companion_stores_of_the_turn_that_forgets_is_not_kept(cli: CommandLine) -> None:
    request = [{"role": "user", "content": "Please forget that my dentist is Halloran"}]

    async def turn() -> tuple[bool, bool]:
        async with open_memory(os.environ["MEMORY_SERVER_DATA_DIR"]) as app:
            await call(TOOLS["forget"], app.call, {"words": "Halloran"})
            first = await call(TOOLS["remember_turn"], app.call, {"messages": request})
            again = await call(TOOLS["remember_turn"], app.call, {"messages": request})
            return first.structured["stored"], again.structured["stored"]

    assert asyncio.run(turn()) == (False, True), "only the first one is of that turn"


def test_of_an_undo_the_parts_that_cannot_be_taken_back_are_said(cli: CommandLine) -> None:
    note = {"type": "tech", "topic": "fruit", "content": "mango grows here"}
    cli.text("call", "remember", json.dumps(note))
    cli.text("remember", "mango is a fruit")
    [change] = re.findall(r"undo ([0-9a-f]{8})", cli.text("forget", "mango", "--yes"))
    cli.text(
        "call",
        "remember",
        json.dumps(
            {**note, "content": "papaya grows here, and nothing else does in this whole land"}
        ),
    )
    out = cli("undo", change).told
    assert f"Undid {change}" in out
    assert "mango is a fruit" in cli.text("search", "mango")
    assert len(out.splitlines()) > 2, "why the note did not come back"


@pytest.mark.usefixtures("stored")
def test_an_erasing_that_was_interrupted_is_finished_by_the_next(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_disk(*_: Any) -> None:
        raise StorageUnwritable("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(KnowledgeLifecycle, "erase", fill_disk)
        assert "the disk is full" in cli.text("forget", "Halloran", "--for-good", "--yes", status=1)
    assert (tmp_path / "data" / ".memory-server" / "erasing.json").exists()
    assert "found in 0 places" in cli.text("forget", "Halloran", "--for-good", "--yes")
    assert not (tmp_path / "data" / ".memory-server" / "erasing.json").exists()


def test_all_of_a_user_is_erased(cli: CommandLine, tmp_path: Path) -> None:
    for name, fact in (("alice", "Alice collects stamps"), ("bob", "Bob plays the piano")):
        arguments = {"user_id": name, "messages": [{"role": "user", "content": fact}]}
        cli.text("call", "memory_add", json.dumps(arguments))
    assert "found in 0 places" in cli.text("forget", "--user", "alice", "--for-good", "--yes")
    data = b"".join(path.read_bytes() for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert b"alice" not in data
    assert b"stamps" not in data
    assert b"Bob plays the piano" in data


def test_a_token_is_removed_with_everything_of_its_tenant(cli: CommandLine, tmp_path: Path) -> None:
    for name, tenant in (("phone", "carol"), ("laptop", "carol"), ("own", None)):
        flags = () if tenant is None else ("--tenant", tenant)
        cli.text("tokens", "add", name, *flags)
    cli.text("remember", "My PIN is 4711.", "--tenant", "carol")
    folder = tmp_path / "data" / ".memory-server" / "tenants" / "carol"
    assert folder.is_dir()
    for name, reason in (
        ("phone", "laptop can access carol too"),
        ("own", "has no tenant"),
        ("none", "There is no token `none`"),
    ):
        assert reason in cli.text("tokens", "remove", name, "--erase", "--yes", status=2)
    for action in (("list",), ("add", "tablet")):
        assert "`tokens remove NAME`" in cli.text("tokens", *action, "--erase", status=2)
    cli.text("tokens", "remove", "laptop")
    assert "--yes" in cli.text("tokens", "remove", "phone", "--erase", status=2)
    assert folder.is_dir()
    assert "Everything of carol was erased." in cli.text(
        "tokens", "remove", "phone", "--erase", "--yes"
    )
    assert not folder.exists()
    listed = cli.text("tokens", "list")
    assert "own" in listed
    assert "phone" not in listed


FIELDS_WITH_WORDS = {
    "name of the book": "Zorgbook",
    "name of the file": "Filemoss",
    "title": "Titlefern",
    "text": "Textholm",
    "key": "Keyglade",
    "second key": "Secondmire",
    "group": "Fernholm",
    "character filter": "Ostrix",
    "unknown field of a memory": "Moodheath",
    "unknown field of a message": "Voicetarn",
    "name of a speaker": "Speakmoor",
    "other words": "Otherfen",
}
"""A word of a person in each field that an import may bring."""


@pytest.fixture
def with_words_everywhere(cli: CommandLine, tmp_path: Path) -> None:
    entry = {
        "uid": 0,
        "comment": FIELDS_WITH_WORDS["title"],
        "key": [FIELDS_WITH_WORDS["key"]],
        "keysecondary": [FIELDS_WITH_WORDS["second key"]],
        "selective": True,
        "content": FIELDS_WITH_WORDS["text"],
        "group": FIELDS_WITH_WORDS["group"],
        "useGroupScoring": True,
        "characterFilter": {"names": [FIELDS_WITH_WORDS["character filter"]], "isExclude": True},
    }
    lore = {"name": FIELDS_WITH_WORDS["name of the book"], "entries": {"0": entry}}
    file = tmp_path / f"{FIELDS_WITH_WORDS['name of the file']}.json"
    file.write_text(json.dumps(lore), "utf-8")
    cli.text("import", str(file))
    file.unlink()
    message = {
        "role": "user",
        "name": FIELDS_WITH_WORDS["name of a speaker"],
        "content": "It rains today.",
        "voice": {"called": [FIELDS_WITH_WORDS["unknown field of a message"]]},
    }
    memory = {
        "id": "m1",
        "timestamp": "2026-05-01T08:00:00.000Z",
        "text": "It rains today.",
        "messages": [message],
        "otherWords": [FIELDS_WITH_WORDS["other words"]],
        "mood": FIELDS_WITH_WORDS["unknown field of a memory"],
    }
    folder = tmp_path / "data" / "default"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "short-term-memory.json").write_text(json.dumps([memory]), "utf-8")
    cli.text("list")


@pytest.mark.parametrize("field", FIELDS_WITH_WORDS)
def test_a_word_in_any_field_is_erased_or_named_with_the_way_to_take_it_out(
    cli: CommandLine, with_words_everywhere: None, tmp_path: Path, field: str
) -> None:
    word = FIELDS_WITH_WORDS[field]
    assert held(tmp_path / "data", word)
    if field == "other words":
        refusal = cli("forget", word, "--for-good", "--yes")
        assert refusal.status == 2
        assert "memory-server edit ID --other-words" in refusal.told
        return
    status, *texts = cli("forget", word, "--for-good", "--yes")
    told = "".join(texts)
    assert status == 0, told
    assert "found in 0 places" in told
    assert "as the name of" not in told
    assert not held(tmp_path / "data", word)


def held(folder: Path, word: str) -> list[str]:
    """The names of the files that hold a word."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path.name for path in files if word.encode() in path.read_bytes()]
