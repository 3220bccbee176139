"""`check --fix`: nothing else is changed, one run is enough, and the trigger then does what was meant."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from attacks.driver import Driver, outcome
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox import Limits, cli
from sandbox.workbench.lint.linting import mended

NOW = datetime(2026, 7, 17, tzinfo=UTC)
WRONG = "// 备注\r\nmatch_keys(context.messages, '生日', 'User') > 0 // 好\r\n"
RIGHT = "// 备注\r\nmatch_keys(context.messages, ['生日'], 'user') > 0 // 好\r\n"


@pytest.fixture(scope="module")
def driver() -> Iterator[Driver]:
    made = Driver(Limits(), workers=1, timezone="UTC")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("mark", "codec", "options"),
    [
        (b"", "utf-8", []),
        (codecs.BOM_UTF8, "utf-8", []),
        (codecs.BOM_UTF8, "utf-8", ["--encoding", "utf-8"]),
        (b"", "gbk", ["--encoding", "gbk"]),
        (b"", "gb18030", ["--encoding", "gb18030"]),
        (codecs.BOM_UTF16_LE, "utf-16-le", []),
        (codecs.BOM_UTF16_BE, "utf-16-be", []),
        (codecs.BOM_UTF32_LE, "utf-32-le", []),
        (codecs.BOM_UTF16_LE, "utf-16-le", ["--encoding", "utf-16"]),
    ],
)
@pytest.mark.parametrize("end", ["\r\n", ""])
def test_a_fix_keeps_encoding_mark_and_line_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], mark: bytes, codec: str, options: list[str], end: str
) -> None:
    path = tmp_path / "a.js"
    wrong, right = (text.replace("\r\n", end) if end else text.rstrip() for text in (WRONG, RIGHT))
    path.write_bytes(mark + wrong.encode(codec))
    assert cli.main(["check", "--fix", *options, str(path)]) == 0
    assert path.read_bytes() == mark + right.encode(codec)
    assert f"{path}: fixed 2 findings" in capsys.readouterr().out


def test_a_fix_keeps_permissions_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "a.js", tmp_path / "b.js"
    path.write_bytes(WRONG.encode())
    path.chmod(0o640)
    link.symlink_to(path.name)
    assert cli.main(["check", "--fix", str(link)]) == 0
    assert (link.is_symlink(), stat.S_IMODE(path.stat().st_mode), path.read_bytes()) == (True, 0o640, RIGHT.encode())
    assert sorted(os.listdir(tmp_path)) == ["a.js", "b.js"]


def test_what_cannot_be_written_back_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a.js"
    content = "match_keys(context.messages, 'a') // ".encode("utf-7") + b"+AGE-"  # an `a` that nobody had to write so
    path.write_bytes(content)
    assert cli.main(["check", "--fix", "--encoding", "utf-7", str(path)]) == 2
    assert path.read_bytes() == content
    said = f"trigger-sandbox: {path} cannot be written back as it was read; save it as UTF-8 and try again\n"
    assert capsys.readouterr().err == said


def test_a_pack_is_not_changed_and_it_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "p.json"
    text = '[{"name": "n", "prompt": "p", "trigger": "match_keys(args, \'a\')"}]'
    path.write_text(text, "utf-8")
    assert cli.main(["check", "--fix", str(path)]) == 1
    assert path.read_text("utf-8") == text
    assert f"{path}: --fix does not change packs; one finding in it would be fixed" in capsys.readouterr().out


def test_standard_input_cannot_be_fixed(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "--fix", "-"]) == 2
    assert "--fix cannot change standard input" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("match_keys('生日')", "match_keys(context.messages, ['生日'])"),
        ("match_keys(['生日'], 'user', 2)", "match_keys(context.messages, ['生日'], 'user', 2)"),
        ("match_keys('生日', context.messages)", "match_keys(context.messages, ['生日'])"),
        ("match_keys(['', 'User'], args, ' User')", "match_keys(args, ['User'], 'user')"),
        ("match_keys(args, /a,b/i)", "match_keys(args, [/a,b/i])"),
        ("match_keys(args, ['', '', 'a'])", "match_keys(args, ['a'])"),
        ("match_keys(args, ['a', /* why */ 'a'])", None),  # the remark would go with it
        ("match_keys(args, [2026, 'a', 2026])", "match_keys(args, ['2026', 'a'])"),
        ("match_keys(args, '生日,生辰')", None),
        ("match_keys(args, '生日、生辰')", None),
        ("match_keys(args, '生日|生辰')", None),
        ("match_keys(args, 'happy birthday')", None),
        ("match_keys(args, '/生日/')", None),
        ("match_keys(args, 'a.*b')", None),
        ("match_keys(args, '')", None),
        ("match_keys(args, keys); var keys = '生日'", None),
        ("match_keys(args, ['a'], 'usr')", None),
        ("match_keys(args, ['a'], 'human')", None),
        (
            "let d = 1\nif (d /* = */ = 6) return true\nreturn false",
            "let d = 1\nif (d /* = */ === 6) return true\nreturn false",
        ),
        ("let hit\nif (args) { hit = true } else { hit = false }", None),
        ("let d = 1\nargs && (d = 6)", None),
        ("match_keys(args, '生日') // trigger-lint-disable-line", None),
    ],
)
def test_one_run_fixes_what_is_certain(wrong: str, right: str | None) -> None:
    fixed, count = mended(wrong, NOW)
    assert (fixed, count > 0) == (right if right is not None else wrong, right is not None)
    assert mended(fixed, NOW) == (fixed, 0)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "match_keys(args, '生日,生辰')",
            "the keys must be a list: ['生日', '生辰'] for 2 keys, or ['生日,生辰'] for one",
        ),
        ("match_keys(args, ['a'], 'human')", "no scope 'human'; did you mean 'user'?"),
    ],
)
def test_what_is_not_certain_is_suggested(capsys: pytest.CaptureFixture[str], source: str, said: str) -> None:
    cli.main(["check", "-e", source])
    assert said in capsys.readouterr().out


# Each fault beside what was meant: a fix must come to the verdict of that.
KEY = st.sampled_from(["'生日'", "/birth(day)?/i", "'2026'", "'cake'", "'nobody'"])
SCOPE = st.sampled_from(
    [("", ""), (", 'user'", ", 'User'"), (", 'any'", ", 'ANY '"), (", 'assistant'", ", 'Assistant'")]
)
MESSAGES = st.sampled_from(["context.messages", "args"])
CONTEXT = {
    "messages": [
        {"role": "user", "content": "今天是我的生日 2026"},
        {"role": "assistant", "content": "Happy birthday! Cake?"},
    ],
    "conversation_id": "c",
    "participants": {},
}


@st.composite
def calls(draw: st.DrawFn) -> tuple[str, str]:
    """A call of match_keys as it was meant, and with faults whose fix is certain."""
    keys = draw(st.lists(KEY, min_size=1, max_size=3, unique=True))
    right_scope, wrong_scope = draw(SCOPE)
    messages = draw(MESSAGES)
    meant = f"match_keys({messages}, [{', '.join(keys)}]{right_scope})"
    written = list(keys)
    if len(keys) == 1 and draw(st.booleans()):
        listed = written[0]
    else:
        if draw(st.booleans()):
            written.append(keys[0])
        if draw(st.booleans()):
            written.insert(draw(st.integers(0, len(written))), "''")
        bare = draw(st.sampled_from(["'2026'", "2026"]))
        items = [bare if one == "'2026'" else one for one in written]
        listed = f"[{', '.join(items)}]"
    match draw(st.sampled_from(["right", "swapped", "missing"])):
        case "swapped":
            return meant, f"match_keys({listed}, {messages}{wrong_scope})"
        case "missing" if not right_scope:
            return meant.replace("(args,", "(context.messages,"), f"match_keys({listed})"
        case _:
            return meant, f"match_keys({messages}, {listed}{wrong_scope})"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(calls(), min_size=1, max_size=3),
    st.sampled_from([" > 0 && ", " > 1 || ", " < "]),
    st.sampled_from(["{}", "const found = {}\r\nfound", "if ({}) return true\nreturn false", "// 备注\n({})"]),
)
def test_a_fixed_trigger_compiles_and_does_what_was_meant(
    driver: Driver, found: list[tuple[str, str]], between: str, form: str
) -> None:
    meant, written = (form.replace("{}", between.join(pair[side] for pair in found)) for side in (0, 1))
    fixed, _ = mended(written, NOW)
    assert mended(fixed, NOW) == (fixed, 0)
    verdicts = driver.run(driver.sandbox.evaluate([meant, fixed], CONTEXT, now=NOW, seed=1))
    assert outcome(verdicts[0]) == outcome(verdicts[1]) != "failed", (written, fixed)
