"""What people read at a shell is in their language: catalogues are complete, and texts of users stay as they are."""

from __future__ import annotations

import ast
import asyncio
import errno
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from datetime import UTC, datetime
from gettext import GNUTranslations
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from hypothesis import given
from hypothesis import strategies as st
from pydantic_core._pydantic_core import list_all_errors

import languages
from languages import (
    MessageError,
    Sentence,
    _,
    _places,
    clause,
    counted,
    foreign,
    in_this_language,
    joined,
    n_,
    speaking,
)
from languages.columns import cells, padded
from languages.command_line import Parser, language_of
from memory_server import App, Message, TriggerRejected, language, open_memory
from memory_server.cli.parser import main
from memory_server.conversations.change_forms import change, commit_of
from memory_server.conversations.model import conversation_id_of
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.json_text import NotARecord
from memory_server.kernel.text import visible
from memory_server.storage.backups.files import ENDING
from memory_server.storage.json_store.examination import _backups
from sandbox import Failed, TriggerSandbox, Verdict
from sandbox import cli as trigger_sandbox
from sandbox.errors import ProtocolError
from sandbox.protocol import message, packed

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "distribution"))
import catalogues  # noqa: E402
from foreign import LIBRARIES, PYDANTIC, SYSTEM, V8  # noqa: E402

SHAPES = re.compile(r"\{(char|user|failed|user: text|\"\w+\")\W")
"""Braces of a text without values that are not places: macros of lorebooks, and what JSON and YAML look like."""
CODE = [file for package in catalogues.PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]


@pytest.fixture
def chinese() -> Iterator[None]:
    with speaking("zh"):
        yield


@dataclass(frozen=True, slots=True)
class CallInCode:
    """A call, with the file and line where it stands, and the name of what is called."""

    line: str
    name: str
    call: ast.Call


@dataclass(frozen=True, slots=True)
class Code:
    """What these tests look at in the code of the program: calls that have arguments, and the bases of classes."""

    calls: list[CallInCode]
    bases: dict[str, list[str]]

    def marking_calls(self) -> list[CallInCode]:
        """The calls that mark a sentence."""
        return [call for call in self.calls if call.name in catalogues.KEYWORDS or translates(call)]


@pytest.fixture(scope="module")
def code() -> Code:
    """The files are parsed once for all tests."""
    calls: list[CallInCode] = []
    bases: dict[str, list[str]] = {}
    for file in CODE:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and node.args:
                name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                calls.append(CallInCode(f"{file.relative_to(ROOT)}:{node.lineno}", name, node))
            elif isinstance(node, ast.ClassDef):
                bases[node.name] = [getattr(base, "id", "") for base in node.bases]
    return Code(calls, bases)


ABOUT_ARGUMENTS = ("add", "argument", "dry_run", "other_words", "switch")
"""Functions whose text has no values."""


def translates(call: CallInCode) -> bool:
    """Whether a function is called that translates one of its arguments."""
    place = catalogues.TRANSLATED.get(call.name, len(call.call.args))
    return isinstance(call.call.func, ast.Name) and len(call.call.args) > place


def texts_of(call: CallInCode) -> list[ast.expr]:
    """The arguments that are sentences."""
    if call.name == "n_":
        return call.call.args[:2]
    place = catalogues.TRANSLATED[call.name] if translates(call) else 0
    return call.call.args[place : place + 1]


@pytest.fixture(scope="module")
def sentences_of_code() -> Catalog:
    return catalogues.sentences()


class TestCatalogue:
    def test_it_is_complete_and_in_step_with_the_code(
        self, sentences_of_code: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(catalogues, "sentences", lambda: sentences_of_code)
        assert not catalogues.troubles(), (
            "run `make catalogues`, then write the Chinese in the .po file"
        )

    def test_what_is_built_says_the_same(self) -> None:
        file = catalogues.file_of()
        with file.with_suffix(".mo").open("rb") as content:
            built = GNUTranslations(content)
        for entry in catalogues.read():
            if not entry.id:
                continue
            expected = entry.string
            if entry.context:
                text = built.pgettext(entry.context, entry.id)
            elif entry.pluralizable:
                text = built.ngettext(*entry.id, 2)
                expected = entry.string[0]
            else:
                text = built.gettext(entry.id)
            assert text == expected, "run `make catalogues`"

    def test_a_catalogue_that_is_wrong_is_reported(
        self, tmp_path: Path, sentences_of_code: Catalog, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(catalogues, "sentences", lambda: sentences_of_code)
        file = tmp_path / "zh/x.po"
        file.parent.mkdir(parents=True)
        catalogue = catalogues.read()
        missing, fuzzy, misplaced, empty = list(catalogue)[1:5]
        monkeypatch.setattr(catalogues, "file_of", lambda: file)
        fuzzy.flags.add("fuzzy")
        misplaced.string = "{nothing_like_this}"
        empty.string = ""
        catalogue.delete(missing.id)
        catalogue.add("Nobody says this.", "谁也不这么说。")
        catalogues.save(catalogue)
        assert [trouble.split(":")[0] for trouble in catalogues.troubles()] == [
            "has no Chinese, or a fuzzy one",
            "has no Chinese, or a fuzzy one",
            "has other places than its Chinese",
            "is not in the catalogue",
            "is not in the code",
        ]


def test_what_stays_the_same_is_not_written_and_a_check_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "languages/zh/messages.po"
    file.parent.mkdir(parents=True)
    file.write_bytes(catalogues.file_of().read_bytes())
    monkeypatch.setattr(catalogues, "file_of", lambda: file)
    monkeypatch.setattr(catalogues, "ROOT", tmp_path)
    monkeypatch.setattr(catalogues, "troubles", list)
    assert catalogues.main(["--check"]) == 0
    assert not [*tmp_path.rglob("*.mo")]
    built = catalogues.build()
    os.utime(built, (1, 1))
    assert catalogues.build() == built
    assert built.stat().st_mtime == 1
    built.write_bytes(b"cut")
    catalogues.build()
    assert built.stat().st_size > 1000
    assert {path.suffix for path in tmp_path.rglob("*.*o*")} == {".mo", ".po"}


class TestMarks:
    def test_only_marked_texts_are_in_a_catalogue(self) -> None:
        code = """
WORDS = "whatever whoever of the"
said = f"{_('A {b}.', 1)} and that" if x else N_("c")
raise InvalidInput("No {d}." if e else "No f.", g)
counted(2, "memory")
"""
        extracted = catalogues.extracted(io.BytesIO(code.encode()), catalogues.KEYWORDS)
        assert {str(text) for _, _, text, _ in extracted} == {
            *("A {b}.", "c", "No {d}.", "No f.", "('{count} memory', '{count} memories')")
        }

    def test_no_f_string_is_marked_because_no_catalogue_can_have_it(self, code: Code) -> None:
        lines = []
        for call in code.marking_calls():
            if any(isinstance(text, ast.JoinedStr) for text in texts_of(call)):
                lines.append(call.line)
        assert [line for line in lines if not line.startswith("memory_server/serving/")] == [], (
            "models read those"
        )

    def test_each_sentence_gets_as_many_values_as_it_has_places(self, code: Code) -> None:
        wrong = []
        for call in code.marking_calls():
            is_counted = call.name == "n_"
            place = catalogues.TRANSLATED[call.name] if translates(call) else 0
            values = call.call.args[3 if is_counted else place + 1 :]
            if call.name in ("N_", "padded", *ABOUT_ARGUMENTS) or any(
                isinstance(value, ast.Starred) for value in values
            ):
                continue
            for text in catalogues._texts(texts_of(call)[-1]):
                if re.search(r"\{(char|user|failed|role)\b", text):
                    continue
                if not _fits(text, len(values), is_counted=is_counted):
                    wrong.append((call.line, text))
        assert wrong == []

    def test_every_error_that_is_raised_with_a_template_is_known(self, code: Code) -> None:
        def holds_message(name: str) -> bool:
            return any(
                base == "MessageError" or holds_message(base) for base in code.bases.get(name, ())
            )

        raised = set()
        for call in code.calls:
            is_plain = isinstance(call.call.func, ast.Name)
            if is_plain and catalogues._texts(call.call.args[0]) and holds_message(call.name):
                raised.add(call.name)
        assert raised == set(catalogues.ERRORS)


def _fits(text: str, values: int, *, is_counted: bool) -> bool:
    """Whether a sentence has places for so many values. One without values may have braces that are plain text."""
    names = list(_places(text))
    if is_counted:
        names = [name for name in names if name != "count"]
    if is_counted or values:
        return len(names) == values
    return not names or not all(re.search(rf"\{{{name}[:!}}]", text) for name in names)


def texts_in_code(file: Path) -> str:
    """The texts of a module, with braces where values come."""
    texts = []
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            texts.append(re.sub(r"%(\(\w+\))?[sr]|\{\w+\}", "{}", node.value))
    return " ".join(texts)


class TestForeign:
    def test_readers_and_argparse_have_the_sentences_of_the_catalogue(self) -> None:
        import argparse
        import json.decoder

        import yaml

        modules = (argparse, json.decoder, yaml.scanner, yaml.parser, yaml.composer)
        known_texts = " ".join(texts_in_code(Path(str(module.__file__))) for module in modules)
        for text in LIBRARIES:
            plain = re.sub(r"(?<!\{)\{\w+\}", "{}", text).replace("}}", "}")
            assert plain in known_texts or plain == "{}: line {} column {} (char {})", text

    def test_the_system_and_pydantic_have_the_sentences_of_the_catalogue(self) -> None:
        assert set(SYSTEM) <= set(map(os.strerror, errno.errorcode))
        templates = set()
        for error in list_all_errors():
            template = re.sub(r"\{\w+\}", "{}", error["message_template_python"])
            templates |= {
                template.replace("Input should", form) for form in ("it should", "should")
            }
        assert {re.sub(r"\{\w+\}", "{}", text) for text in PYDANTIC} <= templates

    def test_v8_and_the_realm_have_the_sentences_of_the_catalogue(self) -> None:
        async def verdicts() -> Sequence[Verdict]:
            async with TriggerSandbox(workers=1) as sandbox:
                return await sandbox.evaluate(
                    list(TRIGGERS.values()), {"messages": []}, now=datetime.now(UTC), seed=1
                )

        assert set(TRIGGERS) == set(V8)
        for template, verdict in zip(TRIGGERS, asyncio.run(verdicts()), strict=True):
            assert isinstance(verdict, Failed)
            expression = re.sub(r"\\\{\w+\\\}", ".+", re.escape(template))
            assert re.fullmatch(f"(SyntaxError: )?{expression}", verdict.message), (
                template,
                verdict,
            )


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
    "RangeError: lunar: the Chinese calendar is known from 31 January 1900 to January 2101": "lunar(new Date(-1e13))",
    "RangeError: lunar: the date is not valid": "lunar(new Date('x'))",
    "RangeError: on_lunar_day: the day must be a whole number from 1 to 30, not {what}": "on_lunar_day(8, 31)",
    "RangeError: {what}: the day of month {month} must be a whole number from 1 to {most}, not {more}": "on_day(4, 31)",
    "RangeError: {what}: the month must be a whole number from 1 to 12, not {more}": "on_day(0, 15)",
    "RangeError: {what}: {option} must be a whole number from 0 to 366, not {more}": "on_day(5, 1, { before: -1 })",
    "TypeError: lunar: give a Date, such as new Date()": "lunar('2026')",
    "TypeError: on_lunar_day: leap must be true, for a day of a leap month, or false": "on_lunar_day(8, 1, {leap: 1})",
    "TypeError: {what}: leap must be 'before', 'after' or 'never'": "on_day(2, 29, { leap: 1 })",
    "TypeError: {what}: the third argument must be an object with the options": "on_day(5, 1, 7)",
    "TypeError: {what}: there is no option {more}; the options are {options}": "on_day(5, 1, { befor: 7 })",
    "RangeError: Maximum call stack size exceeded": "(function f() { f(); })()",
    "The promise of this trigger never settles: nothing is left that could settle it": "new Promise(() => {})",
}
"""A trigger of which V8 or the realm says it."""


@pytest.mark.parametrize(
    ("flags", "environment", "language"),
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
    flags: list[str], environment: dict[str, str], language: str
) -> None:
    assert language_of(flags, environment) == language


class TestMessages:
    def test_a_message_is_english_where_no_language_is_set(self) -> None:
        text = _("The backup {name} cannot be used: {reason}.", "b", "no {x}")
        assert text == "The backup b cannot be used: no {x}."
        assert type(text) is str
        assert _("such as {a: 1}") == "such as {a: 1}"

    def test_an_error_keeps_its_template_and_values(self) -> None:
        error = InvalidInput("There is no change {change} yet; the newest is {newest}.", 7, 3)
        assert isinstance(error, MessageError)
        assert error.sentence == Sentence(
            "There is no change {change} yet; the newest is {newest}.", 7, 3
        )
        with speaking("zh"):
            assert str(error) == "There is no change 7 yet; the newest is 3."
            assert str(error.sentence) == "还没有更改 7；最新的是 3。"
            assert error.sentence.english == str(error)

    def test_the_language_ends_with_its_block_and_goes_with_tasks_and_threads(self) -> None:
        async def texts_of_tasks() -> list[str]:
            loop = asyncio.get_running_loop()
            task = asyncio.create_task(asyncio.sleep(0, counted(1, "memory")))
            with_language = loop.run_in_executor(None, in_this_language(counted), 1, "memory")
            without_language = loop.run_in_executor(None, counted, 1, "memory")
            in_thread = await asyncio.to_thread(counted, 1, "memory")
            return [await task, in_thread, await with_language, await without_language]

        with speaking("zh"):
            texts = asyncio.run(texts_of_tasks())
        assert texts == ["1 条记忆", "1 条记忆", "1 条记忆", "1 memory"]
        assert counted(1, "memory") == "1 memory"

    @pytest.mark.parametrize(
        ("number", "english"), [(0, "0 memories"), (1, "1 memory"), (2, "2 memories")]
    )
    def test_the_number_chooses_singular_or_plural(self, number: int, english: str) -> None:
        assert counted(number, "memory") == english
        verb = "is" if number == 1 else "are"
        assert n_("{count} {what} is", "{count} {what} are", number, "x") == f"{number} x {verb}"

    def test_values_must_fit_the_places(self) -> None:
        with pytest.raises(ValueError, match="argument"):
            _("{a} and {b}", 1)


@pytest.mark.usefixtures("chinese")
class TestTranslated:
    def test_a_sentence_with_its_values(self) -> None:
        text = _("There is no change {change} yet; the newest is {newest}.", 7, 3)
        assert text == "还没有更改 7；最新的是 3。"

    def test_a_sentence_within_a_sentence(self) -> None:
        error = InvalidInput("its checksum does not match")
        text = _(
            "The backup {name} cannot be used: {reason}. Nothing was changed; choose another backup.",
            "b",
            error,
        )
        assert text == "备份 b 不能用：校验和不符。什么也没有改变；请选另一份备份。"

    def test_numbers_and_lists(self) -> None:
        assert counted(1, "memory") == counted(2, "memory").replace("2", "1") == "1 条记忆"
        assert (
            joined(", ", (counted(1, "memory"), counted(2, "conversation"))) == "1 条记忆、2 个对话"
        )
        assert "a: " + counted(1, "memory") + " (b)" == "a: 1 条记忆 (b)"

    @pytest.mark.parametrize(
        "name", ["note", "Nothing is broken.", "3 memories", "{0}", "work and play, home"]
    )
    def test_texts_of_users_stay(self, name: str) -> None:
        text = _("Nothing is stored in the conversation {id}.", name)
        assert text == f"对话 {name} 里什么也没有存。"

    def test_what_another_program_said(self) -> None:
        assert (
            foreign("SyntaxError: Unexpected token ';'") == "语法错误 SyntaxError：这里不该有 ';'"
        )
        assert foreign("argument --count: expected one argument") == "参数 --count：需要一个值"
        assert foreign("[Errno 2] ") == "[Errno 2] "

    @pytest.mark.parametrize(
        "text",
        [
            *(
                "nobody ever said this",
                "nobody said {code: 5}",
                "{0}",
                "salt and pepper; no one",
                "no {x}, at least 3",
            ),
            *(
                "Error: salt and pepper, at least 3 memories",
                "always true: no",
                "did you mean 'a'?",
            ),
            "unrecognized arguments",
        ],
    )
    def test_what_no_program_said_stays(self, text: str) -> None:
        assert foreign(text) == text
        assert _("The settings file {path} cannot be read: {reason}.", "p", text).count(text) == 1

    def test_values_of_what_a_program_said_stay(self) -> None:
        translated = foreign("unrecognized arguments: expected one argument")
        assert translated == "不认识的参数：expected one argument"

    @pytest.mark.parametrize(
        "text",
        [
            *(
                ": line  column  (char " * 1000 + "x",
                "SyntaxError: " * 2000 + "x",
                ": line  column  (char " * 45 + ")",
            ),
            *("SyntaxError: " * 70 + "x", "invalid choice: " * 60, " (reading " * 90 + ")"),
        ],
    )
    def test_long_and_deep_ones_take_no_time(self, text: str) -> None:
        began = time.process_time()
        translated = foreign(text)
        assert time.process_time() - began < 2
        assert translated.count("语法错误") <= 2
        assert len(text) <= 1000 or translated == text

    def test_nothing_stays_nothing(self) -> None:
        assert _("") == ""
        assert "Project-Id" not in _("{about}: {what}", "a", _(""))

    def test_an_escaped_message_has_no_control_characters(self) -> None:
        escaped = visible(
            _(
                "The backup {name} cannot be used: {problem}.",
                "a\x1b",
                InvalidInput("its checksum does not match"),
            )
        )
        assert escaped == "备份 a\\x1b 不能用：校验和不符。"
        unread = clause(_("The settings file {path} cannot be read: {reason}.", Path("a\tb"), "x"))
        within = visible(joined(", ", (counted(1, "memory"), unread, "c\n")))
        assert within == "1 条记忆、设置文件 a\\tb 无法读取：x、c\\n"
        assert visible(foreign("Permission denied")) == "没有权限"

    def test_what_is_made_of_a_message_stays_one(self, tmp_path: Path) -> None:
        with pytest.raises(InvalidInput) as refused:
            conversation_id_of(" ", "tenant")
        assert refused.value.sentence.english.startswith("The tenant is empty; give a name")
        assert str(refused.value).startswith("tenant 是空的")
        folder = tmp_path / ".memory-server" / "backups"
        folder.mkdir(parents=True)
        (folder / f"b\x1b{ENDING}").write_bytes(b"nothing")
        warnings = [sentence for grade, sentence in _backups(tmp_path) if grade == "warning"]
        assert "b\\x1b" in warnings[0]
        assert warnings[0].startswith("备份 b\\x1b 不能用：`b\\x1b` 不能作备份的名字")
        assert warnings[0].endswith("；请删除它。")

    def test_the_reason_of_a_broken_change_names_the_kind_of_error(self) -> None:
        with pytest.raises(NotARecord, match="有一次更改无法读取：KeyError"):
            change({"type": "nothing like this"})
        with pytest.raises(NotARecord, match="有一次提交无法读取：KeyError"):
            commit_of({})

    def test_a_message_of_a_worker_is_translated_and_cannot_do_harm(self) -> None:
        sentence = Sentence(
            "always true: {said}", Sentence("a list is always true; ask for its length")
        )
        sent = json.loads(json.dumps(packed(sentence)))
        assert str(message(sent)) == "总是成立：列表总是真；请问它的长度"
        with speaking("en"):
            assert str(message(sent)) == "always true: a list is always true; ask for its length"
        numbers = "leaves out the first {number:g} messages; give {number:g} for the last ones"
        for template, values in (
            ("{a.__class__} {a:999999999}", {"a": "x"}),
            (numbers, {"number": "x"}),
        ):
            assert str(message(["English", template, values])) == "English"
        assert (
            str(message(["English", "always true: {said}", {"said": "never"}])) == "总是成立：never"
        )
        deep: Any = "x"
        for _level in range(9):
            deep = ["English", "always true: {said}", {"said": deep}]
        for wrong in (
            deep,
            ["a", "b"],
            [1, "b", {}],
            ["a", "b", {"(.*)*": 1}],
            ["a", "b", {"c": None}],
        ):
            with pytest.raises(ProtocolError):
                message(wrong)

    def test_words_fill_their_column(self) -> None:
        assert padded("error", 8) == "错误    "
        assert _("error") == "错误"

    def test_argparse_speaks_too(self, capsys: pytest.CaptureFixture[str]) -> None:
        parser = Parser(prog="p")
        parser.add_argument(
            "--count", type=int, help="give up after so many seconds, without an error"
        )
        with pytest.raises(SystemExit):
            parser.parse_args(["--count", "x"])
        complaint = capsys.readouterr().err
        assert "用法：p" in complaint
        assert "p: 错误: 参数 --count：'x' 不是合法的 int 值" in complaint
        assert "显示这段帮助并退出" in parser.format_help()

    def test_help_is_broken_by_columns(self) -> None:
        parser = Parser(prog="p")
        parser.add_argument(
            "--x",
            help=_(
                "repair broken files: keep each of them aside as a whole, and continue from the last good state"
            ),
        )
        assert max(map(cells, parser.format_help().split("\n"))) < 80


@pytest.mark.parametrize(
    "damage", [None, b"", b"\xde\x12\x04\x95", 400], ids=["gone", "empty", "magic", "cut"]
)
def test_without_a_catalogue_everything_is_english_with_one_warning(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    damage: bytes | int | None,
) -> None:
    file = tmp_path / "zh/messages.mo"
    file.parent.mkdir(parents=True)
    whole = catalogues.file_of().with_suffix(".mo").read_bytes()
    if damage is not None:
        file.write_bytes(whole[:damage] if isinstance(damage, int) else damage)
    monkeypatch.setattr(languages, "__file__", str(tmp_path / "__init__.py"))
    languages._catalogue.cache_clear()
    with speaking("zh"):
        assert (
            joined(", ", (counted(1, "memory"), foreign("Permission denied")))
            == "1 memory, Permission denied"
        )
        assert _("error") == "error"
    languages._catalogue.cache_clear()
    (warning,) = capsys.readouterr().err.splitlines()
    assert "install the program again" in warning


def test_english_costs_nothing() -> None:
    asked = "import sys, memory_server.cli.parser as p; p.main(['--language', 'en', '--help'])"
    report = "print(sys.modules['languages']._catalogue.cache_info().misses, file=sys.stderr)"
    seen = f"import atexit, sys; atexit.register(lambda: {report}); {asked}"
    ended = subprocess.run([sys.executable, "-c", seen], capture_output=True, text=True, timeout=60)
    assert ended.stderr.strip() == "0", "a catalogue was read"


def test_what_a_prompt_waits_for_loads_no_messages() -> None:
    entrance = "memory_server.process.entrance"
    seen = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {entrance}; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-S", "-I", "-c", seen], capture_output=True, text=True, timeout=60
    )
    assert entrance in ended.stdout.split()
    assert not {"gettext", "languages", "re"} & set(ended.stdout.split())


def test_a_command_is_chinese_where_the_reader_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "没有 id 或名字是 `x` 的记忆" in capsys.readouterr().err
    assert main(["--language", "en", "--data-dir", str(tmp_path / "d"), "show", "x"]) == 1
    assert "No memory has the id or name `x`" in capsys.readouterr().err


def test_titles_of_tools_and_sizes_of_files_are_chinese_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--language", "zh", "tools"]) == 0
    titled = [line for line in capsys.readouterr().out.splitlines() if line.startswith(" ")]
    assert titled
    assert not [line for line in titled if not re.search("[一-鿿]", line)]
    assert main(["--language", "zh", "tools", "--json"]) == 0
    assert '"title":"Save knowledge of the project"' in capsys.readouterr().out
    flags = ["--language", "zh", "--data-dir", str(tmp_path / "d")]
    assert main([*flags, "remember", "--session", "a", "红茶"]) == 0
    assert main([*flags, "backup", "one"]) == 0
    assert main([*flags, "backup", "list"]) == 0
    out = capsys.readouterr().out
    assert out.count(" 字节") == 2
    assert "bytes" not in out


def test_the_setting_names_the_language_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "s.toml").write_text('language = "zh"\n')
    assert (
        main(["--config", str(tmp_path / "s.toml"), "--data-dir", str(tmp_path / "d"), "list"]) == 0
    )
    assert "里还没有对话。" in capsys.readouterr().out


def test_the_workbench_is_chinese_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert trigger_sandbox.main(["--language", "zh", "check", str(tmp_path / "none.js")]) == 2
    complaint = capsys.readouterr().err
    assert "trigger-sandbox: " in complaint
    assert "没有这个文件或文件夹" in complaint


CHECKED = {
    "match_keys(context.messages, ['always true: a', 'always true: a']) > 0": "'always true: a' 在列表里",
    "match_keys_all(context.messages, ['a']) === 1": " 是布尔值，所以",
    "match_keys(context.messages, ['a']).length === 'a' || new Date().getMonth() === '1'": " 是数，所以",
    "throw new Error('salt and pepper, at least 3')": "Error: salt and pepper, at least 3",
    "if (": "语法错误 SyntaxError：触发器还没写完就结束了",
    "a = （1": "有无效的字符，或引号没有成对；（ 不是 JavaScript 的写法，请改写成 (",
    "const a = 1; a = 2": "类型错误 TypeError：不能给常量赋值。",
    "context.mesages.length > 1": "context 没有 mesages；你是不是想写 context.messages？",
    "new Date().getMonth() === 12": "永远不会成立：getMonth() 给出 0 到 11；一月是 0",
    "context.messages.some(m => m.role === 'human')": "永远不成立：没有消息的角色是 'human'；你是不是",
    "match_keys(context.messages, ['a'], 'any', -2) > 0": "会略去最前面的 2 条消息；要最后几条请写 2",
    "new Date(2026, 1, 31) > 0": "二月最多有 29 天",
}
"""Triggers, and what the workbench says of each."""


@pytest.fixture(scope="module")
def complaints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """All that the workbench says of each trigger; one command checks them all."""
    folder = tmp_path_factory.mktemp("checked")
    triggers: dict[str, str] = {}
    for number, trigger in enumerate(CHECKED):
        file = folder / f"{number}.js"
        file.write_text(trigger, "utf-8")
        triggers[str(file)] = trigger
    output = io.StringIO()
    with redirect_stdout(output):
        trigger_sandbox.main(["--language", "zh", "check", *triggers])
    complaints = dict.fromkeys(CHECKED, "")
    for complaint in re.split(r"^(?=\S+\.js: )", output.getvalue(), flags=re.MULTILINE):
        file_name = complaint.partition(": ")[0]
        if file_name in triggers:
            complaints[triggers[file_name]] += complaint
    return complaints


@pytest.mark.parametrize("trigger", CHECKED)
def test_errors_and_warnings_of_triggers_are_chinese_too(
    complaints: dict[str, str], trigger: str
) -> None:
    assert CHECKED[trigger] in complaints[trigger]


@pytest.mark.parametrize(
    ("command", "text", "words"),
    [
        ("check", "context.messages.length > 100", "没有错误，没有警告"),
        ("test", "a: 1\na: 2", "第 2 行：键 'a' 出现了两次"),
        ("test", "a: [1", "第 1 行：应为 ',' 或 ']'，但遇到"),
        ("test", "a: b: c", "第 1 行：这里不能有“键: 值”"),
    ],
)
def test_summaries_and_errors_of_yaml_are_chinese_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, text: str, words: str
) -> None:
    file = tmp_path / ("a.js" if command == "check" else "a.trigger.yaml")
    file.write_text(text, "utf-8")
    trigger_sandbox.main(["--language", "zh", command, str(file)])
    assert words in capsys.readouterr().out


def test_memories_are_never_translated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def output_of(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return capsys.readouterr().out

    stored = output_of("remember", "Nothing is broken.\nNothing is stored yet.")
    assert "已保存" in stored
    memory_id = re.findall("（([0-9a-f]{8})", stored)[0]
    for command in (["list"], ["search", "broken"], ["history"], ["show", memory_id]):
        output = output_of(*command)
        assert "Nothing is broken." in output, command
        assert "还什么都没存" not in output, command
    assert "，在 note 里" in output_of("search", "broken")


def test_words_that_nobody_knows_are_shown_as_typed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def output_of(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return "".join(capsys.readouterr())

    output_of("remember", "a cake")
    for typed in ("salt and pepper; no one", "No such file or directory", "should be 5"):
        assert f"`{typed}`" in output_of("undo", "--memory", typed)


def test_explain_is_chinese_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def output_of(*command: str) -> str:
        main(["--language", "zh", "--data-dir", str(tmp_path / "d"), "-c", "note", *command])
        return capsys.readouterr().out

    output_of("remember", "我的猫叫小白，它喜欢鱼。")
    output = output_of("explain", "小白", "--ask", "小白喜欢什么？")
    assert not re.findall(
        r"[A-Za-z]{2,}", re.sub(r"[0-9a-f]{16}|note|user|search_memories|id", "", output)
    ), output


@pytest.mark.anyio
async def test_a_program_says_errors_and_receipts_in_the_language_of_its_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def receipt_line(memory: App) -> str:
        """The reason line of a search, after a trigger was refused."""
        chat = memory.conversation("小明")
        with pytest.raises(TriggerRejected) as refused:
            await chat.long_term.add("tea", "Offer tea.", "match_key(context.messages, ['tea'])")
        search = await chat.short_term.search([Message("user", "乌龙茶好喝吗？")])
        return f"{refused.value}|{refused.value.problems[0].message}|{search.recall.top[0].receipt.line()}"

    async with open_memory(tmp_path / "data") as memory:
        remark = Message("user", "我喜欢乌龙茶", memory.clock() - 100_000_000)
        await memory.conversation("小明").short_term.add([remark])
        english = await receipt_line(memory)
        with language("zh"):
            chinese = await receipt_line(memory)
        assert english.startswith(
            "The trigger cannot work and was not stored: match_key is not defined"
        )
        assert english.endswith("score")
        assert chinese.startswith("触发器无法运行，没有存入：match_key 没有定义")
        assert chinese.endswith(" 得分")
        for name, text in (("zh", chinese), ("en", english)):
            monkeypatch.setenv("MEMORY_SERVER_LANGUAGE", name)
            with language():
                assert (await receipt_line(memory))[:20] == text[:20]


CATALOGUE = catalogues.read()
PLAIN = sorted(
    str(entry.id)
    for entry in CATALOGUE
    if entry.id and not entry.context and not entry.pluralizable and not _places(str(entry.id))
)
"""Messages without values."""


@given(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=4), st.sampled_from(["en", "zh"]))
def test_whatever_is_made_of_messages_is_in_the_language_of_its_context(
    templates: list[str], name: str
) -> None:
    expected = templates
    if name == "zh":
        expected = [str(CATALOGUE.get(template).string) for template in templates]
    with speaking(name):
        texts = [_(template) for template in templates]
        assert texts == expected
        assert [f"<{text}>"[1:-1] for text in texts] == expected
        assert " ".join(texts).strip() == " ".join(expected).strip()
        assert [str(Sentence(template)) for template in templates] == expected
        for template, text in zip(templates, expected, strict=True):
            with pytest.raises(InvalidInput) as refused:
                raise InvalidInput(template)
            assert str(refused.value) == text
            assert _("{about}: {what}", "a", Sentence(template)).endswith(text)
        assert [Sentence(template).english for template in templates] == templates
