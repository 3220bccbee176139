"""The constants of recall that settings give."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from memory_server.config.settings import Settings
from memory_server.conversations.recall.parameters import (
    NODE_RETENTION,
    USUAL,
    Parameters,
    RecallParameters,
    RetentionParameters,
)
from memory_server.conversations.recall.words import KeywordOptions
from memory_server.kernel.times import DAY_MS, MINUTE_MS
from nlp import Enrichment, QueryWeights
from nlp.normal_forms import can_simplify


def parameters(settings: Settings) -> Parameters:
    """The constants of recall that `settings` give."""
    short, words, node = settings.short_term, settings.words, settings.compat == "node"
    constants: dict[str, Any] = {
        **short.model_dump(include={"top_count", "next_count", "flashback_count"}),
        "sessions": short.sessions and not node,
        "own_conversation_ms": round(short.own_conversation_minutes * MINUTE_MS),
        "rarity": words.rarity and not node,
    }
    if short.threshold is not None:
        constants["threshold" if node else "least_match"] = short.threshold
    if short.half_life_days is not None:
        constants["decay_per_ms"] = math.log(2) / (short.half_life_days * DAY_MS)
    retention = NODE_RETENTION if node else RetentionParameters()
    if short.keep_at_least is not None:
        retention = replace(retention, always_kept=short.keep_at_least)
    usual = RecallParameters() if node else USUAL
    # What the Node original does not have stays off.
    advanced = {n: x for n, x in short.advanced.model_dump(exclude_none=True).items() if not node or getattr(usual, n)}
    factors = words.model_dump(include={"function_words", "relative_days", "pairs"})
    emphasis = (
        QueryWeights()
        if node
        else QueryWeights(
            earlier=words.earlier_messages,
            before_question=words.before_question,
            given=words.other_words,
            given_for_question=words.other_words_for_question,
            kept=words.kept_words,
            **factors,
        )
    )
    return Parameters(
        recall=replace(usual, **constants, **advanced),
        retention=replace(retention, most_at_once=short.forget_at_most),
        wording=KeywordOptions(
            enrichment=enrichment(settings),
            emphasis=emphasis,
            zone=settings.zone,
            names_of={} if node else settings.names_of,
        ),
        same_turn_ms=0 if node else Parameters().same_turn_ms,
        random_long_term=settings.triggers.random_count,
    )


def enrichment(settings: Settings) -> Enrichment:
    """What is done to words: nothing for `compat = "node"`; `simplified` only where OpenCC is installed."""
    if settings.compat == "node":
        return Enrichment()
    words = settings.words
    names = dict.fromkeys(name for part in words.names.split(",") if (name := part.strip()))
    switches = words.model_dump(include={"normal_forms", "scripts", "dates", "stems", "speakers", "long_texts"})
    return Enrichment(simplified=words.simplified and can_simplify(), words=tuple(names), **switches)
