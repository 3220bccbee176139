"""What every page is made with: the reader, the memories that they see, and the templates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.types import Scope

from languages import N_, Sentence, _, counted, foreign, joined, n_, speaking
from memory_server.conversations.conversation import Conversation
from memory_server.conversations.recall.why import WholePoints
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.items import Item
from memory_server.kernel.private import Pauses
from memory_server.kernel.recorded_recall import RecordedRecall
from memory_server.kernel.text import Finding
from memory_server.kernel.values import dataclass, frozen
from memory_server.knowledge.entry import Entry
from memory_server.memories.memories import Call
from memory_server.operations.ports import OpenMemory
from memory_server.tools.base.result import SHOWN_ZONE
from memory_server.web.charts import Piece, underlined
from memory_server.web.receipts import spoken
from memory_server.web.speech import ASKERS, Language, Speech, language_of, pieces, strong
from sandbox import TriggerSandbox

K = TypeVar("K")
V = TypeVar("V")


def _let_go(_value: object) -> None:
    """Nothing is done with a value that is dropped."""


class Recent(Generic[K, V]):
    """At most `most` values by their keys. Beyond that, the value that was put in first is given to `drop`."""

    def __init__(self, most: int, drop: Callable[[V], object] = _let_go) -> None:
        self._most = most
        self._drop = drop
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Add a value as the newest, and drop the oldest ones that are too many."""
        self._values.pop(key, None)
        self._values[key] = value
        while len(self._values) > self._most:
            self._drop(self._values.pop(next(iter(self._values))))

    def __iter__(self) -> Iterator[V]:
        return iter(tuple(self._values.values()))

    def __len__(self) -> int:
        return len(self._values)


FOLDER = Path(__file__).parent
MOST_FLASHES = 100
"""Sentences about what was just done that are kept."""
_BEFORE_CHARS, _EXCERPT_CHARS = 40, 150
"""Characters of an excerpt before the first word that was looked for, and of all of it."""
_MOST_OVERVIEWS, _MOST_FIRINGS, _MOST_WORDS = 32, 16, 2_000
"""Values of a site that are kept: overviews of conversations and folders, tasks, and triggers."""
FAMILY_NAMES = N_(
    {
        "triggers": "trigger",
        "notes": "note",
        "layers": "layer",
        "sessions": "fact",
        "refs": "ref",
    }
)
WHO = N_(
    {
        "page": "you, on this page",
        "hook": "from a chat program (hook)",
        "hand": "an edit of the file",
        "upkeep": "the daily upkeep",
        "chat": "an import",
        "import": "an import",
        "undo_change": "an undo",
    }
)


@frozen
class Flash:
    """What was just done: a sentence, the change that takes it back (None: nothing does), and what to show as
    changed."""

    said: Sentence
    change: str | None = None
    place: str = ""
    changed: str = ""


class PageCache:
    """Values that a request made for later requests. `firings`: when triggers fire by themselves; `words`: the words
    of triggers; `overviews`: the subjects of a conversation, each with its version; `examinations`: the last of each
    language."""

    def __init__(self) -> None:
        self.flashes = Recent[str, Flash](MOST_FLASHES)
        self.overviews = Recent[Hashable, tuple[Hashable, Any]](_MOST_OVERVIEWS)
        self.firings = Recent[Hashable, asyncio.Task[Any]](_MOST_FIRINGS, asyncio.Task.cancel)
        self.words = Recent[str, Sequence[str]](_MOST_WORDS)
        self.examinations: dict[Language, Examination] = {}


@frozen
class Examination:
    """What was found about the folder, the disk, the clock, the words and the sandbox, and when."""

    findings: Sequence[Finding]
    at_ms: int


@dataclass(frozen=True)
class Site:
    """A home as the page shows it. `call` gives the memories that a request may see; `keep_ms`: how long the past is
    kept; `pauses` is None if the page cannot pause; `sandbox` is used to try triggers; `user_home`: the folder that
    `~` means; `alone`: only the user of this machine can see the page. From the memories of the `owner` texts are
    erased for good, and their files are mended; without an owner neither is possible. `tenants` gives the names of
    the tenants beside these memories."""

    call: Callable[[Scope], AbstractAsyncContextManager[Call]]
    keep_ms: int
    writable: bool
    sandbox: TriggerSandbox
    pauses: Pauses | None = None
    user_home: str = ""
    alone: bool = True
    owner: OpenMemory | None = None
    tenants: Callable[[], Sequence[str]] = tuple
    made: PageCache = field(default_factory=lambda: PageCache())


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
        """Return a parameter of the address; empty if it is not there."""
        return self.request.query_params.get(name, "")

    def link(self, page: str, /, **parameters: object) -> str:
        """Return the address of a page, in the conversation and language of this one."""
        own = {"c": self.conversation.id, "lang": self["lang"], "folder": self["folder"]}
        query = urlencode(
            {
                name: str(value)
                for name, value in (own | parameters).items()
                if value not in ("", None)
            }
        )
        if not query:
            return page
        return f"{page}?{query}"

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
        """This page, for a form to come back to; empty where a form was sent."""
        if self.request.method != "GET":
            return ""
        page = self.request.url.path.rpartition("/")[2]
        return f"{page}?{self._query()}"

    def _query(self, **changes: str) -> str:
        """Return the parameters of this address with changes, without `done`."""
        parameters = {
            name: value for name, value in self.request.query_params.items() if name != "done"
        }
        return urlencode(parameters | changes)

    def short(self, folder: str) -> str:
        """Write a folder as a shell does."""
        home = self.site.user_home
        if home and folder.startswith(home):
            return f"~{folder[len(home) :]}"
        return folder

    def whence(self, recall: RecordedRecall) -> str:
        """Say who asked, and in which folder."""
        folder = self.short(recall.cwd)
        if recall.client:
            return ", ".join(filter(None, (recall.client, folder)))
        asker = _(ASKERS.get(recall.by, recall.by))
        return joined(", ", filter(None, (asker, folder)))

    def capital(self, text: str) -> str:
        return text[:1].upper() + text[1:]

    def kinds(self, counts: Mapping[str, int]) -> str:
        """Say what else is kept, as `3 notes, 2 facts and 4 refs`, without kinds of which nothing
        is kept."""
        parts: list[str] = []
        if counts.get("notes"):
            parts.append(counted(counts["notes"], "note"))
        if counts.get("sessions"):
            parts.append(counted(counts["sessions"], "fact"))
        if counts.get("refs"):
            parts.append(counted(counts["refs"], "ref"))
        if len(parts) < 2:
            return "".join(parts)
        # In Chinese a mark stands between all of them, for nothing separates a 和 from a number.
        before_last = ", " if self.speech.zh else " and "
        return joined(before_last, [joined(", ", parts[:-1]), parts[-1]])

    def by(self, name: str) -> str:
        """Who changed something, for a person; tools and commands have their own names."""
        if name in WHO:
            return _(WHO[name])
        return _("the tool or command {name}", name)

    def marked(self, item: Item, sought: str) -> list[Piece]:
        """Cut the text of an item around the first place of the first word of `sought`, with all words underlined."""
        text = " ".join(" ".join(item.said).split())
        if not text:
            titled = f"{item.title}: {item.text}" if item.title else item.text
            text = " ".join(titled.split())
        first_word = sought.casefold().split()[0]
        start = max(0, text.casefold().find(first_word) - _BEFORE_CHARS)
        if start and " " in text[start : start + 30]:
            start = text.find(" ", start) + 1
        excerpt = self.speech.cut(text[start:], _EXCERPT_CHARS)
        if start:
            excerpt = "…" + excerpt
        return underlined(excerpt, dict.fromkeys(sought.split(), 1.0), 1.0)

    def link_of(self, item: Item) -> str:
        """Return the page of something that was found."""
        if item.family == "memories":
            return self.link("memory", c=item.place, id=item.id)
        if item.family == "triggers":
            return self.link("trigger", c=item.place, name=item.id)
        return self.link("entry", family=item.place, id=item.id)

    def entry_name(self, entry: Entry, family: str) -> str:
        """Return what names an entry in links and forms."""
        if family.startswith("layers"):
            return entry.key or ""
        if family.startswith("sessions") or not entry.ref:
            return str(entry.id)
        return entry.ref

    async def page(self, template: str, status: int = 200, **values: Any) -> HTMLResponse:
        """Make a page of this reader. Its template is filled in a thread of the tenant: other callers go on
        meanwhile."""
        paused = self.call.memories.services.paused()
        flash = self.site.made.flashes.get(self["done"]) if self["done"] else None
        common = {
            "view": self,
            "paused": paused,
            "flash": flash,
            "current": template.removesuffix(".html"),
        }
        text = await asyncio.to_thread(render, self.speech.language, template, common | values)
        return HTMLResponse(text, status)


@asynccontextmanager
async def viewed(site: Site, request: Request) -> AsyncIterator[View]:
    """Give the view of a request, in the reader's language: of the named conversation or the usual one, or if that does
    not exist, of the one that is used most. Raises InvalidInput if the conversation's name cannot be used."""
    async with site.call(request.scope) as call:
        services = call.memories.services
        language = language_of(
            request.headers.get("accept-language", ""), request.query_params.get("lang")
        )
        SHOWN_ZONE.set(services.zone)
        names = await call.conversations.ids()
        named = request.query_params.get("c")
        usual = call.conversations.get(None).id
        # A program may use another conversation than the usual one, which would look empty.
        if named is None and usual not in names and names:
            usual = await call.conversations.most_frequent() or names[0]
        conversation = call.conversations.get(named or usual)
        speech = Speech(language, services.zone, services.clock())
        with speaking(language):
            yield View(site, request, call, speech, conversation, names)


def request_of(language: str) -> Request:
    """Make a request without a sender, for pages that are made without a server."""
    query = urlencode({"lang": language} if language else {}).encode()
    return Request(
        {"type": "http", "method": "GET", "path": "/", "query_string": query, "headers": []}
    )


async def form_of(request: Request) -> Mapping[str, list[str]]:
    """Return the fields of a form, which the guard has received. Raises InvalidInput: it is not a form."""
    try:
        text = (await request.body()).decode("ascii")
        return parse_qs(text, keep_blank_values=True, max_num_fields=1_000, errors="strict")
    except ValueError as error:
        raise InvalidInput("The form cannot be read; send it from the page.") from error


@cache
def environment(language: Language) -> Environment:
    """Load the templates for readers of this language."""
    templates = Environment(
        loader=FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        # A mistake in a template is an error and not an empty place on the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.globals |= {
        "_": _,
        "n_": n_,
        "strong": strong,
        "pieces": pieces,
        "spoken": spoken,
        "language": language,
    }
    templates.globals |= {"foreign": foreign, "family_names": FAMILY_NAMES}
    templates.globals |= {"whole_points": WholePoints.of}
    templates.globals |= {
        "gap": "" if language == "zh" else " ",
        "comma": "，" if language == "zh" else ", ",
    }
    return templates


def render(language: Language, template: str, values: Mapping[str, Any]) -> str:
    with speaking(language):
        return environment(language).get_template(template).render(values)
