"""Words and weights: segmentation and TF-IDF keywords. Pure; imports nothing of ours.

An import reads no files: `load`, or else the first extraction, loads the dictionary and the idf table.
"""

from __future__ import annotations

from nlp.enrichment import (
    Enrichment,
    QueryWeights,
    enriched_keywords,
    gram_weight,
    is_speaker,
    normal_form,
    words_in,
)
from nlp.keywords import (
    ROLE_WEIGHTS,
    Keyword,
    SupportsDatedMessage,
    SupportsMessage,
    engine_name,
    extract_keywords,
    extract_message_keywords,
    load,
)
from nlp.query_terms import (
    MOST_TEXT_CHARS,
    MOST_TEXTS,
    QueryTerm,
    bare,
    is_kept,
    kept,
    kept_keywords,
    other_word_terms,
    sought_grams,
    sought_names,
    sought_words,
)
from nlp.stems import is_incidental, says_little

__all__ = [
    "Enrichment",
    "QueryTerm",
    "QueryWeights",
    "SupportsDatedMessage",
    "enriched_keywords",
    "gram_weight",
    "is_speaker",
]
__all__ += ["normal_form", "sought_grams", "sought_names", "sought_words", "words_in"]
__all__ += [
    "ROLE_WEIGHTS",
    "Keyword",
    "SupportsMessage",
    "extract_keywords",
    "extract_message_keywords",
    "load",
]
__all__ += [
    "MOST_TEXTS",
    "MOST_TEXT_CHARS",
    "bare",
    "is_kept",
    "kept",
    "kept_keywords",
    "other_word_terms",
]
__all__ += ["engine_name", "is_incidental", "says_little"]
