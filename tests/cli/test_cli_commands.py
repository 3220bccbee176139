"""The commands of `memory-server`, run in this process: what they print and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_program import CommandLine
from command_outcome import Outcome

from memory_server.cli.parser import SETTINGS, main, parser
from memory_server.tools import TOOLS
from memory_server.version import version_line

ADD = '{"conversation_id":"小明","messages":[{"role":"user","content":"我喜欢吃披萨","timestamp":1780000000000}]}'


def test_version_is_said_without_loading_anything(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"{version_line()}\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        (("--no-such-flag", "hook"), 0),
        (("--data-dir", "hook", "nonsense"), 2),
        (("--read-only", "hook", "--chars", "many"), 0),
        (("--data-dir=x", "hook", "--chars", "many"), 0),
        (("search", "hook", "--order", "nonsense"), 2),
    ],
)
def test_only_a_hook_hides_that_it_cannot_be_run(
    cli: CommandLine, words: tuple[str, ...], status: int
) -> None:
    try:
        ended = cli(*words).status
    except SystemExit as end:
        ended = int(str(end.code))
    assert ended == status


def test_the_flags_with_a_value_are_known_without_the_parser() -> None:
    names: set[str] = set()
    for action in parser()._actions:
        if action.nargs is None:
            names.update(action.option_strings)
    assert names == {f"--{name}" for name in SETTINGS} | {"-c"}


def test_call_gives_the_structured_result_and_with_text_the_readable_one(cli: CommandLine) -> None:
    status, out, _ = cli("call", "add_short_term_memory", ADD)
    assert status == 0
    assert json.loads(out)["totalMemories"] == 1
    assert cli("call", "get_memory_stats", '{"conversation_id":"小明"}', "--text").out.startswith(
        "1 short-term memory"
    )


def test_call_reads_its_arguments_from_a_file_or_standard_input(
    cli: CommandLine, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text("\ufeff" + ADD, encoding="utf-8")
    assert cli("call", "add_short_term_memory", f"@{tmp_path / 'a.json'}").status == 0
    more = ADD.replace("我", "小红").encode()
    outcome = cli("call", "add_short_term_memory", "-", stdin=more)
    assert json.loads(outcome.out)["totalMemories"] == 2


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["call", "no_such_tool"], 2, "There is no tool `no_such_tool`; "),
        (["call", "get_memory_stats", "{"], 2, "the argument is not JSON"),
        (["call", "get_memory_stats", "[]"], 2, "is not a JSON object"),
        (
            ["call", "get_memory_stats", "@nowhere.json"],
            2,
            "nowhere.json cannot be read: No such file",
        ),
        (["call", "add_short_term_memory", '{"messages":[]}'], 1, "`messages` is empty"),
        (["show", "nothing"], 1, "No memory has the id or name `nothing`"),
        (["show", "nothing"], 1, "nothing is stored in"),
        (["list", "-c", "nosuch"], 2, "There is no conversation nosuch; nothing is stored in"),
        (["cleanup", "-c", "nosuch"], 2, "There is no conversation nosuch"),
        (["pin", "nosuch"], 1, "No short-term memory has the id `nosuch`"),
        (
            ["undo", "1-abcd"],
            2,
            "There is no change 1-abcd; `memory-server history` lists the changes",
        ),
        (["backup", "--data-dir", "x", "list"], 2, "Write `memory-server backup list`"),
        (["import", "nowhere.jsonl"], 2, "nowhere.jsonl cannot be read"),
        (["--conversation", "a\nb", "list"], 2, "The flag `--conversation`"),
        (["--data-dir", "unknown-toolset.toml", "list"], 2, "unknown-toolset.toml is a file"),
        (["search", "--since", "soon"], 1, "`--since` is not a time"),
        (["undo", "--memory", "--since", "soon"], 2, "`--since` is not a time"),
        (["--config", "unknown-toolset.toml", "serve"], 2, "There is no toolset `nonsense`"),
        (["--timezone", "Mars/Olympus", "list"], 2, "not an IANA time zone"),
        (["--now", "soon", "list"], 2, "`--now` cannot be 'soon': write an ISO time"),
        (["--config", "nowhere.toml", "list"], 2, "The settings file nowhere.toml cannot be read"),
    ],
)
def test_a_mistake_is_one_sentence_on_standard_error(
    cli: CommandLine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    status: int,
    sentence: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("unknown-toolset.toml").write_text('toolsets = "nonsense"', encoding="utf-8")
    ended, out, err = cli(*arguments)
    assert (ended, out) == (status, "")
    assert err.startswith("memory-server: ")
    assert sentence in err
    assert err.count("\n") == 1


def test_list_show_where_and_stats_look_into_the_folder(cli: CommandLine, tmp_path: Path) -> None:
    assert "No conversations" in cli("list").out
    memory_id = json.loads(cli("call", "add_short_term_memory", ADD).out)["id"]
    trigger = {
        "name": "生日",
        "prompt": "祝他生日快乐",
        "trigger": "new Date().getMonth() === 5",
        "createdContext": "他说的",
    }
    cli("call", "add_long_term_memory", json.dumps(trigger))
    listed = cli("list").out
    assert [line.split()[:3] for line in listed.splitlines()[1:]] == [
        ["default", "0", "1"],
        ["小明", "1", "0"],
    ]
    assert memory_id in cli("list", "-c", "小明").out
    assert "生日" in cli("list", "-c", "default").out
    status, out, err = cli("list", "-c", "小红")
    assert (status, out) == (2, "")
    assert "There is no conversation 小红" in err
    assert "holds default, 小明." in err
    shown = cli("show", memory_id[:6]).out
    assert "披萨" in shown
    assert "user: 我喜欢吃披萨" in shown
    named = cli("show", "生日", "-c", "default").out
    assert "祝他生日快乐" in named
    assert "他说的" in named
    assert str(tmp_path / "data" / "小明~") in cli("where").out
    assert "1 short-term memory from 2026-05-28" in cli("list", "-c", "小明").out


def test_looking_makes_nothing_on_disk(cli: CommandLine, tmp_path: Path) -> None:
    for command in (["list"], ["search", "披萨"], ["history"], ["where"], ["cleanup", "--dry-run"]):
        assert cli(*command).status == 0
    assert not (tmp_path / "data").exists()


def test_cleanup_says_what_it_would_forget_before_it_does(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__KEEP_AT_LEAST", "0")
    monkeypatch.setenv("MEMORY_SERVER_NOW", "2027-12-01T00:00:00Z")
    cli("call", "add_short_term_memory", ADD)
    preview = cli("cleanup", "--dry-run").out
    assert "小明: Would forget 1 memory; remaining: 0." in preview
    assert "(older than the limit): user: 我喜欢吃披萨" in preview
    [tool_text] = cli("call", "--text", "forget_preview", '{"conversation_id": "小明"}')[1:2]
    assert preview == f"小明: {tool_text}"
    assert "小明: Forgot 1 memory; remaining: 0." in cli("cleanup").out
    assert cli("cleanup").out == "小明: Forgot 0 memories; remaining: 0.\n"


def test_cleanup_says_up_to_how_many_memories_it_forgets_nothing(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("call", "add_short_term_memory", ADD)
    monkeypatch.setenv("MEMORY_SERVER_NOW", "2036-12-01T00:00:00Z")
    rule = "A conversation of up to 20,000 memories keeps everything."
    assert cli("cleanup").out.splitlines() == ["小明: Forgot 0 memories; remaining: 1.", rule]
    preview = cli("call", "--text", "forget_preview", '{"conversation_id": "小明"}').out
    assert preview == f"Would forget 0 memories; remaining: 1. {rule}\n"
    monkeypatch.setenv("MEMORY_SERVER_SHORT_TERM__KEEP_AT_LEAST", "0")
    assert "keeps everything" not in cli("cleanup", "--dry-run").out
    assert (
        "keeps everything"
        not in cli("call", "--text", "forget_preview", '{"conversation_id": "小明"}').out
    )


def test_a_flag_counts_before_and_after_the_command(cli: CommandLine, tmp_path: Path) -> None:
    for arguments in (
        ["--data-dir", str(tmp_path / "x"), "where"],
        ["where", "--data-dir", str(tmp_path / "x")],
    ):
        assert f"memories  {tmp_path / 'x'}" in cli(*arguments).out


def test_an_imported_chat_is_asked_and_says_what_a_question_recalls(
    cli: CommandLine, tmp_path: Path
) -> None:
    chat = tmp_path / "chat.jsonl"
    lines = [
        {
            "conversation_id": "小明",
            "role": "user",
            "content": "我对芒果过敏",
            "timestamp": 1780000000000,
            "name": "小明",
        },
        {
            "conversation_id": "小明",
            "role": "assistant",
            "content": "记住了",
            "timestamp": 1780000001000,
        },
        {
            "conversation_id": "小明",
            "role": "user",
            "content": "周末去看海",
            "timestamp": 1780090000000,
        },
    ]
    chat.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    triggers = tmp_path / "triggers.json"
    triggers.write_text(
        json.dumps(
            [
                {
                    "name": "水果",
                    "prompt": "别给芒果",
                    "trigger": "match_keys(context.messages, ['芒果'])",
                }
            ]
        )
    )
    status, out, err = cli(
        "import", str(chat), str(triggers), "--shift-to-now", "--ask", "芒果蛋糕能吃吗"
    )
    assert status == 0, err
    assert "小明: 2 new" in out
    assert "default: 1 new" in out
    assert "top " in out
    assert "小明: 我对芒果过敏" in out
    assert "fired     水果: 别给芒果" in out
    assert "小明" in cli("list").out


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (
            b'{"role":"critic","content":"a"}',
            "line 1: it has the role 'critic'; it must be user, assistant or system",
        ),
        (b'{"role":"critic","content":"a"}\n{"role":', "line 1: it has the role 'critic'"),
        (b"[1]", "has an unknown form"),
        (b"\n\n", "is empty"),
        ("你好".encode("gb18030"), "is not UTF-8"),
    ],
)
def test_a_chat_file_that_cannot_be_used_is_named_with_its_line(
    cli: CommandLine, tmp_path: Path, content: bytes, reason: str
) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_bytes(content)
    status, _, err = cli("import", str(chat))
    assert status == 2
    assert reason in err
    assert not (tmp_path / "data").exists()


CHATS = {
    "zh": "小满和阿澈 的 288 条消息存成了 144 条记忆，共有 14 个触发器。",
    "en": "52 messages of Nora and Wren became 26 memories; there are 5 triggers.",
}
"""What the demo says of its chat."""
MOST_DEMO_LINES = 45
"""A screen or two."""


def demo_output(cli: CommandLine, language: str, *flags: str) -> Outcome:
    outcome = cli("--language", language, "demo", *flags)
    assert outcome.status == 0, outcome.err
    assert CHATS[language] in outcome.out
    assert "failed " not in outcome.out
    return outcome


@pytest.mark.parametrize(
    ("language", "sentence"),
    [("zh", "3 个问题全部答对。"), ("en", "All 3 questions recalled the expected memories.")],
)
def test_the_short_demo_recalls_what_its_author_expected(
    cli: CommandLine, language: str, sentence: str
) -> None:
    _, out, err = demo_output(cli, language)
    assert sentence in out
    assert "--all" in err, "it says how to see the rest"
    assert out.count("\n") < MOST_DEMO_LINES


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        pytest.param("zh", "10 个问题全部答对。", marks=pytest.mark.full),
        ("en", "All 6 questions recalled the expected memories."),
    ],
)
def test_the_whole_demo_recalls_what_its_author_expected(
    cli: CommandLine, language: str, sentence: str
) -> None:
    _, out, err = demo_output(cli, language, "--all")
    assert sentence in out
    assert "--all" not in err
    assert out.count("\n") > MOST_DEMO_LINES


def test_a_memory_is_explained_by_its_id_or_its_words(cli: CommandLine, tmp_path: Path) -> None:
    memory_id = json.loads(cli("call", "add_short_term_memory", ADD).out)["id"]
    for reference in (memory_id, "披萨"):
        status, out, _ = cli("explain", reference, "--ask", "吃披萨吗？", "-c", "小明")
        assert status == 0
        assert out.startswith(f"{memory_id} in 小明")
    status, out, err = cli("explain", "寿司", "--ask", "吃披萨吗？", "-c", "小明")
    assert (status, out) == (1, "")
    assert "No memory of 小明 shares a word with that text" in err


def test_a_search_in_a_shell_has_every_argument_of_the_tool_but_those_of_programs() -> None:
    flags = {
        action.dest.removeprefix("argument ")
        for action in parser().commands.choices["search"]._actions
    }
    assert flags >= set(TOOLS["search_memories"].input_schema()["properties"]) - {"conversation_id"}


def test_an_error_of_a_tool_names_the_flag(cli: CommandLine) -> None:
    assert "`--limit` " in cli("search", "披萨", "--limit", "0").err
    assert "`--since` " in cli("search", "披萨", "--since", "soon").err


def test_flags_are_known_without_importing_the_tools(tmp_path: Path) -> None:
    code = (
        "import sys; from memory_server.cli import parser; "
        "parser.parser(); sys.exit('memory_server.tools' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, check=False, timeout=60
        ).returncode
        == 0
    )


def test_help_lists_the_commands_by_what_they_are_for(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40, "one screen"
    assert max(map(len, lines)) <= 80
    groups = [line.split(":")[0] for line in lines if line[:1].isalpha()]
    assert [group for group in groups if " " not in group] == [
        "usage",
        "daily",
        "inspect",
        "repair",
        "transfer",
        "develop",
    ]
    assert any(line.endswith("Undo a change, or bring a memory back.") for line in lines)
    names = [
        name
        for line in lines[2:]
        if line[:3] != "  -"
        for name in line[10:30].replace(",", " ").split()
    ]
    assert len(named := set(names)) == len(names), "each once"
    assert named >= {name for name in parser().commands.choices if " " not in name} - {"hook"}


def test_memories_are_searched_by_what_is_known_of_them(cli: CommandLine) -> None:
    cli("call", "add_short_term_memory", ADD)
    status, out, _ = cli(
        "search",
        "--word",
        "披",
        "-c",
        "小明",
        "--kind",
        "short_term",
        "--sort",
        "score",
        "--reverse",
    )
    assert status == 0
    assert out.endswith("1 memory found, 1 shown.\n")
    assert "披萨" in cli("search", "披萨").out, "all conversations are searched"
    assert cli("search", "--min-score", "1").out.startswith("0 memories found, 0 shown.\n")
    assert (
        cli(
            "call", "delete_short_term_memories", '{"conversation_id": "小明", "pattern": "披"}'
        ).status
        == 0
    )
    assert "undo --memory" in cli("search", "披萨", "-c", "小明", "--archived").out
    of_notes = cli("search", "披萨", "--family", "notes").out
    assert of_notes == "0 entries found, 0 shown.\n", "no conversation was searched"
    empty = cli("search", "披萨", "-c", "小明").out.splitlines()
    assert empty[0] == "0 memories found, 0 shown."
    assert empty[1].startswith("Looked in 小明; ")
    assert empty[1].endswith(" holds 小明.")


@pytest.mark.parametrize(
    "command",
    [["doctor", "--repair"], ["doctor", "--reindex"]],
    ids=" ".join,
)
def test_a_doctor_that_changes_something_is_refused_where_nothing_may(
    cli: CommandLine, tmp_path: Path, command: list[str]
) -> None:
    """Commands that always change memories are in test_command_table.py."""
    assert cli("call", "add_short_term_memory", ADD).status == 0
    assert cli("backup", "kept").status == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    status, out, err = cli("--read-only", *command)
    assert (status, out) == (2, "")
    assert "changes something, but `read_only` is set; turn `read_only` off first." in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "command",
    [["backup", "list"], ["backup", "restore", "kept", "--dry-run"]],
    ids=" ".join,
)
def test_what_only_looks_is_not_refused(cli: CommandLine, command: list[str]) -> None:
    assert cli("call", "add_short_term_memory", ADD).status == 0
    assert cli("backup", "kept").status == 0
    assert cli("--read-only", *command).status == 0


def test_serving_ends_at_once_without_the_shutdown_of_python(tmp_path: Path) -> None:
    code = """
import atexit, sys
atexit.register(lambda: print("at exit"))
sys.argv[1:] = ["--data-dir", "memories"]
from memory_server.cli.parser import main
sys.exit(main())
"""
    completed = subprocess.run(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=60,
        check=False,
    )
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "", "")


# --- knowledge -----------------------------------------------------------------------------------------------


def note_id(cli: CommandLine, topic: str, content: str) -> str:
    note = json.dumps({"type": "tech", "topic": topic, "content": content})
    return str(json.loads(cli("call", "remember", note).out)["memory_id"])


def test_notes_are_listed_shown_moved_and_brought_back(cli: CommandLine) -> None:
    assert cli("knowledge", "list") == (0, "No entries yet.\n", "")
    assert cli("knowledge", "history").out.startswith(
        "The history has no changes; nothing is stored in"
    )
    pool = note_id(cli, "连接池", "連接池最多二十個")
    note_id(cli, "port", "The port is 8080")
    assert "连接池" in cli("knowledge", "list").out
    assert "port" not in cli("knowledge", "list", "连接池").out
    for words in (
        ("list", "port", "--json"),
        ("list", "--json", "port"),
        ("--json", "list", "--space", "notes", "port"),
    ):
        assert json.loads(cli("knowledge", *words).out)["text"] == "The port is 8080"
    fields = json.loads(cli("knowledge", "list", "--json", "port").out)
    assert {"number": 2, "type": "tech", "confidence": 1.0, "version": 1}.items() <= fields.items()
    assert fields["created_at"].endswith("Z")
    assert cli("knowledge", "list", "--json", "port", "--nothing").status == 2
    for name in ("1", pool, pool[:8]):
        assert pool in cli("knowledge", "show", name).out
    assert cli("knowledge", "delete", pool).out == f"Deleted {pool}. Change k3.\n"
    assert "连接池" in cli("knowledge", "list", "--archived").out
    assert "was restored. Change k4." in cli("knowledge", "restore", "1").out
    assert "Undid k2" in cli("undo", "k2").out
    assert [line.split()[0] for line in cli("knowledge", "history").out.splitlines()] == [
        "k5",
        "k4",
        "k3",
        "k2",
        "k1",
    ]
    assert (
        json.loads(cli("knowledge", "history", "--json").out.splitlines()[0])["steps"][0]["what"]
        == "undo"
    )
    assert "notes   1        1" in cli("where").out


def test_pages_and_a_reindex(cli: CommandLine, tmp_path: Path) -> None:
    note_id(cli, "pool", "Use a connection pool of twenty for the main database.")
    note_id(cli, "pool!", "Use a connection pool of twenty for the main database")
    folder = tmp_path / "pages"
    status, out, _ = cli("knowledge", "document", "--output", str(folder), "--type", "tech")
    assert (status, out.strip()) == (0, str(folder / "tech.md"))
    (folder / "tech.md").write_text("my own", encoding="utf-8")
    status, _, err = cli("knowledge", "document", "--output", str(folder))
    assert status == 2
    assert "add --force" in err
    assert "Would merge 1 pair; 1 note left." in cli("knowledge", "reindex", "--dry-run").out
    assert "Merged 1 pair (change k3); 1 note left." in cli("knowledge", "reindex").out
    assert "Undid k3" in cli("undo", "k3").out
    assert "Archived 0 entries." in cli("knowledge", "cleanup").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("show",), "needs the number or id of one entry"),
        (("delete", "1", "2"), "needs the number or id of one entry"),
        (("reindex", "now"), "needs no words"),
        (("show", "1", "--json"), "does not take --json"),
        (("list", "--dry-run"), "does not take --dry-run"),
        (("show", "99"), "There is no entry 99"),
        (("delete", "1", "--read-only"), "read_only"),
    ],
)
def test_a_wrong_action_of_knowledge_is_one_sentence(
    cli: CommandLine, arguments: tuple[str, ...], sentence: str
) -> None:
    status, out, err = cli("knowledge", *arguments)
    assert status in (1, 2)
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_a_backup_takes_notes_with_it(cli: CommandLine, tmp_path: Path) -> None:
    note_id(cli, "kept", "kept text")
    assert "Beside it 1 note or other entry." in cli("backup", "one").out
    cli("knowledge", "delete", "1")
    assert "notes: 1 entry." in cli("backup", "restore", "one", "--dry-run").out
    assert "notes: 1 entry" in cli("backup", "restore", "one").out
    note_id(cli, "later", "later text")
    assert "notes: 1 entry" in cli("backup", "restore", "one", "--overwrite").out
    assert "later" not in cli("knowledge", "list").out
    cli("backup", "delete", "one")
    assert not list(tmp_path.rglob("*.knowledge.sqlite3"))


@pytest.mark.skipif(os.name == "nt", reason="names are UTF-16")
def test_odd_names_among_backups_stop_neither_doctor_nor_the_list_and_send_nothing_to_the_terminal(
    cli: CommandLine, tmp_path: Path
) -> None:
    cli("remember", "我喜欢吃披萨")
    cli("backup", "one")
    folder = tmp_path / "data" / ".memory-server" / "backups"
    whole = (folder / "one.backup.gz").read_bytes()
    for name in (
        b"a\x1b[31m.backup.gz",
        b"\xff.backup.gz",
        b"a\nb.backup.gz",
        b".\x1b\xff.next",
        b" .backup.gz",
    ):
        (folder / os.fsdecode(name)).write_bytes(whole)
    (folder / "folder.backup.gz").mkdir()
    (folder / "loop.backup.gz").symlink_to("loop.backup.gz")
    (folder / ".folder.next").mkdir()
    for command in (("doctor",), ("doctor", "--json"), ("backup", "list")):
        _, out, err = cli(*command)
        assert "folder" in out + err
        assert all(
            name in (out + err).replace("\\\\", "\\") for name in ("a\\x1b[31m", "\\udcff", "a\\nb")
        )
        assert not set(out + err) & {"\x1b", *map(chr, range(0xD800, 0xE000))}
    status, out, _ = cli("call", "list_backups")
    assert (status, "a\\\\x1b[31m" in out) == (0, True)
    folder.rename(tmp_path / "elsewhere")
    folder.write_text("a plain file")
    assert "No backup yet" in cli("doctor").out


def test_doctor_changes_nothing_where_a_file_is_broken(cli: CommandLine, tmp_path: Path) -> None:
    cli("remember", "我喜欢吃披萨", "-c", "chat")
    broken = tmp_path / "data" / "chat" / "short-term-memory.json"
    broken.write_text(broken.read_text(encoding="utf-8")[:-20], encoding="utf-8")
    os.utime(broken, (1_700_000_000, 1_700_000_000))  # nobody is saving it just now

    def files_before() -> dict[str, bytes]:
        return {
            str(path): path.read_bytes()
            for path in (tmp_path / "data").rglob("*")
            if path.is_file()
        }

    before = files_before()
    out = cli("doctor").out
    assert files_before() == before
    assert "short-term-memory.json" in out
    assert cli("list", "-c", "chat").status == 0
    assert files_before() != before, "opening mends it"
