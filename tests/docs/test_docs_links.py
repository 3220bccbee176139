"""Every relative link and anchor of every Markdown file leads somewhere, and the index names every page."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from docs.markdown_pages import ROOT, Page, agrees, commands_in, page, pages

PAGES = {read.name: read for read in pages()}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    read = PAGES[name]
    broken = []
    for line, target in read.links():
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path, _, anchor = unquote(target).partition("#")
        goal = (read.path.parent / path).resolve() if path else read.path
        if not goal.is_relative_to(ROOT) or not goal.exists():
            broken.append(f"{name}:{line}: {target} is not there")
        elif anchor and (goal.suffix != ".md" or anchor not in Page(goal).anchors):
            broken.append(f"{name}:{line}: {target}: {goal.name} has no such heading")
    assert not broken, "\n".join(broken)


def test_the_index_names_every_page_of_docs() -> None:
    index = page("docs/index.md")
    named = {
        (index.path.parent / target.partition("#")[0]).resolve() for _, target in index.links()
    }
    missing = [
        name for name, read in PAGES.items() if name.startswith("docs/") and read.path not in named
    ]
    assert missing == ["docs/index.md"]


@pytest.mark.parametrize("name", PAGES)
def test_a_list_of_contents_names_every_section_in_order(name: str) -> None:
    read = PAGES[name]
    listed = [
        target[1:]
        for line, target in read.links()
        if target.startswith("#") and _is_item(read, line)
    ]
    sections = [title for level, title in read.headings if level == 2]
    if len(listed) > 2 and not name.startswith("docs/reference/tools"):
        assert len(listed) == len(sections)


def _is_item(read: Page, number: int) -> bool:
    return any(line == number and text.startswith("- [") for line, text in read.prose)


@pytest.mark.parametrize(
    ("printed", "expected", "agree"),
    [
        ("Remembered as 1f; 1 memory.\n", "Remembered as …; 1 memory.", True),
        ("a  \nb\n\n", "a\nb", True),
        ("a\nb\nc\n", "a\n…\nc", True),
        ("a\nb\n", "a", False),
        ("ab", "a.", False),
    ],
)
def test_an_ellipsis_stands_for_any_text(printed: str, expected: str, agree: bool) -> None:
    assert agrees(printed, expected) is agree


def test_sessions_are_read_as_commands_with_their_output() -> None:
    commands = commands_in(page("docs/tutorial/first-memories.md"))
    assert commands[0].command == "export MEMORY_SERVER_DATA_DIR=first-memories"
    assert commands[1].expected.startswith("memories  …first-memories")


def test_anchors_are_those_of_github() -> None:
    assert {"short-term-memoryjson", "the-other-files"} <= set(
        page("docs/reference/data-folder.md").anchors
    )
    assert "接下来看什么" in page("README.zh-CN.md").anchors
