"""Reading this repository's Markdown: pages, headings with their anchors, links, fenced blocks, console sessions.

The conventions of the examples, which test_docs_examples.py runs:

    ```console   a session: `$ ` begins a command, the lines below it are what it prints; `…` stands for any text
    ```python    a whole program; a ```text block right after it is what it prints
    ```jsonl chat.jsonl   a file of that name (any language), made before what follows; ```toml, ```js, ```json too
    ```sh        commands for the reader's own machine; not run, but what they call must exist
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from project_files import ROOT, project_files

CHINESE = ".zh-CN.md"
"""How the name of a Chinese page ends; that of its English page ends with `.md` instead."""
_FENCE = re.compile(r"^(?P<indent> *)(?P<fence>`{3,}|~{3,})(?P<info>[^`]*)$")
_HEADING = re.compile(r"^(#{1,6}) +(.*?) *#*$")
_LINK = re.compile(
    r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\((<[^>]*>|[^()\s]*(?:\([^()]*\)[^()\s]*)*)(?:\s+\"[^\"]*\")?\)"
)


@dataclass(frozen=True)
class Block:
    """A fenced block. `info` is what stands behind the opening fence, `line` the number of its first line."""

    info: str
    text: str
    line: int

    @property
    def language(self) -> str:
        return self.info.partition(" ")[0]

    @property
    def file_name(self) -> str:
        return self.info.partition(" ")[2].strip()


@dataclass(frozen=True)
class Step:
    """A command of a console block and what it is said to print."""

    command: str
    expected: str
    line: int


class Page:
    """One Markdown file, taken apart once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.name = path.relative_to(ROOT).as_posix()
        self.text = path.read_text(encoding="utf-8")
        self.blocks: list[Block] = []
        self.prose: list[tuple[int, str]] = []
        self._take_apart()
        self.headings = [(len(m[1]), m[2]) for _, line in self.prose if (m := _HEADING.match(line))]
        self.anchors = list(_anchors(title for _, title in self.headings))

    def links(self) -> Iterator[tuple[int, str]]:
        """Line number and target of every link."""
        for number, line in self.prose:
            for match in _LINK.finditer(re.sub(r"`[^`]*`", "``", line)):
                yield number, match[1].strip("<>")

    def _take_apart(self) -> None:
        fence = ""
        info = ""
        start = 0
        body: list[str] = []
        for number, line in enumerate(self.text.splitlines(), 1):
            match = _FENCE.match(line)
            if fence:
                if match and match["fence"].startswith(fence) and not match["info"].strip():
                    self.blocks.append(Block(info, "\n".join(body), start))
                    fence = ""
                else:
                    body.append(line)
            elif match:
                fence = match["fence"]
                info = match["info"].strip()
                start = number + 1
                body = []
            else:
                self.prose.append((number, line))
        assert not fence, f"{self.name}:{start - 1}: the block is never closed"


def pages() -> list[Page]:
    """Every Markdown file of the repository, by name."""
    return [Page(path) for path in project_files() if path.suffix == ".md"]


def page(name: str) -> Page:
    """The page at `name`, relative to the root."""
    return Page(ROOT / name)


def english(name: str) -> str:
    """The name of the English page of the page `name`: of itself when it is English."""
    return name.replace(CHINESE, ".md")


def steps(block: Block) -> Iterator[Step]:
    """The commands of a console block."""
    command = ""
    output: list[str] = []
    command_line = 0
    for number, text in enumerate(block.text.splitlines(), block.line):
        if text.startswith("$ "):
            if command:
                yield Step(command, "\n".join(output), command_line)
            command = text[2:]
            output = []
            command_line = number
        elif command.endswith("\\"):
            command = command[:-1] + text.strip()
        else:
            output.append(text)
    if command:
        yield Step(command, "\n".join(output), command_line)


def commands_in(read: Page) -> list[Step]:
    """The commands of all console blocks of a page."""
    consoles = [block for block in read.blocks if block.language == "console"]
    return [step for block in consoles for step in steps(block)]


def agrees(printed: str, expected: str) -> bool:
    """Whether `printed` is what `expected` shows; `…` stands for any text, trailing blanks do not count."""
    parts = map(re.escape, _trimmed(expected).split("…"))
    return re.fullmatch(".*?".join(parts), _trimmed(printed), re.DOTALL) is not None


def _trimmed(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def _anchors(titles: Iterator[str]) -> Iterator[str]:
    """Anchors as GitHub makes them: lower case, without punctuation, blanks to hyphens, numbered when repeated."""
    seen: Counter[str] = Counter()
    for title in titles:
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).replace("`", "")
        slug = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        earlier = seen[slug]
        yield f"{slug}-{earlier}" if earlier else slug
        seen[slug] += 1
