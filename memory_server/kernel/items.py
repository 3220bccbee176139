"""Items: what is kept by either engine, as one form for lists, searches, forgetting and erasing; and scopes: what is kept
for one of them is never shown in another. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from typing import Literal

from languages import N_
from memory_server.kernel.values import frozen

Space = Literal["notes", "sessions", "layers", "refs", "conversations"]


@frozen
class Scope:
    """Entries that are searched together; no query of another scope sees them. `owner`: a user, a namespace, or ""."""

    space: Space
    owner: str = ""

    @property
    def place(self) -> str:
        """Its name for people, such as `notes` or `refs/short-term`."""
        return "/".join(filter(None, (self.space, self.owner)))


KEY_BYTES = {"sessions": 16, "conversations": 20}
"""Bytes of the name of a vector. Memories of conversations are stored elsewhere, so their vectors are deleted by a rule
of their own; the length tells them apart."""


def vector_key(model: str, scope: Scope | None = None, text: str = "") -> bytes:
    """Return the name of the vector that a model gives a text of a user: 4 bytes for the model, and 12 for user and
    text, so that a user cannot learn from a vector what another user has said. The name for a text of a conversation is
    longer. Without a scope, return the bytes of the model."""
    model_bytes = sha256(model.encode()).digest()[:4]
    if scope is None:
        return model_bytes
    size = KEY_BYTES["sessions"]
    if scope.space == "conversations":
        size = KEY_BYTES["conversations"]
    text_bytes = sha256(f"{scope.owner}\0{text}".encode()).digest()
    return model_bytes + text_bytes[: size - len(model_bytes)]


Family = Literal["memories", "triggers", "notes", "sessions", "layers", "refs"]
FAMILIES: tuple[Family, ...] = ("memories", "triggers", "notes", "sessions", "layers", "refs")
_FAMILY_WORDS = (
    N_("memories"),
    N_("triggers"),
    N_("notes"),
    N_("sessions"),
    N_("layers"),
    N_("refs"),
)
"""The families, for the catalogues."""
OF_CONVERSATIONS: tuple[Family, ...] = ("memories", "triggers")

LEAST_ID_CHARS = 4
"""Letters from which on a word can be the beginning of an id: `be` and `add` are words too."""


@frozen
class Item:
    """A memory or an entry that is stored.

    `place` is as in `PastChange`, for layers `layers/project`. A person names an item by its `id`: the id of a memory,
    note or ref, the name of a trigger, the number of a fact of a session, the key of an entry of a layer; `aliases` are
    its further names. `at_ms` is the time when it was said or changed last, in milliseconds since 1970. `also` has
    texts of it that are not shown, such as tags, and can be looked for too. `said` has the texts in which words are
    looked for in place of its text, which names roles. `session` is the session in which it was said, if that is
    recorded; `turn` is its client's name for the turn. `mark` identifies it if it comes again; if it is empty, its text
    alone does. `project` is the name of the project that a note belongs to; if it is empty, the note belongs to all.
    """

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
    """Words that are stored with the item so that searches find it by them. The user did not say them, so an item is
    never forgotten or erased because of them."""

    @property
    def key(self) -> tuple[str, str, str]:
        """The key that names the item among all items."""
        return self.place, self.family, self.id


@frozen
class ItemFilter:
    """A filter of items: an item matches if it meets every condition. `words`: the item has all of them, also as parts
    of words, in any case, full-width or not, in Traditional or Simplified characters. `ids`: the item has an id among
    them, or its id begins so; with `whole_ids` only the whole id counts. `user`: it is a fact about this user;
    `session`: it was said in it. `archived` None: live and archived items match."""

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
    only_by_other_words: bool = False
    """Whether the filter wants just the items whose own text lacks some of the words, and whose `other_words` have
    these."""

    def looks_in(self, place: str, *families: Family) -> bool:
        """Return whether an item in this place, of any of these families, can match."""
        if self.place not in (None, place):
            return False
        if self.user is not None and place != f"sessions/{self.user}":
            return False
        return self.family is None or self.family in families

    def among(self, items: Iterable[Item]) -> list[Item]:
        """Return the items that match. They are from places in which the filter looks (`looks_in`). No item matches if
        a word has no visible character."""
        from nlp.index_terms import seen_form  # imported late: hooks do not look for items

        word_forms = [seen_form(word) for word in self.words]
        if not all(word_forms):  # an empty form is a part of every text
            return []
        matches = [item for item in items if self._meets_conditions(item)]
        if self.ids:
            folded_ids = [id_.casefold() for id_ in self.ids]
            matches = [item for item in matches if self._has_id(item, folded_ids)]
        if word_forms or self.only_by_other_words:
            matches = [item for item in matches if self._meets_words(item, word_forms, seen_form)]
        return matches

    def _meets_conditions(self, item: Item) -> bool:
        """Return whether an item meets the conditions about its time, family, state and session."""
        if self.since_ms is not None and item.at_ms < self.since_ms:
            return False
        if self.until_ms is not None and item.at_ms > self.until_ms:
            return False
        if self.family not in (None, item.family):
            return False
        if self.archived not in (None, item.archived):
            return False
        return self.session in (None, item.session)

    def _has_id(self, item: Item, ids: Sequence[str]) -> bool:
        """Return whether an item has an id of the filter. `ids` are the filter's ids without upper case."""
        return any(_is_named(item, id_, whole=self.whole_ids) for id_ in ids)

    def _meets_words(
        self, item: Item, word_forms: Sequence[str], seen_form: Callable[[str], str]
    ) -> bool:
        """Return whether an item has all words, whose forms `seen_form` has made; with `only_by_other_words`, whether it
        has them all, but some only among its other words."""
        searched_texts = item.said or (item.text,)
        own_form = seen_form("\n".join((item.title, *searched_texts, *item.also)))
        has_all_words = all(word_form in own_form for word_form in word_forms)
        if not self.only_by_other_words:
            return has_all_words
        if has_all_words:
            return False
        other_form = seen_form("\n".join(item.other_words))
        whole_form = f"{own_form}\n{other_form}"
        return all(word_form in whole_form for word_form in word_forms)


def _is_named(item: Item, id_: str, *, whole: bool) -> bool:
    """Return whether `id_`, which has no upper case, is the id or another name of the item, or the beginning of its id."""
    if not whole and len(id_) >= LEAST_ID_CHARS and item.id.casefold().startswith(id_):
        return True
    return id_ in (name.casefold() for name in (item.id, *item.aliases))
