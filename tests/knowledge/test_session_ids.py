"""Who is meant: every mix of sources for every id, and what an id may be, wherever it comes from."""

from __future__ import annotations

import itertools
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.config import Settings
from memory_server.kernel.errors import InvalidInput
from memory_server.knowledge.sessions.ids import (
    FIELDS,
    SOURCES,
    Begun,
    Identity,
    RequestInfo,
    Source,
    from_headers,
    named,
    resolve,
)

NAMES: dict[Source, str] = {"argument": "a", "header": "h", "session": "s", "setting": "d"}
MIXES = [
    *itertools.chain.from_iterable(itertools.combinations(SOURCES, count) for count in range(5))
]


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("mix", MIXES, ids=["+".join(mix) or "none" for mix in MIXES])
def test_an_id_comes_from_the_first_source_that_has_it(field: str, mix: tuple[Source, ...]) -> None:
    sources: dict[Source, Identity] = {
        source: named(**{field: NAMES[source] if source in mix else None}) for source in SOURCES
    }
    if field == "user_id" and not mix:
        with pytest.raises(InvalidInput, match="No user is named"):
            resolve(sources)
        return
    if field != "user_id":
        sources["setting"] = named(
            "default_user", **{field: NAMES["setting"] if "setting" in mix else None}
        )
    caller = resolve(sources)
    assert getattr(caller, field) == (NAMES[mix[0]] if mix else None)
    assert caller.sources.get(field) == (mix[0] if mix else None)


@given(
    st.dictionaries(
        st.sampled_from(SOURCES),
        st.builds(
            named,
            *(st.sampled_from([None, "alice", "bob", "*"][: 4 if n else 3]) for n in range(3)),
        ),
    )
)
def test_nobody_inherits_the_agent_or_run_of_another_user(sources: dict[Source, Identity]) -> None:
    if not any(source_before.user_id for source_before in sources.values()):
        return
    caller = resolve(sources)
    for name, source in caller.sources.items():
        assert sources[source].user_id in (None, caller.user_id)
        assert getattr(caller, name) in (getattr(sources[source], name), None)
        earlier = [
            source_before
            for source_before in SOURCES[: SOURCES.index(source)]
            if source_before in sources
        ]
        assert not any(
            getattr(sources[source_before], name)
            for source_before in earlier
            if sources[source_before].user_id in (None, caller.user_id)
        )


@given(
    *[
        st.builds(named, *(st.sampled_from([None, "alice", "bob"]) for _ in FIELDS))
        for _ in range(2)
    ]
)
def test_headers_of_a_session_count_where_a_request_names_no_other_user(
    request: Identity, first: Identity
) -> None:
    ids = RequestInfo(headers=request, begun=Begun(headers=first)).header_ids
    if request.user_id not in (None, first.user_id):
        assert ids == request
        return
    for name in FIELDS:
        assert getattr(ids, name) == (getattr(request, name) or getattr(first, name))


@pytest.mark.parametrize("name", FIELDS)
@pytest.mark.parametrize("blank", ["", " ", "\t", "\u3000"])
def test_a_blank_id_is_refused_whatever_its_source(name: str, blank: str) -> None:
    sentence = f"The {name} is empty; give a name, or leave it out."
    header = f"X-Memory-{name.replace('_', '-')}"
    with pytest.raises(InvalidInput, match=sentence):
        named(**{name: blank})
    for value in (quote(blank), blank.strip()):
        with pytest.raises(InvalidInput, match=sentence):
            from_headers([(header, value)])
    with pytest.raises((InvalidInput, ValueError)):
        Settings.model_validate({"sessions": {name: blank}})


def test_a_user_is_required_where_the_settings_say_so() -> None:
    sources: dict[Source, Identity] = {"setting": named("default_user")}
    assert resolve(sources).user_id == "default_user"
    with pytest.raises(InvalidInput, match="No user is named; give user_id"):
        resolve(sources, require_user=True)
    assert resolve(sources | {"session": named("alice")}, require_user=True).user_id == "alice"


def test_a_star_is_for_reading_only() -> None:
    sources: dict[Source, Identity] = {
        "argument": named("alice", "*"),
        "setting": named("alice", "coder"),
    }
    caller = resolve(sources)
    assert (caller.agent_id, caller.sources["agent_id"]) == (None, "argument")
    with pytest.raises(InvalidInput, match=r"`\*` as agent_id is for reading only"):
        resolve(sources, changes=True)
    only_a_star: dict[Source, Identity] = {"argument": named("alice", "coder", "*")}
    assert resolve(only_a_star).run_id is None
    with pytest.raises(InvalidInput, match=r"`\*` as run_id is for reading only"):
        resolve(only_a_star, changes=True)


USABLE = ["alice", "小明", "a b", "a" * 100, "👨‍👩‍👧", "1️⃣ 号", "用户-1@example.org", "é"]
WRONG: list[tuple[str, str]] = [
    ("a" * 101, "101 characters; use at most 100"),
    ("a\nb", "cannot be seen"),
    ("a\u200bb", "cannot be seen"),
    ("a\u202eb", "cannot be seen"),
    ("\ud83d", "cannot be seen"),
    (" ", "is empty"),
    ("alice ", "spaces around it"),
    ("a\x00", "cannot be seen"),
    ("ali\u200dce", "cannot be seen"),
    ("a\u00a0b", "cannot be seen"),
    ("小\u3000明", "cannot be seen"),
    ("a\u2800", "cannot be seen"),
    ("a\ufe0f", "cannot be seen"),
    ("*", "`*` is not a user"),
]


@pytest.mark.parametrize("text", USABLE)
def test_one_rule_holds_for_ids_of_all_sources(text: str) -> None:
    assert named(text).user_id == text
    assert from_headers([("X-Memory-User-ID", quote(text))]).user_id == text
    assert Settings.model_validate({"sessions": {"user_id": text}}).sessions.user_id == text


@pytest.mark.parametrize(("text", "reason"), WRONG)
def test_an_id_that_cannot_be_used_is_refused_by_all_sources(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as failure:
        named(text)
    assert reason in str(failure.value)
    with pytest.raises(ValueError, match="user_id"):
        Settings.model_validate({"sessions": {"user_id": text}})
    if "\ud83d" not in text:
        with pytest.raises(InvalidInput) as failure:
            from_headers([("x-memory-user-id", quote(text))])
        assert reason in str(failure.value)


def test_two_spellings_of_a_name_are_one_user() -> None:
    assert named("e\u0301").user_id == "é"


HEADERS: list[tuple[list[tuple[str, str]], Identity | str]] = [
    ([], Identity()),
    ([("Host", "x"), ("X-Memory-User-ID", "alice")], named("alice")),
    ([("x-memory-user-id", "%E5%B0%8F%E6%98%8E"), ("X-MEMORY-AGENT-ID", "*")], named("小明", "*")),
    ([("X-Memory-User-ID", "小明".encode().decode("latin-1"))], named("小明")),
    ([("X-Memory-User-ID", "小明")], named("小明")),
    ([("X-Memory-Run-ID", "")], "The run_id is empty"),
    ([("X-Memory-Session-Metadata", "")], "is not a JSON object"),
    ([("X-Memory-Session-Metadata", '{"a": [1]}')], named(metadata={"a": [1]})),
    ([("X-Memory-Session-Metadata", "%7B%7D")], Identity()),
    ([("X-Memory-User-ID", "%FF")], "x-memory-user-id is not UTF-8"),
    ([("X-Memory-User-ID", "\xff")], "x-memory-user-id is not UTF-8"),
    ([("X-Memory-User-ID", "a"), ("x-memory-user-id", "b")], "comes twice"),
    ([("X-Memory-User-ID", "a%0Ab")], "cannot be seen"),
    ([("X-Memory-Session-Metadata", "{")], "is not a JSON object"),
    ([("X-Memory-Session-Metadata", "[1]")], "is not a JSON object"),
    ([("X-Memory-Session-Metadata", "[" * 4000)], "is not a JSON object"),
    ([("X-Memory-Session-Metadata", '{"a": "' + "x" * 4096 + '"}')], "more than 4,096 characters"),
]


@pytest.mark.parametrize(("headers", "meant"), HEADERS)
def test_headers(headers: list[tuple[str, str]], meant: Any) -> None:
    if isinstance(meant, Identity):
        assert from_headers(headers) == meant
    else:
        with pytest.raises(InvalidInput, match=meant):
            from_headers(headers)
