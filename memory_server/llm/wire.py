"""The forms of requests and answers: OpenAI's `/chat/completions` and `/embeddings`, which many servers speak, and
Anthropic's `/messages`. Pure."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from languages import _
from memory_server.kernel.values import frozen

T = TypeVar("T")
Kind = Literal["openai", "anthropic"]
BASES: Mapping[Kind, str] = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com/v1",
}
ANTHROPIC_VERSION = "2023-06-01"
ANTHROPIC_TOKENS = 4_096
"""Anthropic wants a bound of tokens, and its oldest models take this number; newer models of OpenAI refuse a bound. The
words of 30 memories take some 2,400."""
BYTES_PER_TOKEN = 3
"""Bytes of UTF-8 per token, for an answer that tells no usage: rather too many tokens than too few."""
MOST_EMBEDDED_BYTES = 8_000
"""Bytes of a text that are embedded at most, in UTF-8: models take 8,192 tokens, and none is shorter than a byte. Both
ends of a longer text count."""


@frozen
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
        """The name for people: `openai/gpt-5`."""
        return f"{self.kind}/{self.model}"

    def cost(self, input_tokens: int, output_tokens: int) -> float:
        """Return the price of so many tokens."""
        return (input_tokens * self.input_price + output_tokens * self.output_price) / 1_000_000

    def endpoint(self, path: str) -> str:
        """Return the URL of a path below the base of this provider."""
        base = (self.base_url or BASES[self.kind]).rstrip("/")
        return f"{base}/{path}"


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


@frozen
class _ChatAnswer:
    """The fields of a chat answer. `value` should be an object; `end`: why the answer ended."""

    value: Any
    end: Any
    input_tokens: Any
    output_tokens: Any


def chat_request(
    provider: Provider,
    key: str,
    system: str,
    data: str,
    schema: Mapping[str, Any],
    *,
    structured: bool = True,
) -> HttpRequest:
    """Return the request for an object of this schema. With `structured` False the schema is only
    in the words, for a server that refuses the other form."""
    if provider.kind == "anthropic":
        return _anthropic_request(
            provider, key, system=system, data=data, schema=schema, structured=structured
        )
    return _openai_request(
        provider, key, system=system, data=data, schema=schema, structured=structured
    )


def _anthropic_request(
    provider: Provider,
    key: str,
    *,
    system: str,
    data: str,
    schema: Mapping[str, Any],
    structured: bool,
) -> HttpRequest:
    """Return the request to `/messages`. With `structured` the model must call a tool whose input
    has the schema."""
    headers = {"anthropic-version": ANTHROPIC_VERSION}
    if key:
        headers["x-api-key"] = key
    body: dict[str, Any] = {
        "model": provider.model,
        "system": system,
        "messages": [{"role": "user", "content": data}],
        "max_tokens": ANTHROPIC_TOKENS,
    }
    if structured:
        body["tools"] = [
            {"name": "answer", "description": "The answer.", "input_schema": dict(schema)}
        ]
        body["tool_choice"] = {"type": "tool", "name": "answer"}
    return HttpRequest(provider.endpoint("messages"), headers, body)


def _openai_request(
    provider: Provider,
    key: str,
    *,
    system: str,
    data: str,
    schema: Mapping[str, Any],
    structured: bool,
) -> HttpRequest:
    """Return the request to `/chat/completions`. With `structured` the answer must have the
    schema."""
    body: dict[str, Any] = {
        "model": provider.model,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": data}],
    }
    if structured:
        json_schema = {"name": "answer", "schema": dict(schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    return HttpRequest(provider.endpoint("chat/completions"), _bearer_headers(key), body)


def _bearer_headers(key: str) -> dict[str, str]:
    if not key:
        return {}
    return {"authorization": f"Bearer {key}"}


def chat_reply(
    provider: Provider, request: HttpRequest, content: bytes
) -> ParsedReply[dict[str, Any]]:
    """Return the object in an answer, and its tokens, which are estimated where the answer does not report them.

    Raises:
        ValueError: the answer is not in the form of this kind of provider, holds no object, or was cut off.
    """
    try:
        body = json.loads(content)
        answer = _anthropic_answer(body) if provider.kind == "anthropic" else _openai_answer(body)
    except (AttributeError, LookupError, TypeError, RecursionError, ValueError) as error:
        raise ValueError(_("its answer is not in the form of its kind")) from error
    if not isinstance(answer.value, dict):
        raise ValueError(_("its answer does not hold an object"))
    if answer.end in ("length", "max_tokens"):
        raise ValueError(_("its answer was cut off"))
    request_body = json.dumps(request.body, ensure_ascii=False).encode()
    return ParsedReply(
        answer.value,
        input_tokens=_tokens(answer.input_tokens, len(request_body)),
        output_tokens=_tokens(answer.output_tokens, len(content)),
    )


def _anthropic_answer(body: Any) -> _ChatAnswer:
    """Read an answer of Anthropic: the input of its first tool call, or else the first object in its text. Another form
    raises KeyError, TypeError, AttributeError or ValueError."""
    usage = body.get("usage") or {}
    tool_inputs = [part["input"] for part in body["content"] if part["type"] == "tool_use"]
    texts = [part["text"] for part in body["content"] if part["type"] == "text"]
    return _ChatAnswer(
        value=tool_inputs[0] if tool_inputs else first_object("".join(texts)),
        end=body.get("stop_reason"),
        input_tokens=usage.get("input_tokens"),
        output_tokens=usage.get("output_tokens"),
    )


def _openai_answer(body: Any) -> _ChatAnswer:
    """Read an answer of the OpenAI form: the first object in its first choice. Raises as `_anthropic_answer` does, or
    IndexError."""
    usage = body.get("usage") or {}
    choice = body["choices"][0]
    return _ChatAnswer(
        value=first_object(choice["message"]["content"]),
        end=choice.get("finish_reason"),
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
    )


def _tokens(reported: Any, bytes_of_text: int) -> int:
    """Return the tokens that an answer reports, or a guess from the bytes of the text."""
    if type(reported) is int and reported >= 0:
        return reported
    return bytes_of_text // BYTES_PER_TOKEN


def embedding_request(provider: Provider, key: str, texts: Sequence[str]) -> HttpRequest:
    """Return the request for the vectors of these texts, of which long ones are shortened."""
    body = {
        "model": provider.model,
        "input": list(map(_shortened, texts)),
        "encoding_format": "float",
    }
    return HttpRequest(provider.endpoint("embeddings"), _bearer_headers(key), body)


def _shortened(text: str) -> str:
    """Return the text, or only its beginning and its end if it is longer than MOST_EMBEDDED_BYTES."""
    data = text.encode()
    if len(data) <= MOST_EMBEDDED_BYTES:
        return text
    half = MOST_EMBEDDED_BYTES // 2
    beginning = data[:half].decode(errors="ignore")
    end = data[1 - half :].decode(errors="ignore")
    return f"{beginning}\n{end}"


def embedding_reply(request: HttpRequest, content: bytes) -> ParsedReply[list[bytes]]:
    """Return the vectors in an answer, in the order of the texts, as `unit` makes them, and the tokens that they took.

    Raises:
        ValueError: it is not in the form of `/embeddings`, or has other vectors than were asked for.
    """
    texts = request.body["input"]
    try:
        body = json.loads(content)
        vector_by_index = {row["index"]: unit(row["embedding"]) for row in body["data"]}
        # A provider may return the vectors in another order than the texts.
        vectors = [vector_by_index[index] for index in range(len(texts))]
        usage = body.get("usage") or {}
        reported_tokens = usage.get("prompt_tokens")
    except (
        AttributeError,
        LookupError,
        TypeError,
        RecursionError,
        OverflowError,
        ValueError,
    ) as error:
        raise ValueError(_("its answer does not hold a vector for each text")) from error

    if len(set(map(len, vectors))) != 1:
        raise ValueError(_("its answer holds vectors of several lengths"))

    bytes_of_texts = sum(len(text.encode()) for text in texts)
    return ParsedReply(
        vectors, input_tokens=_tokens(reported_tokens, bytes_of_texts), output_tokens=0
    )


def unit(values: Sequence[float]) -> bytes:
    """Return a vector of length 1, as 32-bit floats. Raise ValueError if it has no direction."""
    length = math.sqrt(sum(value * value for value in values))
    if not 0 < length < math.inf:
        raise ValueError("a vector has no direction")
    return array("f", [value / length for value in values]).tobytes()


def first_object(text: str) -> Any:
    """Return the first JSON object in a text: models write words around it. Raise ValueError if the text has no object."""
    return json.JSONDecoder().raw_decode(text, text.index("{"))[0]
