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
from memory_server.kernel.text import words_between_commas
from memory_server.kernel.times import DAY_MS, MINUTE_MS
from nlp import Enrichment, QueryWeights
from nlp.normal_forms import can_simplify


def parameters(settings: Settings) -> Parameters:
    """Return the constants of recall that `settings` give."""
    if settings.compat == "node":
        return _parameters_of_node(settings)
    usual = replace(USUAL, **_recall_constants(settings))
    return Parameters(
        recall=replace(usual, **_advanced_constants(settings)),
        at_every_prompt=replace(usual, **_advanced_constants(settings.unasked())),
        retention=_retention(settings, RetentionParameters()),
        wording=KeywordOptions(
            enrichment=enrichment(settings),
            emphasis=_query_weights(settings),
            zone=settings.zone,
            names_of=settings.names_of,
        ),
        random_long_term=settings.triggers.random_count,
    )


def _parameters_of_node(settings: Settings) -> Parameters:
    """Return the constants for `compat = "node"`: whatever the Node original does not have stays off."""
    usual = RecallParameters()
    constants = _recall_constants(settings)
    constants |= {"sessions": False, "rarity": False}

    # The original compares the relevance with this threshold.
    if "least_match" in constants:
        constants["threshold"] = constants.pop("least_match")

    def with_advanced(advanced: dict[str, Any]) -> RecallParameters:
        # A constant that is 0 or off in `usual` is of something that the original does not have.
        of_node = {name: value for name, value in advanced.items() if getattr(usual, name)}
        return replace(usual, **constants, **of_node)

    return Parameters(
        recall=with_advanced(_advanced_constants(settings)),
        at_every_prompt=with_advanced(_advanced_constants(settings.unasked())),
        retention=_retention(settings, NODE_RETENTION),
        wording=KeywordOptions(
            enrichment=enrichment(settings),
            emphasis=QueryWeights(),
            zone=settings.zone,
            names_of={},
        ),
        same_turn_ms=0,
        random_long_term=settings.triggers.random_count,
    )


def _recall_constants(settings: Settings) -> dict[str, Any]:
    """Return the constants of recall that have a setting of their own; the threshold and the
    half-life only if they are set."""
    short_term = settings.short_term
    constants: dict[str, Any] = {
        "top_count": short_term.top_count,
        "next_count": short_term.next_count,
        "flashback_count": short_term.flashback_count,
        "sessions": short_term.sessions,
        "own_conversation_ms": round(short_term.own_conversation_minutes * MINUTE_MS),
        "rarity": settings.words.rarity,
    }
    if short_term.threshold is not None:
        constants["least_match"] = short_term.threshold
    if short_term.half_life_days is not None:
        constants["decay_per_ms"] = math.log(2) / (short_term.half_life_days * DAY_MS)
    return constants


def _advanced_constants(settings: Settings) -> dict[str, Any]:
    return settings.short_term.advanced.model_dump(exclude_none=True)


def _retention(settings: Settings, usual: RetentionParameters) -> RetentionParameters:
    """Return the usual rules of the clean-up with the limits of the settings."""
    short_term = settings.short_term
    retention = replace(usual, most_at_once=short_term.forget_at_most)
    if short_term.keep_at_least is None:
        return retention
    return replace(retention, always_kept=short_term.keep_at_least)


def _query_weights(settings: Settings) -> QueryWeights:
    """Return the weights of the words of a query that the settings give."""
    words = settings.words
    return QueryWeights(
        earlier=words.earlier_messages,
        before_question=words.before_question,
        pairs=words.pairs,
        function_words=words.function_words,
        relative_days=words.relative_days,
        given=words.other_words,
        given_for_question=words.other_words_for_question,
        kept=words.kept_words,
    )


def enrichment(settings: Settings) -> Enrichment:
    """Return the enrichment of words: none for `compat = "node"`; `simplified` only if OpenCC is installed."""
    if settings.compat == "node":
        return Enrichment()
    words = settings.words
    switches = words.model_dump(
        include={"normal_forms", "scripts", "dates", "stems", "speakers", "long_texts"}
    )
    return Enrichment(
        simplified=words.simplified and can_simplify(),
        words=tuple(dict.fromkeys(words_between_commas(words.names))),
        **switches,
    )
