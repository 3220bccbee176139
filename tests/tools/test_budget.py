"""Results within a number of bytes: pages, then shorter texts, then shorter lists; fields and text tell the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server import App
from memory_server.kernel.recalled_block import FOOT, HEAD, marked
from memory_server.tools import TOOLS
from memory_server.tools.base.result import LEAST_CHARS, Pagination, size, truncated
from memory_server.tools.base.tool import ToolFailed, call

BUDGET = 4_000
LEAST_BYTES = 2_000
"""The least that the setting `results.max_bytes` allows."""

TEXTS = st.text(max_size=40) | st.builds(
    lambda c, n: c * n, st.sampled_from('a中🎂"\n'), st.integers(0, 4_000)
)
ROWS = st.lists(st.fixed_dictionaries({"id": st.text(max_size=12), "text": TEXTS}), max_size=40)


@given(
    ROWS,
    st.lists(TEXTS, max_size=60),
    st.booleans(),
    st.integers(0, 45),
    st.sampled_from([(), ("中", "a")]),
)
def test_a_result_is_within_its_budget_and_says_so_where_it_was_not(
    rows: list[Any], more: list[str], paged: bool, offset: int, query_words: tuple[str, ...]
) -> None:
    fields = {"rows": rows, "more": more, "total": len(rows)}
    paging = Pagination("rows") if paged else None
    within, note = truncated(
        fields, BUDGET, paging, offset=offset if paged else 0, query_words=query_words
    )
    assert size(within) <= BUDGET
    shown = rows[offset:] if paged else rows
    if size(fields | {"rows": shown}) <= BUDGET:
        assert within == fields | {"rows": shown}
        assert note == ""
    else:
        assert within["truncated"] is True
        assert note
        assert within["total"] == len(rows)


@given(ROWS)
def test_the_pages_are_the_whole_list(rows: list[Any]) -> None:
    ids: list[Any] = []
    following: int | None = 0
    while following is not None:
        page = truncated({"rows": rows}, BUDGET, Pagination("rows"), offset=following)[0]
        ids += [row["id"] for row in page["rows"]]
        assert page.get("next", following + 1) > following, "every page goes on"
        following = page.get("next")
    assert ids == [row["id"] for row in rows]


def test_a_text_is_cut_between_characters_and_says_how_much_is_missing() -> None:
    text = "生日🎂" * 3_000
    cut = truncated({"text": text, "id": "x" * LEAST_CHARS}, BUDGET)[0]
    beginning, _, rest = cut["text"].partition("… (")
    assert text.startswith(beginning)
    assert rest == f"{len(text) - len(beginning):,} more characters)"
    assert cut["id"] == "x" * LEAST_CHARS
    assert size(cut) > BUDGET * 0.9, "no more is cut than must be"


def test_a_text_is_cut_around_the_first_word_that_it_holds() -> None:
    text = f"{'生日🎂' * 3_000}Zebra{'a' * 9_000}"
    cut = truncated(
        {"text": text, "other": "b" * 9_000}, BUDGET, query_words=("missing", "zebra", "a")
    )[0]
    assert cut["text"].startswith("…")
    assert "🎂Zebraaaa" in cut["text"]
    shown = cut["text"].rpartition("… (")[0].removeprefix("…")
    assert shown in text
    assert f"… ({len(text) - len(shown):,} more characters)" in cut["text"]
    assert cut["other"].startswith("bbb")
    assert BUDGET * 0.9 < size(cut) <= BUDGET
    at_the_end = truncated({"text": "a" * 9_000 + "zebra"}, BUDGET, query_words=("zebra",))[0][
        "text"
    ]
    assert "azebra… (" in at_the_end


def test_a_recalled_block_is_cut_inside_of_its_tags() -> None:
    cut = truncated(
        {"prompt": marked("生日🎂" * 3_000), "text": "x" * 9_000}, BUDGET, query_words=("日",)
    )[0]["prompt"]
    assert cut.startswith(f"{HEAD}生日🎂生日")
    assert cut.endswith(f" more characters){FOOT}")


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("tool", ["search_short_term_memories", "recall_turn", "search_memories"])
async def test_what_was_looked_for_in_a_memory_that_is_too_long_for_a_result_stays(
    app: App, tool: str
) -> None:
    content = f"{'今天天气真好。' * 3_000}芝麻怕打雷。{'我们出去走走。' * 3_000}"
    messages = [
        {"role": "user", "content": content},
        {"role": "user", "content": "芝麻", "timestamp": 1_700_000_000_000},
    ]
    await call(TOOLS["add_short_term_memory"], app.call, {"messages": messages})
    question = [{"role": "user", "content": "芝麻怎么了？"}]
    arguments = {
        "search_short_term_memories": {"recentMessages": question},
        "recall_turn": {"messages": question},
        "search_memories": {"query": "芝麻"},
    }[tool]
    answer = await call(TOOLS[tool], app.call, arguments, max_bytes=BUDGET)
    assert "芝麻怕打雷。" in str(answer.structured)
    assert size(answer.structured) <= BUDGET


async def test_long_prompts_come_in_pages_and_each_comes_once(app: App) -> None:
    long = "记得" * 5_000
    for number in range(6):
        long_term = {"name": f"memory {number}", "prompt": f"{number} {long}", "trigger": "true"}
        await call(TOOLS["add_long_term_memory"], app.call, long_term)
    names: list[str] = []
    arguments: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}
    while True:
        answer = await call(TOOLS["search_long_term_memories"], app.call, arguments)
        assert size(answer.structured) <= 40_000
        assert len(answer.text.encode()) <= 45_000
        for memory in answer.structured["activated"]:
            names.append(memory["name"])
            assert f"Fired - {memory['name']}: {memory['prompt'][:50]}" in answer.text
        assert "\n6 triggers of 6 fired." in answer.text
        if "next" not in answer.structured:
            break
        assert f"go on with offset={answer.structured['next']}." in answer.text
        arguments["offset"] = answer.structured["next"]
    assert sorted(names) == [f"memory {number}" for number in range(6)]
    with pytest.raises(ToolFailed, match="`offset` cannot be used"):
        await call(TOOLS["list_long_term_memories"], app.call, {"offset": -1})


async def test_a_page_of_history_that_is_too_long_goes_on_where_it_ended(app: App) -> None:
    for number in range(30):
        long_term = {"name": f"{number} " + "名" * 150, "prompt": "p", "trigger": "true"}
        await call(TOOLS["add_long_term_memory"], app.call, long_term)
    whole = (await call(TOOLS["get_history"], app.call, {"limit": 30})).structured["changes"]
    changes: list[Any] = []
    arguments: dict[str, Any] = {"limit": 30}
    while arguments.get("before", "") is not None:
        page = await call(TOOLS["get_history"], app.call, arguments, max_bytes=LEAST_BYTES * 2)
        assert page.structured.get("truncated") or "next" not in page.structured
        changes += page.structured["changes"]
        arguments["before"] = page.structured.get("next")
    assert changes == whole


async def test_one_change_of_very_many_memories_is_shown_with_as_many_as_fit(app: App) -> None:
    for number in range(40):
        message = {"role": "user", "content": f"{number} 我喜欢吃披萨"}
        await call(TOOLS["add_short_term_memory"], app.call, {"messages": [message]})
    await call(TOOLS["delete_short_term_memories"], app.call, {"pattern": "披萨"})
    page = await call(TOOLS["get_history"], app.call, {"limit": 1}, max_bytes=LEAST_BYTES)
    [change] = page.structured["changes"]
    assert change["changeId"].startswith("41-")
    assert 1 <= len(change["steps"]) < 40
    assert "Nothing was changed" not in page.text


async def test_what_came_back_is_counted_also_where_the_list_is_cut(app: App) -> None:
    for number in range(40):
        message = {"role": "user", "content": f"{number} 我喜欢吃披萨"}
        await call(TOOLS["add_short_term_memory"], app.call, {"messages": [message]})
    await call(TOOLS["delete_short_term_memories"], app.call, {"pattern": "披萨"})
    again = {"pattern": "披萨"}
    back = await call(
        TOOLS["restore_memories_from_archive"], app.call, again, max_bytes=LEAST_BYTES
    )
    assert len(back.structured["restored"]) < 40
    assert back.structured["restoredCount"] == 40
    assert "Brought back 40 memories" in back.text
