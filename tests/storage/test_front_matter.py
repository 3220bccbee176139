"""Markdown files with front matter: read as text, written with the smallest change."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_server.knowledge.front_matter import Page, Unreadable, read, write

SEED = """---
key: api-design-decision
tags:
  - architecture
  - api
  - decision
created_at: 2024-01-15T10:30:00
updated_at: 2024-01-15T10:30:00
---

## API設計の決定事項

REST API は以下の方針で設計する:
- リソース指向のエンドポイント設計
""".encode()

ODD = {
    "comments and unknown fields": "---\n# top\nowner: me  # who\nkey: k\n# end\n---\n\nbody\n",
    "other order": "---\nupdated_at: 2024-01-01\nkey: k\ntags: []\n---\n\nbody\n",
    "flow tags": "---\ntags: [a, 'b c']\nkey: k\n---\n\nbody\n",
    "words that YAML takes for other values": "---\nkey: 123\ntags:\n- no\n- on\n- 1.5\n---\n\nbody\n",
    "nested": "---\nkey: k\nmetadata:\n  a: [1, {b: c}]\n  t: |\n    x\n\n    ---\n---\n\nbody\n",
    "rules in the body": "---\nkey: k\n---\n\na\n\n---\n\nb\n\n---\n",
    "indented body": "---\nkey: k\n---\n\n    code\n",
    "quotes and wide text": '---\nkey: "小明: \\"x\\""\nowner: 猫 🎂\n---\n\nbody\n',
    "zones": "---\nkey: k\ncreated_at: 2024-01-15T10:30:00+09:00\nupdated_at: '2024-01-15 10:30'\n---\n\nbody\n",
    "no key": "---\ntitle: t\n---\n\nbody\n",
    "empty values": "---\nkey: k\ntags:\nowner:\n---\n\nbody\n",
    "long lines": f"---\nkey: k\nabout: {'x ' * 500}end\n---\n\nbody\n",
}


def test_the_example_of_the_seed_is_written_byte_by_byte() -> None:
    page = read(SEED)
    assert page is not None
    assert page.fields["tags"] == ["architecture", "api", "decision"]
    assert write(page.body, page.fields) == SEED
    assert write(page.body, page.fields, page) == SEED


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_round_trip_changes_no_byte(text: str) -> None:
    page = read(text.encode())
    assert page is not None
    assert write(page.body, page.fields, page) == text.encode()
    assert write(page.body, {}, page) == text.encode()


def other_lines(text: str) -> list[str]:
    """The lines of the front matter without that of the time of the change."""
    front, _, _ = text.partition("\n---\n")
    return [line for line in front.splitlines() if "updated_at" not in line]


@pytest.mark.parametrize("text", ODD.values(), ids=ODD)
def test_a_change_leaves_all_other_lines_as_they_are(text: str) -> None:
    page = read(text.encode())
    assert page is not None
    changed = write("new", {"updated_at": "2025-01-01T00:00:00"}, page).decode()
    assert other_lines(changed) == other_lines(text)
    changed_page = read(changed.encode())
    assert changed_page is not None
    assert changed_page.fields == {**page.fields, "updated_at": "2025-01-01T00:00:00"}
    assert changed_page.body == "new"


def test_windows_and_editors_write_files_too() -> None:
    page = read(b"\xef\xbb\xbf---\r\nkey: k\r\ntags:\r\n  - a\r\n---\r\n\r\nline 1\r\nline 2\r\n")
    assert page == Page(
        "line 1\nline 2", {"key": "k", "tags": ["a"]}, {"key": "key: k\n", "tags": "tags:\n  - a\n"}
    )


@pytest.mark.parametrize(
    "data", [b"", b"plain text", b"# Title\n\n---\nkey: k\n---\n", b"\xff\xfe"]
)
def test_a_file_without_front_matter_is_not_an_entry(data: bytes) -> None:
    assert read(data) is None


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"---\nkey: k", "no line `---`"),
        (b"---\n- a\n---\n", "no `name: value`"),
        (b"---\nkey: [\n---\n", "not YAML in line"),
        (b"---\na: &x 1\nb: *x\n---\n", "aliases"),
        (b"---\na: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n---\n", "aliases"),
        (b"---\nkey: \xff\n---\n", "not UTF-8 at byte 9"),
        (b"---\nkey: k\n...\nb: c\n---\n", "not YAML"),
        (b"---\n? [a]\n: b\n---\n", "not YAML"),
        (b"---\nkey: " + b"x" * 4_100 + b"\n---\n", "more than 4,096 bytes"),
        (b"---\na: " + b"[" * 10_000 + b"\n---\n", "more than 4,096 bytes"),
        (b"---\na: " + b"[" * 21 + b"]" * 21 + b"\n---\n", "more than 20 levels of brackets"),
        (b"---\na: " + b"{" * 21 + b"}" * 21 + b"\n---\n", "more than 20 levels of brackets"),
        (b"---\na: " + b"[{" * 11 + b"}]" * 11 + b"\n---\n", "more than 20 levels of brackets"),
        (b"---\na: " + b"- " * 1_500 + b"x\n---\n", "not YAML"),
        (b"---\na:\n  " + b"- " * 1_500 + b"x\n---\n", "more than 20 levels"),
        (
            b"<<<<<<< HEAD\n---\nkey: a\n---\n\nmine\n=======\n---\nkey: b\n---\n\ntheirs\n>>>>>>> x\n",
            "conflict markers",
        ),
        (
            b"---\nkey: k\n<<<<<<< HEAD\ntags: [a]\n=======\ntags: [b]\n>>>>>>> x\n---\nbody\n",
            "conflict markers",
        ),
    ],
)
def test_what_cannot_be_read_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(data)


def test_no_tag_of_yaml_makes_an_object(tmp_path: Path) -> None:
    page = read(f"---\nkey: !!python/object/apply:os.system ['touch {tmp_path}/x']\n---\n".encode())
    assert page is None or not isinstance(page.fields["key"], int)
    assert not list(tmp_path.iterdir())


TEXT = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1, max_size=30
).map(lambda text: " ".join(text.split()) or "x")


@given(
    key=TEXT,
    tags=st.lists(TEXT, max_size=4),
    body=st.text(st.characters(exclude_categories=["Cs"])),
)
def test_what_is_written_is_read_back(key: str, tags: list[str], body: str) -> None:
    body = body.replace("\r\n", "\n").strip("\n")
    page = read(write(body, {"key": key, "tags": tags, "updated_at": None}))
    assert page is not None
    assert page.body == body
    assert page.fields["key"] == key
    assert (page.fields["tags"] or []) == tags
