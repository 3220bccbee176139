"""What people read at a shell is in their language: catalogues are complete, and texts of users stay as they are."""

from __future__ import annotations

import ast
import asyncio
import errno
import io
import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

import pytest
from pydantic_core._pydantic_core import list_all_errors

from memory_server import Message, TriggerRejected, in_language, open_memory
from memory_server.cli.parser import PACKAGE, main
from memory_server.conversations.change_forms import change, commit_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import NotARecord
from memory_server.kernel.text import visible
from memory_server.storage.backups.files import ENDING
from memory_server.storage.json_store.examination import _backups
from memory_server.storage.token_file import named
from sandbox import Failed, TriggerSandbox, Verdict
from sandbox import cli as trigger_sandbox
from sandbox.errors import ProtocolError
from sandbox.language import Parser, cells, language_of, padded
from sandbox.locale import (
    LocalizedText,
    MessageError,
    _,
    _places,
    clause,
    counted,
    foreign,
    joined,
    n_,
    packed,
    speak,
    term,
    translated,
)
from sandbox.protocol import message

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "distribution"))
import catalogues  # noqa: E402
from foreign import LIBRARIES, PYDANTIC, SYSTEM, V8  # noqa: E402

SHAPES = re.compile(r"\{(char|user|failed|user: text|\"\w+\")\W")
"""Braces of a text without values that are not places: macros of lorebooks, and what JSON and YAML look like."""
CODE = [file for package in catalogues.DOMAINS for file in sorted((ROOT / package).rglob("*.py"))]


@pytest.fixture
def chinese() -> Iterator[None]:
    speak("zh", PACKAGE)
    yield
    speak("en")


def marked() -> Iterator[tuple[str, str, ast.Call, list[ast.expr]]]:
    """Each call that marks a sentence: its place, its name, itself, and its texts."""
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            name = getattr(node.func, "id", getattr(node.func, "attr", "")) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in catalogues.KEYWORDS and node.args:
                place = f"{file.relative_to(ROOT)}:{node.lineno}"
                yield place, name, node, node.args[: 2 if name == "n_" else 1]


@pytest.mark.parametrize("package", catalogues.DOMAINS)
class TestCatalogues:
    def test_it_is_complete_and_in_step_with_the_code(self, package: str) -> None:
        assert not catalogues.troubles(package), "run `make catalogues`, then write the Chinese in the .po file"

    def test_what_is_built_says_the_same(self, package: str) -> None:
        file = catalogues.file_of(package)
        with file.with_suffix(".mo").open("rb") as content:
            built = GNUTranslations(content)
        for one in catalogues.read(package):
            if one.id:
                said = built.ngettext(*one.id, 2) if one.pluralizable else built.gettext(one.id)
                said = built.pgettext(one.context, one.id) if one.context else said
                assert said == (one.string[0] if one.pluralizable else one.string), "run `make catalogues`"

    def test_a_catalogue_that_is_wrong_is_reported(
        self, package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "zh/LC_MESSAGES/x.po"
        file.parent.mkdir(parents=True)
        catalogue = catalogues.read(package)
        gone, fuzzy, other, empty = (one for one in list(catalogue)[1:5])
        monkeypatch.setattr(catalogues, "file_of", lambda _: file)
        fuzzy.flags.add("fuzzy")
        other.string, empty.string = "{nothing_like_this}", ""
        catalogue.delete(gone.id)
        catalogue.add("Nobody says this.", "谁也不这么说。")
        catalogues.save(package, catalogue)
        assert [one.split(":")[0] for one in catalogues.troubles(package)] == [
            "has no Chinese, or a fuzzy one",
            "has no Chinese, or a fuzzy one",
            "has other places than its Chinese",
            "is not in the catalogue",
            "is not in the code",
        ]


def test_an_id_with_other_chinese_in_the_other_catalogue_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    both = {package: catalogues.read(package) for package in catalogues.DOMAINS}
    for catalogue in both.values():
        catalogue.add("did you mean '{meant}'?", "是 '{meant}' 吗？")
    both["sandbox"].get("did you mean '{meant}'?").string = "想写 '{meant}' 吗？"
    monkeypatch.setattr(catalogues, "read", both.get)
    assert [one for one in catalogues.troubles("sandbox") if "other Chinese" in one]


def test_what_stays_the_same_is_not_written_and_a_check_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {package: tmp_path / package / "zh/LC_MESSAGES/x.po" for package in catalogues.DOMAINS}
    for package, file in files.items():
        file.parent.mkdir(parents=True)
        file.write_bytes(catalogues.file_of(package).read_bytes())
    monkeypatch.setattr(catalogues, "file_of", files.get)
    monkeypatch.setattr(catalogues, "ROOT", tmp_path)
    monkeypatch.setattr(catalogues, "troubles", lambda _: [])
    assert catalogues.main(["--check"]) == 0
    assert not [*tmp_path.rglob("*.mo")]
    built = catalogues.build()
    for file in built:
        os.utime(file, (1, 1))
    assert catalogues.build() == built
    assert {file.stat().st_mtime for file in built} == {1}
    built[0].write_bytes(b"cut")
    catalogues.build()
    assert built[0].stat().st_size > 1000
    assert {file.suffix for file in tmp_path.rglob("*.*o*")} == {".mo", ".po"}


class TestMarks:
    def test_only_marked_texts_are_in_a_catalogue(self) -> None:
        code = """
WORDS = "whatever whoever of the"
said = f"{_('A {b}.', 1)} and that" if x else N_("c")
raise InvalidInput("No {d}." if e else "No f.", g)
counted(2, "memory")
"""
        found = catalogues.extracted(io.BytesIO(code.encode()), catalogues.KEYWORDS)
        assert {str(text) for _, _, text, _ in found} == {
            *("A {b}.", "c", "No {d}.", "No f.", "('{count} memory', '{count} memories')")
        }

    def test_no_f_string_is_marked_because_no_catalogue_can_have_it(self) -> None:
        found = {place for place, _, _, texts in marked() for text in texts if isinstance(text, ast.JoinedStr)}
        assert not {place for place in found if not place.startswith("memory_server/serving/")}, "models read those"

    def test_each_sentence_gets_as_many_values_as_it_has_places(self) -> None:
        wrong = []
        for place, name, call, texts in marked():
            given = call.args[3 if name == "n_" else 1 :]
            if name in ("N_", "term", "padded") or any(isinstance(one, ast.Starred) for one in given):
                continue
            for text in catalogues._texts(texts[-1]):
                places = [each for each in _places(text) if not (name == "n_" and each == "count")]
                if (given or name == "n_") and len(places) != len(given):
                    wrong.append((place, text))
                if (
                    not given
                    and name != "n_"
                    and places
                    and all(re.search(rf"\{{{each}[:!}}]", text) for each in places)
                ):
                    wrong.append((place, text))
        plain = [one for one in wrong if not re.search(r"\{(char|user|failed|role)\b", one[1])]
        assert not plain

    def test_every_error_that_is_raised_with_a_template_is_known(self) -> None:
        bases = {
            node.name: [getattr(base, "id", "") for base in node.bases]
            for file in CODE
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.ClassDef)
        }

        def holds_message(name: str) -> bool:
            return any(base == "MessageError" or holds_message(base) for base in bases.get(name, ()))

        raised = {
            node.func.id
            for file in CODE
            for node in ast.walk(ast.parse(file.read_text("utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args
            if catalogues._texts(node.args[0]) and holds_message(node.func.id)
        }
        assert raised == set(catalogues.ERRORS)


class TestForeign:
    def test_readers_and_argparse_say_what_the_catalogue_takes_them_to_say(self) -> None:
        import argparse
        import json.decoder

        import yaml

        modules = (argparse, json.decoder, yaml.scanner, yaml.parser, yaml.composer)
        said = " ".join(
            re.sub(r"%(\(\w+\))?[sr]|\{\w+\}", "{}", node.value)
            for module in modules
            for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8")))
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
        for text in LIBRARIES:
            plain = re.sub(r"(?<!\{)\{\w+\}", "{}", text).replace("}}", "}")
            assert plain in said or plain == "{}: line {} column {} (char {})", text

    def test_the_system_and_pydantic_too(self) -> None:
        assert set(SYSTEM) <= set(map(os.strerror, errno.errorcode))
        said = {
            re.sub(r"\{\w+\}", "{}", one["message_template_python"].replace("Input should", form))
            for one in list_all_errors()
            for form in ("it should", "should")
        }
        assert {re.sub(r"\{\w+\}", "{}", text) for text in PYDANTIC} <= said

    def test_v8_too(self) -> None:
        async def verdicts() -> Sequence[Verdict]:
            async with TriggerSandbox(workers=1) as sandbox:
                return await sandbox.evaluate(list(TRIGGERS.values()), {"messages": []}, now=datetime.now(UTC), seed=1)

        assert set(TRIGGERS) == set(V8)
        for template, verdict in zip(TRIGGERS, asyncio.run(verdicts()), strict=True):
            assert isinstance(verdict, Failed)
            said = re.sub(r"\\\{\w+\\\}", ".+", re.escape(template))
            assert re.fullmatch(f"(SyntaxError: )?{said}", verdict.message), (template, verdict)


TRIGGERS = {
    "SyntaxError: {reason}": "const a = ;",
    "Unexpected token {what}": "const a = ;",
    "Unexpected end of input": "if (",
    "Unexpected identifier {what}": "foo bar",
    "Unexpected string": "1 'x'",
    "Unexpected number": "1 2",
    "Invalid or unexpected token": "'abc",
    "missing ) after argument list": "f(1 2)",
    "Identifier {what} has already been declared": "let a = 1; let a = 2",
    "Missing initializer in const declaration": "const a",
    "Invalid regular expression: {what}": "/[/.test('a')",
    "Invalid left-hand side in assignment": "1 = 2",
    "Missing catch or finally after try": "try { 1 }",
    "A trigger of several statements with await must return its verdict": "await 1; true",
    "ReferenceError: {what} is not defined": "nope",
    "ReferenceError: Cannot access {what} before initialization": "a; let a = 1",
    "TypeError: Cannot read properties of {what} (reading {more})": "null.x",
    "TypeError: {what} is not a function": "context.nope()",
    "TypeError: {what} is not iterable": "for (const a of 1) 1",
    "TypeError: Assignment to constant variable.": "const a = 1; a = 2",
    "TypeError: {what}: keys must be a list, such as ['birthday', /cake/i]": "match_keys(context.messages, 'b')",
    "TypeError: {what}: the first argument must be context.messages or context": "match_keys('a', ['b'])",
    "RangeError: Maximum call stack size exceeded": "(function f() { f(); })()",
    "The promise of this trigger never settles: nothing is left that could settle it": "new Promise(() => {})",
}
"""A trigger of which V8 or the realm says it."""


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


class TestMessages:
    def test_a_message_is_its_english(self) -> None:
        said = _("The backup {name} cannot be used: {reason}.", "b", "no {x}")
        assert said == "The backup b cannot be used: no {x}."
        assert translated(said) == said
        assert _("such as {a: 1}") == "such as {a: 1}"

    def test_an_error_keeps_it_and_so_does_a_copy(self) -> None:
        error = InvalidInput("There is no change {change} yet; the newest is {newest}.", 7, 3)
        assert isinstance(error, MessageError)
        assert isinstance(str(error), LocalizedText)
        assert pickle.loads(pickle.dumps(error.args[0])).values == {"change": 7, "newest": 3}

    @pytest.mark.parametrize(("number", "english"), [(0, "0 memories"), (1, "1 memory"), (2, "2 memories")])
    def test_plurals(self, number: int, english: str) -> None:
        assert counted(number, "memory") == english
        assert (
            n_("{count} {what} is", "{count} {what} are", number, "x") == f"{number} x {'is' if number == 1 else 'are'}"
        )

    def test_values_must_fit_the_places(self) -> None:
        with pytest.raises(ValueError, match="argument"):
            _("{a} and {b}", 1)


@pytest.mark.usefixtures("chinese")
class TestTranslated:
    def test_a_sentence_with_its_values(self) -> None:
        said = _("There is no change {change} yet; the newest is {newest}.", 7, 3)
        assert translated(said) == "还没有更改 7；最新的是 3。"

    def test_a_sentence_within_a_sentence(self) -> None:
        error = InvalidInput("its checksum does not match")
        said = _("The backup {name} cannot be used: {reason}. Nothing was changed; choose another backup.", "b", error)
        assert translated(said) == "备份 b 不能用：校验和不符。什么也没有改变；请选另一份备份。"

    def test_numbers_and_lists(self) -> None:
        assert translated(counted(1, "memory")) == translated(counted(2, "memory")).replace("2", "1") == "1 条记忆"
        both = joined(", ", (counted(1, "memory"), counted(2, "conversation")))
        assert translated(both) == "1 条记忆、2 个对话"
        assert translated(joined(", ", ("Ann", "Bob"))) == "Ann, Bob"
        assert translated("a: " + counted(1, "memory") + " (b)") == "a: 1 条记忆 (b)"

    @pytest.mark.parametrize("name", ["note", "Nothing is broken.", "3 memories", "{0}", "work and play, home"])
    def test_texts_of_users_stay(self, name: str) -> None:
        said = _("Nothing is stored in the conversation {id}.", name)
        assert translated(said) == f"对话 {name} 里什么也没有存。"
        assert translated(name) == name

    def test_what_another_program_said(self) -> None:
        assert translated(foreign("SyntaxError: Unexpected token ';'")) == "语法错误 SyntaxError：这里不该有 ';'"
        assert translated(foreign("argument --count: expected one argument")) == "参数 --count：需要一个值"
        assert translated(foreign("[Errno 2] ")) == "[Errno 2] "

    @pytest.mark.parametrize(
        "text",
        [
            *("nobody ever said this", "nobody said {code: 5}", "{0}", "salt and pepper; no one", "no {x}, at least 3"),
            *("Error: salt and pepper, at least 3 memories", "always true: no", "did you mean 'a'?"),
            "unrecognized arguments",
        ],
    )
    def test_what_no_program_said_stays(self, text: str) -> None:
        assert translated(foreign(text)) == text
        assert translated(_("The file {path} cannot be read: {reason}.", "p", text)).count(text) == 1

    def test_values_of_what_a_program_said_stay(self) -> None:
        said = translated(foreign("unrecognized arguments: expected one argument"))
        assert said == "不认识的参数：expected one argument"

    @pytest.mark.parametrize(
        "text",
        [
            *(": line  column  (char " * 1000 + "x", "SyntaxError: " * 2000 + "x", ": line  column  (char " * 45 + ")"),
            *("SyntaxError: " * 70 + "x", "invalid choice: " * 60, " (reading " * 90 + ")"),
        ],
    )
    def test_long_and_deep_ones_take_no_time(self, text: str) -> None:
        began = time.perf_counter()
        said = translated(foreign(text))
        assert time.perf_counter() - began < 2
        assert said.count("语法错误") <= 2
        assert len(text) <= 1000 or said == text

    def test_nothing_stays_nothing(self) -> None:
        assert translated(_("")) == term("") == ""
        assert "Project-Id" not in translated(_("{about}: {what}", "a", _("")))

    def test_an_escaped_message_stays_one(self) -> None:
        said = visible(
            _("The backup {name} cannot be used: {problem}.", "a\x1b", InvalidInput("its checksum does not match"))
        )
        assert said == "The backup a\\x1b cannot be used: its checksum does not match."
        assert translated(said) == "备份 a\\x1b 不能用：校验和不符。"
        within = visible(
            joined(", ", (counted(1, "memory"), clause(_("The file {path} is empty.", Path("a\tb"))), "c\n"))
        )
        assert within == "1 memory, The file a\\tb is empty, c\\n"
        assert translated(within).startswith("1 条记忆、")
        assert translated(visible(foreign("Permission denied"))) == "没有权限"

    def test_what_is_made_of_a_message_stays_one(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput) as refused:
            named(" ", "tenant")
        assert str(refused.value).startswith("The tenant is empty; give a name")
        assert translated(str(refused.value)).startswith("tenant 是空的")
        place = tmp_path / ".memory-server" / "backups"
        place.mkdir(parents=True)
        (place / f"b\x1b{ENDING}").write_bytes(b"nothing")
        said = [what for grade, what in _backups(tmp_path) if grade == "warning"]
        assert "b\\x1b" in said[0]
        assert said[0].endswith("; delete it.")
        assert translated(said[0]).startswith("备份 b\\x1b 不能用：`b\\x1b` 不能作备份的名字")
        assert translated(said[0]).endswith("；请删除它。")

    def test_the_reason_of_a_broken_change_names_the_kind_of_error(self) -> None:
        with pytest.raises(NotARecord, match="a change cannot be read: KeyError"):
            change({"type": "nothing like this"})
        with pytest.raises(NotARecord, match="a commit cannot be read: KeyError"):
            commit_of({})

    def test_a_message_of_a_worker_stays_one_and_cannot_do_harm(self) -> None:
        sent = json.loads(json.dumps(packed(_("always true: {said}", _("a list is always true; ask for its length")))))
        assert translated(message(sent)) == "总是成立：列表总是真；请问它的长度"
        assert message(sent) == "always true: a list is always true; ask for its length"
        known = "leaves out the first {number:g} messages; give {number:g} for the last ones"
        for template, values in (("{a.__class__} {a:999999999}", {"a": "x"}), (known, {"number": "x"})):
            assert translated(message(["English", template, values])) == "English"
        assert translated(message(["English", "always true: {said}", {"said": "never"}])) == "总是成立：never"
        deep: Any = "x"
        for _level in range(9):
            deep = ["English", "always true: {said}", {"said": deep}]
        for wrong in (deep, ["a", "b"], [1, "b", {}], ["a", "b", {"(.*)*": 1}], ["a", "b", {"c": None}]):
            with pytest.raises(ProtocolError):
                message(wrong)

    def test_words_fill_their_column(self) -> None:
        assert padded("error", 8) == "错误    "
        assert term("error") == "错误"

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
        parser.add_argument(
            "--x", help=_("mend broken files: set them aside whole, and go on with the last good state")
        )
        assert max(map(cells, parser.format_help().split("\n"))) < 80


@pytest.mark.parametrize("damage", [None, b"", b"\xde\x12\x04\x95", 400], ids=["gone", "empty", "magic", "cut"])
def test_without_a_catalogue_everything_is_english_with_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: bytes | int | None
) -> None:
    file = tmp_path / "locale/zh/LC_MESSAGES/memory-server.mo"
    file.parent.mkdir(parents=True)
    whole = catalogues.file_of("memory_server").with_suffix(".mo").read_bytes()
    if damage is not None:
        file.write_bytes(whole[:damage] if isinstance(damage, int) else damage)
    speak("zh", str(tmp_path))
    both = joined(", ", (counted(1, "memory"), foreign("Permission denied")))
    assert translated(both) == "1 memory, Permission denied"
    assert term("error") == "error"
    speak("en")
    (warning,) = capsys.readouterr().err.splitlines()
    assert "install the program again" in warning


def test_english_costs_nothing() -> None:
    asked = "import sys, memory_server.cli.parser as p; p.main(['--language', 'en', '--help'])"
    report = "print(sys.modules['sandbox.locale']._catalogue.cache_info().misses, file=sys.stderr)"
    seen = f"import atexit, sys; atexit.register(lambda: {report}); {asked}"
    ended = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=60)
    assert ended.stderr.strip() == "0", "a catalogue was read"


def test_what_a_prompt_waits_for_loads_no_messages() -> None:
    entrance = "memory_server.shared_process.entrance"
    seen = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {entrance}; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-S", "-I", "-c", seen], capture_output=True, text=True, timeout=60)
    assert entrance in ended.stdout.split()
    assert not {"gettext", "sandbox.locale", "re"} & set(ended.stdout.split())


def test_a_command_is_chinese_where_the_reader_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "没有 id 或名字是 `x` 的记忆" in capsys.readouterr().err
    assert main(["--language", "en", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "No memory has the id or name `x`" in capsys.readouterr().err


def test_titles_of_tools_and_sizes_of_files_are_chinese_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--language", "zh", "tools"]) == 0
    titled = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert titled
    assert not [line for line in titled if not re.search("[一-鿿]", line)]
    assert main(["--language", "zh", "tools", "--json"]) == 0
    assert '"title":"Save knowledge of the project"' in capsys.readouterr().out
    given = ["--language", "zh", "--data-dir", str(tmp_path / "d")]
    assert main([*given, "remember", "--session", "a", "红茶"]) == 0
    assert main([*given, "backup", "one"]) == 0
    assert main([*given, "backup", "list"]) == 0
    out = capsys.readouterr().out
    assert out.count(" 字节") == 2
    assert "bytes" not in out
    speak("en")


def test_the_setting_names_the_language_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "s.toml").write_text('language = "zh"\n')
    assert main(["--config", str(tmp_path / "s.toml"), "--data-dir", str(tmp_path / "d"), "list"]) == 0
    assert "里还没有对话。" in capsys.readouterr().out
    speak("en")


def test_the_workbench_is_chinese_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trigger_sandbox.main(["--language", "zh", "check", str(tmp_path / "none.js")]) == 2
    assert "trigger-sandbox: " in (said := capsys.readouterr().err)
    assert "没有这个文件或文件夹" in said
    speak("en")


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        (
            "check",
            "match_keys(context.messages, ['always true: a', 'always true: a']) > 0",
            "'always true: a' 在列表里",
        ),
        ("check", "match_keys_all(context.messages, ['a']) === 1", " 是布尔值，所以"),
        ("check", "match_keys(context.messages, ['a']).length === 'a' || new Date().getMonth() === '1'", " 是数，所以"),
        ("check", "throw new Error('salt and pepper, at least 3')", "Error: salt and pepper, at least 3"),
        ("check", "if (", "语法错误 SyntaxError：触发器还没写完就结束了"),
        ("check", "a = （1", "有无效的字符，或引号没有成对；（ 不是 JavaScript 的字符，请改写成 ("),
        ("check", "const a = 1; a = 2", "类型错误 TypeError：不能给常量赋值。"),
        ("check", "context.messages.length > 100", "没有错误，没有警告"),
        ("check", "context.mesages.length > 1", "context 没有 mesages；你是不是想写 context.messages？"),
        ("check", "new Date().getMonth() === 12", "永远不会成立：getMonth() 给出 0 到 11；一月是 0"),
        ("check", "context.messages.some(m => m.role === 'human')", "永远不成立：没有消息的角色是 'human'；你是不是"),
        ("check", "match_keys(context.messages, ['a'], 'any', -2) > 0", "会略去最前面的 2 条消息；要最后几条请写 2"),
        ("check", "new Date(2026, 1, 31) > 0", "二月最多有 29 天"),
        ("test", "a: 1\na: 2", "第 2 行：键 'a' 出现了两次"),
        ("test", "a: [1", "第 1 行：应为 ',' 或 ']'，但遇到"),
        ("test", "a: b: c", "第 1 行：这里不能有“键: 值”"),
    ],
)
def test_errors_of_v8_of_the_worker_and_of_yaml_are_chinese_too(
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
    assert "已保存" in stored
    for command in (["list"], ["search", "broken"], ["history"], ["show", re.findall("（([0-9a-f]{8})", stored)[0]]):
        told = said(*command)
        assert "Nothing is broken." in told, command
        assert "还什么都没存" not in told, command
    assert "，在 note 里" in said("search", "broken")


def test_words_that_nobody_knows_are_shown_as_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return "".join(capsys.readouterr())

    said("remember", "a cake")
    for typed in ("salt and pepper; no one", "No such file or directory", "should be 5"):
        assert f"`{typed}`" in said("undo", "--memory", typed)


def test_explain_is_chinese_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return capsys.readouterr().out

    said("remember", "我的猫叫小白，它喜欢鱼。")
    told = said("explain", "小白", "--ask", "小白喜欢什么？")
    assert not re.findall(r"[A-Za-z]{2,}", re.sub(r"[0-9a-f]{16}|note|user|search_memories|id", "", told)), told


@pytest.mark.anyio
async def test_a_program_says_errors_and_receipts_in_the_language_of_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_memory(tmp_path / "data") as memory:
        chat = memory.conversation("小明")
        with pytest.raises(TriggerRejected) as refused:
            await chat.long_term.add("tea", "Offer tea.", "match_key(context.messages, ['tea'])")
        await chat.short_term.add([Message("user", "我喜欢乌龙茶", memory.clock() - 100_000_000)])
        found = await chat.short_term.search([Message("user", "乌龙茶好喝吗？")])
    line = found.recall.top[0].receipt.line()
    for text in (refused.value, refused.value.problems[0].message, line):
        assert in_language(text, "en") == str(text)
        assert in_language(text, "zh") != str(text)
    assert in_language(refused.value, "zh").startswith("触发器无法运行，没有存入：match_key 没有定义")
    assert in_language(line, "zh").endswith("+0 得分")
    monkeypatch.setenv("MEMORY_SERVER_LANGUAGE", "zh")
    assert in_language(line) == in_language(line, "zh")
    monkeypatch.setenv("MEMORY_SERVER_LANGUAGE", "en")
    assert in_language(line) == line
    assert in_language("我喜欢", "zh") == "我喜欢"
