"""Settings of language models; docs/reference/settings.md is generated from this file too."""

from __future__ import annotations

import json
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from memory_server.config.section import GIVEN, Section


class ProviderSettings(Section):
    """A language model."""

    kind: Literal["openai", "anthropic"]
    model: str = Field(min_length=1)
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    key_env: str = Field("", pattern=r"^\w*$")
    input_price: float = Field(0.0, ge=0)
    output_price: float = Field(0.0, ge=0)


class EmbeddingSettings(Section):
    """A model that gives texts vectors, by which short-term memories and those of users are found by meaning."""

    model: str = ""
    """Name of the model; without one, nothing is sent."""
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    """Where it is, up to `/embeddings`; by default that of OpenAI."""
    key_env: str = Field("", pattern=r"^\w*$")
    """Name of the variable that holds the key."""
    input_price: float = Field(0.0, ge=0)
    """What a million tokens cost, for the statistics."""


class LlmSettings(Section):
    """Language models of others. Nothing is sent anywhere unless a provider is named here."""

    providers: Annotated[
        tuple[ProviderSettings, ...],
        BeforeValidator(lambda given: json.loads(given) if isinstance(given, str) else given),
        WithJsonSchema({"type": "array", "items": {"type": "object"}}),
    ] = ()
    """Models in the order in which they are asked, in the environment as JSON: `[{"kind": "openai", "model": "…",
    "base_url": "http://127.0.0.1:11434/v1", "key_env": "NAME"}]`. `kind` is `openai`, for all that answer
    `/chat/completions`, or `anthropic`; `key_env` is the name of the variable that holds the key; `input_price` and
    `output_price` are for a million tokens."""
    embeddings: EmbeddingSettings = GIVEN
    seconds: float = Field(8.0, gt=0, le=600)
    """Seconds for the whole answer of one model."""
    total_seconds: float = Field(20.0, gt=0, le=600)
    """Seconds for all models together."""
    tokens_per_day: int = Field(200_000, ge=0)
    """Tokens that all processes on the data folder use in 24 hours; 0: no bound."""
    words_for_memories: bool = False
    """Whether the clean-up asks these models for other words by which memories are found; they then get the texts of
    short-term memories, each once. It uses at most half of `tokens_per_day`."""
    extraction_prompt: str | None = None
    """What a model is told that looks for facts, in place of our prompt."""
    merge_prompt: str | None = None
    """What a model is told that changes a memory, in place of our prompt."""

    @property
    def names(self) -> str:
        """The models in the order in which they are asked, for people."""
        return ", ".join(f"{provider.kind}/{provider.model}" for provider in self.providers)
