"""Settings of language models; docs/reference/settings.md is generated from this file too."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from memory_server.config.section import GIVEN, Section


def _from_json(value: Any) -> Any:
    if isinstance(value, str):  # in the environment
        return json.loads(value)
    return value


class ProviderSettings(Section):
    """A language model."""

    kind: Literal["openai", "anthropic"]
    model: str = Field(min_length=1)
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    key_env: str = Field("", pattern=r"^\w*$")
    input_price: float = Field(0.0, ge=0)
    output_price: float = Field(0.0, ge=0)


class EmbeddingSettings(Section):
    """A model that gives texts vectors. With it, short-term memories and memories of users are found by meaning."""

    model: str = ""
    """Name of the model; without one, nothing is sent."""
    base_url: str = Field("", pattern=r"^(https?://\S+)?$")
    """Its URL, up to `/embeddings`; by default OpenAI's."""
    key_env: str = Field("", pattern=r"^\w*$")
    """Name of the variable that holds the key."""
    input_price: float = Field(0.0, ge=0)
    """Price of a million tokens, for the statistics."""


class LlmSettings(Section):
    """Language models. Nothing is sent anywhere unless a provider is named here."""

    providers: Annotated[
        tuple[ProviderSettings, ...],
        BeforeValidator(_from_json),
        WithJsonSchema({"type": "array", "items": {"type": "object"}}),
    ] = ()
    """Models in the order in which they are asked, in the environment as JSON: `[{"kind": "openai", "model": "…",
    "base_url": "http://127.0.0.1:11434/v1", "key_env": "NAME"}]`. `kind` is `openai`, for all that answer
    `/chat/completions`, or `anthropic`; `key_env` is the name of the variable that holds the key; `input_price` and
    `output_price` are for a million tokens."""
    embeddings: EmbeddingSettings = GIVEN
    seconds: float = Field(8.0, gt=0, le=600)
    """Seconds for the whole answer of a model."""
    total_seconds: float = Field(20.0, gt=0, le=600)
    """Seconds for all models together."""
    tokens_per_day: int = Field(200_000, ge=0)
    """Tokens that all processes on the data folder use in 24 hours; 0: no limit."""
    words_for_memories: bool = False
    """Whether the clean-up asks these models for other words by which memories are found; they get the texts of
    short-term memories, each once. It uses at most half of `tokens_per_day`."""
    extraction_prompt: str | None = None
    """Instructions for a model that looks for facts, in place of ours."""
    merge_prompt: str | None = None
    """Instructions for a model that changes a memory, in place of ours."""

    @property
    def names(self) -> str:
        """The models in the order in which they are asked, for people."""
        return ", ".join(f"{provider.kind}/{provider.model}" for provider in self.providers)
