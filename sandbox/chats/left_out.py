"""The branch of a chat that comes, and what a report calls the parts that do not come: one name for each kind, whatever
program wrote the file. memory_server/interchange/spoken_places.py has the names that only transcripts of coding agents
have."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

from languages import N_, _

T = TypeVar("T", bound=Hashable)

THOUGHTS = N_("thoughts of the model")
TOOLS = N_("calls of tools, with their results")
PICTURES = N_("pictures and files")
FOR_THE_MODEL = N_("texts that the client wrote for the model")
ERRORS = N_("errors that the client wrote as an answer")
SWIPED = N_("answers that were swiped away")
HIDDEN = N_("hidden messages")
BRANCHES = N_("messages of other branches, which were edited or answered again")
UNPLACED = N_("messages whose place in the chat is not known")
CODE = N_("programs and pages that the model wrote beside the chat")
REVISIONS = N_("later changes of a text that the model wrote beside the chat")
CUSTOM_INSTRUCTIONS = N_("custom instructions of the user for the model")
MODEL_MEMORY = N_("memories of the program, as the model received them")
CHAT_SUMMARIES = N_("summaries of chats")
NOT_TO_BE_REMEMBERED = N_("chats that are temporary or marked as not to be remembered")
BEFORE_THE_LAST = N_("texts that the model wrote before its last answer")
UNDATED = N_("times of messages that cannot be read")


def unknown_kind(kind: object) -> str:
    """Return the name of a part whose kind no reader knows."""
    return _("parts of the unknown kind {kind}", str(kind)[:60])


def branch_to(leaf: T | None, before: Callable[[T], T | None]) -> list[T]:
    """Return the messages of a tree from the first one to this leaf. `before` returns the message before a message, or
    None. A circle is walked once."""
    branch: dict[T, None] = {}  # as an ordered set
    while leaf is not None and leaf not in branch:
        branch[leaf] = None
        leaf = before(leaf)
    return list(branch)[::-1]


def beside_the_branch(
    parents: Sequence[int | None], begins: Sequence[bool], branch: Collection[int]
) -> dict[int, str]:
    """Name the messages of a tree that are not on the branch that was read, by their position: messages of other
    branches, and messages that lead to no beginning. `parents`: the position of each message's parent, or None;
    `begins`: whether a chat may begin with the message. Linear."""
    placed = dict.fromkeys(branch, True)
    for start in range(len(parents)):
        path: dict[int, None] = {}  # as an ordered set
        position: int | None = start
        while position is not None and position not in placed and position not in path:
            path[position] = None
            position = parents[position]
        if position is None:
            is_placed = begins[next(reversed(path))]
        else:
            is_placed = placed.get(
                position, False
            )  # a path that runs in a circle leads to no beginning
        placed.update(dict.fromkeys(path, is_placed))

    on_branch = set(branch)
    called: dict[int, str] = {}
    for position, is_placed in placed.items():
        if position not in on_branch:
            called[position] = BRANCHES if is_placed else UNPLACED

    return called
