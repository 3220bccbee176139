"""What a report calls the parts of a chat that do not come: one name for each kind, whatever program wrote the file.
memory_server/interchange/spoken_places.py has those that only transcripts of coding agents have."""

from __future__ import annotations

from sandbox.locale import _

THOUGHTS = _("thoughts of the model")
TOOLS = _("calls of tools, with their results")
PICTURES = _("pictures and files")
FOR_THE_MODEL = _("texts that the client wrote for the model")
ERRORS = _("errors that the client wrote as an answer")
SWIPED = _("answers that were swiped away")
HIDDEN = _("hidden messages")
BRANCHES = _("messages of other branches, which were edited or answered again")
CODE = _("programs and pages that the model wrote beside the chat")
REVISIONS = _("later changes of a text that the model wrote beside the chat")
CUSTOM_INSTRUCTIONS = _("custom instructions of the user for the model")
MODEL_MEMORY = _("what the program remembered, as it told the model")
CHAT_SUMMARIES = _("summaries of chats")
NOT_TO_BE_REMEMBERED = _("chats that are temporary or marked as not to be remembered")
UNDATED = _("times of messages that cannot be read")


def unknown_kind(kind: object) -> str:
    """The name of a part whose kind no reader knows."""
    return _("parts of the unknown kind {kind}", str(kind)[:60])
