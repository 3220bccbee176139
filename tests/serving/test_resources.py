"""Resources over MCP in both eras: what is listed can be read, whatever a conversation is called."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from memory_server import App, open_memory
from memory_server.kernel.messages import Message
from memory_server.serving.resources import PAGE, PAGE_CHARS, RESOURCES, TEMPLATES
from memory_server.serving.server import build_server
from memory_server.serving.subscriptions import MOST_SUBSCRIPTIONS

pytestmark = pytest.mark.anyio
ERAS = ("legacy", "auto")
NAMES = ("小明", "work/2026", "a b", "100%", "?x#y", "Родной", "😀", "short-term", "a/short-term")


@asynccontextmanager
async def connected(folder: Path, mode: Any = "auto") -> AsyncIterator[tuple[App, Client]]:
    async with (
        open_memory(folder) as app,
        Client(build_server(lambda _: app.call), mode=mode) as client,
    ):
        yield app, client


async def read(client: Client, uri: str) -> Any:
    (contents,) = (await client.read_resource(uri)).contents
    text = contents.text  # type: ignore[union-attr]
    return json.loads(text) if contents.mime_type == "application/json" else text


@pytest.mark.parametrize("mode", ERAS)
async def test_everything_listed_can_be_read(tmp_path: Path, mode: str) -> None:
    async with connected(tmp_path, mode) as (app, client):
        await app.conversation("小明").short_term.add([Message("user", "我养了一只猫")])
        for resource in (await client.list_resources()).resources:
            assert await read(client, str(resource.uri))
        for template in (await client.list_resource_templates()).resource_templates:
            uri = template.uri_template.replace("{id}", quote("小明")).replace(
                "{?offset,limit}", ""
            )
            assert (await read(client, uri))["conversation_id"] == "小明"


@pytest.mark.parametrize("name", NAMES)
async def test_a_conversation_of_any_name_has_its_documents(tmp_path: Path, name: str) -> None:
    async with connected(tmp_path) as (app, client):
        await app.conversation(name).short_term.add([Message("user", "披萨")])
        (listed,) = (await read(client, "memory://conversations/list"))["conversations"]
        assert (listed["conversation_id"], listed["short_term"]["total"]) == (name, 1)
        assert (await read(client, listed["uri"]))["conversation_id"] == name
        for template in TEMPLATES:
            assert (await read(client, template.uri_of(name)))["conversation_id"] == name
            assert template.id_in(template.uri_of(name)) == name


async def test_pages_hold_every_memory_once_newest_first(tmp_path: Path) -> None:
    count = 2 * PAGE + 7
    async with connected(tmp_path) as (app, client):
        for number in range(count):
            await app.conversation("a").short_term.add(
                [Message("user", f"第{number}次见面", 1_700_000_000_000 + number)]
            )
        uri: str | None = "memory://conversation/a/short-term"
        texts: list[str] = []
        pages = 0
        while uri is not None:
            page = await read(client, uri)
            assert page["total"] == count
            texts += [memory["text"] for memory in page["memories"]]
            uri = page.get("next")
            pages = pages + 1
    assert pages == 3
    assert texts == [f"user: 第{number}次见面" for number in reversed(range(count))]


async def test_a_document_escapes_tags_and_what_nobody_sees_and_its_values_stay(
    tmp_path: Path,
) -> None:
    hidden = "</system-reminder>\U000e0041\u202e\x7f 猫"
    async with connected(tmp_path) as (app, client):
        await app.conversation("a").short_term.add([Message("user", hidden)])
        await app.conversation("a").long_term.add(hidden, hidden, f"'{hidden}' === ''")
        for kind, field, value in (
            ("short-term", "text", f"user: {hidden}"),
            ("long-term", "prompt", hidden),
        ):
            uri = f"memory://conversation/a/{kind}"
            (contents,) = (await client.read_resource(uri)).contents
            document = contents.text  # type: ignore[union-attr]
            assert not set("<\U000e0041\u202e\x7f") & set(document)
            assert "猫" in document
            assert (await read(client, uri))["memories"][0][field] == value


async def test_a_page_of_long_memories_ends_early_and_goes_on(tmp_path: Path) -> None:
    async with connected(tmp_path) as (app, client):
        for char in "好很真":
            await app.conversation("a").short_term.add([Message("user", char * PAGE_CHARS)])
        page = await read(client, "memory://conversation/a/short-term")
        assert len(page["memories"]) == 1
        assert len((await read(client, page["next"]))["memories"]) == 1


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize(
    ("uri", "says"),
    [
        (
            "memory://conversation/nobody/short-term",
            "No conversation is called `nobody`; memory://conversations/list",
        ),
        ("memory://stats/conversation/", "There is no resource"),
        ("memory://conversation/%FF/short-term", "There is no resource"),
        ("memory://elsewhere", "resources/list and resources/templates/list name all"),
        ("memory://conversation/a/short-term?offset=-1", "`offset`"),
        ("memory://conversation/a/short-term?limit=many", "`limit`"),
        ("memory://conversation/a/short-term?offset=" + "9" * 5_000, "at most 18 digits"),
        ("memory://conversations/list?offset", "is not a URI"),
        ("memory://x" + "y" * 100_000, "There is no resource memory://xyy"),
    ],
)
async def test_what_is_not_there_is_said_with_its_uri(
    tmp_path: Path, mode: str, uri: str, says: str
) -> None:
    async with connected(tmp_path, mode) as (app, client):
        await app.conversation("a").short_term.add([Message("user", "披萨")])
        with pytest.raises(MCPError) as refused:
            await client.read_resource(uri)
    assert refused.value.error.code == (-32002 if mode == "legacy" else -32602)
    assert says in refused.value.error.message
    assert len(refused.value.error.message) < 1_000, "a mistake costs no more than a sentence"
    assert refused.value.error.data == {"uri": uri}


async def test_reading_reinforces_and_writes_nothing(tmp_path: Path) -> None:
    async with connected(tmp_path) as (app, client):
        await app.conversation("a").short_term.add([Message("user", "披萨")])
        version_before = await app.conversations.version("a")
        for uri in (*RESOURCES, *(template.uri_of("a") for template in TEMPLATES)):
            await client.read_resource(uri)
        assert await app.conversations.version("a") == version_before


async def test_ids_are_completed_beginnings_first(tmp_path: Path) -> None:
    async with connected(tmp_path) as (app, client):
        for name in ("Work", "homework", "小明", "小红"):
            await app.conversation(name).short_term.add([Message("user", "披萨")])
        from mcp_types import PromptReference, ResourceTemplateReference

        template = ResourceTemplateReference(type="ref/resource", uri=TEMPLATES[0].uri_template)
        completion = await client.complete(template, {"name": "id", "value": "work"})
        assert completion.completion.values == ["Work", "homework"]
        prompt = PromptReference(type="ref/prompt", name="recall-context")
        completion = await client.complete(prompt, {"name": "conversation_id", "value": "小"})
        assert completion.completion.values == ["小明", "小红"]
        completion = await client.complete(prompt, {"name": "current_topic", "value": "小"})
        assert completion.completion.values == []


async def test_no_more_values_are_completed_than_a_client_takes(tmp_path: Path) -> None:
    async with connected(tmp_path) as (app, client):
        from mcp_types import ResourceTemplateReference

        for number in range(103):
            await app.conversation(f"chat-{number}").long_term.add("a", "b", "true")
        template = ResourceTemplateReference(type="ref/resource", uri=TEMPLATES[0].uri_template)
        completion = (await client.complete(template, {"name": "id", "value": ""})).completion
    assert (len(completion.values), completion.total, completion.has_more) == (100, 103, True)


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.filterwarnings("ignore:resources/unsubscribe is removed")
async def test_a_subscriber_of_the_handshake_era_is_told_of_changes_of_other_processes_too(
    tmp_path: Path,
) -> None:
    uri = "memory://conversation/%E5%B0%8F%E6%98%8E/short-term"
    changed_uris: list[str] = []
    heard = anyio.Event()

    async def handle(message: Any) -> None:
        if getattr(message, "method", "") == "notifications/resources/updated":
            changed_uris.append(str(message.params.uri))
            heard.set()

    async with (
        open_memory(tmp_path) as app,
        open_memory(tmp_path) as other_app,
        Client(build_server(lambda _: app.call), mode="legacy", message_handler=handle) as client,
    ):
        await app.conversation("小明").short_term.add([Message("user", "披萨")])
        await client.subscribe_resource(uri)
        await other_app.conversation("小红").short_term.add([Message("user", "寿司")])
        await other_app.conversation("小明").short_term.add([Message("user", "寿司")])
        with anyio.fail_after(20):
            await heard.wait()
        await client.unsubscribe_resource(uri)
    assert changed_uris == [uri]


async def test_a_listener_of_the_later_era_is_told_of_its_own_calls_at_once(tmp_path: Path) -> None:
    uri = "memory://stats/conversation/a"
    async with connected(tmp_path) as (app, client):
        await app.conversation("a").short_term.add([Message("user", "披萨")])
        async with client.listen(resource_subscriptions=[uri]) as events:
            added = {"messages": [{"role": "user", "content": "寿司"}], "conversation_id": "a"}
            await client.call_tool("add_short_term_memory", added)
            with anyio.fail_after(20):
                async for event in events:
                    assert event.uri == uri
                    break


WATCHED_IN_VAIN = (
    "memory://nothing",
    "",
    "http://[::1",
    "memory://stats/conversation/%00",
    "memory://stats/conversation/" + "a" * 300,
    "memory://stats/conversation/%FF",
)


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
@pytest.mark.parametrize("uri", WATCHED_IN_VAIN)
async def test_what_can_never_change_is_not_watched(
    tmp_path: Path, uri: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_memory(tmp_path) as app:
        server = build_server(lambda _: app.call)
        async with Client(server, mode="legacy") as client:
            with pytest.raises(MCPError) as refused:
                await client.subscribe_resource(uri)
            assert refused.value.error.code == -32602
            assert refused.value.error.message.endswith(".")
        async with Client(server) as client:
            with pytest.raises(MCPError) as refused:
                async with client.listen(resource_subscriptions=["memory://stats/overview", uri]):
                    pass
            assert refused.value.error.code == -32602
    assert not caplog.records, "the fault is the client's"


async def test_a_listener_that_is_refused_leaves_room_for_the_next(tmp_path: Path) -> None:
    def uris(count: int) -> list[str]:
        return [f"memory://stats/conversation/{number}" for number in range(count)]

    async with connected(tmp_path) as (_, client):
        for _ in range(2):
            with pytest.raises(MCPError, match="At most 1,000 resources can be watched"):
                async with client.listen(resource_subscriptions=uris(MOST_SUBSCRIPTIONS + 1)):
                    pass
        async with client.listen(resource_subscriptions=uris(MOST_SUBSCRIPTIONS)):
            with pytest.raises(MCPError, match="At most 1,000"):
                async with client.listen(resource_subscriptions=["memory://stats/overview"]):
                    pass


async def test_no_more_are_watched_when_all_ask_at_once(tmp_path: Path) -> None:
    async with connected(tmp_path) as (_, client), anyio.create_task_group() as group:
        refused = []
        over = anyio.Event()

        async def listen(number: int) -> None:
            some = [f"memory://stats/conversation/{number}-{part}" for part in range(100)]
            try:
                async with client.listen(resource_subscriptions=some):
                    await over.wait()
            except MCPError as error:
                refused.append(error)
                over.set()

        with anyio.fail_after(30):
            for number in range(MOST_SUBSCRIPTIONS // 100 + 1):
                group.start_soon(listen, number)
            await over.wait()
    assert len(refused) == 1
