"""The extension in a running SillyTavern, in Chromium, with a scripted model: recall reaches the prompt, what changes
in a chat changes in the memory, and a memory that is away or strange never stops the chat."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from http_server import Asker, Server, serving
from sillytavern_host import CHROMIUM, Chat, Model, Tavern, modelling, tavern

if CHROMIUM is None:
    pytest.skip("needs Chromium: there is none on PATH", allow_module_level=True)
playwright = pytest.importorskip(
    "playwright.async_api", reason="needs Playwright: `pip install playwright`"
)

pytestmark = [pytest.mark.anyio, pytest.mark.full]
CAT = "我的猫叫芝麻，三岁，怕打雷。"
ASKS = "我的猫叫什么名字？"


@dataclass
class House:
    """The three programs, and the token of the extension."""

    host: Tavern
    model: Model
    server: Server
    token: str
    folder: Path
    tabs: int = 0


def installed_by(host: Tavern, folder: Path, config: Path) -> str:
    """What `install sillytavern` prints."""
    command = [sys.executable, "-m", "memory_server", "install", "sillytavern", str(host.folder)]
    command += ["--port", str(host.port), "--data-dir", str(folder)]
    completed = subprocess.run(
        command,
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_CONFIG_HOME": str(config)},
    )
    return completed.stdout


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    base = tmp_path_factory.mktemp("house")
    folder = base / "memories"
    config = base / "config"
    with modelling() as model, tavern(base / "tavern") as host:
        token = re.search(r"mst_\S+", installed_by(host, folder, config))
        assert token is not None
        os.environ["XDG_CONFIG_HOME"] = str(config)
        try:
            with serving(folder) as server:
                yield House(host, model, server, token[0], base)
        finally:
            del os.environ["XDG_CONFIG_HOME"]


@dataclass
class Sitting:
    """A page of SillyTavern with a character of its own, and what the extension asked the server."""

    chat: Chat
    model: Model
    who: str
    asker: Asker
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def known(self, words: str, who: str | None = None) -> list[str]:
        """The beginnings of what is remembered with these words."""
        preview = self.asker.done("forget", words=words, conversation_id=who or self.who)
        return [item["text"] for item in preview["items"]]

    def calls(self, *names: str) -> list[str]:
        """The names of the calls since the last look."""
        names_of_calls = [name for name, _body in self.asked if not names or name in names]
        self.asked.clear()
        return names_of_calls

    async def looked(self) -> None:
        """Until a change of the chat was looked at."""
        await self.chat.tab.wait_for_timeout(1_700)  # the extension waits for 1.5 s by design
        await self.chat.settled()


@asynccontextmanager
async def sitting(house: House, who: str, **context: Any) -> AsyncIterator[Sitting]:
    house.model.says.clear()
    async with playwright.async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        usual = {"locale": "en-GB", "viewport": {"width": 1280, "height": 900}}
        browser_context = await browser.new_context(**{**usual, **context})
        tab = await browser_context.new_page()
        tab.set_default_timeout(120_000)
        session = Sitting(
            Chat(tab, house.host), house.model, who, Asker(house.server.url, house.token)
        )

        def note(request: Any) -> None:
            if "/v1/" in request.url and request.method != "OPTIONS":
                session.asked.append(
                    (request.url.rpartition("/")[2], json.loads(request.post_data or "{}"))
                )

        tab.on("request", note)
        await session.chat.open()
        await session.chat.connect(house.model)
        await session.chat.configure(
            url=house.server.url, token=house.token, on=True, per="character"
        )
        await session.chat.character(who)
        yield session
        await browser.close()


async def test_a_new_chat_knows_what_the_last_one_was_told_and_says_why(house: House) -> None:
    async with sitting(house, "Lin") as session:
        await session.chat.send(CAT)
        await session.chat.send("今天天气不错。")
        await session.chat.slash("/newchat")
        await session.chat.emptied()
        await session.chat.send(ASKS)
        prompt = house.model.prompt()
        assert CAT in prompt
        assert prompt.index("<recalled-memories>") < prompt.index(f"[user] {ASKS}")
        assert "</recalled-memories>\n[user]" in prompt, (
            "right before the message, so that the beginning stays cached"
        )
        line = session.chat.tab.locator(".last_mes .memory_server")
        assert "1 memory came" in await line.inner_text()
        await line.locator("summary").click()
        await line.get_by_text("will be remembered with your next message").wait_for()
        receipt = await line.inner_text()
        assert CAT in receipt
        assert "猫叫" in receipt.partition(CAT)[2], "which words brought it"
        await session.chat.character("Wang")
        await session.chat.send(ASKS)
        assert CAT not in house.model.prompt(), "two characters do not mix"
        assert session.known("芝麻", "Wang") == []


async def test_changes_of_the_newest_turn_cost_the_memory_nothing(house: House) -> None:
    async with sitting(house, "Mei") as session:
        house.model.says[:] = ["答甲", "答乙", "答丙"]
        await session.chat.send(CAT)
        session.calls()
        await session.chat.tab.click(".last_mes .swipe_right")
        await session.chat.tab.wait_for_function(
            "SillyTavern.getContext().chat.at(-1).mes === '答乙'"
        )
        await session.chat.idle()
        await session.chat.tab.click("#options_button")
        await session.chat.tab.click("#option_regenerate")
        await session.chat.tab.wait_for_function(
            "SillyTavern.getContext().chat.at(-1).mes === '答丙'"
        )
        await session.chat.idle()
        await session.looked()
        assert session.calls() == []
        await session.chat.send("换个话题。")
        await session.chat.settled()
        assert session.calls() == ["remember_turn", "recall_turn"] or session.calls() == []
        [text] = session.known("芝麻")
        assert "答丙" in text
        await session.chat.js("() => SillyTavern.getContext().deleteLastMessage()")
        await session.chat.js("() => SillyTavern.getContext().deleteLastMessage()")
        await session.looked()
        assert session.calls("remember_turn", "forget") == [], "the newest turn was never stored"


async def test_an_edit_replaces_and_a_deletion_forgets_a_stored_turn(house: House) -> None:
    async with sitting(house, "Bai") as session:
        await session.chat.send(CAT)
        await session.chat.send("我搬到苏州了。")
        await session.chat.send("好的。")
        await session.chat.settled()
        assert len(session.known("芝麻")) == 1
        session.calls()
        await session.chat.tab.click('.mes[mesid="1"] .mes_edit')
        await session.chat.tab.fill("#curEditTextarea", "我的猫叫花卷，三岁，怕打雷。")
        await session.chat.tab.click('.mes[mesid="1"] .mes_edit_done')
        await session.looked()
        assert session.calls() == ["remember_turn"]
        assert (session.known("芝麻"), len(session.known("花卷"))) == ([], 1)
        for index in (4, 3):  # the answer and the question, quickly one after the other
            await session.chat.js("i => SillyTavern.getContext().deleteMessage(i)", index)
        await session.looked()
        assert session.calls() == ["forget"]
        assert session.known("苏州") == []
        assert len(session.known("花卷")) == 1


async def test_a_branch_shares_what_it_has_and_takes_nothing_back(house: House) -> None:
    async with sitting(house, "Qiu") as session:
        await session.chat.send(CAT)
        await session.chat.send("我搬到苏州了。")
        await session.chat.send("好的。")
        await session.chat.settled()
        session.calls()
        await session.chat.slash("/branch-create 2")
        await session.chat.tab.wait_for_function("SillyTavern.getContext().chat.length === 3")
        await session.looked()
        assert session.calls("forget") == []
        await session.chat.js("() => SillyTavern.getContext().deleteLastMessage()")
        await session.looked()
        await session.chat.tab.click('.mes[mesid="1"] .mes_edit')
        await session.chat.tab.fill("#curEditTextarea", "我的猫叫花卷，三岁，怕打雷。")
        await session.chat.tab.click('.mes[mesid="1"] .mes_edit_done')
        await session.chat.send("说说花卷。")
        await session.chat.send("再说。")
        await session.looked()
        assert session.calls("forget") == []
        assert len(session.known("芝麻")) == 1, "the first chat still has it"
        assert len(session.known("苏州")) == 1
        assert len(session.known("花卷")) >= 1


async def test_the_last_turn_is_stored_when_the_chat_is_left_or_the_page_loaded_again(
    house: House,
) -> None:
    async with sitting(house, "Shu") as session:
        await session.chat.send(CAT)
        await session.looked()
        assert session.known("芝麻") == []
        await session.chat.tab.reload()
        await session.chat.ready()
        await session.chat.emptied()
        assert len(session.known("芝麻")) == 1
        await session.chat.character("Shu")
        await session.chat.send("我搬到苏州了。")
        await session.chat.character("Lin")
        await session.chat.emptied()
        assert len(session.known("苏州")) == 1
        assert len(session.known("芝麻")) == 1
        assert session.known("苏州", "Lin") == []


async def test_what_came_can_be_forgotten_and_undone_and_a_turn_left_out(house: House) -> None:
    async with sitting(house, "Yun") as session:
        await session.chat.send(CAT)
        await session.chat.slash("/newchat")
        await session.chat.emptied()
        await session.chat.send(ASKS)
        line = session.chat.tab.locator(".last_mes .memory_server")
        await line.locator("summary").click()
        await line.get_by_role("button", name="forget").click()
        await line.get_by_role("button", name="undo").wait_for()
        assert session.known("芝麻") == []
        await line.get_by_role("button", name="undo").click()
        await line.get_by_role("button", name="forget").wait_for()
        assert len(session.known("芝麻")) == 1
        session.calls()
        await line.get_by_role("button", name="don't").click()
        await line.get_by_text("not remembered").wait_for()
        await session.chat.send("换个话题。")
        await session.chat.settled()
        assert session.calls("remember_turn", "forget") == []
        first_line = session.chat.tab.locator('.mes[mesid="2"] .memory_server')
        await first_line.get_by_role("button", name="remember").click()
        await first_line.get_by_role("button", name="undo").wait_for()
        await session.chat.settled()
        assert len(session.known("什么名字")) == 1
        await first_line.get_by_role("button", name="undo").click()
        await session.chat.settled()
        assert session.known("什么名字") == []


async def test_macros_in_a_memory_do_not_act(house: House) -> None:
    async with sitting(house, "Ning") as session:
        text = "我的猫叫{{setvar::cat::stolen}}芝麻{{{user}}}，<USER>怕打雷。"
        session.asker.done(
            "remember_turn",
            messages=[{"role": "user", "content": text}],
            session="x",
            conversation_id="Ning",
        )
        await session.chat.send(ASKS)
        assert "芝麻" in house.model.prompt()
        assert "{ {setvar::cat::stolen}}" in house.model.prompt()
        assert await session.chat.js(
            "() => SillyTavern.getContext().variables.local.get('cat')"
        ) in ("", None)


async def test_a_foreign_origin_is_refused_and_the_panel_says_what_to_add(
    house: House, tmp_path: Path
) -> None:
    async with sitting(house, "Hua") as session:
        verdict = session.chat.tab.locator("#memory_server_told")
        press = "() => document.querySelector('#memory_server_test').click()"
        await session.chat.js(press)
        await session.chat.tab.wait_for_function(
            "document.querySelector('#memory_server_told').textContent.includes('token sillytavern')"
        )
        with serving(
            tmp_path / "other", http__token="t" * 40, http__origins="https://else.example"
        ) as foreign_server:
            await session.chat.configure(url=foreign_server.url)
            await session.chat.js(press)
            await session.chat.tab.wait_for_function(
                "document.querySelector('#memory_server_told').textContent.includes('refused')"
            )
            assert house.host.url in (await verdict.text_content() or "")
            assert "http.origins" in (await verdict.text_content() or "")
        await session.chat.configure(url=house.server.url, token="mst_wrong")
        await session.chat.js(press)
        await session.chat.tab.wait_for_function(
            "document.querySelector('#memory_server_told').textContent.includes('valid token')"
        )
        await session.chat.open(house.host.url.replace("127.0.0.1", "localhost"))
        await session.chat.configure(url=house.server.url, token=house.token)
        await session.chat.js(press)
        await session.chat.tab.wait_for_function(
            "document.querySelector('#memory_server_told').textContent.includes('token sillytavern')"
        )


async def test_the_chat_goes_on_without_the_memory_and_tells_it_later(house: House) -> None:
    async with sitting(house, "Tao") as session:
        await session.chat.send("一：我养了一只猫。")
        with socket.create_server(("127.0.0.1", 0)) as hung:  # accepts, and never answers
            await session.chat.configure(url=f"http://127.0.0.1:{hung.getsockname()[1]}")
            await session.chat.send("二：它叫芝麻。")
            await session.chat.send("三：它三岁。")
        await session.chat.send("四：它怕打雷。")
        notices = session.chat.tab.locator("#toast-container .toast-warning")
        assert await notices.count() <= 1
        assert len(house.model.asked[-1]["messages"]) > 3
        await session.chat.configure(url=house.server.url)
        session.calls()
        await session.chat.js("() => document.querySelector('#memory_server_test').click()")
        await session.chat.settled()
        beginnings = [
            body["messages"][0]["content"][0]
            for name, body in session.asked
            if name == "remember_turn"
        ]
        assert beginnings == ["一", "二", "三"], "in order, all of it, and each once"
        for words in ("一只", "芝麻", "三岁"):
            assert len(session.known(words)) == 1


async def test_a_group_is_remembered_apart_and_knows_what_its_members_know(house: House) -> None:
    async with sitting(house, "Fang") as session:
        await session.chat.send(CAT)
        await session.chat.character("Gao")
        await session.chat.emptied()
        create = """async names => { const c = SillyTavern.getContext();
            const members = names.map(n => c.characters.find(one => one.name === n).avatar);
            const body = JSON.stringify({name: 'Friends', members, allow_self_responses: false, activation_strategy: 1,
              generation_mode: 0, disabled_members: [], fav: false, chat_metadata: {}, chat_id: 'f', chats: ['f']});
            const headers = c.getRequestHeaders();
            const made = await (await fetch('/api/groups/create', {method: 'POST', headers, body})).json();
            await c.getCharacters();
            await (await import('/scripts/group-chats.js')).openGroupById(made.id); return made.id; }"""
        group = await session.chat.js(create, ["Fang", "Gao"])
        await session.chat.tab.wait_for_function(
            "id => SillyTavern.getContext().groupId === id", arg=group
        )
        session.calls()
        await session.chat.send(ASKS)
        await session.chat.tab.wait_for_function(
            "SillyTavern.getContext().chat.filter(m => !m.is_user).length >= 4"
        )
        await session.chat.idle()
        assert CAT in house.model.prompt()
        assert session.calls("recall_turn") == ["recall_turn"], (
            "the second speaker gets the same block"
        )
        await session.chat.character("Gao")
        await session.chat.emptied()
        assert len(session.known("什么名字", f"Friends {group}")) == 1
        await session.chat.send(ASKS)
        assert CAT not in house.model.prompt()


async def test_commands(house: House) -> None:
    async with sitting(house, "Xia") as session:
        await session.chat.send(CAT)
        await session.chat.send("好的。")
        await session.chat.settled()
        assert "芝麻" in await session.chat.slash("/memory search 芝麻怕打雷")
        assert "token sillytavern" in await session.chat.slash("/memory status")
        command = session.chat.slash("/memory forget 芝麻")
        import asyncio

        running = asyncio.ensure_future(command)
        await session.chat.tab.click("dialog[open] .popup-button-ok")
        assert "memory-server undo" in await running
        assert session.known("芝麻") == []
        assert "off" in await session.chat.slash("/memory off")
        session.calls()
        await session.chat.send(ASKS)
        await session.chat.send("再说一句。")
        assert session.calls("recall_turn") == []
        assert "on" in await session.chat.slash("/memory on")


async def test_the_model_of_the_chat_names_other_words_where_the_person_wants_it(
    house: House,
) -> None:
    """The memory and the message share no word but those that the model names."""
    async with sitting(house, "Rui") as session:
        text = "弹肖邦的夜曲，手一直抖，最后还是弹完了。"
        session.asker.done(
            "remember_turn",
            messages=[{"role": "user", "content": text}],
            session="x",
            conversation_id="Rui",
        )
        await session.chat.send("今天吃了面。")
        assert "夜曲" not in house.model.prompt(), "the option is off"
        for answer, comes in (("钢琴、肖邦、夜曲", True), ("我不知道你说什么。", False)):
            await session.chat.slash("/newchat")
            await session.chat.emptied()
            await session.chat.configure(words=True)
            session.calls()
            begun = len(house.model.asked)
            house.model.says[:] = [answer, "好的。"]
            await session.chat.send("明天有点紧张。")
            words, reply = house.model.asked[begun:]
            assert "明天有点紧张。" in house.model.prompt(begun)
            assert not words.get("stream")
            [recalled] = [body for call, body in session.asked if call == "recall_turn"]
            assert recalled.get("otherWords") == (["钢琴", "肖邦", "夜曲"] if comes else None)
            assert (text in str(reply["messages"])) is comes
        assert "Naming words took" in await session.chat.slash("/memory status")
