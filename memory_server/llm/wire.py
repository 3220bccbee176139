"""The two forms of requests and answers: OpenAI's `/chat/completions`, which many servers speak, and Anthropic's
`/messages`. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Kind = Literal["openai", "anthropic"]
BASES: Mapping[Kind, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
ANTHROPIC_VERSION, ANTHROPIC_TOKENS = "2023-06-01", 2_048
"""Anthropic wants a bound of tokens; newer models of OpenAI refuse one."""
CHARS_PER_TOKEN = 3
"""For an answer that tells no usage: rather too many tokens than too few."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A model. `key_env`: the name of the variable of its key, "" for none; prices are for a million tokens."""

    kind: Kind
    model: str
    base_url: str = ""
    key_env: str = ""
    input_price: float = 0.0
    output_price: float = 0.0

    @property
    def name(self) -> str:
        """For people: `openai/gpt-5`."""
        return f"{self.kind}/{self.model}"


class Sent(NamedTuple):
    """A request: POST."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]


class Replied(NamedTuple):
    """The object in an answer, and the tokens that it took."""

    value: dict[str, Any]
    input_tokens: int
    output_tokens: int


def request(
    provider: Provider, key: str, system: str, data: str, schema: Mapping[str, Any], *, structured: bool = True
) -> Sent:
    """Ask for an object of this schema. `structured` False: in words only, for a server that refuses the other form."""
    base = (provider.base_url or BASES[provider.kind]).rstrip("/")
    if provider.kind == "anthropic":
        headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
        tool = {"name": "answer", "description": "The answer.", "input_schema": dict(schema)}
        forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": "answer"}} if structured else {}
        said = {"system": system, "messages": [{"role": "user", "content": data}], "max_tokens": ANTHROPIC_TOKENS}
        return Sent(f"{base}/messages", headers, {"model": provider.model} | said | forced)
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": data}]
    body = {"model": provider.model, "messages": messages} | ({"response_format": form} if structured else {})
    return Sent(f"{base}/chat/completions", {"authorization": f"Bearer {key}"} if key else {}, body)


def reply(provider: Provider, sent: Sent, content: bytes) -> Replied:
    """What is in an answer.

    Raises:
        ValueError: it is not in the form of this kind, or holds no object.
    """
    try:
        body = json.loads(content)
        usage = body.get("usage") or {}
        if provider.kind == "anthropic":
            used = usage.get("input_tokens"), usage.get("output_tokens")
            tools = [part["input"] for part in body["content"] if part["type"] == "tool_use"]
            text = "".join(part["text"] for part in body["content"] if part["type"] == "text")
            value = tools[0] if tools else first_object(text)
        else:
            used = usage.get("prompt_tokens"), usage.get("completion_tokens")
            value = first_object(body["choices"][0]["message"]["content"])
    except (AttributeError, LookupError, TypeError, RecursionError, ValueError) as error:
        raise ValueError("its answer is not in the form of its kind") from error
    if not isinstance(value, dict):
        raise ValueError("its answer holds no object")
    guessed = len(json.dumps(sent.body)) // CHARS_PER_TOKEN, len(content) // CHARS_PER_TOKEN
    counts = [given if type(given) is int and given >= 0 else guess for given, guess in zip(used, guessed, strict=True)]
    return Replied(value, *counts)


def first_object(text: str) -> Any:
    """The first JSON object in a text: models write words around it. Raises ValueError: there is none."""
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
