"""Packs: read, written, shown, checked and tested."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_program import CommandLine

from sandbox import cli
from sandbox.workbench.files import PackMemory, memory_named, pack_text, read_usable
from sandbox.workbench.terminal import UsageError

SAMPLES = Path(__file__).resolve().parents[2] / "data" / "samples"
PACK = str(SAMPLES / "triggers.json")


def pack(folder: Path, *rows: object) -> str:
    path = folder / "pack.json"
    path.write_text(json.dumps(rows, ensure_ascii=False), "utf-8")
    return str(path)


def test_a_pack_read_and_written_is_the_same_file() -> None:
    assert pack_text(read_usable(PACK)[0]) == (SAMPLES / "triggers.json").read_text("utf-8")


def test_unknown_fields_survive(tmp_path: Path) -> None:
    row = {
        "name": "a",
        "prompt": "p",
        "trigger": "1",
        "createdContext": "",
        "createdAt": "2026-01-01",
        "tags": ["x"],
    }
    (memory,) = read_usable(pack(tmp_path, row))[0]
    assert memory == PackMemory("a", "p", "1", "", {"createdAt": "2026-01-01", "tags": ["x"]})
    assert json.loads(pack_text([memory])) == [row]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not JSON: line 1"),
        ("{}", "a pack is a JSON array of memories"),
        ('{"entries": {}}', "is a lorebook; `memory-server convert`"),
        ("[1]", "memory 1 is not an object"),
        ('[{"name": "a", "prompt": "p"}]', "memory 1 ('a') has no `trigger`; it must be text"),
        (
            '[{"name": "a", "prompt": "p", "trigger": "1", "createdContext": 5}]',
            "`createdContext` must be text",
        ),
    ],
)
def test_what_is_no_pack_gets_one_sentence(
    workbench: CommandLine, tmp_path: Path, text: str, sentence: str
) -> None:
    (tmp_path / "pack.json").write_text(text, "utf-8")
    for command in ("check", "show", "test"):
        code, out, err = workbench("pack", command, str(tmp_path / "pack.json"))
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert sentence in err


def test_a_memory_is_named_by_name_or_number_and_near_misses_are_helped() -> None:
    memories = read_usable(PACK)[0]
    assert memory_named(PACK, memories, "夜深了") is memory_named(PACK, memories, "8")
    with pytest.raises(UsageError, match="did you mean '芒果过敏'"):
        memory_named(PACK, memories, "芒果")
    with pytest.raises(UsageError, match="pack show"):
        memory_named(PACK, memories, "99")


def test_show_prints_a_memory_as_a_person_reads_it(workbench: CommandLine, tmp_path: Path) -> None:
    name = pack(
        tmp_path,
        {
            "name": "a",
            "prompt": "p",
            "trigger": "1 &&\n2",
            "createdContext": "c",
            "notes": ["n", "m"],
        },
    )
    code, out, _ = workbench("pack", "show", name, "a")
    assert code == 0
    assert out.splitlines()[1:] == [
        "p",
        "",
        "trigger",
        "    1 &&",
        "    2",
        "createdContext: c",
        "notes: n",
        "notes: m",
    ]
    assert workbench("pack", "show", name, "b")[0] == 2


def test_check_finds_what_the_server_would_refuse(workbench: CommandLine, tmp_path: Path) -> None:
    name = pack(
        tmp_path,
        {"name": "good", "prompt": "p", "trigger": "match_keys(context.messages, ['a']) > 0"},
        {"name": "typo", "prompt": "p", "trigger": "match_key(context.messages, ['a'])"},
        {"name": "open", "prompt": "p", "trigger": "match_keys(context.messages"},
        {"name": "data", "prompt": "p", "trigger": "context.participants.user.name === 'a'"},
    )
    code, out, err = workbench("pack", "check", name)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0].startswith(
        "typo: error: match_key is not defined; did you mean match_keys? (reference) at line 1"
    )
    assert lines[1:3] == ["    match_key(context.messages, ['a'])", "    ^"]
    assert lines[3].startswith("open: error: SyntaxError")
    assert any(line.startswith("data: warning: TypeError") for line in lines)
    assert lines[-1].startswith("4 triggers: 2 with errors, 1 with warnings")


def test_one_bad_memory_does_not_hide_the_others(workbench: CommandLine, tmp_path: Path) -> None:
    good = {"name": "good", "prompt": "p", "trigger": "match_key(context.messages, ['a'])"}
    name = pack(tmp_path, {"name": "bad", "prompt": "p"}, good, good)
    code, out, err = workbench("pack", "check", name)
    assert (code, err) == (2, "")
    assert "error: memory 1 ('bad') has no `trigger`; it must be text" in out
    assert "error: memory 3: two memories are called 'good'; give each its own name" in out
    assert "good: error: match_key is not defined" in out
    assert out.splitlines()[-1] == "2 more cannot be used"


ABOUT_BAD = "error: memory 1 ('bad') has no `trigger`; it must be text"


@pytest.mark.parametrize(
    ("arguments", "shown", "stream"),
    [
        (
            ["check", "PACK"],
            ("1 trigger: no errors, no warnings", "1 more cannot be used", ABOUT_BAD),
            "out",
        ),
        (["run", "PACK", "--chat", "CHAT"], ("1 of 1 fire", "good"), "out"),
        (["run", "PACK", "--chat", "CHAT"], (ABOUT_BAD,), "err"),
        (["pack", "show", "PACK"], ("- good -",), "out"),
        (["pack", "show", "PACK"], (ABOUT_BAD,), "err"),
        (["pack", "show", "PACK", "bad"], (ABOUT_BAD, "no memory is called 'bad'"), "err"),
    ],
)
def test_every_command_does_the_rest_of_a_pack(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    arguments: list[str],
    shown: tuple[str, ...],
    stream: str,
) -> None:
    good = {"name": "good", "prompt": "p", "trigger": "match_keys(context.messages, ['a']) > 0"}
    (tmp_path / "chat").write_text("user: a\n", "utf-8")
    files = {
        "PACK": pack(tmp_path, {"name": "bad", "prompt": "p"}, good),
        "CHAT": str(tmp_path / "chat"),
    }
    code = cli.main([files.get(argument, argument) for argument in arguments])
    out, err = capsys.readouterr()
    assert code == 2
    printed = {"out": out, "err": err}[stream]
    for text in shown:
        assert text in printed


def test_a_memory_is_found_by_its_number_in_the_file(
    workbench: CommandLine, tmp_path: Path
) -> None:
    good = {"name": "good", "prompt": "p", "trigger": "true"}
    name = pack(tmp_path, {"name": "bad", "prompt": "p"}, good)
    code, out, err = workbench("pack", "show", name, "2")
    assert (code, "- good -" in out, err) == (0, True, "")
    assert workbench("pack", "show", name, "1")[0] == 2


def test_a_pack_without_memories_is_no_traceback(workbench: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "chat").write_text("user: a\n", "utf-8")
    code, out, err = workbench("run", pack(tmp_path), "--chat", str(tmp_path / "chat"))
    assert (code, err) == (1, "")
    assert "0 of 0 fire" in out


def test_the_sample_pack_is_without_problems(workbench: CommandLine) -> None:
    code, out, _ = workbench("pack", "check", PACK)
    assert (code, out.splitlines()[0][:44]) == (0, "14 triggers: 0 with errors, 0 with warnings ")


def test_every_sample_trigger_is_seen_to_fire_and_to_stay_quiet() -> None:
    """That the cases hold is seen where the examples of the help run: test_workbench_help.py."""
    from sandbox.workbench.fixtures import Case, read_fixture

    cases = read_fixture(SAMPLES / "triggers.trigger.yaml")
    seen = {(case.memory, case.expected) for case in cases if isinstance(case, Case)}
    for memory in read_usable(PACK)[0]:
        assert {(memory.name, "fired"), (memory.name, "quiet")} <= seen


def test_pack_test_says_what_has_no_case_or_no_fixture(
    workbench: CommandLine, tmp_path: Path
) -> None:
    memories = [{"name": letter, "prompt": "p", "trigger": "true"} for letter in "abc"]
    name = pack(tmp_path, *memories)
    code, _, err = workbench("pack", "test", name)
    assert code == 2
    assert "no fixture beside" in err
    fixture = "pack: pack.json\ncases: [{memory: a, expect: fired}, {memory: '2', expect: quiet}]\n"
    (tmp_path / "x.trigger.yaml").write_text(fixture, "utf-8")
    (tmp_path / "y.trigger.yaml").write_text("trigger: 'false'\nexpect: fired\n", "utf-8")
    code, out, _ = workbench("pack", "test", name)
    assert code == 1
    assert "1 failed, 1 passed" in out
    assert out.splitlines()[-1] == "without a case: c"
