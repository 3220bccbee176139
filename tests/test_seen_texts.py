"""What looks the same is the same: for recall, triggers, searches, forgetting, erasing, and what was erased."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from memory_server.config import Settings
from memory_server.conversations.insight import ListRequest
from memory_server.conversations.recall.request import RecallRequest
from memory_server.kernel.items import ItemFilter
from memory_server.kernel.messages import Message
from memory_server.memories import forgetting
from memory_server.runtime.app import App, open_memory
from nlp.index_terms import seen_form

pytestmark = pytest.mark.anyio
ALPHABETS = (
    "bcdfghklmnprstvzaeiou",
    "bdfgklmnprstäöüéèàçñ",
    "bdghklmntăâđêôơưếộữạ",
    "ガギグゲゴザジズゼゾダデドバビブベボパピプペポラリルレロ",
    "가나다라마바사아자차한강민준서윤",
    "饭馆龙门镇乌鸦鹅绒绿萝兰铃樱桃栗",
)
TRADITIONAL = str.maketrans("饭馆龙门镇乌鸦鹅绒绿萝兰铃", "飯館龍門鎮烏鴉鵝絨綠蘿蘭鈴")
UNSEEN = "\u00ad\u200b\u200c\u2060\ufeff\u180e\u034f\ufe00"
HALF_WIDTH = {unicodedata.normalize("NFKC", half): half for half in map(chr, range(0xFF66, 0xFF9E))}


@dataclass
class Chance:
    """Words, and texts that look like them."""

    dice: Random

    def word(self) -> str:
        letters = self.dice.choice(ALPHABETS)
        return "".join(self.dice.choices(letters, k=self.dice.choice((4, 5, 6))))

    def look(self, word: str) -> str:
        """A text that looks like `word`: in another form, with signs that nobody sees."""
        form = self.dice.choice(("NFC", "NFD", "NFKC", "NFKD"))
        text = unicodedata.normalize(form, self._in_another_width(word.translate(self._table())))
        for _ in range(self.dice.choice((0, 1, 3))):
            position = self.dice.randrange(1, len(text))
            text = text[:position] + self.dice.choice(UNSEEN) + text[position:]
        return text

    def _table(self) -> dict[int, int]:
        return TRADITIONAL if self.dice.random() < 0.5 else {}

    def _in_another_width(self, word: str) -> str:
        if self.dice.random() < 0.7:
            return word
        full = "".join(chr(ord(char) + 0xFEE0) if "!" <= char <= "~" else char for char in word)
        apart = unicodedata.normalize("NFD", full)
        return "".join(
            HALF_WIDTH.get(char, char) for char in apart.replace("\u3099", "ﾞ").replace("\u309a", "ﾟ")
        )


@pytest.mark.parametrize("seed", range(2))
async def test_what_looks_the_same_is_the_same(seed: int, tmp_path: Path, elsewhere: None) -> None:
    await _live(Chance(Random(seed)), 12, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 150))
async def test_what_looks_the_same_is_the_same_in_a_thousand_texts(
    seed: int, tmp_path: Path, elsewhere: None
) -> None:
    await _live(Chance(Random(seed)), 20, tmp_path)


async def _live(chance: Chance, count: int, folder: Path) -> None:
    async with open_memory(folder / "data", settings=Settings(seed=1)) as app:
        words: list[str] = []
        while len(words) < count:
            word = chance.word()
            if not any(_alike(word, another) for another in words):
                words.append(word)
        for word in words:
            await _store(app, word, chance)
        for word in words:
            assert await _faults_of(app, word, chance) == []


def _alike(word: str, other_word: str) -> bool:
    """Whether they share two neighbouring letters: a search by pairs may then bring both."""
    return any(word[at : at + 2] in other_word for at in range(len(word) - 1))


async def _store(app: App, word: str, chance: Chance) -> None:
    conversation = app.conversation()
    yesterday = app.clock() - 86_400_000
    await conversation.short_term.add(
        [Message("user", f"Remember {chance.look(word)} please", yesterday)]
    )
    trigger = f"match_keys(context.messages, ['{chance.look(word)}']) > 0"
    await conversation.long_term.add(f"warn {word}", f"WARN {chance.look(word)}", trigger)
    await app.knowledge.notes.remember(
        "domain", f"about {word}", f"It says {chance.look(word)} here"
    )


async def _faults_of(app: App, word: str, chance: Chance) -> list[str]:
    """What does not take a text for `word` that looks like it."""
    faults: list[str] = []

    def expect(holds: bool, subject: str, look: str) -> None:
        if not holds:
            faults.append(f"{subject}: {look.encode('unicode_escape').decode()} for {word}")

    look = chance.look(word)
    messages = [Message("user", f"Tell me of {look}")]
    recall = (
        await app.conversation().short_term.search(
            RecallRequest(messages, mode="asked", reinforce=False)
        )
    ).recall
    expect(
        any(_holds(item.memory.text, word) for item in (*recall.top, *recall.next)), "recall", look
    )
    activation = await app.conversation().long_term.search(messages)
    expect(
        any(shelved.memory.name == f"warn {word}" for shelved in activation.activated),
        "trigger",
        look,
    )

    look = chance.look(word)
    filtered, _ = await app.conversation().insight.search(ListRequest(keywords=[look]))
    expect(len(filtered) == 2, "search of memories by keyword", look)

    look = chance.look(word)
    hits = await app.knowledge.notes.recall(look)
    expect(any(_holds(hit.entry.body, word) for hit in hits.hits), "search of notes", look)

    look = chance.look(word)
    removed = await app.conversation().short_term.delete(look, dry_run=True)
    expect(len(removed.forgotten) == 1, "delete by a word", look)

    engines = app.memories.engines
    look = chance.look(word)
    meant, _ = await forgetting.find(engines, [look], ItemFilter())
    expect({item.family for item in meant} == {"memories", "triggers", "notes"}, "forget", look)
    change = await forgetting.forget(engines, meant)
    assert change is not None
    expect((await forgetting.find(engines, [look], ItemFilter()))[0] == [], "forget twice", look)
    await forgetting.undo(engines, change, by="test")

    look = chance.look(word)
    everything, words = await forgetting.find(engines, [look], ItemFilter(archived=None))
    erasure = await forgetting.erasure_of(engines, everything, words)
    await forgetting.erase(engines, erasure, app.home.erased, app.home.recalls, app.home.questions)
    app.home.erased.end()
    expect(
        (await forgetting.find(engines, [look], ItemFilter(archived=None)))[0] == [], "erase", look
    )
    return faults


def _holds(text: str, word: str) -> bool:
    return seen_form(word) in seen_form(text)
