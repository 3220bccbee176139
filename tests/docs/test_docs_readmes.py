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
        ("docs/explanation/other-memories.md", "docs/explanation/other-memories.zh-CN.md"),
        ("docs/explanation/recall-quality.md", "docs/explanation/recall-quality.zh-CN.md"),
        ("docs/how-to/chat-programs.md", "docs/how-to/chat-programs.zh-CN.md"),
        ("docs/how-to/companion.md", "docs/how-to/companion.zh-CN.md"),
        ("docs/how-to/connect-a-client.md", "docs/how-to/connect-a-client.zh-CN.md"),
        (
            "docs/how-to/examine-after-a-change.md",
            "docs/how-to/examine-after-a-change.zh-CN.md",
        ),
        ("docs/how-to/find-by-meaning.md", "docs/how-to/find-by-meaning.zh-CN.md"),
        ("docs/how-to/forget-and-erase.md", "docs/how-to/forget-and-erase.zh-CN.md"),
        ("docs/how-to/import-and-export.md", "docs/how-to/import-and-export.zh-CN.md"),
        ("docs/how-to/import-world-info.md", "docs/how-to/import-world-info.zh-CN.md"),
        ("docs/how-to/keep-notes.md", "docs/how-to/keep-notes.zh-CN.md"),
        (
            "docs/how-to/memory-for-several-users.md",
            "docs/how-to/memory-for-several-users.zh-CN.md",
        ),
        ("docs/how-to/memory-unasked.md", "docs/how-to/memory-unasked.zh-CN.md"),
        ("docs/how-to/move-a-home.md", "docs/how-to/move-a-home.zh-CN.md"),
        ("docs/how-to/run-a-server.md", "docs/how-to/run-a-server.zh-CN.md"),
        ("docs/how-to/see-what-it-remembers.md", "docs/how-to/see-what-it-remembers.zh-CN.md"),
        ("docs/how-to/several-nodes.md", "docs/how-to/several-nodes.zh-CN.md"),
        ("docs/how-to/two-machines.md", "docs/how-to/two-machines.zh-CN.md"),
        ("docs/how-to/upgrade.md", "docs/how-to/upgrade.zh-CN.md"),
        ("docs/reference/import-forms.md", "docs/reference/import-forms.zh-CN.md"),
        (TRIGGERS, "docs/reference/trigger-api.zh-CN.md"),
        ("docs/reference/which-tool.md", "docs/reference/which-tool.zh-CN.md"),
        ("docs/tutorial/first-memories.md", "docs/tutorial/first-memories.zh-CN.md"),
        ("docs/tutorial/first-trigger.md", "docs/tutorial/first-trigger.zh-CN.md"),
    ]


@pytest.mark.parametrize(("english_name", "chinese_name"), PAIRS)
def test_both_languages_have_the_same_sections_and_blocks(
    english_name: str, chinese_name: str
) -> None:
    assert [level for level, _ in page(english_name).headings] == [
        level for level, _ in page(chinese_name).headings
    ]
    blocks = page(english_name).blocks
    translated_blocks = page(chinese_name).blocks
    assert [block.info for block in blocks] == [block.info for block in translated_blocks]
    for block, translated in zip(blocks, translated_blocks, strict=True):
        is_right = translated.text == block.text or _may_differ(translated, english_name)
        assert is_right, f"{chinese_name}:{translated.line}"


def _may_differ(block: Block, name: str) -> bool:
    """Whether a test runs a Chinese page's own form of `block`, or it is an example's output or a text to paste."""
    if name == TRIGGERS:
        return block.language in ("json", "js")
    return bool(block.file_name) or block.language in ("console", "python", "text")


@pytest.mark.parametrize(("english_name", "chinese_name"), PAIRS)
def test_both_languages_name_the_same_code_and_lead_to_the_same_places(
    english_name: str, chinese_name: str
) -> None:
    assert _codes(page(english_name).text) == _codes(page(chinese_name).text)
    assert Counter(_goals(page(english_name))) == Counter(_goals(page(chinese_name)))


@pytest.mark.parametrize("name", [chinese for _, chinese in PAIRS])
def test_a_page_begins_with_a_link_to_its_other_language_and_leads_on_in_its_own(name: str) -> None:
    (_, first_target), *other_links = page(name).links()
    (_, first_target_in_english), *_ = page(english(name)).links()
    assert first_target == english(Path(name).name)
    assert first_target_in_english == Path(name).name
    folder = (ROOT / name).parent
    goals = {folder.joinpath(target.partition("#")[0]).resolve() for _, target in other_links}
    assert not [english_name for english_name, _ in PAIRS if ROOT / english_name in goals]


def _codes(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def _goals(read: Page) -> list[tuple[str, int | None]]:
    """Where the links of a page lead after the one to its other language: an English page, and which heading of it."""
    return [_goal(read, target) for _, target in read.links()][1:]


def _goal(read: Page, target: str) -> tuple[str, int | None]:
    path, _, anchor = target.partition("#")
    goal = (read.path.parent / path).resolve() if path else read.path
    name = english(path or read.path.name)
    if not anchor:
        return name, None
    return name, Page(goal).anchors.index(anchor)


def _of(*parts: str) -> str:
    return "".join(parts)


# Put together here, so that this file holds none of them.
FORBIDDEN = {
    "a package registry": (
        _of("py", "pi.", "org"),
        _of("python", "hosted"),
        _of("npm", "js."),
        _of("pkgs.", "dev"),
    ),
    "a path of one machine": (
        *(f"{path}/" for path in (ROOT, Path.home()) if len(path.parts) > 2),
        _of("/", "work/"),
        _of("/", "root/"),
    ),
    "a tool that readers do not have": (
        _of("../", "shared"),
        _of("issues ", "show"),
        _of("farm", "-"),
    ),
    "a document that readers do not have": (
        _of("DESIGN", ".md"),
        _of("STYLE", ".md"),
        _of("facts", "/"),
        "seed 002",
    ),
}


@pytest.mark.parametrize("kind", FORBIDDEN)
def test_no_page_names(kind: str) -> None:
    for read in pages():
        text = read.text.lower()
        assert not [word for word in FORBIDDEN[kind] if word.lower() in text], read.name


def test_no_page_says_that_a_registry_has_it() -> None:
    claims = re.compile(
        r"(?:pip|pipx|uv|uvx)(?: install| tool install)? memory-server\b", re.IGNORECASE
    )
    assert not [read.name for read in pages() if claims.search(read.text)]
