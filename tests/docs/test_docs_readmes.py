"""The Chinese pages are as complete as the English ones, and no page tells what readers cannot use."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from docs.markdown_pages import ROOT, page, pages

PAIRS = [(read.name.replace(".zh-CN.md", ".md"), read.name) for read in pages() if read.name.endswith(".zh-CN.md")]


def test_what_users_read_first_is_there_in_chinese() -> None:
    assert PAIRS == [
        ("README.md", "README.zh-CN.md"),
        ("docs/explanation/recall-quality.md", "docs/explanation/recall-quality.zh-CN.md"),
        ("docs/tutorial/first-memories.md", "docs/tutorial/first-memories.zh-CN.md"),
        ("docs/tutorial/first-trigger.md", "docs/tutorial/first-trigger.zh-CN.md"),
    ]


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_both_languages_have_the_same_sections_and_blocks(english: str, chinese: str) -> None:
    one, other = page(english), page(chinese)
    assert [level for level, _ in one.headings] == [level for level, _ in other.headings]
    assert [(b.info, b.text) for b in one.blocks] == [(b.info, b.text) for b in other.blocks]


@pytest.mark.parametrize(("english", "chinese"), PAIRS)
def test_both_languages_name_the_same_code_and_lead_to_the_same_pages(english: str, chinese: str) -> None:
    one, other = page(english), page(chinese)
    assert _codes(one.text) == _codes(other.text)
    assert Counter(_goals(one.name)) == Counter(_goals(other.name))


def _codes(text: str) -> Counter[str]:
    return Counter(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL)))


def _goals(name: str) -> list[str]:
    read = page(name)
    return [target.replace(".zh-CN.md", ".md") for _, target in read.links()][1:]


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
