"""Draws the pictures of the page for the docs, from the sample chats: `python docs/pictures.py [FOLDER]`.

Needs Chromium on PATH, Playwright, and fonts with Latin and Han characters: Noto Sans, Noto Serif, and both as CJK.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from playwright.async_api import Browser, async_playwright

from memory_server.cli.demo import ZONES, samples
from memory_server.cli.web import serve_page
from memory_server.config import Settings
from memory_server.interchange import chats, own
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Session
from memory_server.operations.imports import store
from memory_server.runtime.app import App
from memory_server.tools.base.tool import call
from memory_server.tools.turn import recall_turn, remember_turn

ASKED = {
    "zh": (
        ("2026-05-30T18:40+08:00", "要给阿柚买蛋糕了，我对什么过敏来着，一口都不能碰的那个？"),
        ("2026-06-14T21:00+08:00", "妈妈生日那天送什么好呢？"),
        ("2026-06-18T15:10+08:00", "公司下午茶有人点了杨枝甘露，闻着好香，我能喝一口吗？"),
        ("2026-06-20T14:00+08:00", "二进制补码为何要取反加一？"),
        (
            "2026-06-20T17:30+08:00",
            "晚上想去吃上次说的那家贵州馆子，酸汤鱼特别好喝的，叫什么名字来着？",
        ),
    ),
    "en": (
        ("2026-06-14T21:00+01:00", "What is wrong with Pepper's paw?"),
        ("2026-06-18T15:10+01:00", "Can I eat this praline?"),
        ("2026-06-19T11:20+01:00", "What is a monad?"),
        ("2026-06-20T14:03+01:00", "Which place by the harbour has the fish stew with saffron?"),
    ),
}
WRONG = {"zh": "杨枝甘露", "en": "hazelnut"}
"""A word of the memory whose page is drawn."""
TOLD = {
    "zh": (
        ("2026-03-02T20:10+08:00", "我住在慕尼黑，推开窗就是伊萨尔河", ""),
        ("2026-04-11T21:30+08:00", "我们搬到柏林了，到处是箱子", "chain"),
        ("2026-06-12T19:45+08:00", "我们搬到布拉格了，两年里第三个家", ""),
        ("2026-06-15T12:20+08:00", "我周三去看牙，有点怕", "over"),
        ("2026-06-19T08:50+08:00", "我下周四上午考驾照", "open"),
    ),
    "en": (
        ("2026-03-02T20:10+01:00", "I live in Munich, the Isar is below the window", ""),
        ("2026-04-11T21:30+01:00", "I moved to Berlin, boxes everywhere", "chain"),
        ("2026-06-12T19:45+01:00", "I moved to Prague, the third flat of mine", ""),
        ("2026-06-15T12:20+01:00", "On Wednesday I see the dentist, a bit scared", "over"),
        ("2026-06-19T08:50+01:00", "My driving test is on Thursday morning", "open"),
    ),
}
"""The texts that are stored for the pictures of corrections and plans, and the memory whose page each picture shows."""
SHOTS = (
    ("home.zh", "zh", "light", 1180, "", "wrong"),
    ("home.en", "en", "dark", 1180, "", "wrong"),
    ("why.zh", "zh", "light", 1180, "recalls", "wrong"),
    ("why.en", "en", "light", 1180, "recalls", "wrong"),
    ("memory.zh", "zh", "dark", 1180, "memory", "wrong"),
    ("take-back.en", "en", "light", 390, "history", "wrong"),
    *(
        (f"{kind}.{language}", language, "light", 1180, "memory", kind)
        for language in TOLD
        for kind in ("chain", "open", "over")
    ),
)
"""Name, language, mode, width in pixels, page, memory."""
HEIGHT = 760
SHORT_HEIGHT = 500
"""Pixels of the picture of a memory's page, which leaves out the end of the page."""


async def main(target: Path) -> None:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    async with async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for language in ASKED:
            with tempfile.TemporaryDirectory() as folder:
                await draw(browser, language, Path(folder), target)


async def draw(browser: Browser, language: str, folder: Path, target: Path) -> None:
    settings = Settings(data_dir=folder / "data", timezone=ZONES[language], seed=7).with_flashbacks(
        0
    )
    memory_ids = await fill(settings, language)
    end = datetime.fromisoformat(ASKED[language][-1][0])
    for path in await asyncio.to_thread(lambda: list(folder.rglob("*"))):
        os.utime(path, (end.timestamp(), end.timestamp()))
    async with (
        App(settings.model_copy(update={"now": end.replace(minute=40)})) as app,
        serve_page(app, 0) as link,
    ):
        context = await browser.new_context()
        tab = await context.new_page()
        await tab.goto(link)
        base = tab.url.partition("?")[0]
        await asyncio.sleep(15)  # by then the next days of triggers are known
        for name, of, mode, width, page, memory in SHOTS:
            if of == language:
                await tab.emulate_media(color_scheme=mode)
                height = HEIGHT if memory == "wrong" else SHORT_HEIGHT
                await tab.set_viewport_size({"width": width, "height": height})
                query = f"?lang={of}&id={memory_ids[memory]}"
                await tab.goto(f"{base}{page}{query}")
                await tab.screenshot(path=target / f"{name}.png")
        await context.close()


async def fill(settings: Settings, language: str) -> dict[str, str]:
    """Store the sample, tell more and ask about it; return the ids of the memories whose pages are drawn."""
    sample = samples() if language == "zh" else samples() / language
    options = chats.ChatOptions("default", settings.zone)
    [chat] = chats.read((sample / "companion.jsonl").read_bytes(), options).conversations
    [pack] = own.read_pack(
        (sample / "triggers.json").read_bytes(), chat.conversation_id
    ).conversations
    wrong = next(memory.id for memory in chat.short_term if WRONG[language] in memory.text)
    shown = {"wrong": wrong}
    for number, (when, said) in enumerate(ASKED[language]):
        at = settings.model_copy(update={"now": datetime.fromisoformat(when)})
        async with App(at, session=Session(when)) as app:
            if not number:
                await store(app, replace(chat, long_term=pack.long_term), "chat", dry_run=False)
                conversation = app.conversation(chat.conversation_id)
                items = await app.memories.engines[0].find(ItemFilter(ids=(chat.short_term[5].id,)))
                await app.memories.engines[0].forget(items, by="forget 3f2a81c0")
                await conversation.short_term.pin(chat.short_term[10].id, by="page")
            asker = {"by": "hook", "client": "Claude Code", "cwd": str(Path.home() / "notes")}
            asked = {
                "messages": [{"role": "user", "content": said}],
                "conversation_id": chat.conversation_id,
            }
            await call(recall_turn, replace(app.call, asker=asker), asked)

    for when, said, kind in TOLD[language]:
        at = settings.model_copy(update={"now": datetime.fromisoformat(when)})
        async with App(at, session=Session(when)) as app:
            turn = {
                "messages": [{"role": "user", "content": said}],
                "conversation_id": chat.conversation_id,
            }
            answer = await call(remember_turn, app.call, turn)
            shown[kind] = answer.structured["id"]
    return shown


if __name__ == "__main__":
    asyncio.run(
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures")
    )
