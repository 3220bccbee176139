"""The page without a browser: an app with memories, a client that was let in, and a strict look at each answer."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx2 as httpx

from memory_server.cli.web import site_of
from memory_server.config import Settings
from memory_server.kernel.messages import Message, Session
from memory_server.runtime.app import App
from memory_server.serving.http.principals import ALL, Principal
from memory_server.web.access import LOOPBACK, OneTimeLink
from memory_server.web.app import page_app
from memory_server.web.view import Site

NOW = "2026-06-20T12:00:00+00:00"
CHAT = "小满"
SERVER = "http://127.0.0.1:8771"
SAME = {"sec-fetch-site": "same-origin"}
VOID = {"meta", "link", "input", "br", "hr", "circle", "line", "path"}


class Parsed(HTMLParser):
    """The elements of a page: names, attributes, and the text that a reader sees. Raises AssertionError: an element
    does not end where it should."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert not self._open, self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self._open, tag
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    def named(self, name: str) -> Iterator[dict[str, str]]:
        return (attributes for tag, attributes in self.elements if tag == name)

    @property
    def links(self) -> set[str]:
        return {attributes["href"] for attributes in self.named("a") if "href" in attributes}


@dataclass
class Page:
    """A client that was let in."""

    app: App
    site: Site
    client: httpx.AsyncClient
    gate: OneTimeLink
    seen: list[str] = field(default_factory=list)

    async def get(self, path: str, status: int = 200, **parameters: str) -> Parsed:
        query = urlencode(parameters)
        answer = await self.client.get(f"/{path}" + (f"?{query}" if query else ""))
        assert answer.status_code == status, (path, answer.status_code, answer.text[-2000:])
        self.seen.append(answer.text)
        return Parsed(answer.text)

    async def do(self, action: str, status: int = 303, **fields: str | Sequence[str]) -> Parsed:
        """Send a form, and read the page that answers it."""
        query = urlencode({"c": CHAT})
        answer = await self.client.post(
            f"/do/{action}?{query}", content=urlencode(fields, doseq=True), headers={**SAME, **FORM}
        )
        assert answer.status_code == status, (action, answer.status_code, answer.text[-2000:])
        if status != 303:
            return Parsed(answer.text)
        target = answer.headers["location"].removeprefix("../").partition("#")[0]
        return await self.get(target)


FORM = {"content-type": "application/x-www-form-urlencoded"}


@asynccontextmanager
async def opened(folder: Path, **more: Any) -> AsyncIterator[Page]:
    """The page of a folder, at `NOW`."""
    settings = Settings(
        data_dir=folder, timezone="UTC", now=datetime.fromisoformat(NOW), conversation=CHAT, **more
    )
    async with App(settings.with_flashbacks(0), session=Session("s")) as app:
        site = site_of(app)
        gate = OneTimeLink(Principal(None, ALL))
        transport = httpx.ASGITransport(app=page_app(lambda _scope: site, gate, LOOPBACK))
        async with httpx.AsyncClient(
            transport=transport, base_url=f"{SERVER}{gate.base}"
        ) as client:
            answer = await client.get(f"{SERVER}{gate.door}", params={"key": gate.key})
            assert answer.status_code == 303
            assert answer.headers["location"] == f"{gate.base}/"
            yield Page(app, site, client, gate)


async def remember(app: App, *texts: str, name: str | None = None, chat: str = CHAT) -> list[str]:
    """Store each text as a memory, an hour apart, the last a day ago; their ids."""
    ids = []
    for number, text in enumerate(texts):
        at = app.clock() - 86_400_000 - (len(texts) - number) * 3_600_000
        answer = Message("assistant", "记下了。", at + 1_000, name)
        done = await app.conversation(chat).short_term.add(
            [Message("user", text, at, name), answer]
        )
        ids.append(done.memory.id)
    return ids


async def ask(app: App, text: str, **asker: str) -> Mapping[str, Any]:
    """Recall for a turn; the line of the record."""
    from dataclasses import replace

    from memory_server.tools.base.tool import call
    from memory_server.tools.turn import recall_turn

    call_of_asker = replace(app.call, asker={"by": "hook", "client": "Claude Code", **asker})
    await call(
        recall_turn,
        call_of_asker,
        {"messages": [{"role": "user", "content": text}], "conversation_id": CHAT},
    )
    line: Mapping[str, Any] = app.recalls.found()[-1].line
    return line


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]
