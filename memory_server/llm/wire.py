"""The forms of requests and answers: OpenAI's `/chat/completions` and `/embeddings`, which many servers speak, and
Anthropic's `/messages`. Pure."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from sandbox.locale import _

T = TypeVar("T")
Kind = Literal["openai", "anthropic"]
BASES: Mapping[Kind, str] = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com/v1"}
ANTHROPIC_VERSION, ANTHROPIC_TOKENS = "2023-06-01", 4_096
"""Anthropic wants a bound of tokens, and its oldest models take this one; newer models of OpenAI refuse one. The words
of 30 memories take some 2,400."""
BYTES_PER_TOKEN = 3
"""In UTF-8, for an answer that tells no usage: rather too many tokens than too few."""
MOST_EMBEDDED_BYTES = 8_000
"""Of a text whose vector is wanted, in UTF-8: models take 8,192 tokens, and none is shorter than a byte. Of a longer
text both ends count."""


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


class HttpRequest(NamedTuple):
    """A request: POST."""

    url: str
    headers: dict[str, str]
    body: dict[str, Any]


class ParsedReply(NamedTuple, Generic[T]):
    """What an answer holds, and the tokens that it took."""

    value: T
    input_tokens: int
    output_tokens: int


def request(
    provider: Provider, key: str, system: str, data: str, schema: Mapping[str, Any], *, structured: bool = True
) -> HttpRequest:
    """Ask for an object of this schema. `structured` False: in words only, for a server that refuses the other form."""
    base = (provider.base_url or BASES[provider.kind]).rstrip("/")
    if provider.kind == "anthropic":
        headers = {"anthropic-version": ANTHROPIC_VERSION} | ({"x-api-key": key} if key else {})
        tool = {"name": "answer", "description": "The answer.", "input_schema": dict(schema)}
        forced = {"tools": [tool], "tool_choice": {"type": "tool", "name": "answer"}} if structured else {}
        said = {"system": system, "messages": [{"role": "user", "content": data}], "max_tokens": ANTHROPIC_TOKENS}
        return HttpRequest(f"{base}/messages", headers, {"model": provider.model} | said | forced)
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": dict(schema)}}
    messages = [{"role": "system", "content": system}, {"role": "user", "content": data}]
    body = {"model": provider.model, "messages": messages} | ({"response_format": form} if structured else {})
    return HttpRequest(f"{base}/chat/completions", {"authorization": f"Bearer {key}"} if key else {}, body)


def reply(provider: Provider, sent: HttpRequest, content: bytes) -> ParsedReply[dict[str, Any]]:
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
            value, end = tools[0] if tools else first_object(text), body.get("stop_reason")
        else:
            used = usage.get("prompt_tokens"), usage.get("completion_tokens")
            (choice, *_more) = body["choices"]
            value, end = first_object(choice["message"]["content"]), choice.get("finish_reason")
    except (AttributeError, LookupError, TypeError, RecursionError, ValueError) as error:
        raise ValueError(_("its answer is not in the form of its kind")) from error
    if not isinstance(value, dict):
        raise ValueError(_("its answer does not hold an object"))
    if end in ("length", "max_tokens"):
        raise ValueError(_("its answer was cut off"))
    asked = json.dumps(sent.body, ensure_ascii=False).encode()
    guessed = len(asked) // BYTES_PER_TOKEN, len(content) // BYTES_PER_TOKEN
    counts = [given if type(given) is int and given >= 0 else guess for given, guess in zip(used, guessed, strict=True)]
    return ParsedReply(value, *counts)


def embedding_request(provider: Provider, key: str, texts: Sequence[str]) -> HttpRequest:
    """Ask for the vectors of these texts."""
    base = (provider.base_url or BASES["openai"]).rstrip("/")
    body = {
        "model": provider.model,
        "input": list(map(_embedded, texts)),
        "encoding_format": "float",
    }
    return HttpRequest(f"{base}/embeddings", {"authorization": f"Bearer {key}"} if key else {}, body)


def _embedded(text: str) -> str:
    data = text.encode()
    if len(data) <= MOST_EMBEDDED_BYTES:
        return text
    half = MOST_EMBEDDED_BYTES // 2
    return data[:half].decode(errors="ignore") + "\n" + data[1 - half :].decode(errors="ignore")


def embedding_reply(sent: HttpRequest, content: bytes) -> ParsedReply[list[bytes]]:
    """The vectors in an answer, in the order of the texts, as `unit` has them, and the tokens that they took.

    Raises:
        ValueError: it is not in the form of `/embeddings`, or has other vectors than were asked for.
    """
    try:
        body = json.loads(content)
        rows = {row["index"]: unit(row["embedding"]) for row in body["data"]}
        vectors = [rows[number] for number in range(len(sent.body["input"]))]
        used = (body.get("usage") or {}).get("prompt_tokens")
    except (AttributeError, LookupError, TypeError, RecursionError, OverflowError, ValueError) as error:
        raise ValueError(_("its answer does not hold a vector for each text")) from error
    if len(set(map(len, vectors))) != 1:
        raise ValueError(_("its answer holds vectors of several lengths"))
    guess = sum(len(text.encode()) for text in sent.body["input"]) // BYTES_PER_TOKEN
    return ParsedReply(vectors, used if type(used) is int and used >= 0 else guess, 0)


def unit(values: Sequence[float]) -> bytes:
    """A vector of length 1, as 32-bit floats. Raises ValueError: it has no direction."""
    length = math.sqrt(sum(value * value for value in values))
    if not 0 < length < math.inf:
        raise ValueError("a vector has no direction")
    return array("f", [value / length for value in values]).tobytes()


def first_object(text: str) -> Any:
    """The first JSON object in a text: models write words around it. Raises ValueError: there is none."""
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
