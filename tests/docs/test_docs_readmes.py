"""The Chinese pages are as complete as the English ones, and no page tells what readers cannot use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from docs.markdown_pages import CHINESE, ROOT, Block, Page, english, page, pages

PAIRS = [(english(read.name), read.name) for read in pages() if read.name.endswith(CHINESE)]
TRIGGERS = "docs/reference/trigger-api.md"


def test_what_users_read_first_is_there_in_chinese() -> None:
    assert PAIRS == [
        ("README.md", "README.zh-CN.md"),
        ("distribution/astrbot/README.md", "distribution/astrbot/README.zh-CN.md"),
        ("distribution/hermes/README.md", "distribution/hermes/README.zh-CN.md"),
        ("docs/explanation/recall-quality.md", "docs/explanation/recall-quality.zh-CN.md"),
        ("docs/how-to/choose-a-language.md", "docs/how-to/choose-a-language.zh-CN.md"),
        ("docs/how-to/come-from-elsewhere.md", "docs/how-to/come-from-elsewhere.zh-CN.md"),
        ("docs/how-to/companion-in-process.md", "docs/how-to/companion-in-process.zh-CN.md"),
        ("docs/how-to/companion-over-http.md", "docs/how-to/companion-over-http.zh-CN.md"),
        ("docs/how-to/connect-a-client.md", "docs/how-to/connect-a-client.zh-CN.md"),
        ("docs/how-to/edit-by-hand.md", "docs/how-to/edit-by-hand.zh-CN.md"),
        ("docs/how-to/find-by-meaning.md", "docs/how-to/find-by-meaning.zh-CN.md"),
        ("docs/how-to/find-by-other-words.md", "docs/how-to/find-by-other-words.zh-CN.md"),
        ("docs/how-to/forget-and-erase.md", "docs/how-to/forget-and-erase.zh-CN.md"),
        ("docs/how-to/import-and-export.md", "docs/how-to/import-and-export.zh-CN.md"),
        ("docs/how-to/import-world-info.md", "docs/how-to/import-world-info.zh-CN.md"),
        ("docs/how-to/keep-notes.md", "docs/how-to/keep-notes.zh-CN.md"),
        ("docs/how-to/memory-for-several-users.md", "docs/how-to/memory-for-several-users.zh-CN.md"),
        ("docs/how-to/memory-in-astrbot.md", "docs/how-to/memory-in-astrbot.zh-CN.md"),
        ("docs/how-to/memory-in-hermes.md", "docs/how-to/memory-in-hermes.zh-CN.md"),
        ("docs/how-to/memory-in-sillytavern.md", "docs/how-to/memory-in-sillytavern.zh-CN.md"),
        ("docs/how-to/memory-unasked.md", "docs/how-to/memory-unasked.zh-CN.md"),
        ("docs/how-to/see-what-it-remembers.md", "docs/how-to/see-what-it-remembers.zh-CN.md"),
        ("docs/how-to/serve-several-users.md", "docs/how-to/serve-several-users.zh-CN.md"),
        ("docs/how-to/several-nodes.md", "docs/how-to/several-nodes.zh-CN.md"),
        ("docs/how-to/two-machines.md", "docs/how-to/two-machines.zh-CN.md"),
        (TRIGGERS, "docs/reference/trigger-api.zh-CN.md"),
        ("docs/reference/which-tool.md", "docs/reference/which-tool.zh-CN.md"),
        ("docs/tutorial/first-memories.md", "docs/tutorial/first-memories.zh-CN.md"),
        ("docs/tutorial/first-trigger.md", "docs/tutorial/first-trigger.zh-CN.md"),
    ]


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_both_languages_have_the_same_sections_and_blocks(one: str, other: str) -> None:
    assert [level for level, _ in page(one).headings] == [level for level, _ in page(other).headings]
    blocks, translated = page(one).blocks, page(other).blocks
    assert [block.info for block in blocks] == [block.info for block in translated]
    for block, its in zip(blocks, translated, strict=True):
        assert its.text == block.text or _may_differ(its, one), f"{other}:{its.line}"


def _may_differ(block: Block, name: str) -> bool:
    """Whether a test runs a Chinese page's own form of `block`, or it is an example's output or a text to paste."""
    if name == TRIGGERS:
        return block.language in ("json", "js")
    return bool(block.file_name) or block.language in ("console", "python", "text")


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_both_languages_name_the_same_code_and_lead_to_the_same_places(one: str, other: str) -> None:
    assert _codes(page(one).text) == _codes(page(other).text)
    assert Counter(_goals(page(one))) == Counter(_goals(page(other)))


@pytest.mark.parametrize("name", [chinese for _, chinese in PAIRS])
def test_a_page_begins_with_a_link_to_its_other_language_and_leads_on_in_its_own(name: str) -> None:
    (_, there), *others = page(name).links()
    (_, back), *_ = page(english(name)).links()
    assert (there, back) == (english(Path(name).name), Path(name).name)
    led = {(ROOT / name).parent.joinpath(target.partition("#")[0]).resolve() for _, target in others}
    assert not [one for one, _ in PAIRS if ROOT / one in led]


def _codes(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def _goals(read: Page) -> list[tuple[str, int | None]]:
    """Where the links of a page lead after the one to its other language: an English page, and which heading of it."""
    return [_goal(read, target) for _, target in read.links()][1:]


def _goal(read: Page, target: str) -> tuple[str, int | None]:
    path, _, anchor = target.partition("#")
    goal = (read.path.parent / path).resolve() if path else read.path
    name = english(path or read.path.name)
    return name, Page(goal).anchors.index(anchor) if anchor else None


def _of(*parts: str) -> str:
    return "".join(parts)


# Put together here, so that this file holds none of them.
FORBIDDEN = {
    "a package registry": (_of("py", "pi.", "org"), _of("python", "hosted"), _of("npm", "js."), _of("pkgs.", "dev")),
    "a path of one machine": (
        *(f"{path}/" for path in (ROOT, Path.home()) if len(path.parts) > 2),
        _of("/", "work/"),
        _of("/", "root/"),
    ),
    "a tool that readers do not have": (_of("../", "shared"), _of("issues ", "show"), _of("farm", "-")),
    "a document that readers do not have": (_of("DESIGN", ".md"), _of("STYLE", ".md"), _of("facts", "/"), "seed 002"),
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_no_page_names(what: str) -> None:
    found = [
        f"{read.name}: {word}" for read in pages() for word in FORBIDDEN[what] if word.lower() in read.text.lower()
    ]
    assert not found


def test_no_page_says_that_a_registry_has_it() -> None:
    claims = re.compile(r"(?:pip|pipx|uv|uvx)(?: install| tool install)? memory-server\b", re.IGNORECASE)
    assert not [read.name for read in pages() if claims.search(read.text)]
