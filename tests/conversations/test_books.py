"""An import of a book that is known here is an update: each kind of change, what the user changed, and its undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from sample_memories import NOW, copy_of, state_of

from memory_server.conversations.archive import archived, deleted_entries
from memory_server.conversations.changes import Change, Commit, apply, taking_back
from memory_server.conversations.model import ConversationState
from memory_server.kernel.messages import MAX_NAME_CHARS
from memory_server.lore.books import (
    BookContents,
    BookUpdate,
    RenamedEntry,
    book_changes,
    books_of,
    memories_of_book,
    older_version,
    removing_book,
    switching,
)
from memory_server.lore.forms import imported_fingerprint
from memory_server.lore.memory import PLAIN, BookEntry, FiringRules, LongTermMemory, TriggerRemoved

BOOK_ID = "0123456789abcdef"
LATER = NOW + 1_000


def entry(
    uid: str, title: str, text: str = "", rules: FiringRules = PLAIN, book_name: str = "Tale"
) -> LongTermMemory:
    """An entry as an import makes it: the comment of its trigger has its number."""
    prompt = text or f"about {title}"
    trigger = f"// World info entry {uid}: {title}\nmatch_keys(context.messages, ['{title}']) > 0"
    memory = LongTermMemory(
        name=title,
        prompt=prompt,
        trigger=trigger,
        created_ms=0,
        created_context=f"tale.json, entry {uid}",
        rules=rules,
    )
    fingerprint = imported_fingerprint(memory)
    return replace(memory, book=BookEntry(BOOK_ID, book_name, "tale.json", uid, fingerprint))


def tale(*memories: LongTermMemory) -> BookContents:
    return BookContents(BOOK_ID, "Tale", "tale.json", memories)


def imported(state: ConversationState, *memories: LongTermMemory) -> BookUpdate:
    changes, update = book_changes(state, tale(*memories), LATER)
    apply(state, changes)
    return update


def with_book(*memories: LongTermMemory) -> ConversationState:
    state = ConversationState("chat")
    imported(state, *memories)
    return state


def prompts(state: ConversationState) -> dict[str, str]:
    return {memory.name: memory.prompt for memory in state.long_term.values()}


def edit(state: ConversationState, name: str, prompt: str = "mine") -> None:
    state.long_term[name] = replace(state.long_term[name], prompt=prompt, updated_ms=NOW + 5)


SWORD = entry("1", "Sword")
SHIELD = entry("2", "Shield")
FIRST = (SWORD, SHIELD)


@dataclass(frozen=True)
class Case:
    """An update of the book with Sword (1) and Shield (2): its entries now, what the user edited before, what the
    update does, and the texts after it."""

    entries: Sequence[LongTermMemory]
    update: BookUpdate
    texts: dict[str, str]
    edited: Sequence[str] = field(default_factory=tuple)


ABOUT = {"Sword": "about Sword", "Shield": "about Shield"}
CASES = {
    "the same again": Case(FIRST, BookUpdate(unchanged=["Sword", "Shield"]), ABOUT),
    "a new entry": Case(
        (*FIRST, entry("3", "Bow")),
        BookUpdate(new=["Bow"], unchanged=["Sword", "Shield"]),
        ABOUT | {"Bow": "about Bow"},
    ),
    "another text": Case(
        (entry("1", "Sword", "It is blunt."), SHIELD),
        BookUpdate(changed=["Sword"], unchanged=["Shield"]),
        ABOUT | {"Sword": "It is blunt."},
    ),
    "other rules": Case(
        (entry("1", "Sword", rules=FiringRules(order=7)), SHIELD),
        BookUpdate(changed=["Sword"], unchanged=["Shield"]),
        ABOUT,
    ),
    "another title": Case(
        (entry("1", "Blade"), SHIELD),
        BookUpdate(changed=["Blade"], unchanged=["Shield"]),
        {"Blade": "about Blade", "Shield": "about Shield"},
    ),
    "a deleted or disabled entry": Case(
        (SWORD,), BookUpdate(unchanged=["Sword"], retired=["Shield"]), {"Sword": "about Sword"}
    ),
    "other numbers": Case(
        (entry("7", "Sword"), entry("8", "Shield")),
        BookUpdate(unchanged=["Sword", "Shield"]),
        ABOUT,
    ),
    "numbers that changed places": Case(
        (entry("1", "Shield"), entry("2", "Sword")),
        BookUpdate(unchanged=["Shield", "Sword"]),
        ABOUT,
    ),
    "titles that moved on by one, with a new first entry": Case(
        (entry("1", "Bow"), entry("2", "Sword"), entry("3", "Shield")),
        BookUpdate(new=["Bow"], unchanged=["Sword", "Shield"]),
        ABOUT | {"Bow": "about Bow"},
    ),
    "titles that changed places, with their texts": Case(
        (entry("1", "Shield", "about Sword"), entry("2", "Sword", "about Shield")),
        BookUpdate(changed=["Shield", "Sword"]),
        {"Sword": "about Shield", "Shield": "about Sword"},
    ),
    "nothing at all": Case((), BookUpdate(retired=["Sword", "Shield"]), {}),
    "an edited entry stays where the book is the same": Case(
        FIRST,
        BookUpdate(unchanged=["Sword", "Shield"]),
        ABOUT | {"Sword": "mine"},
        edited=["Sword"],
    ),
    "an edited entry stays where the book has another text": Case(
        (entry("1", "Sword", "It is blunt."), SHIELD),
        BookUpdate(unchanged=["Shield"], kept=["Sword"]),
        ABOUT | {"Sword": "mine"},
        edited=["Sword"],
    ),
    "an edited entry stays where the book has it no longer": Case(
        (SHIELD,),
        BookUpdate(unchanged=["Shield"], kept=["Sword"]),
        ABOUT | {"Sword": "mine"},
        edited=["Sword"],
    ),
    "an edited entry stays beside another one that has its number now": Case(
        (entry("1", "Bow"), SHIELD),
        BookUpdate(new=["Bow"], unchanged=["Shield"], kept=["Sword"]),
        ABOUT | {"Sword": "mine", "Bow": "about Bow"},
        edited=["Sword"],
    ),
    "an edited entry has the new number of the book": Case(
        (entry("8", "Sword"), SHIELD),
        BookUpdate(unchanged=["Sword", "Shield"]),
        ABOUT | {"Sword": "mine"},
        edited=["Sword"],
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_import_of_a_known_book_is_an_update(case: Case) -> None:
    state = with_book(*FIRST)
    for name in case.edited:
        edit(state, name)
    update = imported(state, *case.entries)
    for name in BookUpdate.__dataclass_fields__:
        assert list(getattr(update, name)) == list(getattr(case.update, name)), name
    assert prompts(state) == case.texts
    uids = {memory.name: memory.book.uid for memory in case.entries if memory.book is not None}
    kept_uids = {
        memory.name: memory.book.uid
        for memory in state.long_term.values()
        if memory.book is not None
    }
    assert kept_uids == {name: uids.get(name, kept_uids[name]) for name in kept_uids}
    second = imported(state, *case.entries)
    assert not second.new
    assert not second.changed
    assert not second.retired
    assert list(second.kept) == list(case.update.kept), "what is kept is named each time"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_an_update_can_be_taken_back(case: Case) -> None:
    state = with_book(*FIRST)
    for name in case.edited:
        edit(state, name)
    before = copy_of(state)
    changes, _ = book_changes(state, tale(*case.entries), LATER)
    if not changes:
        return
    apply(state, changes)
    apply(state, taking_back(state, Commit(1, LATER, "import", tuple(changes))))
    assert prompts(state) == prompts(before)
    assert {memory.name: memory for memory in state.long_term.values()} == dict(before.long_term)


def test_a_name_that_is_in_use_gets_the_book_beside_it() -> None:
    state = state_of(LongTermMemory("Sword", "my own", "true", NOW))
    update = imported(state, *FIRST)
    assert update.new == ["Sword · Tale", "Shield"]
    assert update.renamed == [RenamedEntry("Sword", "Sword · Tale")]
    assert state.long_term["Sword"].prompt == "my own"
    second = imported(state, entry("1", "Sword", "It is blunt."), SHIELD)
    assert second.changed == ["Sword · Tale"]
    assert second.unchanged == ["Shield"]
    assert second.new == []


def test_entries_of_one_title_and_one_number_come_once_each() -> None:
    twins = [entry("7", "Sword", text) for text in ("a", "b", "c")]
    state = with_book(*twins)
    assert sorted(prompts(state).values()) == ["a", "b", "c"]
    second = imported(state, *twins)
    assert len(second.unchanged) == 3
    assert len(state.long_term) == 3


def test_a_name_is_never_longer_than_names_may_be() -> None:
    titles = ["长" * 300, "长" * 300, "长" * MAX_NAME_CHARS]
    state = with_book(
        *(entry(str(number), title, str(number)) for number, title in enumerate(titles))
    )
    assert len(state.long_term) == 3
    assert all(len(name) <= MAX_NAME_CHARS for name in state.long_term)


def test_what_is_switched_off_stays_off() -> None:
    state = with_book(*FIRST)
    apply(state, switching([state.long_term["Sword"]], is_off=True))
    update = imported(state, entry("1", "Sword", "It is blunt."), SHIELD)
    assert update.changed == ["Sword"]
    assert state.long_term["Sword"].rules.is_off
    assert not state.long_term["Shield"].rules.is_off


def test_of_a_book_that_is_off_new_entries_are_off_too() -> None:
    state = with_book(*FIRST)
    apply(state, switching(memories_of_book(state, BOOK_ID), is_off=True))
    assert imported(state, *FIRST).unchanged == ["Sword", "Shield"], "being off is no edit"
    imported(state, *FIRST, entry("3", "Bow"))
    assert state.long_term["Bow"].rules.is_off


@pytest.mark.parametrize("decide", [partial(switching, is_off=True), removing_book])
def test_switching_and_removing_can_be_taken_back(
    decide: Callable[[Sequence[LongTermMemory]], list[Change]],
) -> None:
    state = with_book(*FIRST)
    before = dict(state.long_term)
    changes = decide(memories_of_book(state, BOOK_ID))
    assert len(changes) == 2
    apply(state, changes)
    assert dict(state.long_term) != before
    apply(state, taking_back(state, Commit(1, LATER, "books", tuple(changes))))
    assert dict(state.long_term) == before


def test_switching_what_is_so_already_changes_nothing() -> None:
    state = with_book(*FIRST)
    assert switching(memories_of_book(state, BOOK_ID), is_off=False) == []


# --- books of a conversation ----------------------------------------------------------------------------------


def test_books_are_counted() -> None:
    constant = replace(entry("3", "Rain", "It rains."), trigger="// World info entry 3: Rain\ntrue")
    state = with_book(*FIRST, constant)
    apply(state, switching([state.long_term["Sword"]], is_off=True))
    (book,) = books_of("chat", state.long_term.values())
    assert book.name == "Tale"
    assert book.source == "tale.json"
    assert book.entries == 3
    assert book.constants == 1
    assert book.off == 1
    assert book.constant_chars == len("It rains.")
    assert book.chars == len("about Sword" + "about Shield" + "It rains.")
    assert book.is_on


def test_a_book_with_the_titles_of_another_may_be_its_new_version() -> None:
    rows = [entry(str(number), title) for number, title in enumerate(("Sword", "Shield", "Bow"))]
    state = with_book(*rows)
    other_version = [
        replace(row, book=replace(row.book, book_id="other"))
        for row in rows
        if row.book is not None
    ]
    older = older_version(state, BookContents("other", "Tale 2", "tale2.json", other_version))
    assert older is not None
    assert older.book_id == BOOK_ID
    assert (
        older_version(state, BookContents("other", "Tale 2", "tale2.json", other_version[:2]))
        is None
    ), "two may be chance"
    named = BookContents("other", "Tale", "tale2.json", other_version, is_update=True)
    changes, update = book_changes(state, named, LATER)
    assert update.unchanged == ["Sword", "Shield", "Bow"]
    assert changes == []


def test_another_book_of_the_same_name_and_file_comes_beside_it() -> None:
    first = [
        entry(str(number), title)
        for number, title in enumerate(("Sword", "Shield", "Rain", "Snow"))
    ]
    others = [
        entry(str(number), title) for number, title in enumerate(("Bow", "Arrow", "Tower", "Moat"))
    ]
    state = with_book(*first)
    update = imported(state, *others)
    assert list(update.new) == ["Bow", "Arrow", "Tower", "Moat"]
    assert update.stored_as == "Tale (2)"
    assert set(state.long_term) == {memory.name for memory in (*first, *others)}
    assert [book.name for book in books_of("chat", state.long_term.values())] == [
        "Tale",
        "Tale (2)",
    ]
    second = imported(state, *others)
    assert list(second.unchanged) == ["Bow", "Arrow", "Tower", "Moat"]
    assert second.stored_as == "Tale (2)"
    first_again = imported(state, *first)
    assert list(first_again.unchanged) == ["Sword", "Shield", "Rain", "Snow"]
    assert first_again.stored_as == ""


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_a_book_that_shares_nothing_with_one_of_its_name_and_file_is_another_at_any_size(
    size: int,
) -> None:
    first = [entry(str(number), f"Old {number}") for number in range(size)]
    others = [entry(str(number), f"New {number}") for number in range(size)]
    state = with_book(*first)
    update = imported(state, *others)
    assert update.stored_as == "Tale (2)"
    assert set(state.long_term) == {memory.name for memory in (*first, *others)}
    assert list(imported(state, *first).unchanged) == [memory.name for memory in first]


def test_all_of_a_book_may_be_rewritten_where_its_owner_says_that_it_is_the_same() -> None:
    state = with_book(*FIRST)
    rewritten = [entry("1", "Bow"), entry("2", "Arrow")]
    changes, update = book_changes(state, replace(tale(*rewritten), is_update=True), LATER)
    apply(state, changes)
    assert update.stored_as == ""
    assert set(state.long_term) == {"Bow", "Arrow"}


def test_an_entry_that_the_user_deleted_stays_out() -> None:
    state = with_book(*FIRST)
    removal = TriggerRemoved(state.long_term["Sword"])
    commit = Commit(1, NOW, "delete_long_term_memory", (removal,))
    apply(state, commit.changes)
    deleted = deleted_entries(archived([commit]))
    contents = BookContents(BOOK_ID, "Tale", "tale.json", FIRST, deleted=deleted)
    changes, update = book_changes(state, contents, LATER)
    assert changes == []
    assert list(update.deleted) == ["Sword"]
    assert list(update.unchanged) == ["Shield"]


def test_an_undo_brings_retired_entries_back_in_their_order() -> None:
    rows = [entry(str(number), f"N{number}") for number in range(5)]
    state = with_book(*rows)
    changes, _update = book_changes(
        state, BookContents(BOOK_ID, "Tale", "tale.json", rows[:2]), LATER
    )
    commit = Commit(1, NOW, "import", tuple(changes))
    apply(state, commit.changes)
    apply(state, taking_back(state, commit))
    assert list(state.long_term) == ["N0", "N1", "N2", "N3", "N4"]


def test_a_book_of_the_same_name_in_which_all_titles_and_texts_are_new_is_the_same_by_its_keys() -> (
    None
):
    state = with_book(SWORD)
    rewritten = replace(SWORD, name="Blade", prompt="It is blunt.")
    update = imported(state, rewritten)
    assert list(update.changed) == ["Blade"]
    assert update.stored_as == ""
