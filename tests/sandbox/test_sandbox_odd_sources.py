"""The property: no trigger source, however odd, makes `evaluate` raise or changes the verdict beside it."""

from __future__ import annotations

from typing import Any

import pytest
from attacks.driver import NOW, Driver, outcome
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sandbox import PatternError

PIECES = st.sampled_from(
    [
        "(",
        ")",
        "{",
        "}",
        "[",
        "]",
        "`",
        "'",
        '"',
        "/",
        "*",
        "//",
        "/*",
        "*/",
        ";",
        ",",
        ".",
        "...",
        "?.",
        "=>",
        "=",
        "==",
        "await",
        "async",
        "function*",
        "yield",
        "return",
        "throw",
        "new",
        "class",
        "extends",
        "super",
        "this",
        "context",
        "args",
        "match_keys",
        "Promise",
        "eval",
        "if",
        "else",
        "for",
        "while",
        "do",
        "try",
        "catch",
        "finally",
        "let",
        "const",
        "var",
        "in",
        "of",
        "typeof",
        "void",
        "delete",
        "0",
        "1n",
        "'a'",
        "/a/g",
        "`${",
        "\\u0061",
        "�",
        "\x00",
        "\u2028",
        "生日",
        "🎂",
        "import",
        "export",
        "static",
        "get",
        "set",
        "#x",
        "@",
        "--",
        "++",
        "**",
        "??",
        "||",
    ]
)
ANY_TEXT = st.text(max_size=80)
NO_TEXT = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.binary(max_size=3)
    | st.lists(st.text(max_size=2), max_size=2)
)
LIKE_CODE = st.lists(PIECES, max_size=25).map(" ".join)
BEHEADED = st.builds(
    lambda source, start, end: source[start:end],
    st.just(
        "let s = 0; for (const m of context.messages) { s += `${m.content}`.length } return s > 1 || await /x/.test(s)"
    ),
    st.integers(0, 60),
    st.integers(20, 110),
)
HUNGRY = "const a = []; for (;;) a.push({})"
LATIN_1 = st.binary(max_size=40).map(lambda data: data.decode("latin-1"))
ANY_SOURCE = ANY_TEXT | LIKE_CODE | BEHEADED | LATIN_1 | NO_TEXT
QUIETLY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@QUIETLY
@given(st.lists(ANY_SOURCE, max_size=8))
def test_no_source_makes_a_search_raise(driver: Driver, sources: list[Any]) -> None:
    if not driver.sandbox.record_of(HUNGRY).total:
        driver.evaluate(HUNGRY)  # once one has a record, all sources are looked up
    assert driver.sandbox.record_of(HUNGRY).total
    triggers: list[Any] = []
    for source in sources:
        triggers.extend((source, "1", "0"))
    verdicts = driver.evaluate(*triggers)
    assert len(verdicts) == len(triggers)
    assert [outcome(verdict) for verdict in verdicts[1::3]] == ["fired"] * len(sources)
    assert [outcome(verdict) for verdict in verdicts[2::3]] == ["quiet"] * len(sources)


@QUIETLY
@given(ANY_TEXT | LIKE_CODE)
def test_no_source_makes_a_check_raise(driver: Driver, source: str) -> None:
    report = driver.run(driver.sandbox.check(source, now=NOW, seed=1))
    for problem in (*report.errors, *report.warnings):
        assert problem.message


@QUIETLY
@given(st.text(max_size=30))
def test_any_pattern_answers_or_is_refused_in_words(driver: Driver, pattern: str) -> None:
    refusal = ""
    matches: tuple[bool, ...] = ()
    try:
        matches = driver.run(driver.sandbox.match_texts(pattern, ["a", pattern]))
    except PatternError as error:
        refusal = str(error)
    assert refusal or len(matches) == 2, "a refusal has a reason"
    assert refusal or pattern.startswith("/") or matches[1], "a word is found in itself"


@pytest.mark.parametrize("odd", [7, None, b"1", ["1"], {"a": 1}])
def test_what_is_no_text_is_refused_also_where_harm_is_remembered(driver: Driver, odd: Any) -> None:
    driver.evaluate(HUNGRY)
    assert driver.sandbox.record_of(HUNGRY).total
    assert [outcome(verdict) for verdict in driver.evaluate("1", odd)] == ["fired", "syntax"]
    (problem,) = driver.run(driver.sandbox.check(odd, now=NOW, seed=1)).errors
    assert problem.kind == "syntax"
    assert driver.sandbox.record_of(odd).total == 0


def test_a_context_that_holds_itself_or_is_too_deep_is_refused_in_words(driver: Driver) -> None:
    ring: dict[str, Any] = {}
    ring["ring"] = ring
    deep: list[Any] = []
    for _ in range(200_000):  # deeper than any Python goes: 3.13 alone writes 3,000 levels
        deep = [deep]
    for wrong in (ring, deep):
        with pytest.raises(ValueError, match="nested too deeply"):
            driver.evaluate("1", odd=wrong)
