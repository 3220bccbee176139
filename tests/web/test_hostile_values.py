"""Whatever stands in an address or a form, no page fails inside: each parameter and field gets hostile values."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

import pytest
from web_page import CHAT, FORM, SAME, Page, ask, opened, remember

from memory_server.conversations.changes import Added
from memory_server.conversations.model import ShortTermMemory
from memory_server.conversations.services import Done
from memory_server.kernel.messages import Message
from memory_server.kernel.times import FIRST_MS, LAST_MS
from memory_server.knowledge.sessions.ids import SessionIds
from memory_server.web.actions import ACTIONS
from memory_server.web.app import PAGES

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]

VALUES = (
    "",
    " ",
    "0",
    "-1",
    "1e9",
    "9" * 30,
    "9" * 5_000,
    "٣",
    "²",
    "NaN",
    "\x00",
    "a\nb",
    "\ud800".encode("utf-8", "surrogatepass").decode("latin-1"),
    "\u202e\ufffe",
    "../../etc/passwd",
    "<b>'\"&",
    "{{ 7 * 7 }}",
    "%s%n{0}{count}",
    "(",
    "[",
    "/(a+)+$/",
    "0001-01-01T00:00",
    "9999-12-31T23:59",
    "9999-12-31T23:59:59.999999-23:59",
    "0001-01-01T00:00+23:59",
    "2024-02-30T00:00",
    "20261127",
    "everywhere",
    "conversation:" + "a" * 300,
    "folder:/tmp",
    "Asia/Shanghai",
    "Etc/GMT-14",
    "memories",
    "notes",
    "layers/global",
    "sessions/alice",
    "you: hello\nthem: hi",
    "while (true",
    "芒果",
    "x" * 20_000,
)
PARAMETERS = (
    "c",
    "lang",
    "folder",
    "by",
    "word",
    "page",
    "q",
    "open",
    "id",
    "edit",
    "erase",
    "all",
    "shelf",
    "at",
)
PARAMETERS += ("again", "cleanup", "repair", "owner", "family", "part", "name", "done", "key")
FIELDS = (
    "id",
    "pinned",
    "in",
    "text",
    "before",
    "family",
    "place",
    "change",
    "name",
    "code",
    "prompt",
    "back",
)
FIELDS += ("backup", "resume", "chat", "at", "zone", "seed")
drawn_values = pytest.mark.parametrize("drawn", [1, pytest.param(8, marks=pytest.mark.full)])
"""How many values each parameter of each page, and each field of each form, gets."""


async def fill(folder: Path) -> None:
    """Store something of each family."""
    async with opened(folder, toolsets="all") as page:
        app = page.app
        await remember(app, "我对芒果过敏。", "芝麻是我的猫。", "芒果布丁端走了。")
        await app.conversation().long_term.add(
            "过敏", "先问", "match_keys(context.messages, ['芒果']) > 0"
        )
        await app.knowledge.notes.remember("tech", "fruit", "# Mangoes\n\ngrow on trees")
        await app.knowledge.sessions.add(SessionIds("alice"), "Likes tea", mode="direct")
        await ask(app, "芒果能吃吗？")


@pytest.fixture(scope="module")
def filled_folder(tmp_path_factory: pytest.TempPathFactory, elsewhere_together: None) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "data"
    asyncio.run(fill(folder))
    return folder


@pytest.fixture
async def page(tmp_path: Path, filled_folder: Path):
    """The page of a copy of the filled folder."""
    shutil.copytree(filled_folder, tmp_path / "data")
    async with opened(tmp_path / "data", toolsets="all") as page:
        yield page


def known_values(page: Page) -> Mapping[str, str]:
    """Values that lead further than a refusal."""
    [recall] = page.app.recalls.found()
    return {
        "c": CHAT,
        "q": "芒果",
        "open": recall.id,
        "id": recall.came[0].id,
        "name": "过敏",
        "word": "芒果",
    }


@drawn_values
async def test_no_parameter_of_an_address_fails_a_page(page: Page, drawn: int) -> None:
    rng = random.Random(20261127)
    usual = known_values(page)
    for path in PAGES:
        for parameter in PARAMETERS:
            for value in rng.sample(VALUES, drawn):
                answer = await page.client.get(path, params={**usual, parameter: value})
                assert answer.status_code < 500, (path, parameter, value[:60], answer.text[-400:])


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.full)])
async def test_no_value_in_all_parameters_fails_a_page(page: Page, step: int) -> None:
    """`step`: each page gets every third value, or every one."""
    for number, path in enumerate(PAGES):
        for value in VALUES[number % step :: step]:
            query = urlencode(dict.fromkeys(PARAMETERS, value[:2_000]) | {"c": CHAT})
            answer = await page.client.get(f"{path}?{query}")
            assert answer.status_code < 500, (path, value[:60], answer.text[-400:])


QUERIES = ("q=%ff%fe", "q=%ed%a0%80&c=%ff", "id=%00", "&&&=;", "%", "q=a&q=b&c=a&c=b", "c=%2e%2e")


async def test_no_bytes_of_an_address_fail_a_page(page: Page) -> None:
    for query in QUERIES:
        for path in PAGES:
            assert (await page.client.get(f"{path}?{query}")).status_code < 500, (path, query)


@drawn_values
async def test_no_field_of_a_form_fails_a_page(page: Page, drawn: int) -> None:
    rng = random.Random(20261127)
    usual = known_values(page)
    forms = [f"/do/{name}" for name in ACTIONS if name not in ("cleanup", "backup", "mend")]
    for path in (*forms, "/trigger"):
        for field in FIELDS:
            for value in rng.sample(VALUES, drawn):
                fields = {**usual, "code": "1", field: value}
                answer = await page.client.post(path, data=fields, headers={**SAME, **FORM})
                assert answer.status_code < 500, (path, field, value[:60], answer.text[-400:])


@pytest.mark.parametrize(
    "time_ms",
    [
        FIRST_MS,
        LAST_MS,
        *(
            pytest.param(time_ms, marks=pytest.mark.full)
            for time_ms in (FIRST_MS + 1, -1, 0, LAST_MS - 1)
        ),
    ],
)
async def test_a_memory_of_any_year_is_shown_on_each_page(page: Page, time_ms: int) -> None:
    messages = (Message("user", "芒果很远很远。", time_ms), Message("assistant", "好。", time_ms))
    far = ShortTermMemory(
        "f" * 16, time_ms, "user: 芒果很远很远。", ("芒果",), (9.0,), 0.0, CHAT, messages
    )
    await page.app._services.commit(CHAT, lambda _state: ([Added(far)], Done()), by="import")
    at = "2026-06-20T08:00:00.000Z"
    items = [{"id": far.id, "tier": "top", "relevance": 20.0, "counted": 20.0}]
    page.app.home.recalls.append(
        {"id": "a1", "at": at, "conversation": CHAT, "said": "芒果？", "came": items}
    )
    for language in ("en", "zh"):
        for path in PAGES:
            for more in (
                {},
                {"id": far.id},
                {"id": far.id, "q": "芒果"},
                {"open": "a1"},
                {"word": "芒果"},
            ):
                answer = await page.client.get(path, params={"lang": language, **more})
                assert answer.status_code in (200, 404), (path, more)
                assert len(answer.content) < 200_000, (path, more)
