"""What a recall is asked, and the context in which a search decides. A face makes the request once, and everything below
reads it. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, replace
from random import Random
from typing import Any, Literal

from memory_server.conversations.recall.parameters import RecallParameters
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.errors import InvalidInput
from memory_server.kernel.messages import GivenMessage, Message, Session, messages_of
from memory_server.kernel.recalled_block import as_said
from memory_server.kernel.values import dataclass, frozen
from memory_server.lore import user_name
from nlp import ROLE_WEIGHTS

Mode = Literal["unasked", "asked", "every_prompt"]
"""Who asks. `asked`: the user wants memories, so weak and muted ones come too, and vectors have more time.
`every_prompt`: a hook, for which a stricter rule holds. `unasked`: every other caller."""


@frozen
class RecallRequest:
    """What the messages are to bring to mind: short-term memories, long-term ones, or both."""

    messages: Sequence[GivenMessage]
    """The messages that were said last. Without any, as when a chat opens, memories come by score and chance."""
    other_words: Sequence[str] = ()
    """Further texts to search for: words that a memory may hold in place of the messages' words."""
    role_weights: Mapping[str, float] = field(default_factory=lambda: ROLE_WEIGHTS)
    earlier: Sequence[Message] = ()
    """The messages before these, which only triggers get."""
    participants: Mapping[str, Any] = field(default_factory=dict)
    """The people in the chat. Triggers see them, and their names are never cut."""
    scope: str | None = None
    """The conversations to search: `conversation` (its own), `all`, or a group of the settings. With None it is the
    scope of the settings."""
    also: Sequence[str] = ()
    """Ids of conversations that are searched too."""
    also_turns: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Of these conversations of `also`, only such turns: the turns of a trunk before its branch."""
    session: Session | None = None
    """The session that asks, or None for the session of the services."""
    folder: str | None = None
    """Where the session works."""
    mode: Mode = "unasked"
    flashbacks: int | None = None
    """How many memories of each kind may come by chance, or None to follow the settings."""
    said_again: bool = True
    """Whether text that the messages hold may come."""
    message_count: int | None = None
    """How many messages the chat has, or None to count its recalls."""
    reinforce: bool = True
    """Whether what comes as top and next is reinforced."""
    include_corrected: bool = False
    """Whether what was corrected comes as itself too."""
    plans: bool = False
    """Whether plans for today come by themselves, each once."""
    counts: bool = True
    """Whether what comes counts: for cooldowns and the like, and plans as shown. Otherwise the caller writes that
    (`note_plans`, `keep_firings`), if what came is given."""
    by: str = "api"

    @classmethod
    def of(cls, request: RecallRequest | Sequence[GivenMessage]) -> RecallRequest:
        """Make a request of messages alone; a request stays as it is."""
        if isinstance(request, RecallRequest):
            return request
        return cls(request)

    @property
    def timezone(self) -> str | None:
        """The time zone that the participants say: `{"user": {"timezone": "Asia/Shanghai"}}`. Raises InvalidInput: it
        is not a text."""
        user = self.participants.get("user")
        timezone = user.get("timezone") if isinstance(user, Mapping) else None
        if timezone is not None and not isinstance(timezone, str):
            raise InvalidInput(
                "`participants.user.timezone` is a text; write for example `Asia/Shanghai`."
            )
        return timezone

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages as they were said, without what is marked as recalled. The last has the name of the user, if
        it is the user's and has no name. Raises InvalidInput if an item is not a message."""
        messages = messages_of(self.messages)
        user = user_name(self.participants) if self.participants else ""
        if user and messages and messages[-1].role == "user" and not messages[-1].name:
            messages = (*messages[:-1], replace(messages[-1], name=user))
        return as_said(messages)

    @property
    def names(self) -> list[str]:
        """The names of the participants: each is a text, or an object with the field `name`. Other participants are
        left out."""
        names: list[str] = []
        for participant in self.participants.values():
            name = participant
            if isinstance(participant, Mapping):
                name = participant.get("name")
            if isinstance(name, str):
                names.append(name)
        return names


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallContext:
    """Where, when and by which rules a search decides."""

    conversation_id: str
    now_ms: int
    rng: Random
    parameters: RecallParameters
    wording: KeywordOptions = field(default_factory=KeywordOptions)
    """How memories and query become words."""
    session: Session | None = None
    """The session that asks, or None if it is unknown."""
    places: frozenset[str] = frozenset()
    """What is muted in any of these places does not come."""
    without: frozenset[str] = frozenset()
    """Ids of memories that the asker has."""
