"""Words and weights: segmentation and TF-IDF keywords. Pure; imports nothing of ours.

Importing it reads nothing: the dictionary and the idf table are loaded by `load`, or else by the first
extraction.
"""

from __future__ import annotations

from nlp.enrichment import Enrichment, SupportsDatedMessage, enriched_keywords
from nlp.keywords import (
    ROLE_WEIGHTS,
    Keyword,
    SupportsMessage,
    extract_keywords,
    extract_message_keywords,
    load,
)
from nlp.segment import engine_name

__all__ = [
    "ROLE_WEIGHTS",
    "Enrichment",
    "Keyword",
    "SupportsDatedMessage",
    "SupportsMessage",
    "engine_name",
    "enriched_keywords",
    "extract_keywords",
    "extract_message_keywords",
    "load",
]
