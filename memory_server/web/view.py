"""What every page is made with: the reader, the memories that they see, and the templates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from memory_server.conversations.conversation import Conversation
from memory_server.kernel.erasure import Erasure
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item
from memory_server.kernel.private import Pauses
from memory_server.kernel.text import Finding
from memory_server.knowledge.entry import Entry
from memory_server.memories.memories import Call
from memory_server.tools.base.result import SHOWN_ZONE
from memory_server.web.charts import Piece, underlined
from memory_server.web.receipts import spoken
from memory_server.web.recent import Recent
from memory_server.web.speech import PACKAGE, Language, Speech, language_of, pieces, strong
from sandbox import TriggerSandbox
from sandbox.locale import _, foreign, joined, n_, said_in

FOLDER = Path(__file__).parent
MOST_FLASHES = 100
_MOST_OVERVIEWS, _MOST_FIRINGS, _MOST_WORDS = 32, 16, 2_000
"""Values of one site that are kept: overviews of conversations and folders, tasks, and triggers."""
FAMILY_NAMES = {
    "triggers": _("trigger"),
    "notes": _("note"),
    "layers": _("layer"),
    "sessions": _("fact"),
    "refs": _("ref"),
}
WHO = {
    "page": _("you, on this page"),
    "hook": _("from a chat program (hook)"),
    "hand": _("somebody with an editor"),
    "upkeep": _("the daily upkeep"),
    "chat": _("an import"),
    "import": _("an import"),
    "undo_change": _("an undoing"),
}


@dataclass(frozen=True, slots=True)
class Flash:
    """What was just done: a sentence, the change that takes it back (empty: nothing does), and what to show as
    changed."""

    said: str
    change: str = ""
    place: str = ""
    changed: str = ""


class Mended(Protocol):
    """What a repair does to a conversation."""

    @property
    def conversation_id(self) -> str: ...
    @property
    def steps(self) -> Sequence[str]: ...


class Repairs(Protocol):
    """The blocking repairs of a home, one for each conversation; None: nothing is broken there."""

    def __call__(self, *, dry_run: bool) -> Sequence[Callable[[], Mended | None]]: ...


class Eraser(Protocol):
    """What erases for good at this home."""

    async def backups_with(self, erasure: Erasure) -> list[str]: ...
    async def erase(self, erasure: Erasure, backups: Sequence[str]) -> list[str]:
        """Where it is found afterwards; the backups that were not named may still have it."""


class Made:
    """What one request made for later ones. `firings`: when triggers fire by themselves; `words`: what triggers look
    for; `overviews`: what a conversation is about, each with the version that it is of."""

    def __init__(self) -> None:
        self.flashes = Recent[str, Flash](MOST_FLASHES)
        self.overviews = Recent[Hashable, tuple[Hashable, Any]](_MOST_OVERVIEWS)
        self.firings = Recent[Hashable, asyncio.Task[Any]](_MOST_FIRINGS, asyncio.Task.cancel)
        self.words = Recent[str, Sequence[str]](_MOST_WORDS)
        self.examination: Examination | None = None


@dataclass(frozen=True, slots=True)
class Examination:
    """What was found about the folder, the disk, the clock, the words and the sandbox, and when."""

    findings: Sequence[Finding]
    at_ms: int


@dataclass(frozen=True)
class Site:
    """A home as the page shows it. `call` gives the memories that a request may see; `keep_ms`: how long the past is
    kept; `pauses` None: the page cannot pause; `sandbox`: for trying triggers; `user_home`: the folder that `~` stands
    for; `alone`: nobody but the user of this machine can see the page; `eraser` None: nothing can be erased for good
    here; `repairs` None: nothing can be mended here; `tenants` gives the names of those beside these memories."""

    call: Callable[[Scope], AbstractAsyncContextManager[Call]]
    keep_ms: int
    writable: bool
    sandbox: TriggerSandbox
    pauses: Pauses | None = None
    user_home: str = ""
    alone: bool = True
    eraser: Eraser | None = None
    repairs: Repairs | None = None
    tenants: Callable[[], Sequence[str]] = tuple
    made: Made = field(default_factory=lambda: Made())


@dataclass(frozen=True)
class View:
    """One request."""

    site: Site
    request: Request
    call: Call
    speech: Speech
    conversation: Conversation
    names: list[str]
    """All conversations."""

    def __getitem__(self, name: str) -> str:
        """A parameter of the address; empty if it is not there."""
        return self.request.query_params.get(name, "")

    def link(self, page: str, /, **parameters: object) -> str:
        """The address of a page, in the conversation and language of this one."""
        given = {"c": self.conversation.id, "lang": self["lang"], "folder": self["folder"]} | parameters
        query = urlencode({name: str(value) for name, value in given.items() if value not in ("", None)})
        return f"{page}?{query}" if query else page

    def say(self, text: str) -> str:
        return self.speech.say(text)

    @property
    def writable(self) -> bool:
        return self.site.writable

    @property
    def query(self) -> str:
        """The parameters of this address, without what was just done."""
        return self._query()

    @property
    def other_language(self) -> str:
        return self._query(lang="en" if self.speech.zh else "zh")

    @property
    def here(self) -> str:
        """This page, for a form to come back to."""
        page = self.request.url.path.rpartition("/")[2]
        return f"{page}?{self._query()}" if self.request.method == "GET" else ""

    def _query(self, **other: str) -> str:
        known = {name: value for name, value in self.request.query_params.items() if name != "done"}
        return urlencode(known | other)

    def short(self, folder: str) -> str:
        """A folder as a shell writes it."""
        home = self.site.user_home
        return f"~{folder[len(home) :]}" if home and folder.startswith(home) else folder

    def capital(self, text: str) -> str:
        return text[:1].upper() + text[1:]

    def kinds(self, counts: Mapping[str, int]) -> str:
        """`3 notes, 2 facts and 4 refs`: what else is kept, of each kind."""
        forms = {
            "notes": n_("{count} note", "{count} notes", counts.get("notes", 0)),
            "sessions": n_("{count} fact", "{count} facts", counts.get("sessions", 0)),
            "refs": n_("{count} ref", "{count} refs", counts.get("refs", 0)),
        }
        *first, last = [said for kind, said in forms.items() if counts.get(kind)] or [""]
        # In Chinese a mark stands between all of them, for nothing separates a 和 from a number.
        return joined(", " if self.speech.zh else " and ", [joined(", ", first), last] if first else [last])

    def by(self, name: str) -> str:
        """Who changed something, for a person; tools and commands have their own names."""
        return WHO.get(name) or _("the tool or command {name}", name)

    def marked(self, item: Item, sought: str) -> list[Piece]:
        """A text around the first place where the words are, with these underlined."""
        said = " ".join(" ".join(item.said).split())
        text = said or " ".join((f"{item.title}: {item.text}" if item.title else item.text).split())
        place = max(0, text.casefold().find(sought.casefold().split()[0]) - 40)
        place = text.find(" ", place) + 1 if place and " " in text[place : place + 30] else place
        cut = self.speech.cut(text[place:], 150)
        return underlined(("…" if place else "") + cut, dict.fromkeys(sought.split(), 1.0), 1.0)

    def link_of(self, item: Item) -> str:
        """The page of something that was found."""
        if item.family == "memories":
            return self.link("memory", c=item.place, id=item.id)
        if item.family == "triggers":
            return self.link("trigger", c=item.place, name=item.id)
        return self.link("entry", family=item.place, id=item.id)

    def entry_name(self, entry: Entry, family: str) -> str:
        """What names an entry in links and forms."""
        if family.startswith("layers"):
            return entry.key or ""
        return str(entry.id) if family.startswith("sessions") or not entry.ref else entry.ref

    async def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """A page of this reader. Its template is filled in a thread of the tenant: other callers go on meanwhile."""
        paused = self.call.memories.services.paused()
        flash = self.site.made.flashes.get(self["done"]) if self["done"] else None
        common = {"view": self, "paused": paused, "flash": flash, "current": template.removesuffix(".html")}
        text = await asyncio.to_thread(render, self.speech.language, template, common | values)
        return HTMLResponse(text, status)


@asynccontextmanager
async def viewed(site: Site, request: Request) -> AsyncIterator[View]:
    """The view of a request. Raises InvalidInput: the conversation's name cannot be used."""
    async with site.call(request.scope) as call:
        services = call.memories.services
        language = language_of(request.headers.get("accept-language", ""), request.query_params.get("lang"))
        SHOWN_ZONE.set(services.zone)
        names = await call.conversations.ids()
        given = request.query_params.get("c")
        usual = call.conversations.get(None).id
        if given is None and usual not in names and names:
            usual = await call.conversations.most_frequent() or names[0]
        conversation = call.conversations.get(given or usual)
        yield View(site, request, call, Speech(language, services.zone, services.clock()), conversation, names)


def request_of(language: str) -> Request:
    """A request of nobody, for what is made without a server."""
    query = urlencode({"lang": language} if language else {}).encode()
    return Request({"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": []})


async def form_of(request: Request) -> Mapping[str, list[str]]:
    """The fields of a form, which the guard has received. Raises InvalidInput: it is not one."""
    try:
        text = (await request.body()).decode("ascii")
        return parse_qs(text, keep_blank_values=True, max_num_fields=1_000, errors="strict")
    except ValueError as error:
        raise InvalidInput("The form cannot be read; send it from the page.") from error


@cache
def environment(language: Language) -> Environment:
    """The templates; messages come out of them in this language."""
    made = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: said_in(value, language, PACKAGE) if isinstance(value, str) else value,
    )
    made.globals |= {"_": _, "n_": n_, "strong": strong, "pieces": pieces, "spoken": spoken, "language": language}
    made.globals |= {"foreign": foreign, "family_names": FAMILY_NAMES}
    made.globals |= {"gap": "" if language == "zh" else " ", "comma": "，" if language == "zh" else ", "}
    return made


def render(language: Language, template: str, values: Mapping[str, Any]) -> str:
    return environment(language).get_template(template).render(values)
