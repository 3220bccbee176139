"""Whether lorebooks do here what they do in SillyTavern, and how much of them comes whole.

    python tests/bench/quality/lorebooks.py BOOKS [CHATS] [--profile FOLDER]

BOOKS is a folder of world info and cards as JSON, CHATS one of chats of SillyTavern; without it, chats are made of the
keys of the book. The first part compares what comes before each turn with the rule (lore_as_there.py), for the largest
books of 100 entries or more. The second says which share of constants and of fired entries comes whole, by the room of
the prompt. The third counts the lines of what imports say.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2]))

from bench.quality.lore_as_there import (
    Effects,
    Lore,
    Settings,
    by_probability,
    by_weight,
    fires_there,
    with_macros,
)
from bench.quality.lore_chats import CHARACTER, USER, Chat, made_of_keys, read_chats
from bench.quality.lore_entries import Entry, entries_of
from bench.quality.lore_keys import Keys
from bench.quality.lore_server import (
    ALONE,
    MOST_CHARS,
    Came,
    Expressions,
    Server,
    imported,
    imported_book,
    known_flags,
    letters,
    server_command,
    uids_of,
)
from stdio_process import running

from memory_server.kernel.recalled_block import FRAME_CHARS, one_line
from memory_server.lore.rounds import head_of
from sandbox.javascript.spelling import folded

LEAST_ENTRIES = 100
DRAWS = 12
"""How often the rule draws, to know what may fire."""
ROOMS: Mapping[str, int | None] = {
    "1,200": 1_200,
    "default": None,
    "10,000": 10_000,
    "20,000": 20_000,
}
BOOKS_OF_AN_IMPORT = 30
ROOM_FULL = "after the room was full"
SPELLED = "by another spelling"
"""Traditional and Simplified characters are the same here, full-width and plain ones too."""


@dataclass(frozen=True, slots=True)
class BookFile:
    """A lorebook with its entries, macros filled."""

    path: Path
    entries: tuple[Entry, ...]

    @property
    def constants(self) -> list[Entry]:
        """Those that fire in every search."""
        return [entry for entry in self.entries if _is_constant(entry)]


def _is_constant(entry: Entry) -> bool:
    is_plain = not (
        entry.group or entry.delay or entry.cooldown or entry.filter_names or entry.filter_tags
    )
    is_usual = (
        entry.enabled
        and entry.is_certain
        and not entry.delay_until_recursion
        and not entry.decorators
    )
    return entry.constant and is_plain and is_usual and bool(letters(entry.content))


def read_books(folder: Path, keys: Keys) -> Iterator[BookFile]:
    """The books of a folder, as far as they have entries."""
    for path in sorted(folder.rglob("*.json")):
        try:
            entries = entries_of(json.loads(path.read_text("utf-8-sig")))
        except (ValueError, TypeError) as error:
            print(f"not read: {path.name}: {error}")
            continue
        if entries:
            yield BookFile(path, tuple(with_macros(entries, keys)))


# --- what fires -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Tally:
    """How what came compares with the rule. `drawn`: entries that a draw or a chance decides, which may come or not."""

    turns: int = 0
    equal: int = 0
    drawn: int = 0
    missing: Counter[str] = field(default_factory=Counter)
    extra: Counter[str] = field(default_factory=Counter)
    without_room: int = 0
    cut: int = 0
    out_of_order: int = 0
    unequal_turns: int = 0
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, possible: Possible, recalled: Came, entries: Mapping[str, Entry]) -> None:
        ours = frozenset(recalled.uids)
        reasons = dict(recalled.left_out)
        missing = possible.sure - ours
        extra = ours - possible.may
        self.turns += 1
        self.equal += len(possible.sure & ours)
        self.drawn += len((possible.may - possible.sure) & ours)
        # Here and there, no text is searched for what else it makes fire once the room is full.
        is_full = bool(recalled.without_room)
        for uid in missing:
            kind = _kind(entries.get(uid))
            if is_full:
                kind = ROOM_FULL
            self.missing[reasons.get(uid) or kind] += 1
        for uid in extra:
            kind = _kind(entries.get(uid))
            if uid in possible.spelled:
                kind = "by another spelling"
            self.extra[kind] += 1
        prompt = letters(recalled.prompt)
        self.without_room += len(recalled.without_room)
        self.cut += sum(
            not is_whole(entries[uid], prompt) for uid in recalled.uids if uid in entries
        )
        expected = [uid for uid in possible.order if uid in ours]
        actual = [uid for uid in recalled.uids if uid in expected]
        self.out_of_order += len(actual) - longest_in_order(actual, expected)
        self.unequal_turns += bool(missing or extra)
        self.failed.update(recalled.failed)

    def lines(self) -> Iterator[str]:
        due = self.equal + self.missing.total()
        yield f"  turns {self.turns}, other than there {self.unequal_turns}"
        yield f"  equal {self.equal} of {due}; decided by a draw or a chance {self.drawn}"
        yield f"  missing {self.missing.total()} {dict(self.missing)}"
        yield f"  extra {self.extra.total()} {dict(self.extra)}"
        yield f"  of all that fired without room {self.without_room}"
        yield f"  of all that came not whole {self.cut}, out of order {self.out_of_order}, failed {dict(self.failed)}"


def _kind(entry: Entry | None) -> str:
    """What may be the cause of a difference."""
    if entry is None:
        return "not an entry of the book"
    kinds = {
        "group": entry.group,
        "chance": not entry.is_certain,
        "sticky": entry.sticky,
        "cooldown": entry.cooldown,
        "delay": entry.delay,
        "delayed until recursion": entry.delay_until_recursion,
        "filter": entry.filter_names or entry.filter_tags,
        "vectorized": entry.vectorized,
        "expression": any(key.startswith("/") for key in entry.keys),
        "constant": entry.constant,
    }
    return next((kind for kind, is_so in kinds.items() if is_so), "keys")


@dataclass(frozen=True, slots=True)
class Possible:
    """Uids of what fires in every draw, of what fires in some, in the order of the text; and of what fires only because
    another spelling of a key counts too."""

    sure: frozenset[str]
    may: frozenset[str]
    order: tuple[str, ...]
    spelled: frozenset[str]


@dataclass(slots=True)
class Rule:
    """What fires there along a chat, for each of several draws."""

    entries: Sequence[Entry]
    keys: Keys
    settings: Settings
    effects: list[Effects] = field(default_factory=lambda: [Effects()] * DRAWS)

    def after(self, chat: Chat, length: int) -> Possible:
        outcomes: list[Lore] = []
        for number in range(DRAWS):
            outcome = self._outcome(chat, length, number)
            outcomes.append(outcome)
            self.effects[number] = outcome.effects
            if (
                number == 0
                and not (outcome.drawn or outcome.by_chance)
                and len(set(map(id, self.effects[1:]))) <= 1
            ):
                self.effects = [outcome.effects] * DRAWS
                break
        fired = list(map(_uids, outcomes))
        unlikely = [_decided_by_dice(outcome) for outcome in outcomes]
        may = frozenset().union(*fired, *unlikely)
        order = tuple(entry.uid for entry in outcomes[0].entries)
        if len(outcomes) > 1:
            entries = chain.from_iterable(outcome.entries for outcome in outcomes)
            of_uid = {entry.uid: entry for entry in entries}
            order = tuple(sorted(of_uid, key=lambda uid: of_uid[uid].order))
        return Possible(
            fired[0].intersection(*fired), may, order, self._spelled(chat, length) - may
        )

    def _outcome(self, chat: Chat, length: int, number: int) -> Lore:
        dice = Random(f"{chat.name} {length} {number}")
        return fires_there(
            self.entries,
            chat.lines[:length],
            self.keys,
            self.settings,
            self.effects[number],
            draw=by_weight(dice.random),
            chance=by_probability(dice.random),
            message_count=length,
            character=CHARACTER,
        )

    def _spelled(self, chat: Chat, length: int) -> frozenset[str]:
        """What fires where keys and texts are in one spelling."""
        plain = [
            replace(
                entry,
                keys=tuple(map(folded, entry.keys)),
                secondary=tuple(map(folded, entry.secondary)),
            )
            for entry in self.entries
        ]
        lines = tuple(
            replace(line, name=folded(line.name), text=folded(line.text)) for line in chat.lines
        )
        outcome = Rule(plain, self.keys, self.settings, list(self.effects))._outcome(
            replace(chat, lines=lines), length, 0
        )
        return _uids(outcome)


def _uids(outcome: Lore) -> frozenset[str]:
    return frozenset(entry.uid for entry in outcome.entries)


def _decided_by_dice(outcome: Lore) -> frozenset[str]:
    """What a draw or a chance could have let fire, also where it is too unlikely to be seen in a few draws."""
    candidates = chain.from_iterable(outcome.drawn.values())
    return frozenset(entry.uid for entry in (*candidates, *outcome.by_chance))


def _length_here(entry: Entry) -> int:
    """The characters that an entry takes in a prompt: its name, its text on one line, and the end of the line."""
    return len(head_of(entry.title, is_chinese=False)) + len(one_line(entry.content)) + 1


def longest_in_order(actual: Sequence[str], expected: Sequence[str]) -> int:
    """How many of `actual`, at most, stand in the order of `expected`."""
    numbers = {uid: number for number, uid in enumerate(expected)}
    ends: list[int] = []
    for uid in actual:
        number = numbers[uid]
        at = next((index for index, end in enumerate(ends) if end >= number), len(ends))
        ends[at:] = [number, *ends[at + 1 :]]
    return len(ends)


def compare(book: BookFile, chats: Sequence[Chat], settings: Settings, keys: Keys) -> Tally:
    """What comes before each turn of the user's, beside the rule."""
    flags: list[str] = []
    if not settings.names:
        flags += known_flags("--no-names")
    if not settings.recursive:
        flags += known_flags("--no-recursion")
    tally = Tally()
    entries = {entry.uid: entry for entry in book.entries}
    with tempfile.TemporaryDirectory() as home:
        data_dir = Path(home)
        imported_book(data_dir, book.path, "book", *flags)
        uids = asyncio.run(uids_of(data_dir, "book"))
        with running(server_command(data_dir), ALONE) as client:
            server = Server(client)
            for chat in chats:
                rule = Rule(book.entries, keys, settings)
                for length in _turns(chat):
                    possible = rule.after(chat, length)
                    recalled = server.before_turn("book", chat, length, uids, MOST_CHARS)
                    tally.add(possible, recalled, entries)
    return tally


def large_books(books: Sequence[BookFile], name: str, least: int) -> list[BookFile]:
    """The books of many entries, those with the most keyed entries first."""
    large = [book for book in books if len(book.entries) >= least and name in book.path.name]
    return sorted(
        large, key=lambda book: -sum(entry.enabled and bool(entry.keys) for entry in book.entries)
    )


def _turns(chat: Chat) -> Iterable[int]:
    """The numbers of messages after which an answer is due."""
    return [number for number, line in enumerate(chat.lines, 1) if line.name == chat.user]


# --- what comes whole -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Whole:
    """The number of books whose constants all come whole, and of entries that fire and come whole."""

    books: int = 0
    books_whole: int = 0
    fired: int = 0
    fired_whole: int = 0
    constants: int = 0
    constants_whole: int = 0

    def __str__(self) -> str:
        return (
            f"constants whole in {self.books_whole} of {self.books} books ({_share(self.books_whole, self.books)}), "
            f"{self.constants_whole} of {self.constants} constants ({_share(self.constants_whole, self.constants)}); "
            f"fired entries whole {self.fired_whole} of {self.fired} ({_share(self.fired_whole, self.fired)})"
        )


def is_whole(entry: Entry, prompt: str) -> bool:
    """Whether the text of an entry is in a prompt, of which only the letters are left. What a macro becomes is not
    looked at."""
    at = 0
    for piece in re.split(r"\{\{[^{}]*\}\}|<[^<>]*>", entry.content):
        sought = letters(piece)
        at = prompt.find(sought, at)
        if at < 0:
            return False
        at += len(sought)
    return True


def _share(part: int, whole: int) -> str:
    if not whole:
        return "-"
    return f"{part / whole:.0%}"


def coming_whole(
    books: Sequence[BookFile], settings: Settings, keys: Keys, seed: int
) -> dict[str, Whole]:
    """How much comes whole before one turn about a key of each book, by the room of the prompt."""
    shares = {name: Whole() for name in ROOMS}
    with tempfile.TemporaryDirectory() as home:
        data_dir = Path(home)
        for number, book in enumerate(books):
            imported_book(data_dir, book.path, f"book {number}")
        with running(server_command(data_dir), ALONE) as client:
            server = Server(client)
            for number, book in enumerate(books):
                chats = made_of_keys(book.entries, 1, seed) or made_of_keys([_ANY], 1, seed)
                chat = chats[0]
                length = max(_turns(chat))
                possible = Rule(book.entries, keys, settings).after(chat, length)
                fired = [
                    entry
                    for entry in book.entries
                    if entry.uid in possible.sure and letters(entry.content)
                ]
                for name, room in ROOMS.items():
                    recalled = server.before_turn(
                        f"book {number}", replace(chat, name=name), length, {}, room
                    )
                    _count(shares[name], book.constants, fired, letters(recalled.prompt))
    return shares


_ANY = Entry("any", keys=("nothing",))


def _count(share: Whole, constants: Sequence[Entry], fired: Sequence[Entry], prompt: str) -> None:
    whole = sum(is_whole(entry, prompt) for entry in constants)
    share.constants += len(constants)
    share.constants_whole += whole
    if constants:
        share.books += 1
        share.books_whole += whole == len(constants)
    share.fired += len(fired)
    share.fired_whole += sum(is_whole(entry, prompt) for entry in fired)


# --- what imports say -------------------------------------------------------------------------------------------------


def reports(books: Sequence[BookFile], profile: Path | None) -> Iterator[str]:
    """How many lines the reports of imports have."""
    with tempfile.TemporaryDirectory() as home:
        files = [str(book.path) for book in books[:BOOKS_OF_AN_IMPORT]]
        if files:
            began = time.perf_counter()
            lines = imported(Path(home, "books"), Path(files[0]), *files[1:], "-c", "books")
            yield f"{len(files)} books in one import: {len(lines)} lines in {time.perf_counter() - began:.1f} s"
            again = imported(Path(home, "books"), Path(files[0]), *files[1:], "-c", "books")
            yield f"the same again: {len(again)} lines"
        if profile is not None:
            began = time.perf_counter()
            lines = imported(Path(home, "profile"), profile)
            yield f"profile {profile.name}: {len(lines)} lines in {time.perf_counter() - began:.1f} s"
            yield f"  first line: {next(iter(lines), '')[:100]}"


def main() -> None:
    flags = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    flags.add_argument("books", nargs="?", type=Path, help="folder of lorebooks")
    flags.add_argument("chats", nargs="?", type=Path, help="folder of chats of SillyTavern")
    flags.add_argument(
        "--profile", type=Path, help="folder of a SillyTavern user, for the third part"
    )
    flags.add_argument("--compared", type=int, default=1, help="books of the first part")
    flags.add_argument(
        "--book", default="", help="of the first part: those whose file has this in its name"
    )
    flags.add_argument(
        "--least", type=int, default=LEAST_ENTRIES, help="entries of a book of the first part"
    )
    flags.add_argument(
        "--no-names", action="store_true", help="names of speakers are no text that is searched"
    )
    flags.add_argument(
        "--no-recursion", action="store_true", help="texts that fired are not searched"
    )
    flags.add_argument("--most", type=int, default=60, help="books of the second part")
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--only", choices=("fires", "whole", "reports"), help="only this part")
    chosen = flags.parse_args()
    if chosen.books is None:
        flags.print_usage()
        return
    with Expressions() as expressions:
        keys = Keys(meanings={"{{user}}": USER, "{{char}}": CHARACTER}, matches=expressions.matches)
        books = list(read_books(chosen.books, keys))
        settings = Settings(
            names=not chosen.no_names,
            recursive=not chosen.no_recursion,
            room=MOST_CHARS
            - FRAME_CHARS
            + 1,  # there, an entry that fills the room to its end has no room
            length_of=_length_here,
        )
        print(f"{len(books)} books, {sum(len(book.entries) for book in books)} entries")
        if chosen.only in (None, "fires"):
            print(
                "groups and chances are compared as what may fire: an entry that a draw decides counts as equal"
            )
            for book in large_books(books, chosen.book, chosen.least)[: chosen.compared]:
                if chosen.chats:
                    chats = list(read_chats(chosen.chats))
                else:
                    chats = made_of_keys(book.entries, 10, chosen.seed)
                print(f"{book.path.name}: {len(book.entries)} entries, {len(chats)} chats")
                print("\n".join(compare(book, chats, settings, keys).lines()))
        sample = Random(chosen.seed).sample(books, min(chosen.most, len(books)))
        if chosen.only in (None, "whole"):
            for name, share in coming_whole(sample, settings, keys, chosen.seed).items():
                print(f"{name:>8} characters: {share}")
        if chosen.only in (None, "reports"):
            print("\n".join(reports(sample, chosen.profile)))
        if keys.skipped:
            print(f"expressions that could not be run: {len(keys.skipped)}")


if __name__ == "__main__":
    main()
