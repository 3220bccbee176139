"""The provider for Hermes against a stub of its interface: whose a memory is, and one client for the whole process.

tests/hosts/test_hermes.py tries it in the real Hermes.
"""

from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hosts.adapters import hermes_provider, memory_of
from hosts.environments import DISTRIBUTION

from memory_server import App, Settings

pytestmark = pytest.mark.anyio
SECRET = "我的牙医叫林小满，在朝阳门"
ASK = "朝阳门那个牙医叫什么？"


@pytest.fixture
def adapter() -> Iterator[Any]:
    with hermes_provider() as module:
        yield module


@pytest.fixture
async def app(tmp_path: Path):
    async with App(Settings(data_dir=tmp_path / "data", timezone="UTC")) as app:
        yield app


@pytest.fixture
async def memory(adapter: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A memory in this process; the providers ask it from other threads, as Hermes makes them do."""
    memory = memory_of(app, adapter)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(adapter, "_client", lambda *_: (memory, loop))
    return memory


def provider(adapter: Any, tmp_path: Path, session: str = "s", **about: Any) -> Any:
    opened = adapter.MemoryServerProvider()
    opened.initialize(session, hermes_home=str(tmp_path), **{"platform": "cli", **about})
    return opened


async def tell(opened: Any, text: str = SECRET, answer: str = "好的。") -> None:
    await asyncio.to_thread(opened.sync_turn, text, answer, messages=[{}])


async def recall(opened: Any, text: str = ASK) -> str:
    return str(await asyncio.to_thread(opened.prefetch, text))


@pytest.mark.parametrize(
    ("about", "name"),
    [
        ({"platform": "cli"}, "hermes/local"),
        ({"platform": "cli", "agent_identity": "coder"}, "hermes/local/coder"),
        ({"platform": "cli", "agent_identity": "default"}, "hermes/local"),
        ({"platform": "api_server"}, ""),
        ({"platform": "api_server", "gateway_session_key": "alice"}, "hermes/api_server/chat/alice"),
        ({"platform": "api_server", "gateway_session_key": "a/b"}, "hermes/api_server/chat/a%2Fb"),
        ({"platform": "telegram", "user_id": "7", "chat_type": "dm", "thread_id": "1"}, "hermes/telegram/user/7"),
        ({"platform": "x", "user_id": "7", "chat_type": "group", "gateway_session_key": "g:1"}, "hermes/x/chat/g:1"),
        ({"platform": "telegram", "user_id": "7", "chat_type": "group"}, ""),
        ({"platform": "cron"}, ""),
    ],
)  # fmt: skip
def test_whose_a_session_is(adapter: Any, about: dict[str, Any], name: str) -> None:
    assert adapter.conversation_of(about) == name


def test_names_are_no_longer_than_the_server_allows(adapter: Any) -> None:
    names = {
        adapter.conversation_of({"platform": "x", "gateway_session_key": "猫" * n})
        for n in (300, 301)
    }
    assert len(names) == 2
    assert max(map(len, names)) <= 256


async def test_two_users_with_the_same_session_id_have_two_memories(
    adapter: Any, memory: Any, tmp_path: Path
) -> None:
    """The API server's session ids are hashes of the first message."""
    alice, bob = (
        provider(adapter, tmp_path, "same", platform="api_server", gateway_session_key=key)
        for key in ("alice", "bob")
    )
    await tell(alice)
    for user in (alice, bob):
        user.on_session_switch("other", reset=True)
    assert "林小满" in await recall(alice)
    assert await recall(bob) == ""


async def test_without_a_key_nothing_is_recalled_or_stored(
    adapter: Any, memory: Any, tmp_path: Path
) -> None:
    nobody = provider(adapter, tmp_path, platform="api_server")
    await tell(nobody)
    assert await recall(nobody) == ""
    assert memory.asked == []


async def test_the_speaker_of_a_shared_chat_stands_before_the_text(
    adapter: Any, memory: Any, app: App, tmp_path: Path
) -> None:
    shared = provider(
        adapter,
        tmp_path,
        platform="telegram",
        chat_type="group",
        user_name="小明",
        gateway_session_key="g",
    )
    await tell(shared, "[阿红] [小明] 我的牙医叫林小满")
    alone = provider(
        adapter, tmp_path, platform="telegram", chat_type="dm", user_id="7", user_name="小明"
    )
    await tell(alone, "[阿红] 我喜欢吃披萨")
    (in_group,) = await app.conversation(shared.conversation).short_term.memories()
    assert in_group.text.startswith("阿红: [小明] 我的牙医叫林小满\n")
    (in_private,) = await app.conversation(alone.conversation).short_term.memories()
    assert in_private.text.startswith("小明: [阿红] 我喜欢吃披萨\n")


async def test_a_turn_is_stored_once_and_the_session_is_that_of_the_last_switch(
    adapter: Any, memory: Any, app: App, tmp_path: Path
) -> None:
    local = provider(adapter, tmp_path)
    await tell(local)
    await tell(local)
    assert await recall(local) == ""  # it stands in this session
    assert len(await app.conversation("hermes/local").short_term.memories()) == 1
    local.on_session_switch("next", parent_session_id="s", reset=True, rewound=False)
    assert "林小满" in await recall(local)


async def test_what_a_subagent_does_is_not_stored(
    adapter: Any, memory: Any, tmp_path: Path
) -> None:
    await tell(provider(adapter, tmp_path, agent_context="subagent"))
    assert memory.asked == []


def test_all_providers_of_a_process_share_one_client(
    adapter: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What waits is tried for three seconds at the end, and nothing answers here.
    monkeypatch.setattr(adapter.MemoryClient.close, "__defaults__", (0.3,))
    adapter.MemoryServerProvider().save_config(
        {"command": "no-such-command-here", "token": "x", "y": 1}, str(tmp_path)
    )
    threads_before = threading.active_count()
    providers = [provider(adapter, tmp_path, str(number)) for number in range(20)]
    assert [one_provider.prefetch(ASK) for one_provider in providers] == [""] * 20
    assert threading.active_count() == threads_before + 1
    providers[0].sync_turn(SECRET, "好的。")
    providers[1].shutdown()


def test_the_folder_is_what_the_host_expects(adapter: Any) -> None:
    assert "MemoryProvider" in (DISTRIBUTION / "hermes" / "__init__.py").read_text("utf-8")[:8_192]
    about = (DISTRIBUTION / "hermes" / "plugin.yaml").read_text("utf-8")
    assert {line.partition(":")[0] for line in about.splitlines()} == {
        "name",
        "version",
        "description",
    }
    registered: list[Any] = []

    class Context:
        def register_memory_provider(self, new_provider: Any) -> None:
            registered.append(new_provider)

    adapter.register(Context())
    tools = [tool["name"] for tool in registered[0].get_tool_schemas()]
    assert (registered[0].name, registered[0].is_available(), tools) == (
        "memory_server",
        True,
        ["recall"],
    )
    assert [field["key"] for field in registered[0].get_config_schema() if field.get("secret")] == [
        "token"
    ]


RECITAL = "弹肖邦的夜曲，手一直抖，最后还是弹完了"


def tool_result(opened: Any, **arguments: Any) -> str:
    return str(json.loads(opened.handle_tool_call("recall", arguments))["result"])


async def test_the_model_recalls_once_more_with_words_of_its_own(
    adapter: Any, memory: Any, tmp_path: Path
) -> None:
    local = provider(adapter, tmp_path)
    await tell(local, RECITAL)
    local.on_session_switch("next", reset=True)
    assert await recall(local, "明天有点紧张。") == ""
    assert "Nothing came" in await asyncio.to_thread(
        tool_result, local, query="钥匙", otherWords=["雨伞"]
    )
    for words in (["肖邦", "夜曲"], "肖邦、夜曲"):
        assert "夜曲" in await asyncio.to_thread(tool_result, local, otherWords=words)
    assert "Nothing came" in await asyncio.to_thread(tool_result, local)
    searches = [arguments for tool, arguments in memory.asked if tool == "recall_turn"]
    for arguments in searches:
        assert {message["content"] for message in arguments["messages"]} == {"明天有点紧张。"}
    local.prefetch("")  # a message that is not searched for
    assert "夜曲" in await asyncio.to_thread(tool_result, local, query="肖邦的夜曲")
    assert memory.asked[-1][1]["messages"] == [{"role": "assistant", "content": "肖邦的夜曲"}]


@pytest.mark.parametrize(
    ("about", "settings", "offered"),
    [
        ({}, {}, True),
        ({}, {"recall_tool": "yes"}, True),
        ({}, {"recall_tool": " No "}, False),
        ({}, {"recall_tool": False}, False),
        ({"platform": "api_server"}, {}, False),
    ],
)
def test_the_tool_is_offered_only_where_there_is_a_memory_and_the_owner_wants_it(
    adapter: Any, tmp_path: Path, about: dict[str, str], settings: dict[str, Any], offered: bool
) -> None:
    (tmp_path / "memory_server.json").write_text(json.dumps(settings))
    opened = provider(adapter, tmp_path, **about)
    assert bool(opened.get_tool_schemas()) is offered


def test_the_tool_says_where_the_memory_cannot_be_asked(adapter: Any, tmp_path: Path) -> None:
    adapter.MemoryServerProvider().save_config({"command": "no-such-command-here"}, str(tmp_path))
    assert "cannot be asked" in tool_result(provider(adapter, tmp_path), otherWords=["猫"])


def test_settings_with_a_token_are_their_owners_only(adapter: Any, tmp_path: Path) -> None:
    usual_umask = os.umask(0o022)
    try:
        provider = adapter.MemoryServerProvider()
        for token in ("mst_a", "mst_b"):
            provider.save_config({"token": token, "unknown": "x"}, str(tmp_path))
            file = tmp_path / "memory_server.json"
            assert json.loads(file.read_text("utf-8")) == {"token": token}
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
        file.chmod(0o644)
        provider.save_config({"token": "mst_c"}, str(tmp_path))
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert [path.name for path in tmp_path.iterdir()] == ["memory_server.json"]
    finally:
        os.umask(usual_umask)
