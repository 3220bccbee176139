"""Why a memory whose trigger fired is not in the prompt, as a person reads it."""

from __future__ import annotations

from languages import N_, _

_REASONS = {
    "room": N_("no room left"),
    "same_text": N_("the same text came already"),
    "group": N_("another one of its group came"),
    "chance": N_("its probability was against it"),
    "cooldown": N_("it came a few messages ago"),
    "delay": N_("the chat is too short yet"),
    "once": N_("it came in this chat before"),
    "character": N_("it is for other characters"),
    "recursion": N_("it waits for a text of its book"),
}


def reason_text(reason: str) -> str:
    """Return the reason for which a memory was left out, in the reader's language."""
    return _(_REASONS[reason]) if reason in _REASONS else reason
