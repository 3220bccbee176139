"""Convert JSON texts of files, ours and other programs', to values and back. Knows no memory and no file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import orjson

from languages import N_, MessageError
from memory_server.kernel import strict_json, times
from memory_server.kernel.messages import without_surrogates
from memory_server.kernel.strict_json import DEEPEST

Json = dict[str, Any]
TOO_DEEP = N_("it is nested too deeply; take levels out until it has at most {deepest}")


class NotARecord(MessageError, ValueError):
    """A piece of JSON that cannot be read as the record it should be; the message says why."""


def dumps(value: Any) -> bytes:
    """Write `value` as compact UTF-8 JSON on one line."""
    try:
        return orjson.dumps(value)
    except orjson.JSONEncodeError:
        # Unknown fields of other programs may hold what orjson refuses: integers over 64 bits, lone surrogates.
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        return without_surrogates(text).encode()


def loads(data: bytes) -> Any:
    """Return the value of a JSON text, with or without a byte-order mark. Raise ValueError if it is not UTF-8 or JSON."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return strict_json.loads(data)
    except ValueError:
        # JavaScript writes what strict JSON refuses, such as lone surrogates.
        value = strict_json.lenient(data)
        try:
            text = without_surrogates(json.dumps(value, ensure_ascii=False))
            return json.loads(text, parse_constant=lambda _: None)
        except RecursionError as error:
            raise NotARecord(TOO_DEEP, DEEPEST) from error


def load_object(data: bytes) -> Json:
    """Return the fields of a JSON object. Raise NotARecord if it is not a JSON object."""
    try:
        fields = loads(data)
    except ValueError as error:
        raise NotARecord("it is not JSON: {reason}", error) from error
    if not isinstance(fields, dict):
        raise NotARecord("it is not a JSON object")
    return fields


def dump_array(records: Iterable[Json]) -> bytes:
    """Write a JSON array with one record a line: readable, and half the size of an indented array."""
    body = b",\n".join(map(dumps, records))
    if not body:
        return b"[]\n"
    return b"[\n" + body + b"\n]\n"


def load_array(data: bytes) -> list[Json]:
    """Return the records of a JSON array file. Raise ValueError if it is not a JSON array of objects."""
    if not data.strip():
        return []
    records = loads(data)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        raise NotARecord("it is not a JSON array of objects")
    return records


class OtherLayout(Exception):
    """An array is not laid out with one record a line, as `dump_array` does."""


def lines_of_array(data: bytes) -> Iterator[Json]:
    """Yield the records of an array that `dump_array` wrote, which halves the time and the memory. Raise OtherLayout if
    another program wrote it or it is broken; `load_array` tells which."""
    if not (data.startswith(b"[\n") and data.endswith(b"\n]\n")):
        raise OtherLayout

    loads_line = strict_json.loads if strict_json.may_hold_long_integers(data) else orjson.loads
    line_start = 2
    array_end = len(data) - 2

    while line_start < array_end:
        line_end = data.index(b"\n", line_start)
        line = data[line_start:line_end]

        # Only the last line of the array has no comma at its end.
        is_last_line = line_end + 1 >= array_end
        if line.endswith(b",") == is_last_line:
            raise OtherLayout

        try:
            record = loads_line(line.removesuffix(b","))
        except ValueError as error:
            raise OtherLayout from error

        if not isinstance(record, dict):
            raise OtherLayout

        yield record
        line_start = line_end + 1


def milliseconds(value: Any) -> int:
    """Return a time of a record in milliseconds since 1970, from ISO 8601 text (UTC if no zone is given) or from
    milliseconds. Raise NotARecord if it is neither, or before the year 1 or after 9999."""
    try:
        if isinstance(value, str):
            time_ms = times.milliseconds(datetime.fromisoformat(value))
            # A time may be within these years in its own zone, and outside of them in UTC.
            times.moment_of(time_ms)
            return time_ms
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return times.milliseconds(times.EPOCH + timedelta(milliseconds=value))
    except (ValueError, OverflowError) as error:
        raise NotARecord("the time {value!r} is out of range or malformed", value) from error
    raise NotARecord("the time {value!r} is neither ISO 8601 text nor milliseconds", value)
