"""What people read at a shell is in their language: catalogues are complete, and texts of users stay as they are."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from string import Formatter

import pytest
from catalogue_sentences import CATALOGUES, V8, counted_forms, is_sentence, library_texts, sentences
from pydantic_core._pydantic_core import list_all_errors

from memory_server.cli.parser import main
from sandbox import Failed, TriggerSandbox, Verdict
from sandbox import cli as trigger_sandbox
from sandbox.language import Parser, cells, language_of, speak, term, translated

SENTENCES = list(sentences())
_PYDANTIC = {
    re.sub(r"\{\w+\}", "{}", one["message_template_python"].replace("Input should", form))
    for one in list_all_errors()
    for form in ("it should", "should")
}
"""Reasons of pydantic, as settings and tools give them."""
FOLDERS = tuple(file.parent for file in CATALOGUES.values())


def catalogue(package: str) -> dict[str, str | None]:
    def once(pairs: list[tuple[str, str | None]]) -> dict[str, str | None]:
        keys = [key for key, _ in pairs]
        assert not (twice := {key for key in keys if keys.count(key) > 1}), f"there twice: {twice}"
        return dict(pairs)

    loaded: dict[str, str | None] = json.loads(CATALOGUES[package].read_text("utf-8"), object_pairs_hook=once)
    return loaded


def holes(template: str) -> list[str]:
    return [name for _, name, _, _ in Formatter().parse(template) if name is not None]


@pytest.fixture
def chinese() -> Iterator[None]:
    speak("zh", *FOLDERS)
    yield
    speak("en")


@pytest.mark.parametrize("package", CATALOGUES)
def test_every_sentence_of_the_code_is_in_the_catalogue(package: str) -> None:
    known = catalogue(package).keys() | catalogue("sandbox").keys()
    missing = {
        f'{one.place}\n    {json.dumps(one.template, ensure_ascii=False)}: "…",'
        + "".join(f"\n      {{{number}}} is {value}" for number, value in enumerate(one.values))
        for one in SENTENCES
        if one.place.startswith(package) and is_sentence(one.template) and one.template not in known
    }
    file = CATALOGUES[package].relative_to(Path(__file__).parents[1])
    assert not missing, (
        f"{file} lacks the Chinese of {len(missing)} sentences. Add a line for each, anywhere in it; null, if nobody "
        "reads it at a shell. `{0}` is the first value as it is, `{0!t}` one that is a sentence or word of ours:\n"
        + "\n".join(sorted(missing))
    )


@pytest.mark.parametrize("package", CATALOGUES)
def test_the_catalogue_has_nothing_that_the_code_does_not_say(package: str) -> None:
    texts = {one.template for one in SENTENCES}
    counts = {form for text in texts for form in counted_forms(text)}
    said = texts | counts | V8.keys() | library_texts() | set(map(os.strerror, errno.errorcode)) | _PYDANTIC
    gone = [key for key in catalogue(package) if key not in said]
    assert not gone, f"remove these from {CATALOGUES[package]}, or correct them; the code does not say them: {gone}"


@pytest.mark.parametrize("package", CATALOGUES)
def test_a_translation_has_the_values_of_its_sentence_and_no_others(package: str) -> None:
    for key, value in catalogue(package).items():
        if value is not None:
            wanted = set(range(len(holes(key))))
            used = {int(hole) for hole in holes(value)}
            assert used <= wanted, f"{key!r} has no value {used - wanted}: {value!r}"
            # Chinese has no plural: the word that agrees with a number (`is`, `are`) is not needed.
            assert len(wanted - used) <= 1, f"{value!r} leaves values of {key!r} out"
            assert value in (key, "0", "。") or re.search("[\u4e00-\u9fff…（：]|\\{0", value), f"not Chinese: {value!r}"


@pytest.mark.parametrize(
    ("given", "environment", "language"),
    [
        ([], {}, "en"),
        ([], {"LANG": "zh_CN.UTF-8"}, "zh"),
        ([], {"LANG": "zh_CN.UTF-8", "LC_ALL": "C.UTF-8"}, "en"),
        ([], {"LANGUAGE": "zh_TW:en", "LANG": "en_US.UTF-8"}, "zh"),
        ([], {"LANG": "de_DE.UTF-8"}, "en"),
        (["list"], {"MEMORY_SERVER_LANGUAGE": "zh", "LANG": "en_GB.UTF-8"}, "zh"),
        (["list"], {"MEMORY_SERVER_LANGUAGE": "auto", "LANG": "zh_CN"}, "zh"),
        (["list", "--language", "en"], {"LANG": "zh_CN.UTF-8"}, "en"),
        (["--language=zh", "list"], {}, "zh"),
        (["--language"], {"LANG": "zh_CN.UTF-8"}, "zh"),
    ],
)
def test_the_flag_comes_before_the_environment_and_that_before_the_locale(
    given: list[str], environment: dict[str, str], language: str
) -> None:
    assert language_of(given, environment) == language


@pytest.mark.usefixtures("chinese")
class TestTranslated:
    def test_a_sentence_with_its_values(self) -> None:
        assert translated("There is no change 7 yet; the newest is 3.") == "还没有更改 7；最新的是 3。"

    def test_a_sentence_within_a_sentence(self) -> None:
        error = "The backup b cannot be used: its checksum does not match. Nothing was changed; choose another backup."
        assert translated(error) == "备份 b 不能用：校验和不符。什么也没有改变；请选另一份备份。"

    @pytest.mark.parametrize("name", ["note", "Nothing is broken.", "3 memories", "{0}", "work and play, home"])
    def test_a_name_that_is_a_word_of_ours_stays(self, name: str) -> None:
        assert translated(f"Nothing is stored in the conversation {name}.") == f"会话 {name} 里什么也没有存。"
        assert translated(name) == name or " " in name

    def test_what_is_not_known_stays(self) -> None:
        assert translated("我的狗叫阿黄, and my cat is Miso; a conversation") == (
            "我的狗叫阿黄, and my cat is Miso; a conversation"
        )

    def test_words_keep_the_room_that_they_had(self) -> None:
        assert term("error   ") == "错误    "

    def test_argparse_speaks_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        parser = Parser(prog="p")
        parser.add_argument("--count", type=int, help="give up after this time, silently")
        with pytest.raises(SystemExit):
            parser.parse_args(["--count", "x"])
        assert "用法：p" in (said := capsys.readouterr().err)
        assert "p: 错误: 参数 --count：'x' 不是合法的 int 值" in said
        assert "显示这段帮助并退出" in parser.format_help()

    def test_help_is_broken_by_columns(self) -> None:
        parser = Parser(prog="p")
        parser.add_argument("--x", help="Mend broken files, and save every memory that they hold.")
        assert max(map(cells, parser.format_help().split("\n"))) < 80


def test_english_costs_nothing() -> None:
    asked = "import sys, memory_server.cli.parser as p; p.main(['--help'])"
    seen = f"import atexit, sys; atexit.register(lambda: print('json' in sys.modules, file=sys.stderr)); {asked}"
    ended = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=60)
    assert ended.stderr.strip() == "False"


def test_a_command_is_chinese_where_the_reader_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "没有 id 或名字是 `x` 的记忆" in capsys.readouterr().err
    assert main(["--language", "en", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "No memory has the id or name `x`" in capsys.readouterr().err


def test_the_setting_names_the_language_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.toml").write_text('language = "zh"\n')
    assert main(["--config", str(tmp_path / "s.toml"), "--data-dir", str(tmp_path / "d"), "list"]) == 0
    assert "里还没有会话。" in capsys.readouterr().out


def test_the_workbench_is_chinese_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trigger_sandbox.main(["--language", "zh", "check", str(tmp_path / "none.js")]) == 2
    assert "trigger-sandbox: " in (said := capsys.readouterr().err)
    assert re.search("[\u4e00-\u9fff]", said)
    speak("en")


def test_v8_says_what_the_catalogue_takes_it_to_say() -> None:
    async def verdicts() -> Sequence[Verdict]:
        async with TriggerSandbox(workers=1) as sandbox:
            return await sandbox.evaluate(list(V8.values()), {"messages": []}, now=datetime.now(UTC), seed=1)

    for template, verdict in zip(V8, asyncio.run(verdicts()), strict=True):
        assert isinstance(verdict, Failed)
        said = ".+".join(map(re.escape, template.split("{}")))
        assert re.fullmatch(f"(SyntaxError: )?{said}", verdict.message), (template, verdict)


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("check", "if (", "语法错误 SyntaxError：触发器还没写完就结束了"),
        ("check", "a = （1", "；（ 不是 JavaScript 的字符，请改写成 ("),
        ("check", "const a = 1; a = 2", "类型错误 TypeError：不能给常量赋值。"),
        ("check", "context.messages.length > 100", "没有错误，没有警告"),
        ("test", "a: 1\na: 2", "第 2 行：键 'a' 出现了两次"),
        ("test", "a: [1", "第 1 行：应为 ',' 或 ']'，但遇到"),
        ("test", "a: b: c", "第 1 行：这里不能有“键: 值”"),
    ],
)
def test_errors_of_v8_and_of_yaml_are_chinese_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str, said: str
) -> None:
    file = tmp_path / ("a.js" if command == "check" else "a.trigger.yaml")
    file.write_text(text, "utf-8")
    trigger_sandbox.main(["--language", "zh", command, str(file)])
    speak("en")
    assert said in capsys.readouterr().out


def test_memories_are_never_translated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return capsys.readouterr().out

    stored = said("remember", "Nothing is broken.\nNothing is stored yet.")
    assert "已记为" in stored
    for command in (["list"], ["search", "broken"], ["history"], ["show", stored.split()[1].rstrip("；")[:8]]):
        told = said(*command)
        assert "Nothing is broken." in told, command
        assert "还什么都没存" not in told, command
    assert "，在 note 里" in said("search", "broken")
