"""What a report calls the parts of a chat that do not come: one name for each kind, whatever program wrote the file.
memory_server/interchange/spoken_places.py has those that only transcripts of coding agents have."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sandbox.locale import _

THOUGHTS = _("thoughts of the model")
TOOLS = _("calls of tools, with their results")
PICTURES = _("pictures and files")
FOR_THE_MODEL = _("texts that the client wrote for the model")
ERRORS = _("errors that the client wrote as an answer")
SWIPED = _("answers that were swiped away")
HIDDEN = _("hidden messages")
BRANCHES = _("messages of other branches, which were edited or answered again")
UNPLACED = _("messages whose place in the chat is not known")
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


def beside_the_branch(parents: Sequence[int | None], begins: Sequence[bool], branch: Collection[int]) -> dict[int, str]:
    """What the messages of a tree are called that are not on the branch that was read, by their position: those of
    other branches, and those that lead to no beginning. `parents`: the position of each message's parent, None where
    there is none; `begins`: whether a chat may begin with the message. Linear."""
    placed = dict.fromkeys(branch, True)
    for start in range(len(parents)):
        path: list[int] = []
        on_path: set[int] = set()
        position: int | None = start
        while position is not None and position not in placed and position not in on_path:
            path.append(position)
            on_path.add(position)
            position = parents[position]
        is_placed = begins[path[-1]] if position is None else placed.get(position, False)
        placed.update(dict.fromkeys(path, is_placed))
    on_branch = set(branch)
    beside = {position: is_placed for position, is_placed in placed.items() if position not in on_branch}
    return {position: BRANCHES if is_placed else UNPLACED for position, is_placed in beside.items()}
