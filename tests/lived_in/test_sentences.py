"""What counts as a fault of a face, and what is only what a user said."""

from __future__ import annotations

import pytest
from lived_in.sentences import faults_of, faults_of_json, is_untranslated

FAULTY = (
    "Last stored None.",
    "scores nan to 3",
    "It is undefined.",
    "There is no conversation {name}; look again.",
    "Found {count:,} of 3",
    "<memory_server.runtime.app.App object at 0x7f00>",
    "Entry(id=1)",
    "{'a': 1}",
    "pinned: True",
    "KeyError: by",
    "1 entries in the folder",
    "Traceback (most recent call last):",
    "The tool failed inside the server (ValueError).",
    "[yellow]A file was damaged[/]",
)
SOUND = (
    "1 entry in 0.0 MB; 21 entries were looked at, 1.1 entries a day",
    "user: ⟦{name} %s {count:,}⟧ and then tea",
    "user: ⟦{name} %s {cou…",
    "…{key}⟧ 30: She prefers tea",
    "⟦{\nname\n} {{x}} [red]x[/red] {count:,}⟧ the companion",
    "True for all projects",
    "Nonetheless, nanny was infinitely kind.",
    "memory://conversation/{{id}}",
)


@pytest.mark.parametrize("text", FAULTY)
def test_a_value_of_the_program_is_a_fault(text: str) -> None:
    assert list(faults_of(text))


@pytest.mark.parametrize("text", SOUND)
def test_words_of_people_and_usual_sentences_are_not(text: str) -> None:
    assert not list(faults_of(text))


@pytest.mark.parametrize(
    "text", ['{"a": NaN}', "{", '{"a": 1}\nnot json', '{"error": {"message": "It is None."}}']
)
def test_what_is_wrong_with_json(text: str) -> None:
    assert list(faults_of_json(text))


def test_json_of_a_user_is_sound() -> None:
    assert not list(faults_of_json('{"text": "None {name} \\u2028"}\n{"a": null}\n'))


def test_english_on_a_chinese_page() -> None:
    assert is_untranslated("The folder cannot be written; choose another one.")
    assert not is_untranslated(
        "We decided to deploy with fly deploy --now, not with the old script."
    )
    assert not is_untranslated("assistant: Noted. assistant: N…… · default")
    assert not is_untranslated("id         fe187725e7dd9dc16db1e4cdc045b70d")
    assert not is_untranslated("phone0  work  read,write  2026-11-28 13:48  -  -")
    assert not is_untranslated("Entry 0  2026-03-01 22:00  // World info entry 0: Entry 0 true")
    assert not is_untranslated("文件夹 The folder cannot be written")
