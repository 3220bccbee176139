"""Twice the text takes an expression of ours at most 2.5 times the time, whatever the text is.

An expression at the top of a module that repeats without a bound has a line here, with texts that may take it long.
"""

from __future__ import annotations

import gc
import importlib
import re
import time
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

import pytest
from test_package import modules

from memory_server.conversations.recall.passages import chunks_of
from memory_server.interchange import folder_forms, transcripts
from memory_server.kernel import work
from memory_server.kernel.messages import said_in
from memory_server.kernel.private import without_private
from memory_server.kernel.recalled_block import HEAD, without_recalled
from memory_server.kernel.streams import CapturedIO, CapturedStream
from memory_server.knowledge import differences
from memory_server.tools.base import result
from nlp.date_words import date_spans
from nlp.index_terms import terms_of
from nlp.normal_forms import script_spans
from sandbox.chats import plain

NOTE = HEAD.splitlines()[1]
CHARS = 20_000
CHARS_OF_FUNCTIONS = 40_000
"""A function that copies the text again and again is seen only in a longer one."""
MOST_GROWTH = 2.5
SECONDS = 0.005
"""Less than this for twice the characters is no growth that anybody notices."""

Way = Callable[[re.Pattern[Any], Any], object]
at_start: Way = re.Pattern.match
whole: Way = re.Pattern.fullmatch
anywhere: Way = re.Pattern.findall

EXPRESSIONS: Mapping[str, tuple[Way, str, tuple[str, ...]]] = {
    "memory_server.kernel.backups._NAME": (whole, "a", ("a", ".", "a.")),
    "memory_server.kernel.backups._RESERVED": (whole, "con", (".", ".a")),
    "memory_server.operations.install.edits._INDENT": (anywhere, "\n", (" ", " \n", "\t")),
    "memory_server.interchange.transcripts._OF_A_MESSAGE": (
        anywhere,
        "",
        ('"type":', '"type": ', " "),
    ),
    "memory_server.interchange.transcripts._INTERRUPTED": (
        anywhere,
        "",
        ("[Request interrupted by user", "[", "a"),
    ),
    "sandbox.condition_reading._TOKEN": (
        at_start,
        "",
        ("'", "'\\", "/*", "*", "/[", "[a", "\\/", "0", "//", "\n"),
    ),
    "sandbox.condition_reading._PLAIN_EXPRESSION": (
        whole,
        "/",
        ("a", "\\.", "\\b", "\\", "(?<!\\w)", "/i"),
    ),
    "nlp.plans._CLAUSE": (anywhere, "", ("a", "a,", "a?", "。")),
    "nlp.plans._CLAUSE_OF_DAY": (anywhere, "", ("a", "a,", "an", " and ", "a?", "。")),
    "nlp.plans._CONDITION": (at_start, "", (" ", " if", "如")),
    "memory_server.kernel.work._SIMPLE_COMMAND": (
        anywhere,
        "",
        ('"', "'", "\\", "&", "a", ';"', "\"'"),
    ),
    "memory_server.kernel.work._CLOSED": (at_start, "", ("a", '"', "'", "\\", "a'", '"\\', "''")),
    "memory_server.kernel.work._COMMENTS": (anywhere, "", ("#", " ", "# a\n", " #", "\n")),
    "memory_server.kernel.work._LABELS": (
        anywhere,
        "",
        ("case ", "a", ";; ", ";;a|", " in", '"', ";;#\n", ";;("),
    ),
    "memory_server.kernel.work._PASSWORD_OF_NAME": (anywhere, "", ("key=", "pass", "pw:")),
    "memory_server.kernel.work._UP_TO_QUOTE": (anywhere, "", ("a", " ", '"', "a'", " a")),
    "memory_server.memories.point_of_action._WORDS": (anywhere, "", ("a", "a.", ".", "-", "a ")),
    "memory_server.kernel.work._BEFORE_PASSWORD": (
        anywhere,
        "--",
        ("a", "a-", "pass-", "key", "set ", "ssh-keygen "),
    ),
    "nlp.corrections._PRONOUN": (anywhere, "", ("it ", " ", "it", "so\n")),
    "sandbox.conditions._ASCII_WORD": (anywhere, "", ("a", "a ", "_", "é")),
    "memory_server.interchange.pages._SECTION": (anywhere, "", ("## a\n", "## ", "#", " #")),
    "memory_server.interchange.pages._HEADING": (anywhere, "", ("# a\n", "# ", "#", " #")),
    "memory_server.interchange.pages._FENCE": (anywhere, "", ("`", "~", "```\n")),
    "memory_server.interchange.pages._POINTER": (
        anywhere,
        "",
        ("- [", "- [a](", "- [a](b.md) ", "- [a](.md"),
    ),
    "memory_server.interchange.pages._LINK": (anywhere, "", ("[[", "[[a", "[[a]]", "]")),
    "memory_server.storage.postgres.entry_rows._PLACEHOLDER": (
        anywhere,
        "",
        ("?", ":a", "::a", ":"),
    ),
    "memory_server.interchange.own._RUNS": (anywhere, "", ("`", "`a")),
    "memory_server.knowledge.differences._NUMBERS": (anywhere, "", ("1", "1.", "1:2", ".")),
    "memory_server.knowledge.differences._PIECES": (
        anywhere,
        "a",
        (
            ".",
            ". ",
            "a-",
            "aa-",
            "的.",
            ".=",
            "!",
            "a,",
            "`",
            "a",
            "的",
            "a1",
            "かカ",
            "_",
            "か",
            "カ",
            "+",
        ),
    ),
    "memory_server.knowledge.differences._WORD_FOLLOWS": (at_start, " ", (" ", "a", "\n")),
    "memory_server.knowledge.notes.pages._FENCE": (at_start, "", (" ", "`", "~", "`~")),
    "memory_server.knowledge.notes.pages._RUNS": (anywhere, "", ("`", "`a")),
    "memory_server.kernel.messages._ROLE_LINE": (whole, "user:", (" ", "user:", "a")),
    "memory_server.conversations.recall.passages._LINE": (anywhere, "", ("a", "\n", "a\n")),
    "memory_server.conversations.recall.passages._FENCE": (at_start, "", ("~", "`", "`~", " ~~~")),
    "memory_server.conversations.recall.passages._INDENTED": (at_start, "    ", (" ", "- ", "1")),
    "memory_server.conversations.recall.passages._END": (
        anywhere,
        "",
        (".", "!", "。", "?a", ".'", "é."),
    ),
    "memory_server.kernel.recalled_block._LINE": (
        anywhere,
        "",
        ("a ", "a\n", "> ", "a (1 day ago, morning): ", " "),
    ),
    "memory_server.kernel.recalled_block._REMARK": (
        anywhere,
        "",
        ("[a, the user said about ", "[a\n", "[", "[a，关于 ", "[a: `b` failed in the same way; "),
    ),
    "memory_server.kernel.recalled_block._JOINERS": (
        anywhere,
        "",
        ("\u200d", "a\u200d", "好\u200d\ufe0f", "<"),
    ),
    "memory_server.kernel.recalled_block._TAG_LIKE": (
        anywhere,
        "",
        (
            "<",
            "<_",
            "<\u0301",
            "< ",
            "< a",
            "< a ",
            "＜ a b=",
            "< a b",
            "&lt;",
            "_",
            "\\",
            "\\u003c",
        ),
    ),
    "memory_server.kernel.recalled_block._LAST_ROW": (
        at_start,
        "",
        ("a", "[", "a (", "a (1): ", "（", "> "),
    ),
    "memory_server.kernel.recalled_block._LINES_OF_JSON": (
        at_start,
        "",
        ("a", '\n"', "\n{", "\n >", "\n ", " "),
    ),
    "memory_server.kernel.recalled_block._TORN": (
        anywhere,
        "",
        (
            *(
                "<recalled-memories> ",
                f"{HEAD}[",
                f"{HEAD}a\n> ",
                "<recalled-memories a",
                " ",
                "a\n",
                "a>",
                "\\",
            ),
            *(NOTE, f"{NOTE}\n[", f"{NOTE} \n", f"{NOTE}\\n[", "\n[", "\\n"),
        ),
    ),
    "memory_server.conversations.recall.words._WORD": (anywhere, "", ("a", "的", "a1", "_")),
    "memory_server.conversations.recall.filters._HASHTAG": (
        anywhere,
        "",
        ("#", "#1", "1", "a", "#a-", " #1"),
    ),
    "memory_server.interchange.pages._EXPORTED": (
        at_start,
        "**",
        ("a", "** (", "a** (2026-01-01 ", "*"),
    ),
    "memory_server.kernel.erasure._ESCAPED": (anywhere, "", ("\\", "\\u", "\\u00", "u0000")),
    "memory_server.tools.base.shapes._NUMBER": (whole, "", ("1", "1.", ".", "1e")),
    "memory_server.tools.base.shapes._STRICT_NAME": (whole, "", ("a", "_id", "Id", "_")),
    "nlp.questions._ASKS": (anywhere, "", ("?", "? ", "吗", "a")),
    "nlp.questions._CLAUSES": (anywhere, "", (",", ", ", "a,")),
    "nlp.questions._POLITE": (anywhere, "", ("hey ", "please ", " now", "a ")),
    "nlp.questions._SENTENCES": (anywhere, "", (".", "a.", "\n")),
    "sandbox.host.reports._MARK": (at_start, "", ("a", " ", "'", "''", '"', "a ")),
    "sandbox.javascript.tracing._PLAIN": (whole, "", ("a", " ", "a-", "'")),
    "memory_server.serving.http.middleware._HOST": (whole, "", ("a", "[:", "[a]", "a:1", ":", ".")),
    "memory_server.storage.backups.files._LEFT": (whole, ".", (".", "a", ".body", ".0")),
    "memory_server.storage.entries.markdown_folder._PLAIN": (
        whole,
        "a",
        ("a", ".", "-", "é", "a "),
    ),
    "memory_server.knowledge.front_matter._CONFLICT": (whole, "<<<<<<<", ("<", " ", " a", "a")),
    "memory_server.kernel.files.NEXT": (whole, ".", (".", "0", ".0", ".0000000000000000", ".next")),
    "memory_server.storage.json_store.snapshots._BETWEEN_RECORDS": (at_start, "", (" ", ",", ", ")),
    "nlp.date_words._NUMBERS": (anywhere, "", ("1", "1a")),
    "nlp.stems._RUN": (anywhere, "", ("中", "中a")),
    "nlp.stems._CYRILLIC": (whole, "", ("я",)),
    "sandbox.chats.dates._HUMANIZED": (whole, "2023-6-4@14h5m", (" ", "1", "1s ")),
    "sandbox.chats.plain._LINE": (whole, "a", (" ", "a", " a", "*")),
    "sandbox.worker.engine._REPORT": (at_start, "", (":1: SyntaxError: ", ":", ":1", "1")),
    "sandbox.host.matching._EXPRESSION": (whole, "/", ("/", "a", "/a")),
    "sandbox.javascript.positions._NOT_DEFINED": (at_start, "ReferenceError: ", ("a", "a ")),
    "memory_server.interchange.folder_forms._MONTH": (
        anywhere,
        "",
        ("getMonth()", "getMonth() == ", " ", "getMonth()==1"),
    ),
    "sandbox.javascript.dates._DATE": (whole, "2026-07-17T10:00", ("a", "1")),
    "sandbox.javascript.dates._CHINESE": (anywhere, "", ("1", "1 ", " ")),
    "sandbox.javascript.key_calls._BETWEEN_KEYS": (anywhere, "", (" ", ",", " ,")),
    "memory_server.interchange.lore_memories._EXPRESSION": (whole, "/", ("/", "a", "/g")),
    "memory_server.operations.lore_import._EXPRESSION": (whole, "/", ("/", "a", "/g")),
    "memory_server.lore.memory._COMMENT_LINE": (
        anywhere,
        "",
        ("//", " ", "// a\n", " \n", "a"),
    ),
    "memory_server.lore.forms._FIRST_COMMENT": (
        anywhere,
        "",
        ("//", "// a\n", "a"),
    ),
    "memory_server.lore.macros.MACRO": (anywhere, "", ("{", "{{", "{{a", "{{}")),
    "memory_server.lore.macros._FORMAT": (anywhere, "", ("[", "[a", "D", "[a]")),
    "memory_server.lore.macros._COMMENT": (
        anywhere,
        "",
        ("{{", "{{//", "{{ //a", "{{//a}", "{", " "),
    ),
    "memory_server.knowledge.projects._INNER_URL": (anywhere, "", ("a", "a:", "a:/", "a.", "@")),
    "nlp.date_words._ASKS_IN_SHORT": (
        anywhere,
        "",
        ("干嘛", "干嘛 ", "有空没有", "去", "干嘛去", " "),
    ),
    "sandbox.chats.programs._TAG_OF_CLINE": (anywhere, "", ("<", "<a", "<a_", "<a_b", "a_")),
    "sandbox.chats.programs._FOLDED": (
        anywhere,
        "",
        ("<think", '<details type="', '<details type="a', '<details type="code', "a"),
    ),
    "sandbox.chats.programs._RESULT_OF_CLINE": (at_start, "[a", ("a", " for ", "] ", " for a]")),
    "sandbox.javascript.literals._DEPTHS": (
        anywhere,
        "",
        ("'any',", "'any' ", " ", "messages ", "messages.slice ( ", "messages.slice(- ", "1"),
    ),
    "sandbox.workbench.fixtures._UNQUOTED": (anywhere, "", ("user", "user ", "user: ", " ")),
    "memory_server.lore.macros._PARTS": (whole, "{{", (" ", "a", ":", "{{a", " a")),
    "memory_server.lore.macros._TRIM": (
        anywhere,
        "",
        ("\n", "{{", "{{ ", "{{trim", "\n{{ trim"),
    ),
    "memory_server.lore.macros._UTC_OFFSET": (
        whole,
        "{{",
        (" ", "{{ ", "time_utc+1 "),
    ),
    "memory_server.interchange.lore_astrbot._COMMA": (
        anywhere,
        "",
        ("a", '"', "'", "\"'", '"a', ",", "a'"),
    ),
    "memory_server.interchange.lore_astrbot._PLACEHOLDER": (
        anywhere,
        "",
        ("{", "{a", "{a:", "{a::"),
    ),
    "memory_server.interchange.lorebooks._LINE": (whole, "@@a", ("a", " ", "\t", "@@")),
    "memory_server.interchange.lore_memories._TEMPLATE": (
        anywhere,
        "",
        ("<", "<%", "<% a", "<%%>", "%>"),
    ),
    "memory_server.interchange.lore_memories._VARIABLE": (
        anywhere,
        "",
        ("{{", "{{setvar", "{{setvar a", "{{addvar}}"),
    ),
}
"""By name: how it is applied, what begins the texts, and what each of them repeats."""


def _printed(text: str) -> CapturedIO:
    """A command of the shared process has written each character for itself."""
    streams = CapturedIO()
    file = CapturedStream(streams, stderr=False)
    for character in text:
        file.write(character)
    return streams


FUNCTIONS: Mapping[str, tuple[Callable[[str], object], tuple[str, ...]]] = {
    "the signs of a note": (
        lambda text: differences._words_of(f"a{text}b"),
        ("a ", ".", "!", ".!", ",", "的.", "a-", "'"),
    ),
    "the words of a transcript": (
        transcripts.prompt_in,
        (
            "<system-reminder>",
            "<bash-stdout>x",
            "<bash-stdout></bash-stdout>",
            "[Request interrupted by user\n",
            "<tick a",
            "<tick a>",
        ),
    ),
    "the context of hooks": (
        transcripts.without_hook_context,
        ("<hook_context>", "</hook_context>", "<hook_context>a</hook_context>"),
    ),
    "the head of a command": (work.command_head, ("' ", '"\\" ', "a' b ", "-p ", "\\\n", "'a b' ")),
    "the answers of a transcript": (
        transcripts.answer_in,
        ("<system-reminder>", "<system-reminder></tick>", "<tick>"),
    ),
    "terms of an index": (terms_of, ("a", "的", "a\u0300", "c++", "c#", "🎂\u200d", "🇨", "्", "a्")),
    "the messages of a text": (said_in, ("user: a\n", "a\n", "user:")),
    "what is private": (without_private, ("<private>", "</private>", "<private ", "<")),
    "recalled blocks": (
        without_recalled,
        (
            "</recalled-memories ",
            '{"prompt":',
            '{"prompt":[',
            *(f"[{part}" for part in ("\n", "x\n</recalled-memories>\n", "x</recalled-memories>")),
            *(
                '{"activated":[{"conversation_id":"',
                '{"activated":[{"conversation_id":"\n',
                '"activated":[',
            ),
        ),
    ),
    "pieces of a memory": (
        lambda text: list(chunks_of(text)),
        ("a", ". ", "~~~\n", "    a\n", "中", "\u0301"),
    ),
    "days": (
        lambda text: list(date_spans(text, date(2026, 7, 17))),
        ("1", "1月", "二十", "Jan 1", "last ", "1 d"),
    ),
    "words of other scripts": (
        lambda text: list(script_spans(text)),
        ("é", "aé", "か", "😀", "😀\u200d", "🇨"),
    ),
    "the place of a long word": (
        lambda text: result._first_match(text, [text[: len(text) // 2] + "b"]),
        ("a", "ab "),
    ),
    "a chat as plain text": (plain.parse, ("user: a\n", "user: \n ", "user:a b \n")),
    "what a command has printed": (_printed, ("a",)),
    "months of a trigger": (
        lambda text: list(folder_forms._doubts(text, text)),
        ("getMonth() == 1 ", "1月"),
    ),
}


def test_an_expression_that_repeats_without_a_bound_has_texts_here() -> None:
    repeating = set()
    for module in modules():
        for name, value in vars(importlib.import_module(module)).items():
            if isinstance(value, re.Pattern) and _repeats(value.pattern):
                repeating.add(f"{module}.{name}")
    assert repeating == EXPRESSIONS.keys()


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_an_expression_takes_twice_the_time_for_twice_the_text(name: str) -> None:
    way, begin, repeated = EXPRESSIONS[name]
    module, _, own = name.rpartition(".")
    pattern: re.Pattern[Any] = getattr(importlib.import_module(module), own)

    def read(text: str) -> object:
        if isinstance(pattern.pattern, str):
            return way(pattern, text)
        return way(pattern, text.encode())

    for part in repeated:
        for end in ("", "\x01`"):
            _assert_linear(read, begin, part, end=end, chars=CHARS)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_reads_a_text_takes_twice_the_time_for_twice_the_text(name: str) -> None:
    read, repeated = FUNCTIONS[name]
    for part in repeated:
        begin = "user: " if read is plain.parse else ""
        _assert_linear(read, begin, part, end="", chars=CHARS_OF_FUNCTIONS)


def _repeats(pattern: str | bytes) -> bool:
    text = pattern if isinstance(pattern, str) else pattern.decode()
    return re.search(r"[*+]|,\}", re.sub(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]", "x", text)) is not None


def _assert_linear(
    read: Callable[[str], object], begin: str, part: str, *, end: str, chars: int
) -> None:
    growths = []
    for _ in range(5):  # other programs may disturb a measurement; growth is in all of them
        twice = _seconds(read, begin + part * (2 * chars // len(part)) + end)
        if twice < SECONDS:
            return
        once = _seconds(read, begin + part * (chars // len(part)) + end)
        if twice <= MOST_GROWTH * once:
            return
        growths.append(twice / once)
    raise AssertionError(
        f"{part!r} again and again: {min(growths):.1f} times the time for twice the text"
    )


def _seconds(read: Callable[[str], object], text: str) -> float:
    """Processor seconds of one reading, without those of a collection of all objects of the tests."""
    gc.disable()
    try:
        start = time.process_time()
        read(text)
        return time.process_time() - start
    finally:
        gc.enable()
