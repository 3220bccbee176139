"""Items: what is kept by either engine, as one form for lists, searches, forgetting and erasing. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from sandbox.locale import N_

Family = Literal["memories", "triggers", "notes", "sessions", "layers", "refs"]
FAMILIES: tuple[Family, ...] = ("memories", "triggers", "notes", "sessions", "layers", "refs")
_FAMILY_WORDS = N_("memories"), N_("triggers"), N_("notes"), N_("sessions"), N_("layers"), N_("refs")
"""The families, for the catalogues."""
OF_CONVERSATIONS: tuple[Family, ...] = ("memories", "triggers")

LEAST_ID_CHARS = 4
"""Letters from which on a word can be the beginning of an id: `be` and `add` are words too."""


@dataclass(frozen=True, slots=True)
class Item:
    """A memory or an entry that is kept. `place` as in `PastChange`, of layers `layers/project`. `id`: what a person
    names it by: the id of a memory, note or ref, the name of a trigger, the number of a fact of a session, the key of
    an entry of a layer; `aliases` are its other names. `at_ms`: when it was said or changed last, in milliseconds since
    1970. `also`: texts of it that are not shown, such as tags, and can be looked for too. `said`: where words are
    looked for, if not in its text, which names roles. `session`: in which it was said, if that is known; `turn`: what
    its client calls the turn. `mark`: by which it is known if it comes again; "": by its text alone. `project`: what
    the project is called that a note belongs to; "": to all."""

    family: Family
    place: str
    id: str
    at_ms: int
    text: str
    title: str = ""
    archived: bool = False
    aliases: tuple[str, ...] = ()
    also: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    mark: str = ""
    session: str = ""
    turn: str | None = None
    project: str = ""
    other_words: tuple[str, ...] = ()
    """What is kept with it so that it is found by more words. Nobody said them, so they never mean it."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What names it among all items."""
        return self.place, self.family, self.id


@dataclass(frozen=True, slots=True)
class Sought:
    """Which items are meant: those that meet every condition given. `words`: all are held, also as parts of words, in
    any case, full-width or not, in Traditional or Simplified characters. `ids`: one of them, or the beginning of its
    id; with `whole_ids` only all of it. `user`: facts of this user only; `session`: what was said in it. `archived`
    None: live and archived ones."""

    words: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    whole_ids: bool = False
    family: Family | None = None
    place: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    user: str | None = None
    session: str | None = None
    archived: bool | None = False
    beside: bool = False
    """Whether those are meant that hold all the words only together with their other words."""

    def looks_in(self, place: str, *families: Family) -> bool:
        """Whether something in this place, of one of these families, can be meant."""
        of_user = self.user is None or place == f"sessions/{self.user}"
        return self.place in (None, place) and of_user and (self.family is None or self.family in families)

    def among(self, items: Iterable[Item]) -> list[Item]:
        """Those that are meant."""
        from nlp.index_terms import seen_form  # here: hooks do not look for items

        words = tuple(map(seen_form, self.words))
        ids = tuple(name.casefold() for name in self.ids)
        if not all(words):  # all texts hold what nobody can see
            return []

        def meant(item: Item) -> bool:
            early = self.since_ms is not None and item.at_ms < self.since_ms
            late = self.until_ms is not None and item.at_ms > self.until_ms
            if early or late or self.family not in (None, item.family) or self.archived not in (None, item.archived):
                return False
            if self.session not in (None, item.session):
                return False
            if ids and not any(_names(each, item, whole=self.whole_ids) for each in ids):
                return False
            held = seen_form("\n".join((item.title, *(item.said or (item.text,)), *item.also))) if words else ""
            holds = all(word in held for word in words)
            if not self.beside:
                return holds
            with_others = "\n".join((held, seen_form("\n".join(item.other_words))))
            return not holds and all(word in with_others for word in words)

        return list(filter(meant, items))


def _names(sought: str, item: Item, *, whole: bool) -> bool:
    if not whole and len(sought) >= LEAST_ID_CHARS and item.id.casefold().startswith(sought):
        return True
    return sought in (name.casefold() for name in (item.id, *item.aliases))
