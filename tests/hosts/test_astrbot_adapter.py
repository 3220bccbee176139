"""The plugin for AstrBot against stubs of AstrBot's API: whose a memory is, and what the commands do.

tests/hosts/test_astrbot.py tries it in the real AstrBot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hosts.adapters import (
    Event,
    TemporaryPart,
    Tool,
    ToolSet,
    astrbot_api,
    astrbot_context,
    memory_of,
)
from hosts.environments import DISTRIBUTION

from memory_server import App, Settings

pytestmark = pytest.mark.anyio
SCHEMA = json.loads((DISTRIBUTION / "astrbot" / "_conf_schema.json").read_text("utf-8"))
USUAL = {name: field["default"] for name, field in SCHEMA.items()} | {"flashbacks": 0}
SECRET = "我的牙医叫林小满，在朝阳门"
ASK = "朝阳门那个牙医叫什么？"


@pytest.fixture
def adapter() -> Iterator[Any]:
    with astrbot_api() as module:
        yield module


@pytest.fixture
async def app(tmp_path: Path):
    async with App(Settings(data_dir=tmp_path / "data", timezone="UTC")) as app:
        yield app


class Bot:
    """The plugin with settings, and a memory in this process."""

    def __init__(self, adapter: Any, app: App, persona: str = "[%None]", **settings: Any) -> None:
        self.adapter = adapter
        self.tool = Tool("recall", adapter.__name__)
        self.plugin = adapter.MemoryServerPlugin(
            astrbot_context(persona, self.tool), USUAL | settings
        )
        self.plugin.memory = memory_of(app, adapter)
        self._number = 0

    async def says(
        self,
        text: str,
        *,
        answer: str | None = "好的。",
        contexts: Any = (),
        role: str = "assistant",
        **more: Any,
    ) -> str:
        """What the model gets beside the message. `answer` None: the bot is not meant."""
        self._number += 1
        event = Event(text, **{"number": str(self._number), "to_bot": answer is not None, **more})
        tools = ToolSet(self.tool, Tool("weather", "another"))
        request = SimpleNamespace(
            contexts=list(contexts), extra_user_content_parts=[], conversation=None, func_tool=tools
        )
        self.event = event
        if event.get_group_id():
            await self.plugin.overhear(event)
        if answer is not None:
            await self.plugin.recall(event, request)
            await self.plugin.remember(event, SimpleNamespace(role=role, completion_text=answer))
        await self.plugin.memory.settled()
        self.request = request
        return "\n".join(part.text for part in request.extra_user_content_parts)

    async def command(self, text: str, **more: Any) -> str:
        (answer,) = [reply async for reply in self.plugin.command(Event(f"记忆 {text}", **more))]
        return str(answer)

    def reset(self, **more: Any) -> Any:
        event = Event("reset", **more)
        event.set_extra("_clean_ltm_session", True)
        return self.plugin.after_reset(event)


def test_conversations_of_different_people_never_have_one_name(adapter: Any) -> None:
    parts = ("1", "1/x", "x", "1/", "%2F", "/", "user", "group", "小明")
    for across in (False, True):
        config = USUAL | {"one_user_across_groups": across}
        owner_of: dict[str, tuple[str, ...]] = {}
        for platform in parts[:4]:
            for sender in parts:
                for group in ("", *parts[:4]):
                    for persona in ("", *parts[:3]):
                        talk = adapter.places(config, platform, sender, group, persona)
                        whose = (platform, "group" if group else "user", group or sender, persona)
                        assert owner_of.setdefault(talk.stored[0], whose) == whose
                        if across and group:
                            public = (platform, "public", sender, persona)
                            assert owner_of.setdefault(talk.stored[1], public) == public
    marks = [adapter.places(USUAL, "qq", sender, "", "").mark for sender in parts]
    for mark in marks:
        assert not [
            other_mark for other_mark in marks if mark != other_mark and mark.startswith(other_mark)
        ]


def test_names_are_no_longer_than_the_server_allows(adapter: Any) -> None:
    long = adapter.places(USUAL, "qq", "1", "", "猫" * 300).stored[0]
    assert len(long) == 256
    assert long != adapter.places(USUAL, "qq", "1", "", "猫" * 301).stored[0]


async def test_what_was_told_comes_back_after_a_reset_and_not_before(
    adapter: Any, app: App
) -> None:
    bot = Bot(adapter, app)
    await bot.says(SECRET)
    assert await bot.says(ASK) == ""
    await bot.reset()
    assert "林小满" in await bot.says(ASK)


@pytest.mark.parametrize("allowed", [False, True])
async def test_what_was_told_in_private_comes_in_a_group_only_if_the_owner_allows_it(
    adapter: Any, app: App, allowed: bool
) -> None:
    for across in (False, True):
        bot = Bot(adapter, app, private_in_groups=allowed, one_user_across_groups=across)
        await bot.says(SECRET, number=f"p{across}")
        assert ("林小满" in await bot.says(ASK, group="777")) is allowed
        assert "林小满" not in await bot.says(ASK, sender="10002", group="777")
        assert "林小满" not in await bot.says(ASK, sender="10002")


async def test_one_user_across_groups_is_a_choice_and_brings_only_that_user(
    adapter: Any, app: App
) -> None:
    bot = Bot(adapter, app, one_user_across_groups=True)
    await bot.says(SECRET, group="777")
    assert "林小满" in await bot.says(ASK, group="888")
    assert "林小满" not in await bot.says(ASK, sender="10002", group="888")
    assert "林小满" in await bot.says(ASK)  # the same person, in private
    apart = Bot(adapter, app)
    assert "林小满" not in await apart.says(ASK, group="999")


async def test_personas_do_not_know_what_was_told_to_another_one(adapter: Any, app: App) -> None:
    await Bot(adapter, app, persona="猫").says(SECRET)
    assert await Bot(adapter, app, persona="狗").says(ASK, origin="x:1") == ""
    assert "林小满" in await Bot(adapter, app, persona="猫").says(ASK, origin="x:1")
    shared = {"per_persona": False}
    await Bot(adapter, app, persona="猫", **shared).says(SECRET, number="9")
    assert "林小满" in await Bot(adapter, app, persona="狗", **shared).says(ASK, origin="x:1")


async def test_a_person_is_the_same_in_each_window_of_the_dashboard(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app)
    await bot.says(SECRET, sender="astrbot", origin="webchat:FriendMessage:webchat!astrbot!1")
    assert "林小满" in await bot.says(
        ASK, sender="astrbot", origin="webchat:FriendMessage:webchat!astrbot!2"
    )


async def test_without_a_speaker_there_is_no_memory(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app)
    await bot.says(SECRET, sender="")
    assert bot.plugin.memory.asked == []


async def test_messages_of_two_groups_with_one_number_are_two_turns(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app, one_user_across_groups=True)
    await bot.says("香山七点集合", group="777", number="5")
    await bot.says("长城八点集合", group="888", number="5")
    assert len(await app.conversation("qq/public/10001").short_term.memories()) == 2


async def test_a_group_without_a_name_is_not_taken_for_a_private_talk(
    adapter: Any, app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Event, "is_private_chat", lambda _event: False)
    monkeypatch.setattr(Event, "get_session_id", lambda _event: "")
    bot = Bot(adapter, app)
    await bot.says(SECRET)
    assert bot.plugin.memory.asked == []


async def test_a_group_message_for_others_is_remembered_only_if_the_owner_wants_it(
    adapter: Any, app: App
) -> None:
    await Bot(adapter, app).says("周末去爬香山", answer=None, group="777")
    bot = Bot(adapter, app, remember_all_group_messages=True)
    assert await bot.says("香山几点出发？", group="777") == ""
    await bot.says("香山七点在东门集合", answer=None, sender="10002", name="阿红", group="777")
    await bot.reset(group="777")
    block = await bot.says("香山几点集合？", sender="10003", group="777")
    assert "阿红（" in block
    assert "爬香山" not in block


async def test_a_turn_is_stored_once_as_it_was_last(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app, remember_all_group_messages=True)
    await bot.says("香山几点集合？", answer=None, group="777", number="5")
    for answer in ("六点。", "七点。"):
        await bot.says("香山几点集合？", answer=answer, group="777", number="5")
    (memory,) = await app.conversation("qq/group/777").short_term.memories()
    assert memory.text == "小明: 香山几点集合？\n机器人: 七点。"


@pytest.mark.parametrize(("answer", "role"), [("出错了", "err"), ("", "assistant")])
async def test_an_error_of_the_host_is_not_remembered(
    adapter: Any, app: App, answer: str, role: str
) -> None:
    await Bot(adapter, app).says(SECRET, answer=answer, role=role)
    assert await app.conversation("qq/user/10001").short_term.memories() == ()


async def test_blocks_do_not_pile_up_in_the_history(adapter: Any, app: App) -> None:
    block = "<recalled-memories>\n旧\n</recalled-memories>"
    history = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "早"}, {"type": "text", "text": block}],
        },
        {"role": "assistant", "content": "早上好"},
        {"role": "user", "content": f"{block}\n你好"},
        {"role": "assistant", "content": None, "tool_calls": [{}]},
    ]
    bot = Bot(adapter, app)
    await bot.says("在吗", contexts=history)
    assert block not in str(bot.request.contexts)
    assert [message["role"] for message in bot.request.contexts] == [
        message["role"] for message in history
    ]
    _tool, arguments = bot.plugin.memory.asked[0]
    assert [message["content"] for message in arguments["messages"]] == ["早上好", "你好", "在吗"]


async def test_the_block_is_not_saved_where_the_host_can_leave_it_out(app: App) -> None:
    with astrbot_api(TemporaryPart) as module:
        bot = Bot(module, app)
        await bot.says(SECRET)
        await bot.reset()
        await bot.says(ASK)
        assert [part.temporary for part in bot.request.extra_user_content_parts] == [True]


async def test_the_commands_show_find_explain_forget_and_take_back(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app)
    await bot.says(SECRET)
    await bot.says("我喜欢吃披萨")
    assert "共有 2 条" in await bot.command("看")
    reply = await bot.command("find 披萨")
    assert "披萨" in reply
    assert "林小满" not in reply
    await bot.reset()
    await bot.says(ASK)
    assert "牙医" in await bot.command("为什么")
    assert "林小满" in await bot.command("忘 牙医 朝阳门")
    assert "共有 3 条" in await bot.command("看")
    assert "忘掉了" in await bot.command("忘 确认")
    assert "林小满" not in await bot.command("看")
    assert await bot.command("撤销") == "撤销了。"
    assert "林小满" in await bot.command("看")
    assert await bot.command("撤销") == "撤销了。"  # the turn that was stored last
    assert "共有 2 条" in await bot.command("list")
    assert await bot.command("忘 确认") == "没有找到。"
    assert (await bot.command("")).startswith("/记忆 看")


async def test_only_what_was_shown_last_is_forgotten(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app)
    await bot.says(SECRET)
    await bot.command("忘 牙医")
    assert await bot.command("忘 没有这个词") == "没有找到。"
    assert await bot.command("忘 确认") == "没有找到。"
    assert "林小满" in await bot.command("看")


async def test_nobody_sees_or_forgets_a_private_memory_by_a_command_in_a_group(
    adapter: Any, app: App
) -> None:
    for allowed in (False, True):
        bot = Bot(adapter, app, private_in_groups=allowed, one_user_across_groups=True)
        await bot.says(SECRET, number=f"p{allowed}")
        await bot.says(ASK, group="777")
        for person in ({}, {"sender": "10002"}, {"sender": "10003", "admin": True}):
            for words in ("看", "找 牙医", "忘 林小满", "忘 确认", "为什么"):
                assert "林小满" not in await bot.command(words, group="777", **person)
    assert "还有 1 条来自私聊" in await bot.command("为什么", group="777")
    for person in ({"sender": "10002"}, {"sender": "10002", "admin": True}):
        for words in ("看", "找 牙医", "忘 牙医", "忘 确认", "为什么"):
            assert "林小满" not in await bot.command(words, **person)
    assert len(await app.conversation("qq/user/10001").short_term.memories()) == 1


async def test_in_a_group_one_forgets_what_one_said_and_an_admin_all(
    adapter: Any, app: App
) -> None:
    bot = Bot(adapter, app)
    await bot.says("香山七点集合", group="777")
    await bot.says("香山要带水", sender="10002", group="777")
    assert await bot.command("忘 集合", sender="10002", group="777") == "没有找到。"
    await bot.command("忘 香山", sender="10002", group="777")
    await bot.command("忘 确认", sender="10002", group="777")
    assert "七点" in await bot.command("看", group="777")
    assert "带水" not in await bot.command("看", group="777")
    assert await bot.command("撤销", sender="10003", group="777") == "没有可以撤销的。"
    await bot.command("忘 集合", sender="10003", group="777", admin=True)
    assert "忘掉了" in await bot.command("忘 确认", sender="10003", group="777", admin=True)


async def test_what_one_forgets_in_a_group_is_forgotten_in_all_places(
    adapter: Any, app: App
) -> None:
    bot = Bot(adapter, app, one_user_across_groups=True)
    await bot.says(SECRET, group="777")
    await bot.command("忘 牙医", group="777")
    await bot.command("忘 确认", group="777")
    for conversation in ("qq/group/777", "qq/public/10001"):
        assert await app.conversation(conversation).short_term.memories() == ()
    await bot.command("撤销", group="777")
    for conversation in ("qq/group/777", "qq/public/10001"):
        assert len(await app.conversation(conversation).short_term.memories()) == 1


async def test_a_person_pauses_and_goes_on(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app, remember_all_group_messages=True)
    assert "不记" in await bot.command("暂停", group="777")
    await bot.says(SECRET, group="777")
    await bot.says(SECRET, group="777", answer=None)
    assert bot.plugin.memory.asked == []
    await bot.says("香山要带水", sender="10002", group="777")
    assert len(bot.plugin.memory.asked) == 2
    restarted = Bot(adapter, app)
    restarted.plugin.values = bot.plugin.values
    await restarted.plugin.initialize()
    assert "又开始" in await restarted.command("暂停", group="777")


RECITAL = "弹肖邦的夜曲，手一直抖，最后还是弹完了"


async def test_the_model_recalls_once_more_with_words_of_its_own(adapter: Any, app: App) -> None:
    bot = Bot(adapter, app)
    await bot.says(RECITAL)
    await bot.reset()
    assert await bot.says("明天有点紧张。") == ""
    look = bot.plugin.recall_by_words
    assert await look(bot.event, "钥匙", ["雨伞"]) == "没有想起什么。"
    for words in (["肖邦", "夜曲"], "肖邦、夜曲", [" 肖邦 ", "", 7, "夜曲", "紧" * 90]):
        assert "夜曲" in await look(bot.event, otherWords=words)
    for no_words in ({}, {"query": " "}, {"otherWords": None}, {"otherWords": {"a": 1}}):
        assert await look(bot.event, **no_words) == "没有想起什么。"
    contents = set()
    for tool, arguments in bot.plugin.memory.asked:
        if tool == "recall_turn":
            contents.update(message["content"] for message in arguments["messages"])
    assert contents == {RECITAL, "明天有点紧张。"}, "what the model looks for is nobody's message"
    assert "调用方还查找了“夜曲”“肖邦”" in await bot.command("为什么")
    bot.plugin.config = bot.plugin.config | {"language": "en", "flashbacks": 2}
    assert "偶然想起" in await bot.says("在吗")
    assert await look(bot.event, otherWords=["雨伞"]) == "Nothing came to mind.", (
        "nothing by chance"
    )


async def test_the_tool_reaches_no_more_than_what_comes_unasked(adapter: Any, app: App) -> None:
    for allowed in (False, True):
        bot = Bot(adapter, app, private_in_groups=allowed)
        await bot.says(RECITAL, number=f"p{allowed}")
        for person, comes in (
            ({"group": "777"}, allowed),
            ({"group": "777", "sender": "10002"}, False),
            ({"sender": "10002"}, False),
        ):
            await bot.says("明天有点紧张。", **person)
            assert (
                "夜曲" in await bot.plugin.recall_by_words(bot.event, otherWords=["肖邦", "夜曲"])
            ) is comes


async def test_the_tool_is_offered_only_where_there_is_a_memory_and_the_owner_wants_it(
    adapter: Any, app: App
) -> None:
    def offered(bot: Bot) -> list[str]:
        return [tool.name for tool in bot.request.func_tool.tools]

    bot = Bot(adapter, app)
    await bot.says("在吗")
    assert offered(bot) == ["recall", "weather"]
    await bot.says("在吗", sender="")
    assert offered(bot) == ["weather"]
    await bot.command("暂停")
    await bot.says("在吗")
    assert offered(bot) == ["weather"]
    assert await bot.plugin.recall_by_words(bot.event, otherWords=["猫"]) == "没有想起什么。"
    off = Bot(adapter, app, recall_tool=False)
    await off.says("在吗")
    assert offered(off) == ["weather"]
    off.tool.handler_module_path = "another"
    await off.says("在吗")
    assert offered(off) == ["recall", "weather"], "one of that name that is not ours stays"


@pytest.mark.parametrize("language", ["zh", "en"])
async def test_the_tool_is_described_in_the_language_of_the_bot(
    adapter: Any, app: App, language: str
) -> None:
    bot = Bot(adapter, app, language=language)
    await bot.plugin.initialize()
    arguments = bot.tool.parameters["properties"].values()
    descriptions = [bot.tool.description, *(argument["description"] for argument in arguments)]
    assert [bool(re.search("[一-鿿]", text)) for text in descriptions] == [language == "zh"] * 3


async def test_what_the_tool_gave_does_not_pile_up_in_the_history(adapter: Any, app: App) -> None:
    block = "<recalled-memories>\n旧\n</recalled-memories>"
    bot = Bot(adapter, app)
    await bot.says("在吗", contexts=[{"role": "tool", "tool_call_id": "1", "content": block}])
    assert bot.request.contexts == [{"role": "tool", "tool_call_id": "1", "content": "…"}]


async def test_a_memory_that_is_absent_stops_nothing(
    adapter: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What waits is tried for three seconds at the end, and nothing answers here.
    monkeypatch.setattr(adapter.MemoryClient.close, "__defaults__", (0.3,))
    plugin = adapter.MemoryServerPlugin(
        astrbot_context(), USUAL | {"command": "no-such-command-here"}
    )
    event = Event(ASK)
    request = SimpleNamespace(
        contexts=[], extra_user_content_parts=[], conversation=None, func_tool=None
    )
    await plugin.recall(event, request)
    assert await plugin.recall_by_words(event, otherWords=["牙"]) == "现在问不到记忆。"
    await plugin.remember(event, SimpleNamespace(role="assistant", completion_text="好的。"))
    (reply,) = [part async for part in plugin.command(Event("记忆 看"))]
    assert reply.startswith("记忆没有做到：")
    await plugin.terminate()
    assert request.extra_user_content_parts == []


def test_the_folder_is_what_the_host_expects(adapter: Any) -> None:
    about = dict(
        line.split(":", 1)
        for line in (DISTRIBUTION / "astrbot" / "metadata.yaml").read_text("utf-8").splitlines()
    )
    assert {"name", "author", "desc", "version"} <= about.keys()
    source = (DISTRIBUTION / "astrbot" / "main.py").read_text("utf-8")
    used = set(re.findall(r"config\[\"(\w+)\"\]", source))
    assert used == set(SCHEMA)
    for field in SCHEMA.values():
        assert " · " in field["description"]
        assert "type" in field
    for chinese, english in adapter.SENTENCES.values():
        assert chinese.count("{}") == english.count("{}")
        assert re.search(r"[一-鿿]", chinese)
        assert not re.search(r"[一-鿿]", english)
