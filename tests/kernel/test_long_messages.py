"""A message that is too long keeps both ends, and says what is left out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_server.kernel.messages import MAX_CONTENT_CHARS, Message, both_ends
from memory_server.kernel.private import loses_its_middle, shortened, to_keep

LOG = "12:00 INFO worker done\n" * 6_000


@given(st.text(max_size=400), st.integers(100, 300))
def test_both_ends_are_there_and_the_rest_is_counted(text: str, most: int) -> None:
    short = both_ends(text, most)
    assert len(short) <= most or short == text
    if len(text) <= most:
        assert short == text
        return
    beginning, _, rest = short.partition("\n[")
    count, _, end = rest.partition(" characters left out]\n")
    assert text.startswith(beginning) or "\n[" in text
    assert text.endswith(end) or "]\n" in text
    if "[" not in text:
        assert len(beginning) + int(count.replace(",", "")) + len(end) == len(text)


def test_a_question_before_and_after_a_paste_is_kept() -> None:
    for text in (f"Why does it crash?\n{LOG}", f"{LOG}\nWhy does it crash?"):
        message = shortened(Message("user", text))
        assert "Why does it crash?" in message.content
        assert "characters left out]" in message.content
        assert len(message.content) <= MAX_CONTENT_CHARS


def test_what_is_private_is_left_out_before_a_message_is_shortened() -> None:
    secret = f"Look.\n<private>{LOG} my number is 4711</private> Thanks."
    assert "4711" not in shortened(Message("user", secret)).content
    wholly = Message("user", f"<private>{LOG}</private>")
    assert to_keep([shortened(wholly), Message("assistant", "4711?")]) == ()


def test_a_message_that_is_long_only_by_its_private_part_loses_nothing_else() -> None:
    assert not loses_its_middle(Message("user", f"Look. <private>{LOG}</private> Thanks."))
    assert not loses_its_middle(Message("user", f"<private>{LOG}</private>"))
    assert not loses_its_middle(Message("user", "x" * MAX_CONTENT_CHARS))
    assert loses_its_middle(Message("user", f"<private>no</private>{LOG}"))
