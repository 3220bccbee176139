"""Why a memory came or did not come, in words for people: the sentences of tools, commands, the page and the record of
recalls. What happened is decided elsewhere (`selection.py`, `explanation.py`); here it is only said. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from math import ceil, floor
from typing import TYPE_CHECKING, NamedTuple

from languages import _, joined, n_, spoken
from memory_server.conversations.recall.plans import plan_text
from memory_server.conversations.recall.receipts import age_text
from memory_server.conversations.recall.words import spelling_of
from memory_server.kernel.messages import NOTHING, said_beginning
from memory_server.kernel.recalled_block import one_line
from memory_server.kernel.times import MINUTE_MS, local
from memory_server.kernel.values import frozen
from nlp import says_little
from nlp.stems import FUNCTION_CHARACTERS

if TYPE_CHECKING:
    from memory_server.conversations.model import ShortTermMemory
    from memory_server.conversations.recall.day_lines import DayNotes
    from memory_server.conversations.recall.order import Recalled
    from memory_server.kernel.recorded_recall import RecordedItem
    from nlp.questions import Overview

_SMALL = 0.2
"""The share of the heaviest word's points below which a word is not named."""
_NEAR_MISS_WORDS = 3
"""The number of shared words that the line of a near miss names."""
_STANDING_CHARS = 60
"""Characters of a memory that corrects another one."""
_LATIN = re.compile(r"[A-Za-z0-9_]")


class Run(NamedTuple):
    """Where words of a text overlap: from `start` to `end`, and the points of all of them."""

    start: int
    end: int
    points: float


def runs(text: str, words: Mapping[str, float]) -> list[Run]:
    """Find the words in a text, in any case, in its order; words that overlap make one run: 酸汤鱼,
    not 酸汤 and 汤鱼. A Latin word also finds words with up to four more letters, because words are
    kept by their stems. The points of a run count each word once."""
    folded = "".join(map(_in_lower_case, text))
    occurrences: list[_Occurrence] = []
    for word in words:
        occurrences += _occurrences(folded, word)

    all_runs: list[Run] = []
    words_of_run: set[str] = set()
    for start, end, word in sorted(occurrences):
        if all_runs and start < all_runs[-1].end:
            run = all_runs[-1]

            points = run.points
            if word not in words_of_run:
                points += words[word]
            all_runs[-1] = Run(run.start, max(run.end, end), points)
        else:
            words_of_run.clear()
            all_runs.append(Run(start, end, words[word]))
        words_of_run.add(word)
    return all_runs


class _Occurrence(NamedTuple):
    """The place of a word in a text."""

    start: int
    end: int
    word: str


def _in_lower_case(char: str) -> str:
    """Return a character in lower case, if that is one character too, so that places in the text stay the same."""
    folded = char.casefold()
    if len(folded) != 1:
        return char
    return folded


def _occurrences(folded_text: str, word: str) -> Iterator[_Occurrence]:
    """Yield the places of a word in a text in lower case. A Latin word stands alone there, with up to four more
    letters at its end, because words are kept by their stems."""
    folded_word = word.casefold()
    if not folded_word:
        return
    pattern = re.escape(folded_word)
    if _LATIN.match(folded_word):
        pattern = rf"(?<!\w){pattern}\w{{0,4}}(?!\w)"
    for match in re.finditer(pattern, folded_text):
        yield _Occurrence(match.start(), match.end(), word)


def joined_words(text: str, words: Mapping[str, float]) -> dict[str, float]:
    """Return the words as a text spells them, overlapping words as one, with their points; the `words` themselves if
    the text has none of them. Speakers (`阿红:`, see `nlp/enrichment.py`) are shown by their names."""
    words = {word.removesuffix(":") or word: points for word, points in words.items()}
    points_of_text: dict[str, float] = {}
    for run in runs(text, words):
        run_text = text[run.start : run.end]
        points_of_text[run_text] = max(run.points, points_of_text.get(run_text, 0.0))
    return points_of_text or dict(words)


def shared_words(recalled: Recalled) -> dict[str, float]:
    """Return the words that a memory shares with the messages, as its text spells them, with their points, the
    heaviest first. Words that say little are left out if there are others."""
    points = {word.word: word.points for word in recalled.receipt.words_shared}
    telling = {word: points[word] for word in points if _is_telling(word)}
    words = joined_words(recalled.memory.text, telling or points)
    return {word: words[word] for word in sorted(words, key=lambda word: -words[word])}


def _is_telling(word: str) -> bool:
    """Return whether a word is not a function word, a pair with a function word such as 的牙, or a single character."""
    if says_little(word.lower()):
        return False
    if word.isascii() or len(word) > 2:
        return True
    return len(word) == 2 and FUNCTION_CHARACTERS.isdisjoint(word)


def quoted(words: Iterable[str], *, zh: bool) -> str:
    """Return words in quotation marks, as a list."""
    marked = [f"“{word}”" for word in words]
    if zh:
        return "".join(marked)
    if len(marked) < 2:
        return "".join(marked)
    return f"{', '.join(marked[:-1])} and {marked[-1]}"


@frozen
class OtherPoints:
    """Words that are not in both the messages and the text, with their points. `other_words`: the caller gave them
    beside the messages; `kept`: they are kept with the memory."""

    other_words: Mapping[str, float] = field(default_factory=lambda: NOTHING)
    kept: Mapping[str, float] = field(default_factory=lambda: NOTHING)

    def sentences(self, *, zh: bool) -> Iterator[str]:
        """Yield a sentence about the other words of the caller, and one about the words that are
        kept with the memory, each with the three heaviest; without such words, yield none."""
        if self.other_words:
            yield _(
                "The caller also looked for {words}.", quoted(_heaviest(self.other_words), zh=zh)
            )
        if self.kept:
            heaviest = _heaviest(self.kept)
            yield n_(
                "{words} is kept with it as another word.",
                "{words} are kept with it as other words.",
                len(heaviest),
                quoted(heaviest, zh=zh),
            )


def _heaviest(words: Mapping[str, float]) -> list[str]:
    """Return the three words with the most points."""
    return sorted(words, key=lambda word: -words[word])[:3]


def reason_of(recalled: Recalled, tier: str, words: Mapping[str, float]) -> str:
    """Write a sentence or two on a memory that came in this `tier` of a search, by the `words` that it shares."""
    receipt = recalled.receipt
    spelt = spelling_of(recalled.memory)
    others = OtherPoints(
        other_words={spelt(word.word): word.points for word in receipt.other_words},
        kept={spelt(word.word): word.points for word in receipt.words_kept},
    )
    return reason(
        tier,
        words,
        max(words.values(), default=1.0),
        receipt.around,
        zh=spoken() == "zh",
        overview=receipt.overview,
        others=others,
    )


def reason(
    tier: str | None,
    words: Mapping[str, float],
    heaviest: float,
    around: float,
    *,
    zh: bool,
    overview: bool = False,
    others: OtherPoints | None = None,
) -> str:
    """Write a sentence or two on a memory that came in this `tier` of the record of recalls. `words` has what it
    shares, with the points of each; `around` the points from what was said around it; `heaviest` the points that no
    word exceeds; `overview` whether an overview was asked for; `others` the other words that brought it."""
    about_others: list[str] = []
    if others is not None and not overview and tier not in _FOR_OTHER_REASONS:
        about_others += others.sentences(zh=zh)
    space = "" if zh else " "
    if about_others and not words:
        return space.join(about_others)
    about_words = _reason(tier, words, heaviest, around, zh=zh, overview=overview)
    return space.join((about_words, *about_others))


_FOR_OTHER_REASONS = ("flashback", "answer", "plan", "pinned", "last", "action")
"""Tiers of memories that came for another reason than their words."""


def _reason(
    tier: str | None,
    words: Mapping[str, float],
    heaviest: float,
    around: float,
    *,
    zh: bool,
    overview: bool,
) -> str:
    """Return why a memory came: by its tier; else because of an overview, of what was said around
    it, or of the words that it shares. The parameters are those of `reason`."""
    total = sum(words.values())
    heavy = [word for word in _heaviest(words) if words[word] >= _SMALL * heaviest]
    named = quoted(heavy or list(words)[:2], zh=zh)

    match tier:
        case "flashback":
            return _("It came by chance, as memories do.")
        case "answer":
            return _("It was said right after the one above, as an answer.")
        case "plan":
            return _("It is a plan, and its day had come.")
        case "pinned":
            return _("It is pinned, so a new session gets it.")
        case "last":
            return _("It is where you left off, so a new session gets it.")
        case "action":
            return _("It speaks of {words}, at which the model was working.", quoted(words, zh=zh))

    if overview:
        return _("It came because an overview was asked for; no word need be the same.")
    if not words:
        return _("It came for its time or its meaning; no word is the same.")

    if around > total:
        return _("Mostly because it was said around one that came; {words} is in both.", named)
    if around > 0.4 * total:
        return _("Partly for {words}, partly because of what was said around it.", named)

    if len(words) == 1:
        return _("Only because {words} is in both.", named)
    if len(heavy) > 1 and sum(words[word] for word in heavy) >= 1.5 * heaviest:
        return _("{words} are rare in your memories, and this one has them.", named)
    if len(heavy) > 1:
        return _("{words} are in both.", named)
    return _("{words} is in both.", named)


def words_text(words: Mapping[str, float], spelt: Callable[[str], str]) -> str:
    """Return shared words, `spelt`, with their points, such as `mango 25.4, cake 20.7`."""
    return ", ".join(f"{spelt(word)} {points:.1f}" for word, points in words.items())


# --- a line of the record of recalls -------------------------------------------------------------------------


def lacking_text(points: float) -> str:
    """Points that a memory lacks: what lacks something does not lack 0.0 of it."""
    if points < 0.05:
        return _("less than 0.1")
    return f"{points:.1f}"


@frozen
class WholePoints:
    """The points of a memory and the needed points, as whole numbers in the same ratio."""

    counted: int
    needed: int

    @classmethod
    def of(cls, counted: float, needed: float) -> WholePoints:
        """Round both, but so that too few points never look like enough."""
        if counted < needed and round(counted) >= round(needed):
            return cls(floor(counted), ceil(needed))
        return cls(round(counted), round(needed))


def near_miss_text(item: RecordedItem, said: str = "", *, zh: bool) -> str:
    """Explain what a memory that nearly came lacked: `NearMiss.lacked` (order.py) in words. `said` is the last
    message, or "" if it is not known."""
    words = list(item.words)[:_NEAR_MISS_WORDS]
    shared_words = quoted(words, zh=zh)

    # No shared word is in the last message, so the sentence says where they are from.
    if words and said and not runs(said, dict.fromkeys(words, 1.0)):
        return n_(
            "only {words} of the messages before is the same",
            "only {words} of the messages before are the same",
            len(words),
            shared_words,
        )

    match item.lacked:
        case "room":
            return _("enough, but no room was left in the text")
        case "place":
            return _("enough, but others had more")
        case "same_moment":
            return _("said at the same moment as one that came, so not given again")
        case "words":
            if shared_words:
                return n_(
                    "only {words} is the same, which says little",
                    "only {words} are the same, which says little",
                    len(words),
                    shared_words,
                )
            return _("shares too little")
        case "points" | "":
            if item.points is None:  # an older version wrote the record
                return _("shares too little")

            points_lacking = lacking_text(item.points)
            if shared_words:
                return n_(
                    "only {words} is in both, too little for this home: {points} points too few",
                    "only {words} are in both, too little for this home: {points} points too few",
                    len(words),
                    shared_words,
                    points_lacking,
                )
            return _("shares too little for this home: {points} points too few", points_lacking)
        case unknown_reason:  # a newer version wrote the record
            return unknown_reason


def standing(
    memory: ShortTermMemory,
    corrected_by: ShortTermMemory | None,
    notes: DayNotes,
    instead_of: str = "",
) -> str:
    """Return sentences on the plan that a memory tells of (if notes on days are shown), on what corrected it, and on
    `instead_of`, the id of the memory in whose place it came; empty if there is nothing to say."""
    sentences: list[str] = []
    if instead_of:
        sentences.append(_("It came in place of {id}, which it corrects.", instead_of))

    plan = plan_text(memory, notes.now_ms, notes.zone)
    if plan and notes.are_shown:
        sentences.append(_("It is {plan}.", plan))

    if corrected_by is not None:
        said_at = local(corrected_by.time_ms, notes.zone)
        sentences.append(
            _(
                "It is corrected by {id}, said on {day:%Y-%m-%d}: {text}",
                corrected_by.id,
                said_at,
                one_line(said_beginning(corrected_by.text, _STANDING_CHARS)),
            )
        )
    return joined(" ", sentences)


def held_back(rule: str, count: int) -> str:
    """Return a sentence on how many memories a rule held back, and why; an unknown rule is
    named."""
    match rule:
        case "muted":
            return n_("{count} is muted here.", "{count} are muted here.", count)
        case "too_recent":
            return n_(
                "{count} is so new that the chat still has it.",
                "{count} are so new that the chat still has them.",
                count,
            )
        case "in_context":
            return n_(
                "{count} is still in the context of the session.",
                "{count} are still in the context of the session.",
                count,
            )
        case "same_moment":
            return n_(
                "{count} was said at the same moment as one that came.",
                "{count} were said at the same moment as one that came.",
                count,
            )
    return n_("{count} was held back ({rule}).", "{count} were held back ({rule}).", count, rule)


# --- the verdict on one memory -------------------------------------------------------------------------------


def came(rank: int, places: int, *, top: bool) -> str:
    tier = _("top") if top else _("next")
    return _("It came as {tier}, number {rank} of {places}.", tier, rank, places)


def muted(places: str) -> str:
    return _("It is muted, so it never comes unasked {where}. A search by hand finds it.", places)


def in_context(age_ms: int) -> str:
    return _(
        "Held back: this session said it {age} ago and still has it in its context. It can come in "
        "any other session, and in this one after its context was compacted.",
        age_text(age_ms),
    )


def too_recent(age_ms: int, wait_ms: int) -> str:
    """Return why a memory of the own conversation is held back; `wait_ms`: after how long it can
    come."""
    return _(
        "Held back: it belongs to this conversation, is not known to come from another session, and is "
        "only {age} old. It can come in {age2}.",
        age_text(age_ms),
        age_text(wait_ms),
    )


def same_moment(apart_ms: int, other_memory: str, most: int, spacing_ms: int) -> str:
    """Return why a memory is held back for `other_memory`, a more relevant one that came from the
    same time."""
    return _(
        "Held back: it is {age} apart from a more relevant memory that came, {others}. At most "
        "{same_moment} of the same {spacing:g} min can come.",
        age_text(apart_ms),
        other_memory,
        most,
        spacing_ms / MINUTE_MS,
    )


def not_in_overview(overview: Overview) -> str:
    """Return why a memory does not belong to an overview of this kind."""
    match overview:
        case "everything":
            return _(
                "The messages ask what is known about the user, and it does not say anything about the user."
            )
        case "time":
            return _("The messages ask what was said in a certain time, and it was not said then.")
        case "name":
            return _("The messages ask for the user's name, and it does not tell the name.")
        case "plans":
            return _("The messages ask what is planned, and it tells of no plan for these days.")


def lacks_points(
    missing: float, needed: float, *, shares_words: bool, of_home: bool = False
) -> str:
    """Say how many points a memory lacks. `of_home` says whether the needed points are counted for this home and this
    message, as they are without `compat = "node"`."""
    why = ""
    if not shares_words:
        why = _("it shares no word with these messages, and ")
    points = _("{missing} of the {needed:.1f} points needed", lacking_text(missing), needed)
    if of_home:
        return _("Shares too little for this home: {why}it lacks {points}.", why, points)
    return _("Not relevant enough: {why}it lacks {points}.", why, points)


def longer_message(factor: float) -> str:
    """Say that a long message needs `factor` times the points of a short one."""
    return _(
        "The message is long, so it needs {factor:.1f} times the points of a short one.", factor
    )


def part_of_question(part: float, factor: float) -> str:
    """Say that what a memory shares is this part of a question, and that its points count `factor` times for it."""
    return _(
        "It shares {part:.0%} of the question, so its points count {factor:.2f} times.",
        part,
        factor,
    )


def only_incidental(words: Iterable[str]) -> str:
    """Say that it shares only words that are never enough alone."""
    return _(
        "It shares only {words} with these messages: such words stand in sentences about anything, and never bring a "
        "memory alone.",
        ", ".join(words),
    )


def shares_too_little() -> str:
    return _("It shares too few words with the last message that say something.")


def far_below_best(share: float, other_memory: str) -> str:
    beside = _(
        "it has less than {nearly_best:.0%} of the relevance of {others}", share, other_memory
    )
    return _("Relevant enough, but not unasked: {beside}.", beside)


def no_place() -> str:
    return _("Relevant enough, but the settings leave no place for top and next.")


def places_taken(others: Sequence[str], *, by_meaning: bool) -> str:
    """Return why a memory that is relevant enough did not come. `others`: the memories that came;
    `by_meaning`: whether these come first by words and meaning."""
    count = _("the only place") if len(others) == 1 else _("the {others} places", len(others))
    took = joined("; ", others)
    if by_meaning:
        return _(
            "Relevant enough, but others, which come first by words and meaning, took {number}: {took}.",
            count,
            took,
        )
    return _("Relevant enough, but more relevant memories took {number}: {took}.", count, took)
