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
SECRET, ASK = "我的牙医叫林小满，在朝阳门", "朝阳门那个牙医叫什么？"


@pytest.fixture
def adapter() -> Iterator[Any]:
    with hermes_provider() as module:
        yield module


@pytest.fixture
async def app(tmp_path: Path):
    async with App(Settings(data_dir=tmp_path / "data", timezone="UTC")) as made:
        yield made


@pytest.fixture
async def memory(adapter: Any, app: App, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A memory in this process; the providers ask it from other threads, as Hermes makes them do."""
    made = memory_of(app, adapter)
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(adapter, "_client", lambda *_: (made, loop))
    return made


def provider(adapter: Any, tmp_path: Path, session: str = "s", **about: Any) -> Any:
    made = adapter.MemoryServerProvider()
    made.initialize(session, hermes_home=str(tmp_path), **{"platform": "cli", **about})
    return made


async def told(made: Any, text: str = SECRET, answer: str = "好的。") -> None:
    await asyncio.to_thread(made.sync_turn, text, answer, messages=[{}])


async def asked(made: Any, text: str = ASK) -> str:
    return str(await asyncio.to_thread(made.prefetch, text))


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
    names = {adapter.conversation_of({"platform": "x", "gateway_session_key": "猫" * n}) for n in (300, 301)}
    assert len(names) == 2
    assert max(map(len, names)) <= 256


async def test_two_users_with_the_same_session_id_have_two_memories(adapter: Any, memory: Any, tmp_path: Path) -> None:
    """The API server's session ids are hashes of the first message."""
    alice, bob = (
        provider(adapter, tmp_path, "same", platform="api_server", gateway_session_key=key) for key in ("alice", "bob")
    )
    await told(alice)
    for each in (alice, bob):
        each.on_session_switch("other", reset=True)
    assert "林小满" in await asked(alice)
    assert await asked(bob) == ""


async def test_without_a_key_nothing_is_recalled_or_stored(adapter: Any, memory: Any, tmp_path: Path) -> None:
    nobody = provider(adapter, tmp_path, platform="api_server")
    await told(nobody)
    assert await asked(nobody) == ""
    assert memory.asked == []


async def test_the_speaker_of_a_shared_chat_stands_before_the_text(
    adapter: Any, memory: Any, app: App, tmp_path: Path
) -> None:
    shared = provider(
        adapter, tmp_path, platform="telegram", chat_type="group", user_name="小明", gateway_session_key="g"
    )
    await told(shared, "[阿红] [小明] 我的牙医叫林小满")
    alone = provider(adapter, tmp_path, platform="telegram", chat_type="dm", user_id="7", user_name="小明")
    await told(alone, "[阿红] 我喜欢吃披萨")
    (kept,) = await app.conversation(shared.conversation).short_term.memories()
    assert kept.text.startswith("阿红: [小明] 我的牙医叫林小满\n")
    (kept,) = await app.conversation(alone.conversation).short_term.memories()
    assert kept.text.startswith("小明: [阿红] 我喜欢吃披萨\n")


async def test_a_turn_is_stored_once_and_the_session_is_that_of_the_last_switch(
    adapter: Any, memory: Any, app: App, tmp_path: Path
) -> None:
    made = provider(adapter, tmp_path)
    await told(made)
    await told(made)
    assert await asked(made) == ""  # it stands in this session
    assert len(await app.conversation("hermes/local").short_term.memories()) == 1
    made.on_session_switch("next", parent_session_id="s", reset=True, rewound=False)
    assert "林小满" in await asked(made)


async def test_what_a_subagent_does_is_not_stored(adapter: Any, memory: Any, tmp_path: Path) -> None:
    await told(provider(adapter, tmp_path, agent_context="subagent"))
    assert memory.asked == []


def test_all_providers_of_a_process_share_one_client(adapter: Any, tmp_path: Path) -> None:
    adapter.MemoryServerProvider().save_config({"command": "no-such-command-here", "token": "x", "y": 1}, str(tmp_path))
    before = threading.active_count()
    made = [provider(adapter, tmp_path, str(number)) for number in range(20)]
    assert [each.prefetch(ASK) for each in made] == [""] * 20
    assert threading.active_count() == before + 1
    made[0].sync_turn(SECRET, "好的。")
    made[1].shutdown()


def test_the_folder_is_what_the_host_expects(adapter: Any) -> None:
    assert "MemoryProvider" in (DISTRIBUTION / "hermes" / "__init__.py").read_text("utf-8")[:8_192]
    about = (DISTRIBUTION / "hermes" / "plugin.yaml").read_text("utf-8")
    assert {line.partition(":")[0] for line in about.splitlines()} == {"name", "version", "description"}
    registered: list[Any] = []

    class Context:
        def register_memory_provider(self, made: Any) -> None:
            registered.append(made)

    adapter.register(Context())
    tools = [tool["name"] for tool in registered[0].get_tool_schemas()]
    assert (registered[0].name, registered[0].is_available(), tools) == ("memory_server", True, ["recall"])
    assert [each["key"] for each in registered[0].get_config_schema() if each.get("secret")] == ["token"]


RECITAL = "弹肖邦的夜曲，手一直抖，最后还是弹完了"


def called(made: Any, **arguments: Any) -> str:
    return str(json.loads(made.handle_tool_call("recall", arguments))["result"])


async def test_the_model_recalls_once_more_with_words_of_its_own(adapter: Any, memory: Any, tmp_path: Path) -> None:
    made = provider(adapter, tmp_path)
    await told(made, RECITAL)
    made.on_session_switch("next", reset=True)
    assert await asked(made, "明天有点紧张。") == ""
    assert "Nothing came" in await asyncio.to_thread(called, made, query="钥匙", otherWords=["雨伞"])
    for words in (["肖邦", "夜曲"], "肖邦、夜曲"):
        assert "夜曲" in await asyncio.to_thread(called, made, otherWords=words)
    assert "Nothing came" in await asyncio.to_thread(called, made)
    searches = [given for tool, given in memory.asked if tool == "recall_turn"]
    assert {each["content"] for given in searches for each in given["messages"]} == {"明天有点紧张。"}
    made.prefetch("")  # a message that is not searched for
    assert "夜曲" in await asyncio.to_thread(called, made, query="肖邦的夜曲")
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
    made = provider(adapter, tmp_path, **about)
    assert bool(made.get_tool_schemas()) is offered


def test_the_tool_says_where_the_memory_cannot_be_asked(adapter: Any, tmp_path: Path) -> None:
    adapter.MemoryServerProvider().save_config({"command": "no-such-command-here"}, str(tmp_path))
    assert "cannot be asked" in called(provider(adapter, tmp_path), otherWords=["猫"])


def test_settings_with_a_token_are_their_owners_only(adapter: Any, tmp_path: Path) -> None:
    before = os.umask(0o022)
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
        os.umask(before)
