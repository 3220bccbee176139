"""The page in a real browser: nothing is said on the console, no request goes elsewhere, all can be done by keyboard
and without scripts, and axe finds nothing serious."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from clients.node_clients import installed
from web_page import CHAT, ask, opened, remember

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
if CHROMIUM is None:
    pytest.skip("needs Chromium: there is none on PATH", allow_module_level=True)
playwright = pytest.importorskip(
    "playwright.async_api", reason="needs Playwright: `pip install playwright`"
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere_together")]
TEXTS = [
    "我对芒果过敏，一口都不行，小时候去过急诊。",
    "芝麻是我的猫，三岁，怕打雷。",
    "芒果布丁端走了，芝麻在旁边看。",
    "建国北路新发现一家贵州馆子，酸汤鱼绝了。",
    "妈妈六月二十八号生日，爱听越剧。",
]
PAGES = (
    "",
    "recalls",
    "memory",
    "history",
    "ask?q=我能吃芒果吗？",
    "triggers",
    "trigger?name=过敏",
    "notes",
    "health",
    "find?q=芒果",
)
PAGES += ("subjects", "subject", "layers", "facts", "refs", "?by=folder")
PATIENCE = 30.0


class Served:
    """The command `web` in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        command = [
            sys.executable,
            "-m",
            "memory_server",
            "web",
            "--no-open",
            "--data-dir",
            str(folder),
            "-c",
            CHAT,
        ]
        command += ["--timezone", "UTC", "--port", "0", "--now", "2026-06-20T12:00:00+00:00"]
        self.log = folder.with_suffix(".log")
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)

    @property
    def link(self) -> str:
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            for line in self.log.read_text("utf-8").splitlines():
                if "/enter?key=" in line:
                    return line.strip()
            assert self.process.poll() is None, self.log.read_text("utf-8")
            time.sleep(0.05)
        raise AssertionError(self.log.read_text("utf-8"))

    def end(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(PATIENCE)


async def _fill(folder: Path) -> list[str]:
    async with opened(folder) as page:
        ids = await remember(page.app, *TEXTS, name="小明")
        await page.app.conversation().long_term.add(
            "过敏", "先问有没有芒果", "match_keys(context.messages, ['芒果']) > 0"
        )
        await page.app.knowledge.notes.remember("domain", "水果", "# 芒果\n\n- 一口都不行")
        await ask(page.app, "我能吃芒果布丁吗？", cwd="/srv/shop")
        await ask(page.app, "二进制补码为何要取反加一？")
        return ids


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list[str], Path]]:
    folder = tmp_path_factory.mktemp("page") / "data"
    os.environ.pop("MEMORY_SERVER_DATA_DIR", None)
    ids = asyncio.run(_fill(folder))
    server = Served(folder)
    state = folder.with_suffix(".state.json")
    try:
        server.base = asyncio.run(_enter(server.link, state))
        yield server, ids, state
    finally:
        server.end()


async def _enter(link: str, state: Path) -> str:
    """The address of the page, to which the link leads; its cookie is written to `state`."""
    async with playwright.async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context()
        tab = await context.new_page()
        await tab.goto(link)
        await context.storage_state(path=str(state))
        base: str = tab.url.rstrip("/")
        await browser.close()
        return base


@asynccontextmanager
async def browsing(
    served: tuple[Served, list[str], Path], **options: Any
) -> AsyncIterator[tuple[Any, str, list[str]]]:
    """A tab, the address of the page, and what went wrong."""
    server, _ids, state = served
    base = server.base
    async with playwright.async_playwright() as tools:
        browser = await tools.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        context = await browser.new_context(storage_state=str(state), **options)
        tab = await context.new_page()
        wrong = list[str]()

        def note_console(message: Any) -> None:
            if message.type in ("error", "warning"):
                wrong.append(f"console: {message.text}")

        def note_request(request: Any) -> None:
            if not request.url.startswith((base, "data:")):
                wrong.append(request.url)

        tab.on("console", note_console)
        tab.on("pageerror", lambda error: wrong.append(f"error: {error}"))
        tab.on("dialog", lambda dialog: wrong.append(f"dialog: {dialog.message}"))
        tab.on("request", note_request)
        yield tab, base, wrong
        await browser.close()


def _paths(ids: list[str]) -> list[str]:
    return [f"memory?id={ids[0]}" if path == "memory" else path for path in PAGES]


TITLES = {"zh-CN": "它记得我什么", "en-GB": "What does it remember of me?"}


@pytest.mark.parametrize(
    ("locale", "scheme"),
    [
        ("zh-CN", "dark"),
        ("en-GB", "light"),
        pytest.param("zh-CN", "light", marks=pytest.mark.full),
        pytest.param("en-GB", "dark", marks=pytest.mark.full),
    ],
)
async def test_every_page_is_quiet_and_open_to_all(served: Any, locale: str, scheme: str) -> None:
    axe = (installed("axe-core") / "axe.min.js").read_text("utf-8")
    async with browsing(
        served, color_scheme=scheme, locale=locale, viewport={"width": 1280, "height": 900}
    ) as (
        tab,
        base,
        wrong,
    ):
        for path in _paths(served[1]):
            answer = await tab.goto(f"{base}/{path}")
            assert answer is not None
            assert answer.status == 200, path
            if not path:
                assert await tab.inner_text("h1") == TITLES[locale]
            await tab.evaluate(axe)
            report = await tab.evaluate("axe.run(document, {resultTypes: ['violations']})")
            for violation in report["violations"]:
                elements = [node["html"][:160] for node in violation["nodes"][:3]]
                assert violation["impact"] not in ("serious", "critical"), (
                    path,
                    violation["id"],
                    elements,
                )
        assert not wrong


@pytest.mark.parametrize("width", [390, pytest.param(800, marks=pytest.mark.full), 1280])
async def test_no_page_is_wider_than_the_window(served: Any, width: int) -> None:
    async with browsing(served, viewport={"width": width, "height": 844}) as (tab, base, _wrong):
        for path in _paths(served[1]):
            await tab.goto(f"{base}/{path}")
            assert await tab.evaluate("document.documentElement.scrollWidth") <= width, path


async def _press_until(tab: Any, label: str, most: int = 60) -> None:
    """Press Tab until the focus is on an element whose text, name or label has this."""
    await tab.wait_for_load_state("networkidle")
    for _ in range(most):
        await tab.keyboard.press("Tab")
        focused = await tab.evaluate(
            "(e => [e.innerText, e.name, e.ariaLabel].filter(Boolean).join(' '))(document.activeElement)"
        )
        if label in focused:
            outline = await tab.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            assert outline != "none"
            return
    raise AssertionError(f"no Tab leads to {label}")


async def test_the_tasks_are_done_by_keyboard_alone(served: Any) -> None:
    async with browsing(served, locale="en-GB") as (tab, base, wrong):
        await tab.goto(f"{base}/")
        await tab.keyboard.press("/")
        await tab.keyboard.type("酸汤鱼")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/find?*")
        await _press_until(tab, "贵州馆子")
        await tab.keyboard.press("Enter")
        await tab.wait_for_url("**/memory?*")
        await _press_until(tab, "Edit it")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("textarea:focus")
        assert not await tab.is_visible("textarea[name=before]")
        await tab.keyboard.press("Control+a")
        await tab.keyboard.type("The Guizhou place is called Shanjiao.")
        await _press_until(tab, "Save the change")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector(".undo")
        assert "Shanjiao" in await tab.inner_text(".big")
        await _press_until(tab, "Pin")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("text=never cleaned up.")
        await _press_until(tab, "Undo")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("text=Undone.")
        await _press_until(tab, "Forget")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("text=1 memory forgotten.")
        await _press_until(tab, "Bring it back")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("text=Restored.")
        await tab.goto(f"{base}/trigger?name=过敏")
        await _press_until(tab, "chat")
        await tab.keyboard.type("芒果")
        await _press_until(tab, "Try it")
        await tab.keyboard.press("Enter")
        await tab.wait_for_selector("text=It comes up")
        assert not wrong


async def test_everything_works_without_scripts(served: Any) -> None:
    async with browsing(served, locale="en-GB", java_script_enabled=False) as (tab, base, _wrong):
        await tab.goto(f"{base}/")
        await tab.fill("input[name=q]", "怕打雷")
        await tab.click("form.search button")
        await tab.click("text=怕打雷 >> nth=-1")
        await tab.click("button:has-text('Forget')")
        assert "1 memory forgotten" in await tab.inner_text(".undo")
        await tab.click(".undo button")
        assert "Undone." in await tab.inner_text(".undo")
        await tab.goto(f"{base}/recalls")
        await tab.click("text=二进制")
        assert "No memory matched" in await tab.inner_text(".receipt")


async def test_the_search_answers_while_one_types(served: Any) -> None:
    async with browsing(served, locale="en-GB") as (tab, base, wrong):
        await tab.goto(f"{base}/")
        await tab.type("input[name=q]", "芝麻")
        await tab.wait_for_selector("#found .row")
        assert tab.url == f"{base}/"
        await tab.keyboard.press("Escape")
        assert not await tab.query_selector("#found .row")
        assert not wrong
