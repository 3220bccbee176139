"""Whatever somebody wrote is shown as text: no text becomes an element, an attribute or an address."""

from __future__ import annotations

import random
import re
from contextlib import suppress
from pathlib import Path

import pytest
from web_page import CHAT, Page, Parsed, ask, opened

from memory_server.kernel.errors import MemoryServerError
from memory_server.kernel.messages import Message
from memory_server.web.view import FOLDER

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("elsewhere")]

HOSTILE = [
    "<script>alert(1)</script>",
    "</textarea><script>alert(2)</script>",
    "</title></style></svg><img src=x onerror=alert(3)>",
    '"><svg onload=alert(4)>',
    "' autofocus onfocus=alert(5) x='",
    "javascript:alert(6)",
    "[a](javascript:alert(7)) ![b](http://evil.example/x.png)",
    "{{7*7}} {% raw %} ${7*7} #{7*7}",
    "\u202egnp.exe\u202c \u2066\u2069",
    "a\u0000b\u0002c\u0003d\u001b[31m",
    "\u200b\u200d\ufeff\u00ad",
    "&lt;script&gt; &amp; &#60;b&#62;",
    "<!-- --> ]]> <![CDATA[ <?php",
    "𝒳\U0001f468\u200d\U0001f469\u200d\U0001f467 ﷽ Z͑ͫ̓ͪ̂ͫ̽͏̴̙",
    "x" * 100_000,
    "%00 %2e%2e/ ../../etc/passwd //evil.example",
    "`;$(touch /tmp/x)|| '",
    "{count} {day!r} {0.__class__}",
    "<a href=//evil.example>click</a>",
    "\r\nSet-Cookie: a=b\r\n\r\n<html>",
]
ALLOWED = frozenset(
    """
    html head meta title link script body a div header nav i span p br details summary main h1 h2 h3 form input
    button svg circle text line path section article ul ol li strong code pre textarea label aside time table
    thead tbody tr th td b dl dt dd em blockquote hr
    """.split()  # noqa: SIM905
)
SCRIPTS = [{"src": "static/page.js", "defer": ""}]
PAGES = (
    "",
    "?by=folder",
    "?by=person",
    "recalls",
    "subject",
    "subjects",
    "history?all=1",
    "history?shelf=1",
    "triggers",
)
PAGES += ("notes", "layers", "facts", "refs", "health", "ask")


def refuse_elements(page: Parsed) -> None:
    assert {tag for tag, _given in page.elements} <= ALLOWED
    assert list(page.named("script")) in ([], SCRIPTS)
    for tag, attributes in page.elements:
        assert not any(
            name.startswith("on") or name in ("style", "srcdoc", "formtarget")
            for name in attributes
        ), (
            tag,
            attributes,
        )
        for name in ("href", "src", "action", "formaction"):
            address = attributes.get(name, "static/x")
            outside = re.match(r"\s*[a-z][a-z0-9+.-]*:|\s*//|\\", address, re.IGNORECASE)
            # A link in a note is for a reader who clicks; it says nothing of where it was.
            link = (
                tag == "a"
                and attributes.get("rel") == "noreferrer noopener"
                and address.startswith("http")
            )
            assert not outside or link or address == "data:,", (tag, address)


async def store_everywhere(page: Page, text: str, number: int) -> None:
    """Put a text into every field that takes it."""
    app = page.app
    at = app.clock() - number * 3_600_000
    messages = [
        Message("user", text, at, text[:190]),
        Message("assistant", f"芒果 {text}", at + 1, "阿澈"),
    ]
    for refusing in (
        lambda: app.conversation(CHAT).short_term.add(messages),
        lambda: app.conversation(CHAT).short_term.add(
            [Message("user", f"芒果 {number} {text}", at)]
        ),
        lambda: app.conversation(CHAT).long_term.add(
            f"{number} {text}"[:190], text[:15_000], f"{text[:50]!r} == 1"
        ),
        lambda: app.conversation(text[:200]).short_term.add(messages),
        lambda: app.knowledge.notes.remember(
            "domain", f"{number} {text}"[:190], f"{text[:9_000]} 芒果", tags=[text[:90]]
        ),
        lambda: app.knowledge.refs.add(f"{text[:9_000]}", "short-term"),
        lambda: ask(app, f"芒果 {text}", cwd=f"/{text[:50]}", client=text[:50]),
    ):
        with suppress(MemoryServerError, IndexError):  # what cannot be stored cannot be shown
            await refusing()


PAIRS = [f"{second} {first}" for first, second in zip(HOSTILE[::2], HOSTILE[1::2], strict=True)]


def many_texts() -> list[str]:
    rng = random.Random(3)
    parts = [text for text in HOSTILE if len(text) < 1_000]
    mixed = ["".join(rng.sample(parts, 3)) for _ in range(180)]
    return [*HOSTILE, *mixed]


@pytest.mark.parametrize(
    ("texts", "most_links"),
    [(PAIRS, 30), pytest.param(many_texts(), 60, marks=pytest.mark.full)],
    ids=["pairs", "many"],
)
async def test_no_hostile_text_becomes_an_element(
    tmp_path: Path, texts: list[str], most_links: int
) -> None:
    rng = random.Random(3)
    async with opened(tmp_path / "data", toolsets="all,notes,sessions,layers,refs") as page:
        for age, text in enumerate(texts):
            await store_everywhere(page, text, age)
        links = set[str]()
        for path in PAGES:
            document = await page.get(path)
            refuse_elements(document)
            links |= document.links
        inner = sorted(
            link
            for link in links
            if link.startswith(("memory?", "trigger?", "entry?", "subject?", "?c=", "recalls?"))
        )
        for link in rng.sample(inner, min(most_links, len(inner))):
            refuse_elements(await page.get(link))
        for text in texts:
            for path in ("find", "ask"):
                refuse_elements(await page.get(path, q=text[:1_500]))
        for name in await page.app.conversations.ids():
            refuse_elements(await page.get("", c=name))


async def test_texts_are_shown_as_they_are(tmp_path: Path) -> None:
    async with opened(tmp_path / "data") as page:
        text = "<b>粗</b> &amp; “x” {{7*7}} \u202eabc"
        [addition] = [
            await page.app.conversation().short_term.add([Message("user", text, page.app.clock())])
        ]
        document = await page.get("memory", id=addition.memory.id)
        assert text in document.text


async def test_no_source_turns_escaping_off() -> None:
    sources = [*FOLDER.rglob("*.py"), *FOLDER.rglob("*.html"), *FOLDER.rglob("*.js")]
    assert len(sources) > 30
    for source in sources:
        text = source.read_text("utf-8")
        for word in (
            "|safe",
            "| safe",
            "Markup",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "autoescape false",
        ):
            if word == "Markup" and source.name == "knowledge.py":
                continue
            assert word not in text, (source, word)
        if source.suffix == ".html":
            assert not re.search(r"\sstyle=|\son[a-z]+=", text), source
        if source.suffix == ".js":
            assert not re.search(r"localStorage|sessionStorage|indexedDB|eval\(", text)
