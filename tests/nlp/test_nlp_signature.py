"""A rule that makes other words has another signature, or stored memories keep their old words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from hashlib import sha256

import pytest

from nlp import Enrichment, enriched_keywords
from nlp.enrichment import REVISIONS
from nlp.normal_forms import can_simplify

NOON_MS = 1_748_779_200_000


@dataclass(frozen=True)
class Message:
    content: str
    role: str = "user"
    time_ms: int | None = NOON_MS
    name: str | None = "阿红"


MESSAGES = (
    Message("昨天我和小明去西湖边上散步，聊了很多关于工作的事情；5月2日是她的生日。"),
    Message("猫の名前は？ ケーキが好きです。우리 집 고양이 이름은 나비야."),
    Message(
        "We parked the bikes at the café on July 17th, 3.5/6 of them; websockets were running yesterday."
    ),
    Message("Пироги испекли вчера, 😀 ＧＰＴ４ 這裡的東西。"),
)
WORDS = {
    "dates": "833ee5eb847a",
    "long_texts": "6de1aca4ea0c",
    "normal_forms": "125b5cdb6a44",
    "normal_forms2": "41349d63e31c",
    "scripts": "4dfa1b266cee",
    "simplified": "df0ad12102d3",
    "speakers": "7c28fb89f531",
    "stems": "1eb3ad47492f",
    "dates long_texts normal_forms scripts simplified speakers stems": "8b59ccb1cbc5",
    "dates long_texts normal_forms2 scripts simplified speakers stems": "d97054da9607",
}
"""What the words of each signature are, as the beginning of a hash of them with their weights."""


OPTIONS = ("dates", "long_texts", "normal_forms", "scripts", "simplified", "speakers", "stems")


def hash_of(options: Enrichment) -> str:
    keywords = enriched_keywords(MESSAGES, options, now_ms=NOON_MS, zone=UTC, names=["阿红"])
    return sha256(
        "\n".join(sorted(f"{word} {weight:.6g}" for word, weight in keywords)).encode()
    ).hexdigest()[:12]


@pytest.mark.parametrize("chosen", [*((option,) for option in OPTIONS), OPTIONS], ids=" ".join)
def test_other_words_have_another_signature(chosen: tuple[str, ...]) -> None:
    """If this fails, the rule of an option makes other words: give it the next number in `REVISIONS` of
    nlp/enrichment.py, and write the new lines here."""
    if "simplified" in chosen and not can_simplify():
        pytest.skip("OpenCC is not installed")
    options = Enrichment(**dict.fromkeys(chosen, True))
    assert {options.signature: hash_of(options)}.items() <= WORDS.items()


def test_each_option_changes_these_words() -> None:
    hashes = [
        hash_of(Enrichment(**{option: True}))
        for option in OPTIONS
        if option != "simplified" or can_simplify()
    ]
    assert len({*hashes, hash_of(Enrichment())}) == len(hashes) + 1


def test_only_options_have_revisions() -> None:
    assert REVISIONS.keys() <= set(OPTIONS)
